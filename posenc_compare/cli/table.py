"""The command that prints the tables of folders of records."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from posenc_compare.cli.console import NUMBERS, say, show_numbers, show_parts
from posenc_compare.cli.options import (
    AllVersions,
    Folders,
    Format,
    Formats,
    OnlyMeasures,
    OnlySchemes,
    OnlyTasks,
)
from posenc_compare.errors import ConfigError

if TYPE_CHECKING:
    from posenc_compare.analysis.records.record import Record


def table(
    folders: Folders,
    schemes: OnlySchemes = "",
    measures: OnlyMeasures = "",
    tasks: OnlyTasks = "",
    all_versions: AllVersions = False,
    baseline: Annotated[
        str, typer.Option(help="Show differences of trained schemes from this one.")
    ] = "",
    columns: Annotated[
        str,
        typer.Option(help="Show these: comma-separated headings of tables, or globs."),
    ] = "",
    format: Formats = Format.table,
    out: Annotated[
        Path | None, typer.Option(help="Folder to write all tables to, besides.")
    ] = None,
) -> None:
    """Print the tables of runs again, from their records."""
    from posenc_compare.analysis.records.load import load_records
    from posenc_compare.analysis.records.selection import Selection
    from posenc_compare.analysis.show.baseline import baseline_tables
    from posenc_compare.analysis.show.tables import write_tables

    if schemes and baseline:  # by its label without settings
        schemes = f"{schemes},{baseline.partition(' [')[0]}"
    selection = Selection(schemes, measures, tasks, all_versions)
    records = load_records(folders, say, arrays=False, selection=selection)
    for name, given in (("a baseline", baseline), ("columns", columns)):
        if given and format in NUMBERS:
            raise ConfigError(
                f"format must be table, md or tex with {name}, got {format.value}"
            )
    if baseline:
        show_parts(baseline_tables(records, baseline, columns), format)
    else:
        show_tables(records, format, columns)
    for path in write_tables(records, out, columns) if out else ():
        say(f"wrote {path}")


def show_tables(records: "list[Record]", format: str, columns: str = "") -> None:
    """Print the tables of records; as JSON or CSV, the means and intervals of all."""
    from posenc_compare.analysis.show.means import summary
    from posenc_compare.analysis.show.tables import display_tables, without_result

    if format in NUMBERS:
        show_numbers(summary(records), format)
    else:
        tables = display_tables(records, columns)
        show_parts(tables + without_result(records), format)
