"""The command that writes the report of folders of records."""

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
    Written,
)
from posenc_compare.errors import ConfigError


def report(
    folders: Folders,
    schemes: OnlySchemes = "",
    measures: OnlyMeasures = "",
    tasks: OnlyTasks = "",
    all_versions: AllVersions = False,
    out: Written = None,
    site: Annotated[
        Path | None,
        typer.Option(help="Folder to write a static site to, in place of one file."),
    ] = None,
    plugin: Plugins = None,
) -> None:
    """Write runs as one HTML file or a static site."""
    from posenc_compare.analysis.records.load import load_records
    from posenc_compare.analysis.records.selection import Selection
    from posenc_compare.analysis.show.report import write_report
    from posenc_compare.analysis.show.site import write_site

    if out and site:
        raise ConfigError("report must have --out FILE or --site FOLDER, got both")
    selection = Selection(schemes, measures, tasks, all_versions)
    records = load_records(folders, say, selection=selection)
    title = " + ".join(folder.resolve().name for folder in folders)
    if site:
        tell(str(write_site(records, title, site, say)[0]))
        return
    path = out or folders[0] / "report.html"
    write_report(records, title, path, say)
    tell(str(path))
