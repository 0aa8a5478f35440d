"""KERPLE's logarithmic kernel against the formula, one pair at a time."""

import math

import pytest
import torch
from schemes.reference import BiasTests, Inputs
from schemes.tools import build, close, perturbed

from posenc_compare.schemes.kerple_log import KerpleLog
from posenc_compare.schemes.shared.bounds import bounded


def make(heads: int = 3, noise: float = 0.0) -> KerpleLog:
    return perturbed(build(KerpleLog, model_dim=8 * heads, heads=heads), noise)


def slow(steepness: float, rate: float, distance: int) -> float:
    return -max(steepness, 0.01) * math.log(1 + max(rate, 0.01) * distance)


class TestKerpleLog(BiasTests):
    name = "kerple_log"
    sizes = {"heads": 3, "head_dim": 8}
    noise = 2.0
    half_places = [15_363, 15_367, 15_962]

    def bias(self, t: Inputs, h: int, query: int, key: int) -> float:
        numbers = t.scheme.steepness[h].item(), t.scheme.rate[h].item()
        return slow(*numbers, abs(query - key))


def test_the_bounds_are_met_in_the_reference() -> None:
    numbers = torch.cat([make(noise=2.0).steepness, make(noise=2.0).rate])
    assert (numbers < 0.01).any()
    assert (numbers > 0.01).any()


def test_starts_as_released() -> None:
    scheme = make(heads=4000)
    for parameter, most in ((scheme.steepness, 2.0), (scheme.rate, 1.0)):
        assert 0 <= parameter.min() < 0.01
        assert most - 0.01 < parameter.max() <= most
        assert parameter.mean().item() == pytest.approx(most / 2, rel=0.05)


@pytest.mark.parametrize(("value", "kept"), [(-3.0, 0.01), (0.5, 0.5)])
def test_bounds_hold_in_the_kernel_and_pass_the_gradient(
    value: float, kept: float
) -> None:
    scheme = make()
    with torch.no_grad():
        scheme.rate.fill_(value)
    scheme.offset_bias(torch.arange(-20, 1)).sum().backward()
    assert torch.equal(scheme.rate.detach(), torch.full((3,), value).double())
    assert scheme.rate.grad is not None
    assert scheme.steepness.grad is not None
    for h in range(3):
        # d/dr and d/ds of -s log(1 + r n)
        steepness = scheme.steepness[h].item()
        by_rate = sum(-steepness * n / (1 + kept * n) for n in range(21))
        by_steepness = sum(-math.log(1 + kept * n) for n in range(21))
        assert scheme.rate.grad[h].item() == pytest.approx(by_rate, rel=1e-12)
        assert scheme.steepness.grad[h].item() == pytest.approx(by_steepness)


def test_bounded() -> None:
    x = torch.tensor([-7.0, 0.0, 0.01, 0.3, 2.0, 5.0], dtype=torch.float64)
    got = bounded(x, 0.01, 2.0)
    assert torch.equal(got[2:5], x[2:5])
    expected = torch.tensor([0.01, 0.01, 0.01, 0.3, 2.0, 2.0], dtype=torch.float64)
    close(got, expected, 1e-15)
