"""Tables, made from records alone.

`long_table` has a row per number, `summary` a row per quantity with mean and spread
over seeds and the keys of the records it came from, and `display_tables` are what a
reader sees: schemes down, headline quantities across. `without_result` lists the
cells that are in no mean, with their reasons.
"""

import csv
import math
from collections.abc import Iterable
from dataclasses import asdict, dataclass, replace
from pathlib import Path

import pandas as pd

from posenc_compare.analysis.core.files import write_file
from posenc_compare.analysis.core.quantities import (
    Better,
    ByCase,
    Curve,
    Headline,
    Quantity,
    View,
)
from posenc_compare.analysis.core.sanitize import clean
from posenc_compare.analysis.records.record import Record
from posenc_compare.analysis.show.format import (
    Cell,
    Table,
    as_latex,
    as_markdown,
    csv_text,
    unguard,
)
from posenc_compare.errors import StoreError

LONG = [
    "scheme",
    "family",
    "measure",
    "quantity",
    "case",
    "x",
    "seed",
    "value",
    "unit",
    "note",
    "status",
    "record",
]
GROUP = ["scheme", "family", "measure", "quantity", "case", "x", "unit"]
NUMBERS = {"x", "seed", "value", "mean", "sd", "n"}
COLUMNS = 4  # quantities side by side in one displayed table
TITLES = {"probe": "Measures without training", "training": "Measures with training"}


@dataclass(frozen=True)
class Mean:
    """A row of the summary.

    Attributes:
        scheme: its label.
        measure: its name.
        quantity: its name; empty where a whole measure failed, and `cell` says why.
        case: the condition it was measured under.
        x: where on a curve; NaN off it.
        cell: the number.
    """

    scheme: str
    measure: str
    quantity: str
    case: str
    x: float
    cell: Cell


@dataclass(frozen=True)
class Column:
    """A column of a displayed table: of two means of a scheme the later one shows."""

    heading: str
    measure: str
    means: list[Mean]


def long_table(records: Iterable[Record]) -> pd.DataFrame:
    """Return a row per number; a record without numbers gives one that says why.

    The column `x` is where a curve's point lies, `record` the key of its file.
    """
    rows = []
    for record in records:
        shared = {
            "scheme": record.label,
            "family": record.family,
            "measure": record.measure,
            "seed": record.spec.seed,
            "status": record.status,
            "record": record.key,
            "unit": "",
        }
        if record.status != "ok":
            note = f"{record.status}: {record.error}"
            rows.append({**shared, "quantity": "", "case": "", "note": note})
            continue
        for row in record.rows:
            unit = record.quantities[row.quantity].unit
            rows.append({**asdict(row), **shared, "unit": unit})
    frame = pd.DataFrame(rows, columns=LONG)
    return frame.astype({"x": "float64", "value": "float64"})


def summary(long: pd.DataFrame) -> pd.DataFrame:
    """Return mean, standard deviation and count over seeds of every quantity.

    `records` lists the keys of the records behind a row, `note` what they say.
    """
    ordered = long.sort_values("seed", kind="stable")  # keys decide no last digit
    groups = ordered.groupby(GROUP, dropna=False, sort=True)
    return groups.agg(
        mean=("value", "mean"),
        sd=("value", "std"),
        n=("value", "count"),
        note=("note", _notes),
        records=("record", lambda keys: " ".join(sorted(keys))),
    ).reset_index()


def display_tables(records: list[Record]) -> list[Table]:
    """Return the tables a reader sees, curves first."""
    means, views = _means(records), _views(records)
    tables = [
        table
        for (_, measure, _), view in views.items()
        if (table := _table_of(view, measure, means, records, views)) is not None
    ]
    for kind, title in TITLES.items():
        columns = [
            _headline(view, measure, means)
            for (known, measure, _), view in views.items()
            if known == kind and isinstance(view, Headline)
        ]
        for i in range(0, len(columns), COLUMNS):
            title_here = f"{title}{_grid(records, kind)}"
            tables.append(_layout(title_here, columns[i : i + COLUMNS], records))
    return tables


Views = dict[tuple[str, str, str], View]
"""By kind of setting, measure and quantity, in the order of display."""


def _views(records: list[Record]) -> Views:
    found = {
        (record.spec.kind, record.measure, name): view
        for record in records
        for name, view in record.views.items()
    }
    return {place: found[place] for place in sorted(found)}


def _means(records: list[Record]) -> list[Mean]:
    """Return the summary of records, still in numbers."""
    table = summary(long_table(records))
    return [
        Mean(
            row["scheme"],
            row["measure"],
            row["quantity"],
            row["case"],
            row["x"],
            Cell(
                row["mean"] if row["n"] else None,
                row["sd"] if row["n"] > 1 else None,
                row["n"],
                row["note"],
            ),
        )
        for row in table.to_dict("records")
    ]


def _table_of(
    view: View, measure: str, means: list[Mean], records: list[Record], views: Views
) -> Table | None:
    """Return the table that a view has of its own, or None."""
    quantity = view.quantity
    mine = _of(quantity, measure, means)
    match view:
        case Curve():
            title = f"{quantity.heading} by {quantity.x}"
            columns = _by_x(measure, mine, _failures(measure, means))
            own = {r.label for r in records if r.measure == measure} - _without(mine)
            return _layout(title, columns, records, quantity.better, own)
        case ByCase():
            title = f"{quantity.heading}, by {quantity.x}"
            curves = [
                mean
                for (_, name, _), other in views.items()
                if name == measure and isinstance(other, Curve)
                for mean in _of(other.quantity, measure, means)
            ]
            mine = [
                *_as_trained(mine, curves),
                *(replace(m, scheme=f"{m.scheme} + {m.case}") for m in mine),
            ]
            if not mine:
                return None
            columns, own = _by_x(measure, mine, []), {mean.scheme for mean in mine}
            return _layout(title, columns, records, quantity.better, own)
    return None


def _headline(view: Headline, measure: str, means: list[Mean]) -> Column:
    """Return the column of one row of a quantity."""
    chosen = [
        mean
        for mean in _of(view.quantity, measure, means)
        if mean.case == view.case
        and (mean.x == view.x or (view.x is None and math.isnan(mean.x)))
    ]
    failed = _failures(measure, means)
    return Column(view.quantity.heading, measure, failed + chosen)


def _of(quantity: Quantity, measure: str, means: list[Mean]) -> list[Mean]:
    return [m for m in means if (m.measure, m.quantity) == (measure, quantity.name)]


def _without(means: list[Mean]) -> set[str]:
    """Return the schemes that have reasons alone, and no number."""
    return {m.scheme for m in means} - {m.scheme for m in means if m.cell.n}


def _failures(measure: str, means: list[Mean]) -> list[Mean]:
    """Return those that say why a whole measure failed."""
    return [mean for mean in means if mean.measure == measure and not mean.quantity]


def _as_trained(read: list[Mean], curves: list[Mean]) -> list[Mean]:
    """Return, of the same schemes and points, what a network scores as trained."""
    schemes, points = {mean.scheme for mean in read}, {mean.x for mean in read}
    return [
        replace(mean, scheme=f"{mean.scheme}, as trained")
        for mean in curves
        if mean.scheme in schemes and mean.x in points
    ]


def _grid(records: list[Record], kind: str) -> str:
    """Say on which grid all records of a kind were made, if it is one."""
    settings = [r.spec.setting for r in records if r.spec.kind == kind]
    grids = {setting.get("grid", "") for setting in settings}
    if len(grids) != 1 or grids == {""}:
        return ""
    return f" on a grid of {clean(str(*grids), 40)}"


def without_result(records: list[Record]) -> list[Table]:
    """Return a table of the cells without a result, or nothing if all have one."""
    rows = sorted(
        [r.label, r.measure, str(r.spec.seed), r.status, r.error]
        for r in records
        if r.status != "ok"
    )
    head = ["scheme", "measure", "seed", "status", "reason"]
    title = f"Cells without a result ({coverage(records)})"
    return [Table(title, head, [[*row] for row in rows])] if rows else []


def coverage(records: Iterable[Record]) -> str:
    """Say how many cells have a result, and what became of the others.

    It reads like `1 of 2 cells ok, 1 lost`.
    """
    statuses = [record.status for record in records]
    others = sorted(set(statuses) - {"ok"})
    parts = [f"{statuses.count('ok')} of {len(statuses)} cells ok"]
    return ", ".join(parts + [f"{statuses.count(other)} {other}" for other in others])


def write_tables(records: list[Record], folder: Path) -> list[Path]:
    """Write rows.csv, table.csv, table.md and table.tex; return their paths.

    Raises:
        StoreError: if one cannot be written.
    """
    long = long_table(records)
    tables = display_tables(records) + without_result(records)
    texts = {
        "rows.csv": as_csv(long),
        "table.csv": as_csv(summary(long)),
        "table.md": as_markdown(tables),
        "table.tex": as_latex(tables),
    }
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for name, text in texts.items():
            write_file(folder / name, text.encode())
    except OSError as error:
        raise StoreError(f"{folder}: must take tables, got {error}") from error
    return [folder / name for name in texts]


def read_table(path: Path) -> pd.DataFrame:
    """Read rows.csv or table.csv as they were before they were written."""
    with path.open(newline="", encoding="utf-8") as file:
        head, *body = csv.reader(file)
    frame = pd.DataFrame(body, columns=head)
    for name in head:
        as_number = name in NUMBERS
        frame[name] = (
            pd.to_numeric(frame[name]) if as_number else frame[name].map(unguard)
        )
    return frame


def as_csv(frame: pd.DataFrame) -> str:
    """Return CSV that `read_table` reads; a missing number is an empty cell."""
    cells = frame.astype(object).where(frame.notna(), None)
    return csv_text(list(frame.columns), cells.to_numpy().tolist())


def _by_x(measure: str, means: list[Mean], failed: list[Mean]) -> list[Column]:
    """Return a column for each point of a curve, or one that says what failed."""
    points = sorted({mean.x for mean in means if mean.x == mean.x})
    return [
        Column(f"{x:g}", measure, failed + [mean for mean in means if mean.x == x])
        for x in points
    ] or [Column("result", measure, failed)]


def _layout(
    title: str,
    columns: list[Column],
    records: list[Record],
    better: Better = "neither",
    schemes: Iterable[str] | None = None,
) -> Table:
    """Lay out means under their headings.

    Args:
        title: of the table; how many cells it rests on is added.
        columns: from left to right.
        records: of the whole comparison.
        better: lower or higher puts the best number of the last column first; where
            there is none, the column before decides. Otherwise schemes go by name.
        schemes: rows of the table; every scheme that has a record, if not given.
    """
    measures = {column.measure for column in columns}
    behind = [record for record in records if record.measure in measures]
    seeds = len({record.spec.seed for record in records})
    spread = f"mean ± standard deviation over {seeds} seeds" if seeds > 1 else "1 seed"
    cells = [{mean.scheme: mean.cell for mean in column.means} for column in columns]
    labels = sorted(schemes or {record.label for record in behind})

    def rank(scheme: str) -> list[tuple[bool, float]]:
        means = [column.get(scheme, Cell()).mean for column in cells]
        sign = -1 if better == "higher" else 1
        return [
            (True, 0.0) if mean is None else (False, sign * mean)
            for mean in reversed(means)
        ]

    if better != "neither":
        labels.sort(key=rank)
    return Table(
        f"{title} ({spread}; {coverage(behind)})",
        ["scheme", *(column.heading for column in columns)],
        [[label, *(column.get(label, Cell()) for column in cells)] for label in labels],
        seeds,
    )


def _notes(notes: pd.Series) -> str:
    return "; ".join(dict.fromkeys(note for note in notes if note))
