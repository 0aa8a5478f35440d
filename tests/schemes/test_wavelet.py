"""Wavelets of the distance against waves written one by one."""

import math

import pytest
import torch
from schemes.tools import (
    build,
    close,
    content_plus,
    decoded,
    dot,
    normal,
    on_paths,
    vectors,
)
from torch import Tensor

from posenc_compare.attention import Mask, attention, attention_logits
from posenc_compare.errors import ConfigError
from posenc_compare.schemes import create
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


def slow(scales: int, wave: str, ids: Tensor = IDS) -> Tensor:
    q, k, _ = inputs()

    def bias(b: int, h: int, i: int, j: int) -> float:
        p = waves(int(ids[i] - ids[j]), WIDTH, scales, wave)
        return dot(q[b, h, i].tolist(), p) / math.sqrt(WIDTH)

    return content_plus(q, k, bias)


@pytest.mark.parametrize("wave", ["ricker", "gaussian"])
@pytest.mark.parametrize("scales", [1, 2, 3, 6])
def test_equals_the_slow_reference(scales: int, wave: str) -> None:
    q, k, v = inputs()
    call = {"scheme": make(scales=scales, wave=wave), "positions": IDS}
    mask, expected = Mask(causal=False), slow(scales, wave)
    close(attention_logits(q, k, mask=mask, **call), expected, 1e-13)
    for read in on_paths(q, k, v, mask=mask, **call):
        close(read, expected.softmax(-1) @ v, 1e-13)


@pytest.mark.parametrize("steps", [[7, 1], [1] * 8, [0, 2, 0, 6]], ids=str)
def test_decoding(steps: list[int]) -> None:
    q, k, v = inputs()
    got = decoded(q, k, v, steps, scheme=make(), positions=IDS)
    seen = slow(2, "ricker").masked_fill(
        torch.ones(LENGTH, LENGTH).triu(1).bool(), -math.inf
    )
    close(got, seen.softmax(-1) @ v, 1e-13)


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


def test_far_tokens_are_read_by_content_alone() -> None:
    q, k, _ = inputs()
    far = 10_000 * torch.arange(LENGTH)
    mask = Mask(causal=False)
    got = attention_logits(q, k, scheme=make(), positions=far, mask=mask)
    here = torch.eye(LENGTH).bool()
    nope = attention_logits(q, k, scheme=create("nope"), positions=far, mask=mask)
    close(got[..., ~here], nope[..., ~here], 1e-15)
    assert (got - nope)[..., here].abs().min() > 1e-3


def test_a_wave_has_no_mean() -> None:
    # The integral of a Ricker wave is 0; that of a Gaussian is not.
    distances = torch.arange(-1000, 1001)
    scheme = build(Wavelet, heads=1, head_dim=32)
    close(scheme.table(distances)[:, 4:].sum(dim=0), torch.zeros(28).double(), 1e-6)


def test_gradient() -> None:
    qkv = [part[:1, :, :4].requires_grad_() for part in inputs()]

    def run(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        return attention(q, k, v, scheme=make(), positions=IDS[:4])

    assert torch.autograd.gradcheck(run, qkv)


def test_bfloat16_keeps_close_positions_apart() -> None:
    # Near 16 000 bfloat16 is 64 wide; distances are whole numbers until the waves.
    x = normal(1, HEADS, 3, WIDTH).bfloat16()
    near = torch.tensor([15_962, 15_963, 15_966])
    low, wide = (
        attention_logits(y, y, scheme=make(), positions=near) for y in (x, x.double())
    )
    close(low.double(), wide, 1e-5)


@pytest.mark.parametrize("scales", [-1, 4, 65])
def test_scales_out_of_range(scales: int) -> None:
    with pytest.raises(ConfigError, match="wavelet: scales must be from 1 to 64 and"):
        make(scales=scales)
