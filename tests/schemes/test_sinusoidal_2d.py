"""Two-axis sinusoids against loops over the four blocks."""

import math
from typing import Any

import pytest
import torch
from schemes.reference import Case, EmbedTests
from schemes.tools import close, normal
from torch import Tensor

from posenc_compare.attention import attention
from posenc_compare.errors import ShapeError
from posenc_compare.schemes import Scheme, create

LAYOUTS = ["timm", "moco_v3", "big_vision", "t2t"]
PLACES = [[0, 0], [0, 5], [5, 0], [3, 14], [200, 1], [-2, 7]]


def make(**options: float | str) -> Scheme:
    return create("sinusoidal_2d", options=options, model_dim=16, heads=1)


def code(scheme: Scheme, places: list[list[int]], width: int = 16) -> Tensor:
    zero = torch.zeros(1, len(places), width, dtype=torch.float64)
    return scheme.embed(zero, torch.tensor(places))[0]


def slow(row: int, column: int, width: int, base: float, layout: str) -> list[float]:
    quarter = width // 4
    last = quarter if layout in ("timm", "moco_v3") else max(quarter - 1, 1)

    def block(wave: str, place: int) -> list[float]:
        f = math.sin if wave == "sin" else math.cos
        return [f(place / base ** (m / last)) for m in range(quarter)]

    if layout == "timm":
        order = [("sin", row), ("sin", column), ("cos", row), ("cos", column)]
    elif layout == "t2t":
        order = [("sin", row), ("cos", row), ("sin", column), ("cos", column)]
    else:
        order = [("sin", column), ("cos", column), ("sin", row), ("cos", row)]
    return [value for wave, place in order for value in block(wave, place)]


class TestSinusoidal2d(EmbedTests):
    name = "sinusoidal_2d"
    sizes = {"model_dim": 16, "heads": 1}
    places = [PLACES, PLACES[::-1]]
    cases = [
        Case({"base": base, "layout": layout}, model_dim=width)
        for width in (4, 8, 16)
        for base in (10_000.0, 100.0)
        for layout in LAYOUTS
    ]
    half = Case(model_dim=32)
    half_places = [[15_962, 0], [15_966, 0], [0, 15_966], [0, 15_968]]
    wrong_width = 6, "the width must be divisible by 4, got 6"
    changes = [{"base": 9_000.0}, *({"layout": layout} for layout in LAYOUTS[1:])]
    errors = [({"base": 0.0}, r"base must be greater than 0, got 0\.0")]

    def code(self, scheme: Any, case: Case, position: list[int]) -> list[float]:
        options = {"base": 1e4, "layout": "timm", **case.options}
        width = scheme.geometry.model_dim
        row, column = position
        return slow(row, column, width, options["base"], options["layout"])


def test_blocks_are_sinusoids_of_one_axis() -> None:
    options = {"layout": "concatenated"}
    one_axis = create("sinusoidal", options=options, model_dim=8, heads=1)
    zero = torch.zeros(1, 6, 8, dtype=torch.float64)
    rows, columns = (
        one_axis.embed(zero, torch.tensor(PLACES)[:, axis])[0] for axis in (0, 1)
    )
    got = code(make(layout="moco_v3"), PLACES)
    close(got[:, :8], columns, 1e-14)
    close(got[:, 8:], rows, 1e-14)
    sin_row, sin_column, cos_row, cos_column = code(make(), PLACES).chunk(4, -1)
    torch.testing.assert_close(torch.cat([sin_row, cos_row], -1), rows)
    torch.testing.assert_close(torch.cat([sin_column, cos_column], -1), columns)


def test_layouts_of_one_exponent_hold_the_same_channels() -> None:
    for one, other in (("timm", "moco_v3"), ("big_vision", "t2t")):
        first, second = (code(make(layout=name), PLACES) for name in (one, other))
        assert torch.equal(first.sort(-1).values, second.sort(-1).values)
        assert not torch.equal(first, second)
    slowest = code(make(layout="t2t"), [[7, 0]])[0, 3]
    assert slowest.item() == pytest.approx(math.sin(7 / 10_000), rel=1e-12)


def test_positions_have_two_axes_in_attention() -> None:
    scheme, x = make(), normal(1, 1, 6, 16)
    places = torch.tensor(PLACES)
    out = attention(x, x, x, scheme=scheme, positions=places)
    assert torch.equal(out, attention(x, x, x, scheme=scheme, positions=places[None]))
    with pytest.raises(ShapeError, match=r"positions must be \(6, 2\) or"):
        attention(x, x, x, scheme=scheme, positions=torch.arange(6))


def test_inner_products_depend_on_both_offsets_alone() -> None:
    here = code(make(), [[2, 3], [4, 9]])
    there = code(make(), [[12, 103], [14, 109]])
    assert (here @ here.T - there @ there.T).abs().max() < 1e-12
    other = code(make(), [[2, 3], [4, 8]])
    assert (here @ here.T - other @ other.T).abs().max() > 1e-3
