"""A report as a small static site: a page for each scheme and task, and a first one.

Pages load nothing and lead to each other by relative links, so that the folder can be
opened from disk or hosted as it is.
"""

import warnings
from collections.abc import Iterator
from pathlib import Path

from posenc_compare.analysis.core.files import read_file, write_file
from posenc_compare.analysis.records.load import Warn
from posenc_compare.analysis.records.record import Record
from posenc_compare.analysis.show.contents import (
    Contents,
    Task,
    contents_of,
    families_of,
    verdicts_of,
)
from posenc_compare.analysis.show.figures import plates_of
from posenc_compare.analysis.show.page import render
from posenc_compare.analysis.show.sections import place
from posenc_compare.analysis.show.tasks import by_task
from posenc_compare.analysis.show.verdict import warnings_of
from posenc_compare.errors import StoreError

OURS = b'<meta name="generator" content="posenc-compare">'
LONG = 1 << 28  # bytes of a page


def write_site(
    records: list[Record],
    title: str,
    folder: Path,
    warn: Warn = warnings.warn,
    *,
    plots: bool = True,
) -> list[Path]:
    """Write the pages of records to a folder; return their paths, the first one first.

    Args:
        records: as `load_records` returns them.
        title: of the first page.
        folder: made if it is missing. Pages of an earlier site for schemes and tasks
            that are no longer there go; files of others stay.
        warn: called with a line for every plot that is not on its page.
        plots: whether to draw any.

    Raises:
        StoreError: if a page cannot be written.
    """
    written = []
    try:
        for name, text in _pages(records, title, warn, plots=plots):
            path = folder / name
            path.parent.mkdir(parents=True, exist_ok=True)
            write_file(path, text.encode())
            written.append(path)
        for kind in ("schemes", "tasks"):
            for path in {*(folder / kind).glob("*.html")} - {*written}:
                if OURS in read_file(path, LONG):
                    path.unlink()
    except OSError as error:
        raise StoreError(f"{folder}: must take a site, got {error}") from error
    return written


def _pages(
    records: list[Record], title: str, warn: Warn, *, plots: bool
) -> Iterator[tuple[str, str]]:
    """Yield name and text of every page."""
    plates = plates_of(records, warn) if plots else []
    contents = contents_of(records, plates, site=True)
    yield "index.html", render("report.html", title, inside=False, **contents)
    for card in contents["cards"]:
        name = contents["links"][card.label]
        yield name, render("scheme.html", card.label, home=title, card=card)
    behind = by_task(records)
    for task in contents["tasks"]:
        text = _task_page(task, behind[task.name], title, contents, warn, plots=plots)
        yield task.address, text


def _task_page(
    task: Task,
    records: list[Record],
    home: str,
    contents: Contents,
    warn: Warn,
    *,
    plots: bool,
) -> str:
    """Return the page of a task, with the plots of its records alone."""
    rest = place(plates_of(records, warn) if plots else (), task.tables, task.sections)
    return render(
        "task.html",
        task.name,
        home=home,
        task=task,
        plots=rest,
        verdicts=verdicts_of(task.tables, task.sections),
        warnings=warnings_of(records),
        families=families_of(records),
        links={label: f"../{address}" for label, address in contents["links"].items()},
    )
