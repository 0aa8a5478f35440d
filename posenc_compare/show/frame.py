"""Records as one frame with a row per number, and its means over seeds with intervals.

A record of a curve may hold `document_bits`, the mean of every window at every x of the
curve, and `window_documents`, the document that each window is from. A mean over seeds
that read the same windows then has an interval over both.
"""

import math
from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import replace
from functools import cached_property
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from posenc_compare.records.load import DOCUMENTS
from posenc_compare.records.quantities import (
    ONE_LAYER,
    Curve,
    Floor,
    Headline,
    Row,
    View,
    has_note,
    joined,
)
from posenc_compare.records.record import Record
from posenc_compare.records.sanitize import SHORT, clean
from posenc_compare.show.fit import keys_of
from posenc_compare.show.format import Cell, Table
from posenc_compare.stats.documents import crossed_half_width
from posenc_compare.stats.intervals import half_width
from posenc_compare.stats.rounding import rounded_away, settled

SAME = 1e-4  # relative; records keep five digits of a window, and all of their mean
COUNTED = ("bytes", "tokens", "needles", "numbers", "channels", "0 or 1")  # units
STEPPED = ("effective_length", "context_used", "mastered_length")  # tested lengths
Floats = NDArray[np.float64]
Frame = Any  # a pandas table; type checkers lose its methods after one step
Mean = Any  # a row of the frame of means, whose attributes are its columns

PLACE = ["scheme", "family", "measure", "task", "quantity", "case", "x"]
LONG = [*PLACE, "seed", "value", "unit", "note", "status", "record"]
SUMMARY = [*PLACE, "unit", "mean", "half_width", "over_documents", "n", "note"]
SUMMARY += ["records"]
MEANS = [*SUMMARY, "source", "settings", "repeatable", "values", "documents"]
MEANS += ["windows"]
BESIDE = ["source", "settings", "kind", "repeatable", "windows"]  # of rows


def of_network(record: Record) -> Record:
    """Return a record without numbers of one layer of several.

    These say nothing of the network.
    """
    rows = tuple(row for row in record.rows if not has_note(row.note, ONE_LAYER))
    return record if len(rows) == len(record.rows) else replace(record, rows=rows)


def without_floors(record: Record) -> Record:
    """Return a record without the numbers of models that no scheme is part of."""
    floors = {name for name, view in record.views.items() if isinstance(view, Floor)}
    rows = tuple(row for row in record.rows if row.quantity not in floors)
    return replace(record, rows=rows)


class Numbers(list[Record]):
    """Records, as `load_records` returns them, with frames that are made once."""

    @cached_property
    def rows(self) -> Frame:
        """Return a row per number; a record without numbers has one with the reason.

        Beside `LONG` there are `source` and `settings` of records, the `kind` of their
        settings, whether a number is `repeatable`, and `windows` of documents. The
        column `x` is where a curve's point lies, `record` the key of its file.
        """
        rows = [row for record in self for row in _rows(record)]
        frame = pd.DataFrame(rows, columns=[*LONG, *BESIDE])
        return frame.astype({"x": "float64", "value": "float64", "repeatable": bool})

    @cached_property
    def means(self) -> Frame:
        """Return the mean of every quantity of every scheme, sorted by their names.

        A record without a result has a row with the reason and no values. Beside the
        columns of `summary` there are `source`, the paper of the scheme; `settings`
        that distinguish the label from others; `values` by seed; `documents` that the
        interval covers besides seeds; `windows`, the scores of the windows by seed, and
        their documents. In `records` are keys.
        """
        rows = self.rows.sort_values("seed", kind="stable")  # for the last digit
        groups = rows.groupby([*PLACE, "unit", "kind"], dropna=False).ngroup()
        behind: dict[int, list[Any]] = defaultdict(list)
        for group, row in zip(groups, rows.itertuples(index=False), strict=True):
            behind[group].append(row)
        means = pd.DataFrame([_mean(behind[i]) for i in sorted(behind)], columns=MEANS)
        kinds = dict.fromkeys(("x", "mean", "half_width", "over_documents"), "float64")
        return means.astype({**kinds, "repeatable": bool})

    @property
    def summary(self) -> pd.DataFrame:
        """Return mean, half widths of 95 % intervals and count over seeds.

        `half_width` is over seeds, and `over_documents` over seeds and documents if
        that is known; NaN for one seed or none. `records` lists the keys of the records
        behind a row, `note` what they say.
        """
        keys = self.means["records"].map(lambda found: " ".join(sorted(found)))
        return self.means.assign(records=keys)[SUMMARY]

    @cached_property
    def of_networks(self) -> "Numbers":
        """Return those without numbers of one layer of several."""
        part = Numbers(map(of_network, self))
        part.rows, part.means = (
            some[~some["note"].map(lambda note: has_note(note, ONE_LAYER)).astype(bool)]
            for some in (self.rows, self.means)
        )
        return part

    def among(self, records: list[Record]) -> "Numbers":
        """Return those of some of the records, with all seeds of what is among them."""
        part, keys = Numbers(records), {record.key for record in records}
        part.rows = self.rows[self.rows["record"].isin(keys)]
        part.means = self.means[[not keys.isdisjoint(k) for k in self.means["records"]]]
        return part


def usable(records: Iterable[Record], measure: str) -> list[Record]:
    """Return the records of a measure that have a result, by seed.

    Records of one label and task are taken to share all settings but the seed, as those
    of `records.load` do.
    """
    fit = [r for r in records if r.status == "ok" and r.measure == measure]
    return sorted(fit, key=lambda record: record.spec.seed)


def numbers_of(records: list[Record]) -> Numbers:
    """Return records with their frames; those that have some keep them."""
    return records if isinstance(records, Numbers) else Numbers(records)


def cell_table(tables: Iterable[Table]) -> Frame:
    """Return a row for every cell of tables: its place, its numbers, and its note.

    A cell with a text alone, in a column that does not distinguish rows, has that as a
    note.
    """
    rows = [
        {
            "table": table.name,
            "row": row[0],
            "column": name,
            "value": cell.mean,
            "half_width": cell.half_width,
            "over_documents": cell.over_documents,
            "lowest": cell.ends[0] if cell.ends else math.nan,
            "highest": cell.ends[1] if cell.ends else math.nan,
            "seeds": cell.n,
            "better_seeds": cell.wins,
            "p": cell.p,
            "alike": cell.alike,
            "note": cell.note,
        }
        for table in tables
        for row in table.rows
        for place, (name, one) in enumerate(zip(table.head, row, strict=True))
        if isinstance(one, Cell) or (one and place >= keys_of(table))
        for cell in [one if isinstance(one, Cell) else Cell(note=one)]
    ]
    return pd.DataFrame(rows)


def views_of(records: Iterable[Record]) -> dict[tuple[str, str], View]:
    """Return the views of all quantities by measure and name, in their order."""
    found = {
        (record.measure, name): view
        for record in records
        for name, view in record.views.items()
    }
    return {place: found[place] for place in sorted(found)}


def of_quantity(means: Frame, measure: str, name: str) -> Frame:
    """Return the means of one quantity of a measure.

    Without a name these are the reasons why a whole measure failed.
    """
    return means[(means["measure"] == measure) & (means["quantity"] == name)]


def of_headline(means: Frame, measure: str, view: Headline) -> dict[str, Mean]:
    """Return what a headline shows by scheme: a mean of its case at its point.

    Where a whole measure failed, the reason stands for the mean.
    """
    own = of_quantity(means, measure, view.quantity.name)
    own = own[own["case"] == clean(view.case, SHORT)]  # as rows have it
    own = own[own["x"].isna() if view.x is None else own["x"] == view.x]
    return by_scheme(of_quantity(means, measure, "")) | by_scheme(own)


def rows_of(means: Frame) -> list[Mean]:
    """Return means one by one."""
    return [*means.itertuples(index=False)]


def by_scheme(means: Frame) -> dict[str, Mean]:
    """Return means by scheme."""
    return {mean.scheme: mean for mean in rows_of(means)}


def over_seeds(means: Frame) -> Frame:
    """Return means whose interval over seeds is printed, whatever else is known."""
    return means.assign(documents=0)


def is_count(mean: float, unit: str) -> bool:
    """Return whether a mean is a whole number of things."""
    return unit.partition(",")[0] in COUNTED and mean.is_integer()


def with_values(mean: Mean, values: dict[int, float], **changes: Any) -> Mean:
    """Return the mean of other values, with their interval over seeds."""
    plain = {"documents": 0, "windows": None, "over_documents": math.nan}
    return mean._replace(**_of_values(values), **plain | changes)


def less(one: Mean, other: Mean) -> Mean:
    """Return the mean of one number less another, over the seeds that both have."""
    both = [seed for seed in one.values if seed in other.values]
    found = {seed: one.values[seed] - other.values[seed] for seed in both}
    width = math.nan
    if both and one.windows and other.windows:
        (own, documents), (theirs, same) = one.windows, other.windows
        if np.array_equal(documents, same):
            scores = [own[seed] - theirs[seed] for seed in both]
            width = crossed_half_width(scores, documents)
    return with_values(one, found, over_documents=width)


def values_of(means: Iterable[Mean]) -> Floats:
    """Return the values of means, `(mean, seed)`; NaN where one lacks a seed."""
    found = [mean.values for mean in means]
    seeds = sorted({seed for values in found for seed in values})
    return np.array([[values.get(s, np.nan) for s in seeds] for values in found])


def cell_of(mean: Mean, best: bool = False, interval: bool = True) -> Cell:
    """Return a mean for a table; a spread that is rounding is none."""
    if not mean.values:
        return Cell(note=mean.note)
    values = [*mean.values.values()]
    stepped = mean.quantity in STEPPED
    # Of equal values there is no interval, as of one value alone.
    without = stepped or settled(values) or not interval
    return Cell(
        mean.mean,
        math.nan if without else mean.half_width,
        len(values),
        mean.note,
        rounding=any(values) and not rounded_away(values).any(),
        best=best,
        over_documents=mean.over_documents,
        by_document=mean.documents > 0 and not without,
        ends=(min(values), max(values)) if stepped else None,
        whole=is_count(mean.mean, mean.unit),
    )


def _rows(record: Record) -> Iterator[dict[str, object]]:
    """Yield the numbers of a record, or a row with the reason why there are none."""
    shared = {
        "scheme": record.label,
        "family": record.family,
        "measure": record.measure,
        "task": record.task,
        "seed": record.spec.seed,
        "status": record.status,
        "record": record.key,
        "source": record.source,
        "settings": record.settings,
        "kind": record.spec.kind,
        "repeatable": True,
    }
    if record.status != "ok":
        note = f"{record.status}: {record.error}"
        yield {**shared, "quantity": "", "case": "", "unit": "", "note": note}
        return
    for row in record.rows:
        quantity = record.quantities[row.quantity]
        facts = {"unit": quantity.unit, "repeatable": quantity.repeatable}
        yield {**vars(row), **shared, **facts, "windows": _windows(record, row)}


def _mean(rows: list[Any]) -> dict[str, object]:
    """Return the mean of a number of one scheme, given by seed."""
    known = [row for row in rows if not math.isnan(row.value)]
    found = _of_values({row.seed: row.value for row in known})
    windows, width = None, math.nan
    if documents := _documents([row.windows for row in known]):
        windows = {row.seed: row.windows[0] for row in known}, known[0].windows[1]
        width = crossed_half_width([*windows[0].values()], windows[1])
    return {
        **rows[0]._asdict(),
        **found,
        "windows": windows,
        "over_documents": width,
        "documents": documents,
        "note": joined(row.note for row in rows),
        "records": tuple(row.record for row in rows),
    }


def _of_values(values: dict[int, float]) -> dict[str, Any]:
    """Return values with their number, their mean and its half width."""
    numbers = [*values.values()]
    return {
        "values": values,
        "n": len(values),
        "mean": float(np.mean(numbers)) if numbers else math.nan,
        "half_width": half_width(numbers),
    }


def _documents(windows: list[tuple[Floats, Floats] | None]) -> int:
    """Return how many documents all seeds read.

    It is 0 if they did not read the same ones, or only one: its spread is unknown.
    """
    owners = [found[1] for found in windows if isinstance(found, tuple)]
    if not owners or len(owners) < len(windows):
        return 0
    count = len(np.unique(owners[0]))
    same = all(np.array_equal(owners[0], other) for other in owners)
    return count if same and count > 1 else 0


def _windows(record: Record, row: Row) -> tuple[Floats, Floats] | None:
    """Return the scores of the windows behind a point, and their documents.

    Of several curves of a record, windows belong to the one whose numbers are their
    means.
    """
    view = record.views.get(row.quantity)
    if row.case or row.x is None or not isinstance(view, Curve):
        return None
    own = [r for r in record.rows if r.quantity == row.quantity and not r.case]
    points = sorted({r.x for r in own if r.x is not None})
    scores, owners = map(record.arrays.get, DOCUMENTS)
    try:
        bits = np.array(scores[points.index(row.x)], np.float64)  # type: ignore[index]
        documents = np.array(owners, np.float64)
    except (TypeError, IndexError, ValueError):  # absent, or of another shape
        return None
    if bits.ndim != 1 or bits.shape != documents.shape or not len(bits):
        return None
    known = np.isfinite([bits, documents]).all()
    near = math.isclose(bits.mean(), row.value or 0.0, rel_tol=SAME)
    return (bits, documents) if known and near else None
