"""The report: one HTML file of tables, plots, settings and versions.

It is made from records alone and loads nothing. Its policy allows the one style and
the one script that stand in it, by their hashes, and images that are part of it. The
template escapes every text.
"""

import base64
import hashlib
import warnings
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from importlib.resources import files
from pathlib import Path, PurePath

from jinja2 import Environment, PackageLoader, StrictUndefined

from posenc_compare import __version__
from posenc_compare.errors import StoreError
from posenc_compare.records.files import write_file
from posenc_compare.records.load import Warn
from posenc_compare.records.record import Record
from posenc_compare.records.sanitize import clean
from posenc_compare.registry import PLOTS
from posenc_compare.show import about
from posenc_compare.show.format import Table, cell_text
from posenc_compare.show.plots.drawing import DPI, images
from posenc_compare.show.scorecard import scorecard
from posenc_compare.show.setting import coverage
from posenc_compare.show.tables import display_tables, task_tables, without_result

PACKAGE, FOLDER = "posenc_compare.show", "web"
TABLES = 4  # whose best schemes are named
INCH = 144  # pixels of a page for an inch of paper: text is read from further away


@dataclass(frozen=True)
class Plate:
    """A plot of a page, which stands below the tables of its measure, if it has one."""

    name: str
    caption: str
    measure: str
    image: bytes  # PNG

    @property
    def width(self) -> int:
        """Return its width in pixels, where there is room."""
        pixels = int.from_bytes(self.image[16:20])  # in the header of a PNG
        return round(pixels / DPI * INCH)

    @property
    def address(self) -> str:
        """Return the image as a link."""
        return f"data:image/png;base64,{base64.b64encode(self.image).decode()}"


@dataclass
class Section:
    """A table of a page and the plots below it."""

    id: str
    table: Table
    plates: list[Plate] = field(default_factory=list)


def write_report(
    records: list[Record],
    title: str,
    path: Path,
    warn: Warn = warnings.warn,
    *,
    plots: bool = True,
) -> None:
    """Write the report of records to a file.

    Args:
        records: as `load_records` returns them.
        title: of the page.
        path: of the file; it is replaced if it is there.
        warn: called with a line for every plot that is not in it.
        plots: whether to draw any.
    """
    text = report_html(records, title, plates_of(records, warn) if plots else ())
    try:
        write_file(path, text.encode())
    except OSError as error:
        raise StoreError(f"{path}: must take a report, got {error}") from error


def report_html(records: list[Record], title: str, plates: Sequence[Plate] = ()) -> str:
    """Return the page of records, as `load_records` returns them."""
    tables = enumerate(display_tables(records))
    sections = [Section(f"table-{i}", table) for i, table in tables]
    if card := scorecard(records):
        sections.insert(0, Section("scorecard", card))
    tasks = {
        task: [Section(f"task-{i}-{j}", table) for j, table in enumerate(own)]
        for i, (task, own) in enumerate(task_tables(records).items())
    }
    web = files(PACKAGE).joinpath(FOLDER)
    style, script = (
        web.joinpath(name).read_text("utf-8") for name in ("style.css", "script.js")
    )
    environment = Environment(
        loader=PackageLoader(PACKAGE, FOLDER),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    return environment.get_template("report.html").render(
        title=clean(title),
        version=__version__,
        style=style,
        script=script,
        policy=policy(style, script),
        text=cell_text,
        coverage=coverage(records),
        made=_made(records),
        best=[one for one in sections if one.table.best][:TABLES],
        warnings=about.warnings_of(records),
        plots=place(plates, sections),
        sections=sections,
        tasks=tasks,
        missing=without_result(records),
        about=about.about_tables(records),
    )


def place(plates: Iterable[Plate], sections: Sequence[Section]) -> list[Plate]:
    """Put plots below the last table of their measure; return those without one."""
    rest: list[Plate] = []
    for plate in plates:
        fit = [one for one in sections if plate.measure in one.table.measures]
        (fit[-1].plates if fit else rest).append(plate)
    return rest


def plates_of(records: list[Record], warn: Warn = warnings.warn) -> list[Plate]:
    """Draw the plots of a page; warn with a line for every one that is not drawn."""
    found = []
    for file, image in images(records, warn).items():
        name = PurePath(file).stem
        facts = PLOTS.entry(name).facts
        found.append(Plate(name, facts["caption"], facts.get("measure", ""), image))
    return found


def policy(style: str, script: str) -> str:
    """Return what a page with this style and this script may do: nothing more."""
    return (
        f"default-src 'none'; img-src data:; style-src '{_hash(style)}'; "
        f"script-src '{_hash(script)}'; base-uri 'none'; form-action 'none'"
    )


def _made(records: list[Record]) -> str:
    """Return versions of the package, and the day of the last cell, if records say."""
    made = {record.provenance.text("posenc_compare") for record in records}
    versions = ", ".join(sorted(made - {""}))
    last = max(record.provenance.text("started")[:10] for record in records)
    return f"posenc-compare {versions}{f'; {last}' if last else ''}"


def _hash(text: str) -> str:
    digest = hashlib.sha256(text.encode()).digest()
    return f"sha256-{base64.b64encode(digest).decode()}"
