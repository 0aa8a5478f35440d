"""BAM against the formula, one pair at a time."""

import math

import pytest
import torch
from schemes.reference import BiasTests, Inputs
from schemes.tools import build, perturbed

from posenc_compare.schemes import create
from posenc_compare.schemes.bam import Bam
from posenc_compare.schemes.shared.slopes import slopes


def make(heads: int = 6, noise: float = 0.0, **options: object) -> Bam:
    scheme = build(Bam, options, model_dim=8 * heads, heads=heads)
    return perturbed(scheme, noise)


def slow(factor: float, exponent: float, middle: float, offset: int) -> float:
    peak = math.exp(middle) - math.exp(-middle)
    return -math.exp(factor) * (abs(offset - peak) + 1e-5) ** exponent


class TestBam(BiasTests):
    name = "bam"
    sizes = {"heads": 6, "head_dim": 8, "model_dim": 48}
    noise = 0.5
    # The bias is up to 300 ** 2 and more, and the rounding error grows with it.
    rtol, half_atol = 1e-13, 1e-4
    cases = [{}, {"location": True}, {"exponent": 0.0}]
    identities = [({"exponent": 0.0}, {"exponent": 0}, "nope")]
    changes = [{"exponent": 0.5}, {"location": True}]
    errors = [({"exponent": math.nan}, "exponent must be a finite number, got")]

    def bias(self, t: Inputs, h: int, query: int, key: int) -> float:
        scheme = t.scheme
        middle = 0.0 if scheme.location is None else scheme.location[h].item()
        numbers = scheme.factor[h].item(), scheme.exponent[h].item(), middle
        return slow(*numbers, key - query)


@pytest.mark.parametrize("heads", [1, 8, 12])
def test_starts_as_alibi_but_for_a_constant(heads: int) -> None:
    offsets = torch.arange(-300, 301)
    alibi = create("alibi", model_dim=8 * heads, heads=heads).offset_bias(offsets)
    got = make(heads).offset_bias(offsets)
    assert alibi is not None
    constant = 1e-5 * torch.tensor(slopes(heads)).double()[:, None]
    # The slopes are kept as logarithms in float32.
    torch.testing.assert_close(got + constant, alibi, rtol=1e-6, atol=1e-10)
