"""The order of the rows of a table, and what may be said of it beneath the table.

Where no number ranks schemes they stand by family and name. Floors are models that no
scheme is part of; they stand below the schemes. Where a number ranks, these must beat
them.
"""

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

import numpy as np
import pandas as pd

from posenc_compare.records.quantities import Better
from posenc_compare.registry import FAMILIES
from posenc_compare.show.frame import Frame, Mean, values_of, with_values
from posenc_compare.stats.level import ALPHA, FEWEST
from posenc_compare.stats.order import most_common, order
from posenc_compare.stats.pairs import adjusted_p_of
from posenc_compare.stats.rounding import NOTHING, difference

MANY = 12  # schemes of a single group, which is named by their number
YEAR = re.compile(r"\b(?:19|20)\d\d\b")


@dataclass(frozen=True)
class Column:
    """A column of a displayed table."""

    name: str  # what lines beneath the table call it
    measure: str  # that gives its numbers
    means: Mapping[str, Mean]  # by the labels of rows
    better: Better = "neither"  # which end is; "neither" if schemes have no order
    floors: tuple[Mean, ...] = ()  # what schemes must beat, if a number ranks them
    heading: str = ""  # what stands above it, if not the name

    @property
    def sign(self) -> int:
        """Return the sign that makes lower numbers better."""
        return -1 if self.better == "higher" else 1


def by_family(family: str, label: str) -> tuple[int, str]:
    """Return the place of a scheme: by family, then by name; unknown families last."""
    known = family in FAMILIES
    return (FAMILIES.index(family) if known else len(FAMILIES), label)


def by_family_of(families: Mapping[str, str], labels: Iterable[str]) -> list[str]:
    """Return labels of schemes by family, and then by name."""
    return sorted(labels, key=lambda label: by_family(families[label], label))


@dataclass(frozen=True)
class Ranking:
    """What the test of all pairs says of the schemes of a column.

    `text` has the groups, the best first, and how many seeds and pairs they rest on; it
    is empty if too few schemes have seeds enough.
    """

    text: str
    best: frozenset[str]  # the best group, if any other scheme differs from all of it
    seeds: int  # the most that two schemes have in common


def ranking(column: Column) -> Ranking:
    """Return the ranking of the schemes of a column.

    `posenc_compare.stats.order` defines the groups. `{a, b} < c` means that both
    `a` and `b` differ significantly from `c`, and that not all in the braces do from
    each other; `a > b` that a higher number is better and that `a` has it.
    """
    means = {label: mean for label, mean in column.means.items() if mean.values}
    if len(means) < 2 or column.better == "neither":
        return Ranking("", frozenset(), 0)
    labels, found = list(means), order(values_of(means.values()))
    groups = [[labels[place] for place in group] for group in found.groups]
    if column.better == "higher":
        groups = [group[::-1] for group in groups[::-1]]
    if not groups:
        return Ranking("", frozenset(), found.seeds)
    texts = [g[0] if len(g) == 1 else f"{{{', '.join(g)}}}" for g in groups]
    if len(groups) == 1 and len(groups[0]) > MANY:
        texts = [f"one group of {len(groups[0])} schemes"]
    low, high = found.common
    facts = [
        f"n = {low}" if low == high else f"n = {low} to {high}",
        f"{found.apart} of {found.pairs} pairs differ",
    ]
    if few := ", ".join(labels[place] for place in found.left_out):
        facts.append(f"without {few}: fewer than {FEWEST} seeds")
    text = (" > " if column.better == "higher" else " < ").join(texts)
    best = frozenset(groups[0] if len(groups) > 1 else ())
    return Ranking(f"{text} ({'; '.join(facts)})", best, found.seeds)


def may_rank(columns: Iterable[Column]) -> bool:
    """Return whether any two schemes have seeds enough to be put in an order."""
    return any(
        most_common(values_of(column.means.values())) >= FEWEST for column in columns
    )


def no_order(rankings: Iterable[Ranking]) -> list[str]:
    """Return a line that there is no order, if schemes have any seeds in common."""
    most = max(one.seeds for one in rankings)
    line = f"no order: {most} seed{'s' * (most != 1)}, {FEWEST} are needed"
    return [line] * bool(most)


def twins(means: Frame) -> dict[str, str]:
    """Return the schemes whose numbers are all those of another, each with that other.

    Two schemes are twins if every seed has the same numbers, to four digits. A scheme
    of one number throughout, such as a perfect score, has no twin. Of twins the scheme
    published first stands for all.
    """
    groups: dict[object, list[tuple[int, str]]] = {}
    for scheme, own in means.groupby("scheme"):
        known = {
            (mean.measure, mean.task, mean.quantity, mean.case, repr(mean.x), seed): (
                f"{value if abs(value) > NOTHING else 0:.4g}"
            )
            for mean in own.itertuples()
            for seed, value in mean.values.items()
        }
        if len({*known.values()}) > 1:
            years = [YEAR.search(source) for source in own["source"]]
            year = min(int(found[0]) if found else 9999 for found in years)
            groups.setdefault(frozenset(known.items()), []).append((year, scheme))
    ordered = [sorted(some) for some in groups.values()]
    return {twin: first for (_, first), *others in ordered for _, twin in others}


def floors_of(means: Frame) -> Frame:
    """Return the floors at each point, from their means of any schemes.

    Schemes of the same text and budget have the same floors. Where a table holds
    several texts or budgets, the settings in the labels of schemes distinguish floors.

    Returns:
        A row for each floor and point. `scheme` is the name of the floor, its case;
        `schemes` are those that were trained and tested on the same bytes as it.
    """
    points: dict[tuple[str, float], list[list[Mean]]] = {}
    for mean in means.itertuples(index=False):
        known = points.setdefault((mean.case, mean.x), [])
        fits = (some for some in known if all(_agree(mean, one) for one in some))
        if (some := next(fits, None)) is not None:
            some.append(mean)
        else:
            known.append([mean])
    rows = []
    for (name, _), known in points.items():
        for some in known:
            values = {seed: v for mean in some for seed, v in mean.values.items()}
            texts = [p for p in some[0].settings if all(p in m.settings for m in some)]
            several = len(known) > 1 and texts
            named = f"{name} [{', '.join(texts)}]" if several else name
            floor = with_values(some[0], dict(sorted(values.items())), scheme=named)
            schemes = frozenset(mean.scheme for mean in some)
            rows.append({**floor._asdict(), "schemes": schemes})
    return pd.DataFrame(rows, columns=[*means.columns, "schemes"])


def _agree(one: Mean, other: Mean) -> bool:
    """Return whether two means are of the same bytes, by the seeds that both have.

    Where they have none in common, the settings beside the labels of schemes decide.
    """
    common = one.values.keys() & other.values.keys()
    if not common:
        return one.settings == other.settings
    return all(one.values[seed] == other.values[seed] for seed in common)


def floor_lines(column: Column) -> Iterator[str]:
    """Yield lines on schemes of a column that are no better than their best floor.

    A scheme is better if its mean over common seeds is, and if the test against this
    floor, of all schemes that have it, shows a difference where seeds allow one.
    """
    models = [floor for floor in column.floors if floor.values]
    for group in dict.fromkeys(floor.schemes for floor in models):
        mine = {k: m for k, m in column.means.items() if k in group and m.values}
        own = [floor for floor in models if floor.schemes == group]
        best = min(own, key=lambda floor: column.sign * floor.mean)
        if not mine:
            continue
        array = values_of([best, *mine.values()])
        gains = column.sign * difference(array[:1], array[1:])
        p = adjusted_p_of(gains)
        gaps = np.nansum(gains, axis=1)  # above 0: better
        if not np.isnan(p).all():  # too few seeds show no difference
            p = np.nan_to_num(p, nan=1.0)
        below = [name for i, name in enumerate(mine) if gaps[i] <= 0 or p[i] > ALPHA]
        floor = f"better than the {best.scheme} at {column.name}"
        compared = np.isfinite(gains).any(axis=1).all()  # each has a common seed
        if len(mine) > 1 and compared and (gaps <= 0).all():
            yield f"no scheme scores {floor}"
        elif len(below) == len(mine) > 1:
            yield f"no scheme is shown to be {floor}"
        elif below:
            yield f"not shown to be {floor}: {', '.join(below)}"
