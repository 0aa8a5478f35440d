"""Tables, made from records alone.

`long_table` has a row per number, `summary` a row per quantity with mean and spread
over seeds and the keys of the records it came from, and `display_tables` are what a
reader sees: schemes down, headline quantities across.
"""

import math
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pandas as pd
from tabulate import tabulate

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
COLUMNS = 4  # quantities side by side in one displayed table


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


def long_table(records: Iterable[dict[str, Any]]) -> pd.DataFrame:
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
        for row in record["rows"]:
            unit = record["quantities"][row["quantity"]]["unit"]
            rows.append({**shared, **row, "unit": unit})
    frame = pd.DataFrame(rows, columns=LONG)
    return frame.astype({"x": "float64", "value": "float64"})


def summary(long: pd.DataFrame) -> pd.DataFrame:
    """Return mean, standard deviation and count over seeds of every quantity.

    `records` lists the keys of the records behind a row, `note` what they say.
    """
    groups = long.groupby(GROUP, dropna=False, sort=True)
    return groups.agg(
        mean=("value", "mean"),
        sd=("value", "std"),
        n=("value", "count"),
        note=("note", _notes),
        records=("record", lambda keys: " ".join(sorted(keys))),
    ).reset_index()


def display_tables(records: list[dict[str, Any]]) -> list[Display]:
    """Return the tables a reader sees, extrapolation first."""
    long = long_table(records)
    rows: list[dict[str, Any]] = summary(long).to_dict("records")
    facts = {
        (record["spec"]["measure"]["name"], name): quantity
        for record in records
        for name, quantity in record["quantities"].items()
    }
    seeds = len(set(long["seed"]))
    spread = f"mean ± standard deviation over {seeds} seeds" if seeds > 1 else "1 seed"
    curves, columns = [], []
    for (measure, name), quantity in sorted(facts.items()):
        heading = quantity["title"] or name
        # Rows without a quantity say why a whole measure failed.
        mine = [r for r in rows if r["measure"] == measure and r["quantity"] == name]
        failed = [r for r in rows if r["measure"] == measure and not r["quantity"]]
        if quantity["headline"] == "curve":
            points = sorted({row["x"] for row in mine if row["x"] == row["x"]})
            found = [
                (f"{x:g}", failed + [row for row in mine if row["x"] == x])
                for x in points
            ]
            title = f"{heading} by {quantity['x']} ({spread})"
            curves.append(_display(title, found, seeds, best_first=True))
        elif quantity["headline"]:
            case, x = quantity["headline"]
            chosen = [
                row
                for row in mine
                if row["case"] == case
                and (row["x"] == x or (x is None and math.isnan(row["x"])))
            ]
            columns.append((heading, failed + chosen))
    title = f"Measures without training ({spread})"
    pieces = [columns[i : i + COLUMNS] for i in range(0, len(columns), COLUMNS)]
    return curves + [_display(title, p, seeds, best_first=False) for p in pieces]


def write_tables(records: list[dict[str, Any]], folder: Path) -> list[Path]:
    """Write rows.csv, table.csv, table.md and table.tex; return their paths."""
    long = long_table(records)
    tables = display_tables(records)
    texts = {
        "rows.csv": long.to_csv(index=False),
        "table.csv": summary(long).to_csv(index=False),
        "table.md": as_markdown(tables),
        "table.tex": as_latex(tables),
    }
    for name, text in texts.items():
        (folder / name).write_text(text, encoding="utf-8")
    return [folder / name for name in texts]


def as_markdown(tables: list[Display]) -> str:
    """Return Markdown."""
    parts = []
    for table in tables:
        body = [[cell.replace("|", "\\|") for cell in row] for row in table.body]
        head = [cell.replace("|", "\\|") for cell in table.head]
        text = tabulate(body, head, tablefmt="github", disable_numparse=True)
        parts.append(f"**{table.title}**\n\n{text}\n")
    return "\n".join(parts)


def as_latex(tables: list[Display]) -> str:
    """Return LaTeX tables for the package booktabs."""
    parts = []
    for table in tables:
        text = tabulate(
            table.body, table.head, tablefmt="latex_booktabs", disable_numparse=True
        )
        parts.append(
            f"\\begin{{table}}\n\\centering\n\\caption{{{table.title}}}\n{text}\n"
            "\\end{table}\n"
        )
    return "\n".join(parts).replace("±", r"$\pm$")


def _display(
    title: str,
    columns: list[tuple[str, list[dict[str, Any]]]],
    seeds: int,
    best_first: bool,
) -> Display:
    """Lay out summary rows under their headings.

    Args:
        title: of the table.
        columns: heading and summary rows of each column; of two rows of a scheme
            the later one shows.
        seeds: of the whole comparison; a mean over fewer says so.
        best_first: put the lowest number of the last column first; where there is
            none, the column before decides. Otherwise schemes go by name.
    """
    cells = [{row["scheme"]: row for row in rows} for _, rows in columns]
    schemes = sorted({scheme for column in cells for scheme in column})

    def rank(scheme: str) -> list[tuple[bool, float]]:
        means = [column.get(scheme, {"mean": math.nan})["mean"] for column in cells]
        return [(math.isnan(mean), mean) for mean in reversed(means)]

    if best_first:
        schemes.sort(key=rank)
    body = [
        [scheme, *(_text(column.get(scheme), seeds) for column in cells)]
        for scheme in schemes
    ]
    return Display(title, ["scheme", *(heading for heading, _ in columns)], body)


def _text(row: dict[str, Any] | None, seeds: int) -> str:
    if row is None:
        return "n/a"
    if not row["n"]:
        return row["note"] or "n/a"
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
