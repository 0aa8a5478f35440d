"""The place of a scheme among others: differences seed by seed, and its neighbours."""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from posenc_compare.errors import ConfigError
from posenc_compare.records.record import Record
from posenc_compare.show.format import Cell, Table
from posenc_compare.show.means import Mean, means_of, values_of
from posenc_compare.stats.intervals import half_width
from posenc_compare.stats.pairs import ALPHA, FEWEST, adjusted_p_of

NEAR = 5  # schemes on either side that are shown
SCORE = ("extrapolation", "bits_per_byte")


@dataclass(frozen=True)
class Difference:
    """Scores of another scheme less those of one, over their common seeds.

    Attributes:
        mean: over seeds; NaN where there are none.
        half_width: of the 95 % interval of the mean.
        n: number of common seeds.
        p: of a difference, adjusted for all other schemes; NaN for too few seeds.
    """

    mean: float
    half_width: float
    n: int
    p: float

    @property
    def cell(self) -> Cell:
        """Return it for a table."""
        if not self.n:
            return Cell(note="")
        p = "" if math.isnan(self.p) else f", p {self.p:.3f}{' *' * (self.p <= ALPHA)}"
        width = None if math.isnan(self.half_width) else self.half_width
        return Cell(self.mean, width, self.n, more=p)


def differences(one: Mean, others: Sequence[Mean]) -> list[Difference]:
    """Return the differences of other schemes from one, tested as one family.

    The p values are those of a step-down max-T test of all of them.
    """
    if not one.values or not others:
        return [Difference(math.nan, math.nan, 0, math.nan) for _ in others]
    values = values_of([one, *others])
    rows: NDArray[np.float64] = values[1:] - values[0]
    found = []
    for row, p in zip(rows, adjusted_p_of(rows), strict=True):
        both = row[np.isfinite(row)]
        mean = float(both.mean()) if len(both) else math.nan
        found.append(Difference(mean, half_width([*both]), len(both), float(p)))
    return found


def place_table(records: Iterable[Record], own: str) -> Table:
    """Return the neighbours of a scheme by its score at the longest test.

    Args:
        records: trainings of all schemes on language.
        own: label of the scheme.

    Raises:
        ConfigError: if there is no training of the scheme, or none of another.
    """
    curves: dict[str, dict[float, Mean]] = {}
    for mean in means_of(records):
        if (mean.measure, mean.quantity) == SCORE and not mean.case:
            curves.setdefault(mean.scheme, {})[mean.x] = mean
    if own not in curves or len(curves) < 2:
        raise ConfigError(
            f"rank: must have trainings of {own} and of another scheme, got those of "
            f"{', '.join(curves) or 'none'}"
        )
    ends = min(curves[own]), max(curves[own])
    others = [name for name in curves if name != own and ends[0] in curves[name]]
    compared = {
        x: differences(curves[own][x], [curves[k][x] for k in others if x in curves[k]])
        for x in ends
    }
    by_name = {
        x: dict(zip(others, found, strict=True)) for x, found in compared.items()
    }
    ranked = sorted(curves, key=lambda name: _score(curves[name], ends))
    at = ranked.index(own)
    shown = ranked[max(0, at - NEAR) : at + NEAR + 1]
    head = ["", "scheme"]
    for x in ends:
        head += [f"at {x:g}", "difference"]
    rows: list[list[str | Cell]] = []
    for name in shown:
        row: list[str | Cell] = [str(ranked.index(name) + 1), name]
        for x in ends:
            mean = curves[name].get(x)
            row.append(replace(mean.cell, half_width=None) if mean else "")
            row.append(by_name[x][name].cell if name != own else "")
        rows.append(row)
    seeds = max(len(mean.values) for mean in curves[own].values())
    lines = [_sentence(x, compared[x]) for x in ends]
    lines += [
        f"difference: the other less {own}, so that + means that {own} is better,",
        "  with its 95 % interval over paired seeds, which is not adjusted",
        f"p: step-down max-T test, adjusted within a column; * p ≤ {ALPHA:g}",
        "The places go by means. Neighbours that do not differ have no ranking.",
    ]
    name = f"{own}: place {at + 1} of {len(ranked)} by bits per byte at {ends[1]:g}"
    return Table(name, head, rows, seeds, tuple(lines))


def _score(curve: dict[float, Mean], ends: tuple[float, float]) -> tuple[float, float]:
    """Return what schemes are sorted by; those without a score come last."""
    scores = [curve[x].mean if x in curve else math.nan for x in reversed(ends)]
    return (
        math.inf if math.isnan(scores[0]) else scores[0],
        math.inf if math.isnan(scores[1]) else scores[1],
    )


def _sentence(x: float, found: list[Difference]) -> str:
    """Return how many schemes a scheme is significantly ahead of, and behind."""
    tested = [one for one in found if not math.isnan(one.p)]
    if not tested:
        return f"at {x:g}: no test, {FEWEST} common seeds are needed"
    ahead = sum(one.p <= ALPHA and one.mean > 0 for one in tested)
    behind = sum(one.p <= ALPHA and one.mean < 0 for one in tested)
    rest = len(tested) - ahead - behind
    return (
        f"at {x:g}: significantly better than {ahead} of {len(tested)}, worse than "
        f"{behind}; no difference shown for {rest}"
    )
