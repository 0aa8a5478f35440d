"""The command that prints the tables of folders of records."""

import re
from fnmatch import fnmatchcase
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from posenc_compare.cli.console import NUMBERS, say, show_tables
from posenc_compare.cli.options import (
    Folders,
    Format,
    Formats,
    NoFloors,
    OnlyMeasures,
    OnlySchemes,
    OnlyTasks,
)
from posenc_compare.errors import ConfigError

if TYPE_CHECKING:
    from pandas import DataFrame

    from posenc_compare.records.record import Record
    from posenc_compare.records.selection import Selection
    from posenc_compare.show.format import Table
    from posenc_compare.show.frame import Numbers


def table(
    folders: Folders,
    schemes: OnlySchemes = "",
    measures: OnlyMeasures = "",
    tasks: OnlyTasks = "",
    baseline: Annotated[
        str,
        typer.Option(help="Show how trained scores differ from those of this scheme."),
    ] = "",
    by: Annotated[
        str,
        typer.Option(
            help="Show how trained scores and rankings change with settings: "
            "comma-separated, such as steps, norm or corpus."
        ),
    ] = "",
    predict: Annotated[
        bool,
        typer.Option(
            "--predict",
            metavar="",
            help="Correlate training-free measures with trained scores.",
        ),
    ] = False,
    only: Annotated[
        str, typer.Option(help="Print only the tables with this text in their title.")
    ] = "",
    columns: Annotated[
        str,
        typer.Option(
            help="Print only columns with these headings: comma-separated, or globs."
        ),
    ] = "",
    no_floors: NoFloors = False,
    format: Formats = Format.table,
    size: Annotated[
        str,
        typer.Option(
            help="Width of LaTeX tables for a paper: column or page; wider tables are "
            "split."
        ),
    ] = "",
    out: Annotated[
        Path | None, typer.Option(help="Also write these tables to this folder.")
    ] = None,
) -> None:
    """Print the tables of runs from their records."""
    from posenc_compare.records.load import load_records
    from posenc_compare.records.selection import Selection
    from posenc_compare.show.differences import baseline_tables
    from posenc_compare.show.frame import Numbers, cell_table, without_floors
    from posenc_compare.show.tables import write_tables

    _check(baseline, by, predict=predict)
    if size and format != Format.tex and not out:
        raise ConfigError(f"size {size}: must have LaTeX; --format tex would work")
    selection = Selection(schemes, measures, tasks, baseline)
    frame, numbers = None, Numbers([])
    if by:  # labels need not distinguish these settings, as other files must
        tables = _tables_by(folders, by, selection)
    else:
        records = load_records(folders, say, arrays=False, selection=selection)
        if no_floors:
            records = [*map(without_floors, records)]
            say("no floors: the tables do not compare schemes with n-gram models")
        numbers = Numbers(records)
        if predict:
            frame, tables = _predictions(records)
        elif baseline:
            tables = baseline_tables(numbers, baseline)
        else:  # numbers without tables are those of all tables
            shown = Format.table if only or columns else format
            frame, tables = what_to_show(numbers, shown)
    if only:
        tables = _titled(tables, only)
    if columns:
        tables = _with_columns(tables, columns)
    if baseline or by or ((only or columns) and not predict):
        frame = cell_table(tables)
    show_tables(tables, format, frame, size)
    if out:
        rows = Numbers([]) if only or columns else numbers
        for path in write_tables(rows, out, tables or None, frame, size):
            say(f"wrote {path}")


def _check(baseline: str, by: str, *, predict: bool) -> None:
    """Check that one view is asked for."""
    views = {"--baseline": baseline, "--by": by, "--predict": predict}
    given = [name for name, value in views.items() if value]
    if len(given) > 1:
        raise ConfigError(
            f"table: must have one of {', '.join(views)}, got {' and '.join(given)}; "
            f"{given[0]} alone would work"
        )


def _plain(name: str) -> str:
    """Return a title or heading without arrows, which readers do not type."""
    return re.sub(" [↓↑]", "", name)


def _with_columns(tables: "list[Table]", text: str) -> "list[Table]":
    """Return the tables that have some of the columns, without their others.

    The columns that distinguish rows stay.
    """
    from posenc_compare.show.fit import keys_of
    from posenc_compare.show.format import of_columns

    headings = [[*map(_plain, table.head)] for table in tables]
    every = [*dict.fromkeys(name for names in headings for name in names)]
    wanted, parts = set[str](), text.split(",")
    while parts:
        for size in range(len(parts), 0, -1):  # a heading may hold a comma
            one = ",".join(parts[:size]).strip()
            fit = [n for n in every if fnmatchcase(n.casefold(), one.casefold())]
            if fit:
                wanted, parts = wanted | {*fit}, parts[size:]
                break
        else:
            raise ConfigError(
                f"columns {parts[0].strip()[:80]!r}: must be the heading of a column; "
                f"there are {'; '.join(every)}"
            )
    found = []
    for table, names in zip(tables, headings, strict=True):
        keys = keys_of(table)
        places = [i for i, name in enumerate(names) if i < keys or name in wanted]
        if wanted & {*names[keys:]}:
            found.append(of_columns(table, places))
    if not found:
        raise ConfigError(
            f"columns {text[:80]!r}: must name one besides those that identify rows; "
            f"there are {'; '.join(every)}"
        )
    return found


def _titled(tables: "list[Table]", text: str) -> "list[Table]":
    """Return the tables with a text in their names; arrows and case do not count."""
    part = _plain(text).casefold()
    found = [table for table in tables if part in _plain(table.name).casefold()]
    if not found:
        names = "; ".join(_plain(table.name) for table in tables)
        raise ConfigError(
            f"only {text[:80]!r}: must be part of the title of a table; there are "
            f"{names}"
        )
    return found


def what_to_show(
    numbers: "Numbers", format: str
) -> "tuple[DataFrame | None, list[Table]]":
    """Return the means of records, or their tables, whichever the format shows."""
    from posenc_compare.show.tables import all_tables

    if format in NUMBERS:
        return numbers.summary, []
    return None, all_tables(numbers)


def _tables_by(folders: list[Path], by: str, selection: "Selection") -> "list[Table]":
    from posenc_compare.records.load import load_by
    from posenc_compare.show.sensitivity import sensitivity_tables

    names = [*dict.fromkeys(name.strip() for name in by.split(","))]
    groups = load_by(folders, names, say, selection)
    tables = sensitivity_tables(", ".join(names), groups)
    if not tables:
        labels = sorted({record.label for some in groups.values() for record in some})
        raise ConfigError(
            f"by {by}: a scheme must have two values or more with all other settings "
            f"equal, got {', '.join(labels[:4])}{', ...' * (len(labels) > 4)}"
        )
    return tables


def _predictions(records: "list[Record]") -> "tuple[DataFrame, list[Table]]":
    from posenc_compare.show.predictions import FEWEST, prediction_tables, predictions

    found = predictions(records)
    if found.empty:
        raise ConfigError(
            f"predict: records must hold {FEWEST} schemes or more with a measure "
            f"without training and a trained curve of one setting, and hold fewer; the "
            f"folder of a whole `run` would work"
        )
    return found, prediction_tables(found)
