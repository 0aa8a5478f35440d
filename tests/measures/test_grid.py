"""Measures on a grid, against slow counting of cells."""

import itertools
import math
from typing import Any

import numpy as np
import pytest
import torch
from support.schemes import AXES

from posenc_compare.measures.codes import code_of
from posenc_compare.measures.distance_decay import distance_decay, logits_by_distance
from posenc_compare.measures.order_sensitivity import order_sensitivity
from posenc_compare.measures.perturbation import perturbation
from posenc_compare.measures.portrait import portrait
from posenc_compare.measures.probe import Probe
from posenc_compare.measures.shift_error import shift_error
from posenc_compare.measures.smoothness import smoothness
from posenc_compare.measures.uniqueness import uniqueness
from posenc_compare.registry import MEASURES, SCHEMES
from posenc_compare.schemes import Facts, Geometry, Scheme, Variant, register
from posenc_compare.schemes.shared.slopes import slopes
from posenc_compare.settings.probe import ProbeSetting, sides_of
from posenc_compare.train.progress import Progress

UNTRAINED = MEASURES.select_all("untrained")
GRIDS = {1: "", 2: "5x6", 3: "3x4x4"}


@register("coordinate", family="absolute", axes=2)
class Coordinate(Scheme):
    """Adds one coordinate, and a number, to every channel."""

    def __init__(self, geometry: Geometry, *, axis: int = 0, more: int = 0) -> None:
        super().__init__(geometry)
        self.axis, self.more = axis, more

    def embed(self, x: torch.Tensor, positions: torch.Tensor) -> torch.Tensor:
        return x + positions[..., self.axis, None] + self.more


@register("ahead", family="bias", axes=2)
class Ahead(Scheme):
    """Adds ten for each row, and one for each column, that a key lies ahead."""

    def pair_bias(self, call: Any) -> Any:
        ids = call.q_positions[:, :, 0] * 10 + call.q_positions[:, :, 1]
        return lambda b, h, i, j: (ids[0, j] - ids[0, i]).double()


@register("behind", family="bias", axes=2)
class Behind(Ahead):
    """Looks back only."""

    facts = Facts(causal_only=True)


def probe(grid: str, **changes: Any) -> Probe:
    cells = math.prod(sides_of(grid))
    sizes = {"positions": cells, "tokens": cells, "width": 32, **changes}
    return Probe(grid=grid, **sizes)


def values(measure: Any, name: str, grid: Probe, **options: Any) -> dict[Any, Any]:
    rows = measure(Variant(name, options), grid, Progress()).rows
    return {(row.quantity, row.case, row.x): row.value for row in rows}


def cells_of(grid: str) -> list[tuple[int, ...]]:
    """Return the coordinates of every cell, row by row."""
    return list(itertools.product(*map(range, sides_of(grid))))


@pytest.mark.parametrize("measure", UNTRAINED)
@pytest.mark.parametrize("name", [name for name, axes in AXES.items() if axes > 1])
def test_every_measure_runs_on_the_grid_of_its_axes(name: str, measure: str) -> None:
    options = {"height": 5, "width": 6} if name == "swin" else {}
    result = MEASURES.get(measure).compute(
        Variant(name, options), probe(GRIDS[AXES[name]]), Progress()
    )
    for row in result.rows:
        assert row.note if row.value is None else math.isfinite(row.value)
    reads_queries = SCHEMES.entry(name).facts["family"] == "contextual"
    drawn = not reads_queries and name != "levit"  # whose bias starts at 0
    assert bool(result.arrays) == (measure == "portrait" and drawn)


def test_distances_of_one_length_have_one_code_in_alibi() -> None:
    squares = {row**2 + column**2 for row, column in cells_of("4x6")}
    found = values(uniqueness, "alibi_2d", probe("4x6"))
    assert found["distinct_share", "float32", None] == len(squares) / (7 * 11)
    sums = {row + column for row, column in cells_of("4x6")}
    found = values(uniqueness, "alibi_2d", probe("4x6"), metric="l1")
    assert found["distinct_share", "float32", None] == len(sums) / (7 * 11)


@pytest.mark.parametrize("grid", ["4x6", "5x3"])
def test_distances_run_in_all_directions(grid: str) -> None:
    # Each bias is its own offset, so that its codes are all offsets in raster order.
    here, (rows, columns) = probe(grid), sides_of(grid)
    code = code_of(here.build(Variant("ahead")), here)
    expected = [
        10 * row + column
        for row in range(1 - rows, rows)
        for column in range(1 - columns, columns)
    ]
    assert code.values[:, 0].tolist() == expected
    assert code.sides == (2 * rows - 1, 2 * columns - 1)
    half = code_of(here.build(Variant("ahead")), here, 7)
    assert half.values[:, 0].tolist() == expected[:7]
    turned = code_of(here.build(Variant("rope_2d")), here)
    assert len(turned.values) == len(expected)


def test_a_shift_moves_along_every_axis() -> None:
    assert values(shift_error, "sinusoidal_2d", probe("5x5"))["shift_error", "plain", 1]

    for axis in (0, 1):
        found = values(shift_error, "coordinate", probe("5x5"), axis=axis)
        assert found["shift_error", "plain", 1] > 0.1


def test_steps_go_to_the_next_row_and_the_next_column() -> None:
    here = probe("3x4")
    code = {
        cell: np.array(
            [cell[axis] * 10_000 ** (-m / 8) for axis in (0, 1) for m in range(8)]
        )
        for cell in cells_of("3x4")
    }
    steps = [
        np.sqrt(
            (np.sin(code[one]) - np.sin(code[other])) ** 2
            + (np.cos(code[one]) - np.cos(code[other])) ** 2
        )
        for one, other in itertools.combinations(code, 2)
        if math.dist(one, other) == 1
    ]
    lengths = [float(np.linalg.norm(step)) for step in steps]
    found = values(smoothness, "sinusoidal_2d", here)
    assert found["mean_step", "", None] == pytest.approx(np.mean(lengths), rel=1e-12)
    assert found["largest_step", "", None] == pytest.approx(max(lengths), rel=1e-12)


def test_the_spread_of_a_bias_is_that_over_all_cells() -> None:
    here = probe("3x4")
    shares = [
        values(perturbation, name, here)["bias_share", "", None]
        for name in ("ahead", "alibi_2d")
    ]
    ahead = np.array([10 * row + column for row, column in cells_of("3x4")])
    apart = np.array(
        [[math.dist(a, b) for b in cells_of("3x4")] for a in cells_of("3x4")]
    )
    x = here.normal("tokens", 1, 12, 32)[0]
    q, k = (x @ here.normal(part, 32, 32) / 32**0.5 for part in ("query", "key"))
    content = [
        float((q[:, own] @ k[:, own].T / 8**0.5).var(1, False).mean())
        for own in (slice(i, i + 8) for i in (0, 8, 16, 24))
    ]
    biases = [[ahead.var()] * 4]
    biases.append([slope**2 * apart.var(axis=1).mean() for slope in slopes(4)])
    for share, bias in zip(shares, biases, strict=True):
        slow = [b / (b + c) for b, c in zip(bias, content, strict=True)]
        assert share == pytest.approx(np.mean(slow))


def test_logits_are_averaged_by_distance() -> None:
    here, name = probe("3x4"), Variant("alibi_2d")
    curve = logits_by_distance(here.build(name), here, 12).mean(dim=0)
    apart = sorted({math.dist(a, b) for a in cells_of("3x4") for b in cells_of("3x4")})
    slope = sum(slopes(4)) / 4
    expected = curve[0] - slope * torch.tensor(apart, dtype=torch.float64)
    torch.testing.assert_close(curve, expected, rtol=0, atol=1e-12)
    found = values(distance_decay, "alibi_2d", here)
    assert found["logit_drop", "furthest", None] == pytest.approx(slope * apart[-1])
    assert ("rotation_bound", "", 1) not in values(distance_decay, "rope_2d", here)


def test_keys_after_a_query_count_unless_the_scheme_forbids_it() -> None:
    here = probe("2x3")
    steps = {}
    for (a, one), (b, other) in itertools.product(enumerate(cells_of("2x3")), repeat=2):
        if b <= a:
            back = (one[0] - other[0]) * 10 + one[1] - other[1]
            steps.setdefault(math.dist(one, other), []).append(-back)
    curve = logits_by_distance(here.build(Variant("behind")), here, 6).mean(dim=0)
    expected = [np.mean(steps[distance]) for distance in sorted(steps)]
    assert (curve - curve[0]).tolist() == pytest.approx(expected)
    both = logits_by_distance(here.build(Variant("ahead")), here, 6)
    assert (
        both - both[:, :1]
    ).abs().max() < 1e-12  # each pair counts in both directions
    rows = order_sensitivity(Variant("behind"), here, Progress()).rows
    assert [row.note for row in rows] == ["needs a causal mask", ""]


def test_the_middle_cell_sees_alibi_as_its_distance() -> None:
    arrays = portrait(Variant("alibi_2d"), probe("4x7"), Progress()).arrays
    assert arrays.keys() == {"grid_bias", "bias_heads"}
    for head, slope in enumerate(slopes(4)):
        for row, column in cells_of("4x7"):
            expected = -slope * math.hypot(row - 2, column - 3)
            assert arrays["grid_bias"][head][row][column] == pytest.approx(
                expected, rel=1e-3, abs=1e-9
            )


def test_the_middle_cell_sees_sinusoids_by_the_mean_cosine() -> None:
    arrays = portrait(Variant("sinusoidal_2d"), probe("4x7"), Progress()).arrays
    assert arrays.keys() == {"grid_similarity", "bias_heads"}
    speeds = [10_000 ** (-m / 8) for m in range(8)]
    for row, column in cells_of("4x7"):
        turns = [math.cos((row - 2) * s) + math.cos((column - 3) * s) for s in speeds]
        assert arrays["grid_similarity"][0][row][column] == pytest.approx(
            sum(turns) / 16, rel=1e-3
        )


def test_a_zero_vector_has_no_direction() -> None:
    here = probe("2x3")
    arrays = portrait(Variant("coordinate"), here, Progress()).arrays
    ((first, second),) = arrays["grid_similarity"]
    assert all(map(math.isnan, first))
    assert second == [1, 1, 1]
    # The middle of two by one columns and rows is column 0: nothing to compare with.
    arrays = portrait(Variant("coordinate", {"more": -1}), here, Progress()).arrays
    assert "grid_similarity" not in arrays


def test_a_grid_is_written_with_its_sizes() -> None:
    assert sides_of("16x16") == (16, 16)
    assert sides_of("2x3x4") == (2, 3, 4)
    assert "grid" not in ProbeSetting().spec()  # keys of sequences stay as they were
    assert ProbeSetting(grid="4x4", positions=16).spec()["grid"] == "4x4"


def test_keys_that_a_scheme_hides_have_no_number() -> None:
    here = probe("4x6")
    found = distance_decay(Variant("lookhere"), here, Progress())
    assert {row.note for row in found.rows} == {"the mask hides it"}
    logits = here.zero_logits(here.build(Variant("lookhere")), here.arange(24))
    assert logits[logits.isfinite()].min() > -10
    shares = values(perturbation, "lookhere", here)
    steep = values(perturbation, "lookhere", here, slope=1e3)
    assert shares["bias_share", "", None] < 0.8 < steep["bias_share", "", None]
