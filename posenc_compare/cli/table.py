"""The command that prints the tables of folders of records."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from posenc_compare.cli.console import NUMBERS, say, show_tables
from posenc_compare.cli.options import (
    Folders,
    Format,
    Formats,
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
    format: Formats = Format.table,
    out: Annotated[
        Path | None, typer.Option(help="Also write these tables to this folder.")
    ] = None,
) -> None:
    """Print the tables of runs from their records."""
    from posenc_compare.records.load import load_records
    from posenc_compare.records.selection import Selection
    from posenc_compare.show.differences import baseline_tables
    from posenc_compare.show.frame import numbers_of
    from posenc_compare.show.tables import write_tables

    _check(baseline, by, predict=predict)
    selection = Selection(schemes, measures, tasks, baseline)
    frame, records = None, []
    if by:  # labels need not distinguish these settings, as other files must
        tables = _tables_by(folders, by, selection)
    else:
        records = load_records(folders, say, arrays=False, selection=selection)
        if predict:
            frame, tables = _predictions(records)
        elif baseline:
            tables = baseline_tables(records, baseline)
        else:
            frame, tables = what_to_show(records, format)
    if baseline or by:
        frame = numbers_of(tables)
    show_tables(tables, format, frame)
    for path in write_tables(records, out, tables or None, frame) if out else ():
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


def what_to_show(
    records: "list[Record]", format: str
) -> "tuple[DataFrame | None, list[Table]]":
    """Return the means of records, or their tables, whichever the format shows."""
    from posenc_compare.show.frame import summary
    from posenc_compare.show.tables import all_tables

    if format in NUMBERS:
        return summary(records), []
    return None, all_tables(records)


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
    from posenc_compare.show.predictions import prediction_tables, predictions
    from posenc_compare.stats.correlation import FEWEST

    found = predictions(records)
    if found.empty:
        raise ConfigError(
            f"predict: records must hold {FEWEST} schemes or more with a measure "
            f"without training and a trained curve of one setting, and hold fewer; the "
            f"folder of a whole `run` would work"
        )
    return found, prediction_tables(found)
