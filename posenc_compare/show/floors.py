"""Floors: models that no scheme is part of, below the schemes that must beat them."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from posenc_compare.records.record import Record
from posenc_compare.show.means import Mean, means_of, values_of
from posenc_compare.stats.pairs import ALPHA, adjusted_p


@dataclass(frozen=True)
class FloorMean:
    """What some schemes must beat at one point of a curve.

    Attributes:
        mean: of the floor, under its name.
        schemes: that were trained and tested on the same bytes as it.
    """

    mean: Mean
    schemes: frozenset[str]


def floors_of(means: Iterable[Mean]) -> list[FloorMean]:
    """Return the floors at each point, under the names of their cases.

    Schemes of the same text and budget have the same floors. Where a table holds
    several texts or budgets, the settings in the labels of schemes tell floors apart.

    Args:
        means: of the floor, of any schemes.
    """
    points: dict[tuple[str, float], list[list[Mean]]] = {}
    for mean in means:
        known = points.setdefault((mean.case, mean.x), [])
        fits = (some for some in known if all(_agree(mean, one) for one in some))
        if (some := next(fits, None)) is not None:
            some.append(mean)
        else:
            known.append([mean])
    return [_floor(some, len(known) > 1) for known in points.values() for some in known]


def one_floor(records: Iterable[Record], quantity: str) -> bool:
    """Return whether all schemes of records have the same floors, of a quantity."""
    means = (mean for mean in means_of(records) if mean.quantity == quantity)
    points = [(floor.mean.case, floor.mean.x) for floor in floors_of(means)]
    return len(points) == len({*points})


def _agree(one: Mean, other: Mean) -> bool:
    """Return whether two means are of the same bytes, by the seeds that both have.

    Where they have none in common, the settings beside the labels of schemes decide.
    """
    common = one.values.keys() & other.values.keys()
    if not common:
        return one.settings == other.settings
    return all(one.values[seed] == other.values[seed] for seed in common)


def _floor(means: list[Mean], several: bool) -> FloorMean:
    values = {seed: v for mean in means for seed, v in mean.values.items()}
    name, shared = means[0].case, means[0].settings
    for mean in means:
        shared = tuple(part for part in shared if part in mean.settings)
    if several and shared:
        name = f"{name} [{', '.join(shared)}]"
    mean = replace(means[0], scheme=name).with_values(dict(sorted(values.items())))
    return FloorMean(mean, frozenset(one.scheme for one in means))


def floor_lines(
    headings: Sequence[str],
    columns: Sequence[Mapping[str, Mean]],
    floors: Sequence[Mapping[str, FloorMean]],
    *,
    higher: bool,
) -> dict[int, tuple[str, ...]]:
    """Return lines on schemes that are no better than their best floor.

    A scheme is better if its mean over common seeds is, and if the test of all pairs of
    the column that have this floor tells them apart where seeds allow it.

    Args:
        headings: of the columns.
        columns: means by scheme.
        floors: by name, for the same columns.
        higher: whether the greater number is the better.

    Returns:
        The lines of each column that has any, by its place in a table, whose first
        column is that of the names.
    """
    found: dict[int, tuple[str, ...]] = {}
    for place, heading in enumerate(headings):
        schemes, models = columns[place], floors[place]
        lines: list[str] = []
        for group in dict.fromkeys(floor.schemes for floor in models.values()):
            mine = {k: m for k, m in schemes.items() if k in group and m.values}
            below = {k: f.mean for k, f in models.items() if f.schemes == group}
            lines += _below(heading, mine, below, -1 if higher else 1)
        if lines:
            found[place + 1] = tuple(lines)
    return found


def _below(
    heading: str, schemes: Mapping[str, Mean], models: Mapping[str, Mean], sign: int
) -> list[str]:
    """Return a line on schemes that are no better than the best of their floors."""
    known = {name: sign * mean.mean for name, mean in models.items() if mean.values}
    if not known or not schemes:
        return []
    best = min(known, key=lambda name: known[name])
    array = values_of([*schemes.values(), models[best]])
    p = adjusted_p(array)[-1]
    gaps = np.nansum(sign * (array[-1] - array), axis=1)  # above 0: better
    if not np.isnan(p).all():  # one that has too few seeds is not told apart
        p = np.nan_to_num(p, nan=1.0)
    below = [name for i, name in enumerate(schemes) if gaps[i] <= 0 or p[i] > ALPHA]
    if not below:
        return []
    return [f"not shown to be better than the {best} at {heading}: {', '.join(below)}"]
