"""Tables, made from records alone.

`long_table` has a row per number, `summary` a row per quantity with mean and spread
over seeds and the keys of the records it came from, and `display_tables` are what a
reader sees: schemes down, headline quantities across. `without_result` lists the
cells that are in no mean, with their reasons.
"""

import csv
import math
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pandas as pd

from posenc_compare.analysis.core.files import write_file
from posenc_compare.analysis.core.sanitize import clean
from posenc_compare.analysis.records.load import Record, kind_of
from posenc_compare.analysis.show.format import (
    csv_text,
    latex,
    latex_table,
    markdown,
    markdown_table,
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
REASON = 120  # characters of a reason in the cell of a displayed table


@dataclass(frozen=True)
class Display:
    """A table as a reader sees it.

    Attributes:
        title: above the table.
        head: column headings, the scheme's first.
        body: text of the cells, a row per scheme.
    """

    title: str
    head: list[str]
    body: list[list[str]]


def long_table(records: Iterable[Record]) -> pd.DataFrame:
    """Return a row per number; a record without numbers gives one that says why.

    The column `x` is where a curve's point lies, `record` the key of its file.
    """
    rows = []
    for record in records:
        spec = record["spec"]
        shared = {
            "scheme": record["label"],
            "family": record["family"],
            "measure": spec["measure"]["name"],
            "seed": spec["setting"]["seed"],
            "status": record["status"],
            "record": record["key"],
            "unit": "",
        }
        if record["status"] != "ok":
            note = f"{record['status']}: {record['error']}"
            rows.append({**shared, "quantity": "", "case": "", "note": note})
            continue
        for row in record["rows"]:
            unit = record["quantities"][row["quantity"]]["unit"]
            rows.append({**row, **shared, "unit": unit})
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


def display_tables(records: list[Record]) -> list[Display]:
    """Return the tables a reader sees, curves first."""
    rows: list[dict[str, Any]] = summary(long_table(records)).to_dict("records")
    facts = {
        (kind_of(record), record["spec"]["measure"]["name"], name): quantity
        for record in records
        for name, quantity in record["quantities"].items()
    }
    tables = []
    columns: dict[str, list[Column]] = {kind: [] for kind in TITLES}
    for (kind, measure, name), quantity in sorted(facts.items()):
        heading = quantity["title"] or name
        # Rows without a quantity say why a whole measure failed.
        mine = [r for r in rows if r["measure"] == measure and r["quantity"] == name]
        failed = [r for r in rows if r["measure"] == measure and not r["quantity"]]
        if quantity["headline"] == "curve":
            title = f"{heading} by {quantity['x']}"
            columns_of = _by_x(measure, mine, failed)
            tables.append(_display(title, columns_of, records, quantity["better"]))
        elif quantity["headline"] == "cases":
            title = f"{heading}, by {quantity['x']}"
            curves = [
                row
                for row in rows
                if row["measure"] == measure
                and row["quantity"]
                and facts[kind, measure, row["quantity"]]["headline"] == "curve"
            ]
            mine = [
                *_as_trained(mine, curves),
                *({**r, "scheme": f"{r['scheme']} + {r['case']}"} for r in mine),
            ]
            own = {row["scheme"] for row in mine}
            if own:
                columns_of, better = _by_x(measure, mine, []), quantity["better"]
                tables.append(_display(title, columns_of, records, better, own))
        elif quantity["headline"]:
            case, x = quantity["headline"]
            chosen = [
                row
                for row in mine
                if row["case"] == case
                and (row["x"] == x or (x is None and math.isnan(row["x"])))
            ]
            columns[kind].append(Column(heading, measure, failed + chosen))
    for kind, found in columns.items():
        title = TITLES[kind]
        grids = {
            r["spec"]["setting"].get("grid", "") for r in records if kind_of(r) == kind
        }
        if len(grids) == 1 and grids != {""}:
            title += f" on a grid of {clean(str(*grids), 40)}"
        for i in range(0, len(found), COLUMNS):
            piece = found[i : i + COLUMNS]
            tables.append(_display(title, piece, records))
    return tables


def _as_trained(
    read: list[dict[str, Any]], curves: list[dict[str, Any]]
) -> list[dict[str, Any]]:
    """Return, of the same schemes and points, what a network scores as trained."""
    schemes, points = ({row[name] for row in read} for name in ("scheme", "x"))
    return [
        {**row, "scheme": f"{row['scheme']}, as trained"}
        for row in curves
        if row["scheme"] in schemes and row["x"] in points
    ]


def without_result(records: list[Record]) -> list[Display]:
    """Return a table of the cells without a result, or nothing if all have one."""
    body = [
        [
            record["label"],
            record["spec"]["measure"]["name"],
            str(record["spec"]["setting"]["seed"]),
            record["status"],
            record["error"],
        ]
        for record in records
        if record["status"] != "ok"
    ]
    head = ["scheme", "measure", "seed", "status", "reason"]
    title = f"Cells without a result ({coverage(records)})"
    return [Display(title, head, sorted(body))] if body else []


def coverage(records: list[Record]) -> str:
    """Say how many cells have a result, and what became of the others.

    Example:
        >>> coverage([{"status": "ok"}, {"status": "lost"}])
        '1 of 2 cells ok, 1 lost'
    """
    statuses = [record["status"] for record in records]
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


def as_markdown(tables: list[Display]) -> str:
    """Return Markdown."""
    return "\n".join(
        f"**{markdown(table.title)}**\n\n{markdown_table(table.head, table.body)}\n"
        for table in tables
    )


def as_latex(tables: list[Display]) -> str:
    """Return LaTeX tables for the package booktabs."""
    return "\n".join(
        f"\\begin{{table}}\n\\centering\n\\caption{{{latex(table.title)}}}\n"
        f"{latex_table(table.head, table.body)}\n\\end{{table}}\n"
        for table in tables
    )


@dataclass(frozen=True)
class Column:
    """A column of a displayed table: of two rows of a scheme the later one shows."""

    heading: str
    measure: str
    rows: list[dict[str, Any]]


def _by_x(
    measure: str, rows: list[dict[str, Any]], failed: list[dict[str, Any]]
) -> list[Column]:
    """Return a column for each point of a curve, or one that says what failed."""
    points = sorted({row["x"] for row in rows if row["x"] == row["x"]})
    return [
        Column(f"{x:g}", measure, failed + [row for row in rows if row["x"] == x])
        for x in points
    ] or [Column("result", measure, failed)]


def _display(
    title: str,
    columns: list[Column],
    records: list[Record],
    better: str = "neither",
    schemes: Iterable[str] | None = None,
) -> Display:
    """Lay out summary rows under their headings.

    A mean over fewer seeds than the whole comparison has says so.

    Args:
        title: of the table; how many cells it rests on is added.
        columns: from left to right.
        records: of the whole comparison.
        better: lower or higher puts the best number of the last column first; where
            there is none, the column before decides. Otherwise schemes go by name.
        schemes: rows of the table; every scheme that has a record, if not given.
    """
    measures = {column.measure for column in columns}
    behind = [r for r in records if r["spec"]["measure"]["name"] in measures]
    seeds = len({record["spec"]["setting"]["seed"] for record in records})
    spread = f"mean ± standard deviation over {seeds} seeds" if seeds > 1 else "1 seed"
    cells = [{row["scheme"]: row for row in column.rows} for column in columns]
    labels = sorted(schemes or {record["label"] for record in behind})

    def rank(scheme: str) -> list[tuple[bool, float]]:
        means = [column.get(scheme, {"mean": math.nan})["mean"] for column in cells]
        sign = -1 if better == "higher" else 1
        return [
            (True, 0.0) if math.isnan(mean) else (False, sign * mean)
            for mean in reversed(means)
        ]

    if better != "neither":
        labels.sort(key=rank)
    return Display(
        f"{title} ({spread}; {coverage(behind)})",
        ["scheme", *(column.heading for column in columns)],
        [
            [scheme, *(_text(column.get(scheme), seeds) for column in cells)]
            for scheme in labels
        ],
    )


def _text(row: dict[str, Any] | None, seeds: int) -> str:
    if row is None:
        return "n/a"
    if not row["n"]:
        note = row["note"] or "n/a"
        return note if len(note) <= REASON else f"{note[: REASON - 1]}…"
    spread = f" ± {number(row['sd'])}" if row["n"] > 1 and row["sd"] > 0 else ""
    fewer = f" (n = {row['n']})" if row["n"] < seeds else ""
    return f"{number(row['mean'])}{spread}{fewer}"


def number(value: float) -> str:
    """Write a number to three significant digits, four from 1000 on."""
    if value != 0 and not 1e-3 <= abs(value) < 1e5:
        return f"{value:.1e}"
    return f"{value:.3f}" if abs(value) < 10 else f"{value:.4g}"


def _notes(notes: pd.Series) -> str:
    return "; ".join(dict.fromkeys(note for note in notes if note))
