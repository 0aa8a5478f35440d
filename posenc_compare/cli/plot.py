"""The command that draws the plots of a folder of records."""

from posenc_compare.cli.console import say, tell
from posenc_compare.cli.options import Folder, Plugins, Written


def plot(folder: Folder, out: Written = None, plugin: Plugins = None) -> None:
    """Draw the plots of a run again, from its records."""
    from posenc_compare.analysis.records.load import load_records
    from posenc_compare.analysis.show.plots import draw_all

    for path in draw_all(load_records(folder, say), out or folder, say):
        tell(str(path))
