"""FIRE against loops over hidden units, one pair at a time."""

import math

import torch
from schemes.reference import BiasTests, Inputs
from schemes.tools import (
    CLOSE_POSITIONS,
    build,
    close,
    perturbed,
)
from torch import Tensor

from posenc_compare.attention import attention_logits
from posenc_compare.schemes.fire import ROWS, Fire

PLACES = [0, 1, 2, 19, 25, 400]


def make(noise: float = 0.0, **options: float) -> Fire:
    return perturbed(build(Fire, options, model_dim=24, heads=3), noise)


def share(c: float, threshold: float, query: int, key: int) -> float:
    """ln(c distance + 1) over ln(c max(query, L) + 1) + 1e-6."""
    reach = max(query, abs(threshold))
    top = math.log(abs(c * (query - key)) + 1)
    return top / (math.log(abs(c * reach) + 1) + 1e-6)


def slow(scheme: Fire, head: int, query: int, key: int) -> float:
    x = share(scheme.c.item(), scheme.stretch.item() * scheme.threshold, query, key)
    out = scheme.fall.bias[head].item()
    for unit in range(scheme.rise.out_features):
        z = scheme.rise.weight[unit, 0].item() * x + scheme.rise.bias[unit].item()
        out += scheme.fall.weight[head, unit].item() * max(z, 0)
    return out


class TestFire(BiasTests):
    name = "fire"
    causal = True
    published = {"threshold": (512, 2048, (16, 32, 128))}
    sizes = {"heads": 3, "head_dim": 8}
    noise = 1.0
    half_atol = 1e-4
    places = [PLACES, [place + 3 for place in PLACES]]
    cases = [
        {},
        {"threshold": 512.0},
        {"threshold": 20.0},
        {"c": 2.0, "hidden": 5, "threshold": 3.0},
    ]
    changes = [{"threshold": 20.0}, {"c": 0.5}, {"hidden": 8}]
    errors = [
        ({name: value}, f"{name} must be greater than 0, got {value}")
        for name, value in (
            *(("threshold", -1), ("c", 0), ("c", -1), ("hidden", 0), ("hidden", -1)),
        )
    ]

    def bias(self, t: Inputs, h: int, query: int, key: int) -> float:
        return slow(t.scheme, h, query, key)


def test_autocast_keeps_close_positions_apart() -> None:
    scheme, zero = make(1.0).float(), torch.zeros(1, 3, 3, 8)
    call = {"scheme": scheme, "positions": CLOSE_POSITIONS}
    with torch.autocast("cpu", torch.bfloat16):
        got = attention_logits(zero, zero, **call)
    assert torch.equal(got, attention_logits(zero, zero, **call))
    assert got[0, 0, 2].unique().numel() == 3


def logits(scheme: Fire, positions: Tensor) -> Tensor:
    zero = torch.zeros(1, 3, len(positions), 8, dtype=torch.float64)
    return attention_logits(zero, zero, scheme=scheme, positions=positions)[0]


def test_blocks_of_rows_join() -> None:
    scheme, count = make(0.3, threshold=40.0), 2 * ROWS + 5
    positions = torch.arange(count)[None]
    with torch.no_grad():
        whole = scheme.bias(positions, positions)
        zero = torch.zeros(1, 3, count, 8, dtype=torch.float64)
        got = attention_logits(zero, zero, scheme=scheme, positions=positions)
    seen = got[0].isfinite()
    assert torch.equal(got[0][seen], whole[0].permute(2, 0, 1)[seen])


def test_a_cast_scheme_computes_in_float32() -> None:
    scheme = make(0.3).bfloat16()
    bias = scheme.bias(torch.arange(4)[None], torch.arange(4)[None])
    expected = make(0.3).bfloat16().double()
    wide = expected.bias(torch.arange(4)[None], torch.arange(4)[None])
    assert bias.dtype == torch.float32
    close(bias.double(), wide, 1e-5)


def test_the_sign_of_trained_numbers_does_not_matter() -> None:
    scheme, places = make(0.3, threshold=20.0), torch.tensor(PLACES)
    before = logits(scheme, places)
    for number in (scheme.c, scheme.stretch):
        with torch.no_grad():
            number.neg_()
        assert torch.equal(logits(scheme, places), before)


def test_is_relative_up_to_the_threshold_alone() -> None:
    scheme = make(0.3, threshold=50.0)
    reach = 50 * scheme.stretch.item()
    assert 30 < reach < 200
    positions = torch.arange(10)
    seen = torch.ones(10, 10).tril().bool()
    here = logits(scheme, positions)[:, seen]
    near = logits(scheme, positions + int(reach) - 10)[:, seen]
    far = logits(scheme, positions + 500)[:, seen]
    close(near, here, 1e-13)
    assert (far - here).abs().max() > 1e-2
