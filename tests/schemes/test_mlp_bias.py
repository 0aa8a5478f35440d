"""The perceptron of the signed distance against loops over hidden units."""

import math

import pytest
import torch
from schemes.reference import BiasTests, Case, Inputs
from schemes.tools import build, perturbed

from posenc_compare.schemes.mlp_bias import MlpBias


def make(noise: float = 0.0, length: int = 30, **options: str | int | bool) -> MlpBias:
    sizes = {"model_dim": 24, "heads": 3, "length": length}
    return perturbed(build(MlpBias, options, **sizes), noise)


def slow(scheme: MlpBias, head: int, query: int, key: int, length: int) -> float:
    """Swin V2: sign(d) log2(1 + |8 d / (M - 1)|) / log2(8), then 16 sigmoid(MLP)."""
    share = (query - key) / max(length - 1, 1)
    if scheme.inputs == "log":
        share = math.copysign(math.log2(1 + abs(8 * share)) / math.log2(8), share)
    out = 0.0
    for unit in range(scheme.rise.out_features):
        z = scheme.rise.weight[unit, 0].item() * share + scheme.rise.bias[unit].item()
        out += scheme.fall.weight[head, unit].item() * max(z, 0)
    return 16 / (1 + math.exp(-out)) if scheme.bounded else out


class TestMlpBias(BiasTests):
    name = "mlp_bias"
    sizes = {"heads": 3, "head_dim": 8, "length": 30}
    noise = 0.5
    rtol, half_atol = 1e-14, 1e-5
    cases = [
        Case({"inputs": inputs, "bounded": bounded, "hidden": 7}, length=length)
        for inputs in ("log", "linear")
        for bounded in (False, True)
        for length in (30, 1)
    ]
    half = Case({"hidden": 9})
    changes = [{"inputs": "linear"}, {"hidden": 64}, {"bounded": False}]
    errors = [({"hidden": 0}, "hidden must be at least 1, got 0")]

    def bias(self, t: Inputs, h: int, query: int, key: int) -> float:
        return slow(t.scheme, h, query, key, t.scheme.geometry.length)


def test_starts_as_released() -> None:
    scheme = make(hidden=4000)
    assert scheme.rise.weight.std().item() == pytest.approx(0.02, rel=0.05)
    assert scheme.fall.weight.std().item() == pytest.approx(0.02, rel=0.05)
    assert not scheme.rise.bias.any()
    assert scheme.fall.bias is None
    assert make().rise.out_features == 512
    middle = make().offset_bias(torch.tensor([0]))
    assert torch.equal(middle, torch.full((3, 1), 8.0).double())


def test_tells_the_past_from_the_future() -> None:
    offsets = torch.arange(-9, 10)
    bias = make(0.5).offset_bias(offsets)
    assert (bias - bias.flip(1))[:, :9].abs().min() > 1e-6
    assert ((bias > 0) & (bias < 16)).all()
