"""The command that writes the report of a folder of records."""

from posenc_compare.cli.console import say, tell
from posenc_compare.cli.options import Folder, Plugins, Written


def report(folder: Folder, out: Written = None, plugin: Plugins = None) -> None:
    """Write one HTML file with tables, plots and provenance of a run."""
    from posenc_compare.analysis.records.load import load_records
    from posenc_compare.analysis.show.report import write_report

    path = out or folder / "report.html"
    write_report(load_records(folder, say), folder.resolve().name, path, say)
    tell(str(path))
