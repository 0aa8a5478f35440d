"""Derivatives beyond the first, and torch's function transforms."""

from typing import Any

import pytest
import torch
from schemes.tools import normal
from support.attention import make
from torch import Tensor, nn
from torch.func import grad, jvp, vmap

from posenc_compare.attention import Mask, Path, attention, request
from posenc_compare.attention.backends import strided
from posenc_compare.schemes import Scheme

PATHS: list[Path] = ["strided", "dense", "plain"]
TRAINED = ["t5_bias", "kerple_log", "kerple_power", "mlp_bias"]
QUERIES, KEYS = 5, 16


@pytest.fixture(autouse=True)
def small_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(strided, "BLOCK", 2)
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
        return attention(
            q,
            self.k,
            self.v,
            scheme=self.scheme,
            positions=ids[-QUERIES:],
            key_positions=ids,
            mask=Mask(causal=self.causal),
            path=self.path,
        )


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


def test_second_derivatives_are_those_of_finite_differences() -> None:
    scheme = make("t5_bias", width=4)
    layer = Layer(scheme, "strided", causal=True)
    q = normal(2, 2, QUERIES, 4, seed=4)[:1].requires_grad_()
    layer.k, layer.v = layer.k[:1].requires_grad_(), layer.v[:1].requires_grad_()
    leaves = (q, layer.k, layer.v, *scheme.parameters())
    assert torch.autograd.gradgradcheck(lambda q, *_: layer(q), leaves, fast_mode=True)


# `jvp` compiles a script the first time.
@pytest.mark.filterwarnings("ignore:.torch.jit.script. is deprecated")
def test_blocks_of_rows_give_what_docs_say(monkeypatch: pytest.MonkeyPatch) -> None:
    layer = Layer(make("shaw", width=4), "plain", causal=True)
    q, tangent = normal(2, 2, 2, QUERIES, 4, seed=2)

    def each() -> list[Any]:
        second = torch.autograd.functional.hvp(lambda x: layer(x).square().sum(), q, q)
        return [second[1], jvp(layer, (q,), (tangent,))[1], vmap(layer)(q[None])]

    whole = each()
    monkeypatch.setattr(request, "ROWS", 2)
    torch.testing.assert_close(each(), whole, rtol=0, atol=1e-12)
    with pytest.raises(RuntimeError, match="saved tensor hooks"):
        grad(lambda x: layer(x).sum())(q)
