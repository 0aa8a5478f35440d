"""The command that writes the report of folders of records."""

from posenc_compare.cli.console import say, tell
from posenc_compare.cli.options import (
    Folders,
    OnlyMeasures,
    OnlySchemes,
    OnlyTasks,
    Plugins,
    Written,
)


def report(
    folders: Folders,
    schemes: OnlySchemes = "",
    measures: OnlyMeasures = "",
    tasks: OnlyTasks = "",
    out: Written = None,
    plugin: Plugins = None,
) -> None:
    """Write a report on runs as one HTML file."""
    from posenc_compare.records.load import load_records
    from posenc_compare.records.selection import Selection
    from posenc_compare.show.report import write_report

    selection = Selection(schemes, measures, tasks)
    records = load_records(folders, say, selection=selection)
    title = " + ".join(folder.resolve().name for folder in folders)
    path = out or folders[0] / "report.html"
    write_report(records, title, path, say)
    tell(str(path))
