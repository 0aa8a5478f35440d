"""Wavelets of the distance against waves written one by one."""

import math

import pytest
import torch
from schemes.reference import Inputs, LogitTests, combine
from schemes.tools import (
    build,
    close,
    content_plus,
    dot,
    vectors,
)
from torch import Tensor

from posenc_compare.attention import attention
from posenc_compare.schemes.shaw import Shaw
from posenc_compare.schemes.wavelet import Wavelet

BATCH, HEADS, WIDTH, LENGTH = 2, 2, 6, 8
IDS = torch.tensor([0, 1, 2, 5, 6, 9, 40, 41])
SIZES = {"heads": HEADS, "head_dim": WIDTH}


def make(**options: object) -> Wavelet:
    return build(Wavelet, options, **SIZES)


def inputs() -> tuple[Tensor, Tensor, Tensor]:
    return vectors(BATCH, HEADS, LENGTH, WIDTH)


def waves(distance: int, width: int, scales: int, wave: str) -> list[float]:
    """Return p of one distance, for every width and place."""
    found = []
    for power in range(scales):
        for shift in range(width // scales):
            u = (distance - shift) / 2**power
            ricker = (1 - u * u) * math.exp(-u * u / 2)
            found.append(ricker if wave == "ricker" else math.exp(-u * u))
    return found


class TestWavelet(LogitTests):
    name = "wavelet"
    sizes = {**SIZES, "model_dim": 12}
    places = [IDS.tolist(), IDS.flip(0).tolist()]
    atol = 1e-13
    cases = combine(wave=("ricker", "gaussian"), scales=(1, 2, 3, 6))
    gradients = [{}]
    changes = [{"scales": 3}, {"wave": "gaussian"}]
    errors = [
        ({"scales": scales}, "scales must be from 1 to 64 and")
        for scales in (-1, 4, 65)
    ]

    def logits(self, t: Inputs) -> Tensor:
        def bias(b: int, h: int, i: int, j: int) -> float:
            distance = int(t.positions[b, i] - t.positions[b, j])
            p = waves(distance, WIDTH, t.option("scales"), t.option("wave"))
            return dot(t.q[b, h, i].tolist(), p) / math.sqrt(WIDTH)

        return content_plus(t.q, t.k, bias)


def test_waves_are_those_of_the_paper() -> None:
    # 128 channels have widths 1 to 128 and places 0 to 15 (section 5.1).
    scheme = build(Wavelet, heads=1, head_dim=128)
    assert (scheme.scales, scheme.shifts) == (8, 16)
    distances = torch.tensor([0, 3, 15, 200])
    expected = [waves(t, 128, 8, "ricker") for t in distances.tolist()]
    close(scheme.table(distances), torch.tensor(expected, dtype=torch.float64), 1e-15)


@pytest.mark.parametrize(
    ("width", "scales"), [(64, 8), (32, 8), (12, 4), (6, 2), (5, 1)]
)
def test_a_head_that_eight_does_not_divide_has_fewer_widths(
    width: int, scales: int
) -> None:
    assert build(Wavelet, heads=1, head_dim=width).scales == scales


def test_a_table_of_waves_is_that_of_shaw() -> None:
    q, k, v = inputs()
    run, scheme = torch.arange(LENGTH), make()
    shaw = build(Shaw, {"reach": LENGTH, "values": False}, **SIZES)
    assert shaw.on_keys is not None
    offsets = torch.arange(-LENGTH, LENGTH + 1)  # key minus query
    with torch.no_grad():
        shaw.on_keys.copy_(scheme.table(-offsets))
    got, wanted = (
        attention(q, k, v, scheme=one, positions=run) for one in (scheme, shaw)
    )
    close(got, wanted, 1e-13)


def test_a_wave_has_no_mean() -> None:
    # The integral of a Ricker wave is 0; that of a Gaussian is not.
    distances = torch.arange(-1000, 1001)
    scheme = build(Wavelet, heads=1, head_dim=32)
    close(scheme.table(distances)[:, 4:].sum(dim=0), torch.zeros(28).double(), 1e-6)
