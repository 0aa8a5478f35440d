"""The command that draws the plots of folders of records."""

from pathlib import Path
from typing import Annotated

import typer

from posenc_compare.cli.console import say, tell
from posenc_compare.cli.options import (
    AllVersions,
    Folders,
    OnlyMeasures,
    OnlySchemes,
    OnlyTasks,
    Plugins,
)


def plot(
    folders: Folders,
    plots: Annotated[str, typer.Option(help="Comma-separated names or globs.")] = "all",
    schemes: OnlySchemes = "",
    measures: OnlyMeasures = "",
    tasks: OnlyTasks = "",
    all_versions: AllVersions = False,
    format: Annotated[
        str, typer.Option(help="Comma-separated: png, svg, pdf.")
    ] = "png,svg",
    out: Annotated[
        Path | None, typer.Option(help="Where to write instead of the first folder.")
    ] = None,
    plugin: Plugins = None,
) -> None:
    """Draw the plots of runs again, from their records."""
    from posenc_compare.analysis.records.load import load_records
    from posenc_compare.analysis.records.selection import Selection
    from posenc_compare.analysis.show.plots import draw_all

    selection = Selection(schemes, measures, tasks, all_versions)
    records = load_records(folders, say, selection=selection)
    for path in draw_all(records, out or folders[0], say, plots, format):
        tell(str(path))
