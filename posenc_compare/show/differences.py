"""Differences of trained schemes from one of them, seed by seed.

The one is a baseline, or a scheme whose place among all others is asked for.
"""

import math
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from posenc_compare.errors import ConfigError
from posenc_compare.records.quantities import Better, Curve, Headline, Quantity
from posenc_compare.records.record import Record
from posenc_compare.records.sanitize import clean
from posenc_compare.show import frame
from posenc_compare.show.format import Cell, Table
from posenc_compare.show.frame import Floats, Mean, Numbers, numbers_of
from posenc_compare.show.ranking import Column, by_family_of
from posenc_compare.show.setting import texts_of, training_of
from posenc_compare.show.tables import by_x, without_result
from posenc_compare.show.tasks import by_task, prefix
from posenc_compare.stats.intervals import LEVEL, half_width
from posenc_compare.stats.level import ALPHA, FEWEST
from posenc_compare.stats.pairs import adjusted_p_of
from posenc_compare.stats.rounding import difference
from posenc_compare.validate import hint

ALIKE = 0.02  # bits per byte; differences below it are small beside published ones
NEAR = 5  # schemes on either side of a place that are shown
REASON = 200  # letters of one that are shown
SCORE = ("extrapolation", "bits_per_byte")  # that ranks go by


@dataclass(frozen=True)
class Difference:
    """Scores of another scheme minus those of the baseline."""

    values: Floats  # one for each common seed
    p: float  # of a difference, adjusted for all other schemes; NaN for too few seeds

    @property
    def mean(self) -> float:
        """Return the mean over common seeds; NaN where there are none."""
        return float(self.values.mean()) if len(self.values) else math.nan

    def cell(self, better: Better = "neither", *, margin: float = math.nan) -> Cell:
        """Return it for a table, with the seeds that are better, and with p.

        Scores are alike if the interval lies within a margin above and below 0.
        """
        n, wins = len(self.values), None
        if n and better != "neither":
            sign = 1 if better == "higher" else -1
            wins = int((sign * self.values > 0).sum())
        mean = self.mean if n else None
        width = half_width(self.values)
        alike = None if math.isnan(margin) else abs(self.mean) + width <= margin
        return Cell(mean, width, n, wins=wins, p=self.p, alike=alike)


def differences(one: Mean, others: Sequence[Mean]) -> list[Difference]:
    """Return the differences of other schemes from one, tested as one family.

    The p values are those of a step-down max-T test of all of them.
    """
    if not others:
        return []
    values = frame.values_of([one, *others])
    rows = difference(values[1:], values[0])
    return [
        Difference(row[np.isfinite(row)], float(p))
        for row, p in zip(rows, adjusted_p_of(rows), strict=True)
    ]


def baseline_tables(records: list[Record], baseline: str) -> list[Table]:
    """Return a table for every outcome of trained networks over several seeds.

    Outcomes of one seed, such as costs, are shown only if there are no others.
    A cell is the mean difference from the baseline with its 95 % interval, in how many
    of the common seeds the scheme is better, and the p value of a difference, adjusted
    for all schemes of the column.
    """
    numbers = numbers_of(records)
    tasks = by_task(numbers)
    labels = {record.label for some in tasks.values() for record in some}
    if baseline not in labels:
        there = ", ".join(sorted(labels)[:8])
        there = f"among {there}" if there else "trained, and no network was"
        raise ConfigError(
            f"baseline must be {there}, got {baseline[:80]!r}{hint(baseline, labels)}"
        )
    tables = []
    for task, some in tasks.items():
        texts: dict[str, set[tuple[str, str]]] = {}
        for record in some:
            texts.setdefault(record.label, set()).update(texts_of([record]))
        other_text = {k for k, own in texts.items() if own != texts.get(baseline)}
        for title, quantity, columns in _outcomes(numbers.among(some)):
            better = quantity.better
            own = [c.means[baseline] for c in columns if baseline in c.means]
            seeds = [mean.n for mean in own if mean.quantity]  # which failures lack
            families = {k: mean.family for c in columns for k, mean in c.means.items()}
            labels = by_family_of(families, families.keys() - {baseline})
            if labels and seeds:
                cells = [
                    _cells(c, labels, baseline, quantity, other_text) for c in columns
                ]
                shown = [cell for own in cells for cell in own.values()]
                spread = "without intervals"
                if any(cell.half_width >= 0 for cell in shown):  # which may be NaN
                    interval = f"{LEVEL:.0%} interval over paired seeds"
                    spread = f"± half width of its {interval}"
                if quantity.name in frame.STEPPED:
                    spread = "with its range over seeds"
                alike = any(cell.alike for cell in shown)
                table = Table(
                    f"{prefix(task)}{title}: difference from {baseline}",
                    ["scheme", *(column.name for column in columns)],
                    [[label, *(column[label] for column in cells)] for label in labels],
                    max(seeds),
                    (
                        f"{better} is better; * p ≤ {ALPHA:g}: step-down max-T test "
                        f"against the baseline, adjusted for the schemes shown in a "
                        f"column, with at least {FEWEST} common seeds",
                        *[f"alike: the interval lies within ± {ALIKE}"] * alike,
                    ),
                    note=f"{spread}; seeds that are better; p",
                )
                tables.append(table)
    if not tables:
        shown = [record for some in tasks.values() for record in some]
        reasons = [r.error for r in shown if r.label == baseline and r.error]
        fault = "another trained scheme must be shown, and none is"
        if reasons and len({record.label for record in shown}) > 1:
            why = clean(reasons[0], REASON)
            fault = f"{baseline} must have a number, and has none ({why})"
        raise ConfigError(f"differences from {baseline}: {fault}")
    return [table for table in tables if table.seeds != 1] or tables


def _outcomes(numbers: Numbers) -> Iterator[tuple[str, Quantity, list[Column]]]:
    """Yield title, quantity and columns of what has a better end, curves first."""
    means, views = numbers.means, frame.views_of(numbers).items()
    for (measure, name), view in sorted(
        views, key=lambda item: not isinstance(item[1], Curve)
    ):
        quantity = view.quantity
        if quantity.better == "neither":
            continue
        if isinstance(view, Curve):
            own = frame.of_quantity(means, measure, name)
            named = [(m.scheme, m) for m in frame.rows_of(own[own["case"] == ""])]
            failed = frame.of_quantity(means, measure, "")
            columns = by_x(measure, named, quantity.better, failed)
            yield f"{quantity.heading} by {quantity.x}", quantity, columns
        elif isinstance(view, Headline):
            own = frame.of_headline(means, measure, view)
            yield quantity.heading, quantity, [Column(quantity.heading, measure, own)]


def _cells(
    column: Column,
    labels: list[str],
    baseline: str,
    quantity: Quantity,
    other_text: set[str],
) -> dict[str, Cell]:
    """Return every scheme's cell in a column; of schemes of another text, a reason."""
    means = column.means
    if baseline not in means or not means[baseline].n:
        return dict.fromkeys(labels, Cell(note=f"{baseline} has no number"))
    found = {k: Cell(note=means[k].note if k in means else "") for k in labels}
    found |= {k: Cell(note="of another text") for k in other_text & found.keys()}
    known = [k for k in labels if k in means and means[k].n and k not in other_text]
    compared = differences(means[baseline], [means[k] for k in known])
    for label, one in zip(known, compared, strict=True):
        found[label] = Cell(note="no common seed")
        if len(one.values):
            margin = ALIKE if quantity.unit == "bits per byte" else math.nan
            whole = frame.is_count(one.mean, quantity.unit)
            cell = one.cell(quantity.better, margin=margin)
            width = frame.less(means[label], means[baseline]).over_documents
            found[label] = replace(cell, whole=whole, over_documents=width)
            if quantity.name in frame.STEPPED:
                ends = float(one.values.min()), float(one.values.max())
                found[label] = replace(found[label], half_width=math.nan, ends=ends)
    return found


def rank_table(records: list[Record], own: str) -> Table:
    """Return the neighbours of a scheme by its score at its longest test with one.

    There must be trainings of the scheme and of another.
    """
    curves = _curves(records)
    first, last = min(curves[own]), _end(curves[own])
    ends = [*dict.fromkeys((first, last))]
    compared = {x: _compared(curves, own, x) for x in ends}
    leads = {}  # how far `own` is ahead, over common seeds; if it has none, scores
    for x in ends:
        leads[x] = {own: 0.0, **{k: one.mean for k, one in compared[x].items()}}
        if not curves[own][x].values:
            leads[x] = {k: curve[x].mean for k, curve in curves.items() if x in curve}

    def score(name: str) -> list[float]:
        found = (leads[x].get(name, math.nan) for x in (last, first))
        return [math.inf if math.isnan(one) else one for one in found]

    ranked = sorted(sorted(curves), key=score)
    at = ranked.index(own)
    scored = [k for k in ranked if math.isfinite(score(k)[0])]
    placed = own in scored and len(scored) > 1
    rows: list[list[str | Cell]] = []
    for i in range(max(0, at - NEAR), min(at + NEAR + 1, len(ranked))):
        name = ranked[i]
        number = str(i + 1) if placed and name in scored else ""
        row: list[str | Cell] = [number, name]
        for x in ends:
            mean, other = curves[name].get(x), compared[x].get(name)
            row.append(frame.cell_of(mean, interval=False) if mean else "")
            row.append(other.cell() if other else "" if name == own else Cell())
        rows.append(row)
    mine = [r for r in records if r.label == own and r.measure == "extrapolation"]
    mine = [record for record in mine if record.status == "ok"] or mine
    lines = [_sentence(x, compared[x].values()) for x in ends]
    lines.append(f"{own}: {training_of(mine)}")
    longest = curves[own][max(curves[own])]
    if last < longest.x:
        why = f" ({longest.note})" if longest.note else ""
        lines.append(f"ranks go by {last:g}: {own} has no score beyond{why}")
    for x in ends:
        none = [k for k in ranked if x not in curves[k] or not curves[k][x].values]
        if none:
            lines.append(f"without a score at {x:g}: {', '.join(none)}")
    found = [one for some in compared.values() for one in some.values()]
    several = any(len(one.values) > 1 for one in found)
    paired = "; its 95 % interval is over paired seeds and not adjusted"
    lines += [
        f"difference: the other minus {own}, so a positive number means that {own} is "
        f"better{paired * several}",
        f"p: step-down max-T test, adjusted within a column; * p ≤ {ALPHA:g}",
        f"scores: means over the seeds that a scheme shares with {own}; neighbours "
        f"without a difference have no ranking, and equal scores are in the order of "
        f"names",
    ]
    rank = f"rank {at + 1} of {len(scored)}" if placed else "no rank"
    return Table(
        f"{own}: {rank} by bits per byte at {last:g}",
        ["", "scheme", *(text for x in ends for text in (f"at {x:g}", "difference"))],
        rows,
        max(mean.n for mean in curves[own].values()),
        tuple(lines),
    )


def unranked_table(records: Iterable[Record], own: str) -> Table:
    """Return the cells without a result of a scheme that no training placed."""
    some = [record for record in records if record.label == own]
    counts = Counter(record.status for record in some if record.task)
    total = counts.total()
    why = ", ".join(f"{n} of {total} trainings {s}" for s, n in counts.items())
    title = f"{own}: no rank: {why or 'no training has a record'}"
    for table in without_result(some):
        return replace(table, name=title)
    return Table(title, ["scheme"], [[own]])


def at_the_end(records: list[Record], own: str) -> tuple[float, dict[str, Difference]]:
    """Return the longest test that a scheme has a score of, and differences there.

    They are the scores of other schemes less its own.
    """
    curves = _curves(records)
    x = _end(curves[own])
    return x, _compared(curves, own, x)


def _end(curve: Mapping[float, Mean]) -> float:
    """Return the longest test with a score, or the longest if none has one."""
    return max([x for x, mean in curve.items() if mean.values] or curve)


def _curves(records: list[Record]) -> dict[str, dict[float, Mean]]:
    """Return the scores of schemes by test length."""
    curves: dict[str, dict[float, Mean]] = {}
    means = frame.of_quantity(numbers_of(records).means, *SCORE)
    for mean in frame.rows_of(means[means["case"] == ""]):
        curves.setdefault(mean.scheme, {})[mean.x] = mean
    return curves


def _compared(
    curves: Mapping[str, Mapping[float, Mean]], own: str, x: float
) -> dict[str, Difference]:
    """Return the difference of every other scheme that has a mean at a point."""
    others = {k: c[x] for k, c in curves.items() if k != own and x in c}
    found = differences(curves[own][x], [*others.values()])
    return dict(zip(others, found, strict=True))


def _sentence(x: float, found: Iterable[Difference]) -> str:
    """Return how many schemes a scheme is significantly ahead of, and behind."""
    tested = [one for one in found if not math.isnan(one.p)]
    if not tested:
        return f"at {x:g}: no test, {FEWEST} common seeds are needed"
    ahead = sum(one.p <= ALPHA and one.mean > 0 for one in tested)
    behind = sum(one.p <= ALPHA and one.mean < 0 for one in tested)
    return (
        f"at {x:g}: significantly better than {ahead} of {len(tested)}, worse than "
        f"{behind}; no difference shown for {len(tested) - ahead - behind}"
    )
