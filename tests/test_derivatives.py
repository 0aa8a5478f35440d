"""Derivatives beyond the first, function transforms, and layers computed again."""

from typing import Any

import pytest
import torch
from schemes.tools import normal
from support.attention import make
from torch import Tensor, nn
from torch.func import grad, jvp, vmap
from torch.utils.checkpoint import checkpoint

from posenc_compare.attention import Mask, Path, Session, attention, request
from posenc_compare.attention.backends import strided
from posenc_compare.check import Subject, built_in, harness
from posenc_compare.schemes import Scheme
from posenc_compare.variants import Variant

PATHS: list[Path] = ["strided", "dense", "plain"]
TRAINED = ["t5_bias", "kerple_log", "kerple_power", "mlp_bias"]
QUERIES, KEYS = 5, 16


@pytest.fixture(autouse=True)
def small_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(strided, "QUERIES", 2)
    monkeypatch.setattr(strided, "BACKWARD_BLOCK", 3)


class Layer(nn.Module):
    """Attention with fixed keys and values, as a function of queries alone."""

    def __init__(self, scheme: Scheme, path: Path, causal: bool = False) -> None:
        super().__init__()
        self.scheme, self.causal = scheme, causal
        self.path: Path = path
        self.k, self.v = normal(2, 2, 2, KEYS, 4, seed=1)

    def forward(self, q: Tensor) -> Tensor:
        ids = torch.arange(KEYS)
        given: dict[str, Any] = {"scheme": self.scheme, "path": self.path}
        given |= {"positions": ids[-QUERIES:], "key_positions": ids}
        return attention(q, self.k, self.v, **given, mask=Mask(causal=self.causal))


@pytest.mark.parametrize("causal", [True, False])
@pytest.mark.parametrize("name", TRAINED)
def test_second_derivatives_of_trained_biases_through_strided(
    name: str, causal: bool
) -> None:
    scheme, found = make(name, width=4), {}
    for path in PATHS:
        layer = Layer(scheme, path, causal)
        inputs = [
            normal(2, 2, QUERIES, 4, seed=4), layer.k.clone(), layer.v.clone()
        ]  # fmt: skip
        leaves = [*(x.requires_grad_() for x in inputs), *scheme.parameters()]
        layer.k, layer.v = inputs[1:]
        out = layer(inputs[0])
        first = torch.autograd.grad(out.square().sum(), leaves, create_graph=True)
        second = sum((g * g.detach().cos()).sum() for g in first)
        assert isinstance(second, Tensor)
        found[path] = torch.autograd.grad(out.sum() + second, leaves)
        assert all(g.norm() > 1e-3 for g in found[path][:-1])
    if name == "kerple_power":  # torch's second derivative of 0 ** exponent is NaN
        found = {path: grads[:-1] for path, grads in found.items()}
    for path in ("strided", "dense"):
        torch.testing.assert_close(found[path], found["plain"], rtol=1e-9, atol=1e-9)


# `jvp` compiles a script the first time.
@pytest.mark.filterwarnings("ignore:.torch.jit.script. is deprecated")
def test_blocks_of_rows_give_what_docs_say(monkeypatch: pytest.MonkeyPatch) -> None:
    layer = Layer(make("shaw", width=4), "plain", causal=True)
    q, tangent = normal(2, 2, 2, QUERIES, 4, seed=2)

    def each() -> list[Any]:
        second = torch.autograd.functional.hvp(lambda x: layer(x).square().sum(), q, q)
        return [second[1], jvp(layer, (q,), (tangent,))[1], vmap(layer)(q[None])]

    whole = each()
    monkeypatch.setattr(request, "QUERIES", 2)
    torch.testing.assert_close(each(), whole, rtol=0, atol=1e-12)
    with pytest.raises(RuntimeError, match="saved tensor hooks"):
        grad(lambda x: layer(x).sum())(q)


WIDTH = 64  # of a model whose layers are computed again


REENTRANT = ("t5_bias", "kerple_log", "mlp_bias", "fire", "shaw")


@pytest.mark.parametrize(
    ("name", "reentrant"),
    [*((n, False) for n in built_in()), *((n, True) for n in REENTRANT)],
)
def test_checkpointed_layers_have_the_same_gradients(
    name: str, reentrant: bool
) -> None:
    subject = Subject(Variant(name))
    sizes: dict[str, Any] = {"model_dim": WIDTH, "heads": 8, "layers": 2}
    schemes = [subject.build(64, layer=i, **sizes).double() for i in range(2)]
    parameters = [p for s in schemes for p in s.requires_grad_().parameters()]

    def gradients(*, again: bool) -> list[Tensor | None]:
        tokens = harness.normal(2, 8, WIDTH).double().requires_grad_()
        session = Session(schemes, subject.positions(8))
        x = session.embed(tokens)
        for layer, scheme in enumerate(schemes):
            heads = harness.Layer(scheme).heads

            def attend(x: Tensor, layer: int = layer, heads: Any = heads) -> Tensor:
                q, k, v = (heads(x, role) for role in range(3))
                out = session.attend(layer, q, k, v, x=x)
                return x + out.transpose(1, 2).flatten(2)

            x = checkpoint(attend, x, use_reentrant=reentrant) if again else attend(x)
        for parameter in parameters:
            parameter.grad = None
        x.square().sum().backward()
        return [leaf.grad for leaf in (tokens, *parameters)]

    near = 1e-12 if reentrant else 0  # for sums in another order
    pairs = zip(gradients(again=True), gradients(again=False), strict=True)
    for got, expected in pairs:
        assert (got is None) == (expected is None)
        if got is not None and expected is not None:
            torch.testing.assert_close(got, expected, rtol=0, atol=near)
