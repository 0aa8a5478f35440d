"""KERPLE's power kernel against the formula, one pair at a time."""

import math

import pytest
import torch
from schemes.reference import BiasTests, Inputs
from schemes.tools import build, perturbed

from posenc_compare.schemes import create
from posenc_compare.schemes.kerple_power import KerplePower
from posenc_compare.schemes.shared.slopes import slopes


def make(heads: int = 3, noise: float = 0.0) -> KerplePower:
    return perturbed(build(KerplePower, model_dim=8 * heads, heads=heads), noise)


def slow(factor: float, exponent: float, distance: int) -> float:
    return -max(factor, 0.01) * distance ** min(max(exponent, 0.01), 2.0)


class TestKerplePower(BiasTests):
    name = "kerple_power"
    sizes = {"heads": 6, "head_dim": 8}
    noise = 2.0
    # The bias is up to 300 ** 2, and the rounding error grows with it.
    rtol, half_atol = 1e-14, 1e-4
    half_places = [0, 20, 277]  # 277 is 276 or 278 in bfloat16

    def bias(self, t: Inputs, h: int, query: int, key: int) -> float:
        numbers = t.scheme.factor[h].item(), t.scheme.exponent[h].item()
        return slow(*numbers, abs(query - key))


def test_the_bounds_are_met_in_the_reference() -> None:
    scheme = make(heads=6, noise=2.0)
    assert (scheme.factor < 0.01).any()
    assert (scheme.exponent < 0.01).any()
    assert (scheme.exponent > 2).any()


@pytest.mark.parametrize("heads", [1, 8, 12])
def test_exponent_one_is_alibi(heads: int) -> None:
    scheme = make(heads=heads)
    with torch.no_grad():
        scheme.factor.copy_(torch.tensor(slopes(heads)))
        scheme.exponent.fill_(1.0)
    offsets = torch.arange(-300, 301)
    expected = create("alibi", model_dim=8 * heads, heads=heads).offset_bias(offsets)
    assert expected is not None
    # Slopes below the least factor of the kernel are raised to it.
    kept = torch.tensor(slopes(heads)) >= 0.01
    got = scheme.offset_bias(offsets)
    torch.testing.assert_close(got[kept], expected[kept], rtol=1e-7, atol=0)


def test_starts_as_released() -> None:
    scheme = make(heads=4000)
    for parameter, most in ((scheme.factor, 1.0), (scheme.exponent, 2.0)):
        assert 0 <= parameter.min() < 0.01
        assert most - 0.01 < parameter.max() <= most
        assert parameter.mean().item() == pytest.approx(most / 2, rel=0.05)


def test_gradients_are_finite_at_distance_zero_and_pass_the_bounds() -> None:
    scheme = make()
    with torch.no_grad():
        scheme.exponent.copy_(torch.tensor([-1.0, 0.5, 7.0]))
    scheme.offset_bias(torch.arange(-9, 1)).sum().backward()
    assert scheme.exponent.grad is not None
    for h, exponent in enumerate((0.01, 0.5, 2.0)):
        factor = scheme.factor[h].item()
        # d/dp of -a n ** p, which is 0 at n = 0
        expected = sum(-factor * n**exponent * math.log(n) for n in range(1, 10))
        assert scheme.exponent.grad[h].item() == pytest.approx(expected, rel=1e-12)
    assert scheme.exponent[2].item() == 7.0
