"""Every scheme trains where layers are computed again in the backward pass."""

import pytest
import torch
from torch import Tensor
from torch.utils.checkpoint import checkpoint

from posenc_compare.attention import Session
from posenc_compare.check import built_in
from posenc_compare.check.harness import Layer, Subject, normal
from posenc_compare.variants import Variant

WIDTH = 64


@pytest.mark.parametrize("name", built_in())
def test_checkpointed_layers_have_the_same_gradients(name: str) -> None:
    subject = Subject(Variant(name))
    schemes = [subject.build(64, model_dim=WIDTH, heads=8) for _ in range(2)]
    for scheme in schemes:
        scheme.double().requires_grad_()
    parameters = [p for scheme in schemes for p in scheme.parameters()]

    def gradients(*, again: bool) -> list[Tensor | None]:
        tokens = normal(2, 8, WIDTH).double().requires_grad_()
        session = Session(schemes, subject.positions(8))
        x = session.embed(tokens)
        for layer, own in enumerate(map(Layer, schemes)):

            def attend(x: Tensor, layer: int = layer, own: Layer = own) -> Tensor:
                q, k, v = (own.heads(x, role) for role in range(3))
                out = session.attend(layer, q, k, v, x=x)
                return x + out.transpose(1, 2).flatten(2)

            x = checkpoint(attend, x, use_reentrant=False) if again else attend(x)
        asked = [tokens, *parameters]
        return list(torch.autograd.grad(x.square().sum(), asked, allow_unused=True))

    pairs = zip(gradients(again=True), gradients(again=False), strict=True)
    for got, expected in pairs:
        assert (got is None) == (expected is None)
        if got is not None and expected is not None:
            torch.testing.assert_close(got, expected, rtol=0, atol=0)
