"""The command that draws the plots of folders of records."""

from pathlib import Path
from typing import Annotated

import typer

from posenc_compare.cli.console import say, tell
from posenc_compare.cli.options import (
    Folders,
    NoFloors,
    OnlyMeasures,
    OnlySchemes,
    OnlyTasks,
    Plugins,
)


def plot(
    folders: Folders,
    plots: Annotated[str, typer.Option(help="Comma-separated plots or globs.")] = "all",
    schemes: OnlySchemes = "",
    measures: OnlyMeasures = "",
    tasks: OnlyTasks = "",
    format: Annotated[
        str, typer.Option(help="Comma-separated image formats: png, svg, pdf.")
    ] = "png",
    size: Annotated[
        str,
        typer.Option(
            help="Figure width for a paper: column or page. Also omits the note on "
            "settings above the plot."
        ),
    ] = "",
    no_floors: NoFloors = False,
    out: Annotated[
        Path | None, typer.Option(help="Folder to write to; default: the first folder.")
    ] = None,
    plugin: Plugins = None,
) -> None:
    """Draw the plots of runs from their records.

    The exit code is 1 if a plot could not be drawn although its records exist.
    """
    from posenc_compare.records.load import load_records
    from posenc_compare.records.selection import Selection
    from posenc_compare.registry import PLOTS
    from posenc_compare.show.frame import without_floors
    from posenc_compare.show.plots.drawing import draw_all

    failed: list[str] = []

    def warn(line: str) -> None:
        say(line)
        failed.append(line)

    selection = Selection(schemes, measures, tasks)
    records = load_records(folders, say, selection=selection)
    records = [*map(without_floors, records)] if no_floors else records
    paths = draw_all(records, out or folders[0], warn, plots, format, size)
    for path in paths:
        tell(str(path))
    if not paths:
        measured = ", ".join(sorted({r.spec.measure.name for r in records if r.rows}))
        facts = [PLOTS.entry(name).facts for name in PLOTS.select_all(plots)]
        shown = sorted({str(one["measure"]) for one in facts if one["measure"]})
        say(
            f"nothing drawn for plots {plots}: they show records of "
            f"{', '.join(shown) or 'other measures'}, and here are those of "
            f"{measured or 'no measure'}"
        )
    if failed:
        raise typer.Exit(1)
