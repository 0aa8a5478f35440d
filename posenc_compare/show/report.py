"""The report: one HTML file of tables, plots, settings and versions.

It is made from records alone and loads nothing. Its policy allows the one style and
the one script that stand in it, by their hashes, and images that are part of it. The
template escapes every text.
"""

import base64
import hashlib
import warnings
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from importlib.resources import files
from itertools import combinations
from pathlib import Path, PurePath

from jinja2 import Environment, PackageLoader, StrictUndefined

from posenc_compare.errors import StoreError
from posenc_compare.records.load import Warn
from posenc_compare.records.record import Facts, Record, Scalar
from posenc_compare.records.sanitize import clean
from posenc_compare.registry import PLOTS, SETTINGS
from posenc_compare.settings.presets import PRESETS
from posenc_compare.show.format import Cell, Table, cell_text, number
from posenc_compare.show.frame import numbers_of
from posenc_compare.show.plots.drawing import images
from posenc_compare.show.ranking import by_family_of
from posenc_compare.show.scorecard import scorecard
from posenc_compare.show.setting import coverage
from posenc_compare.show.tables import display_tables, without_result
from posenc_compare.stats.level import FEWEST
from posenc_compare.validate import write_file
from posenc_compare.version import __version__

PACKAGE, FOLDER = "posenc_compare.show", "web"
TABLES = 4  # whose best schemes are named
MANY = 6  # different values of a setting that are listed one by one
QUICK = PRESETS["quick"].training.steps


@dataclass(frozen=True)
class Plate:
    """A plot of a page, which stands below the tables of its measure, if it has one."""

    name: str
    caption: str
    measure: str
    image: bytes  # PNG

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
    """Write the report of records, as `load_records` returns them, to a file."""
    numbers = numbers_of(records)
    text = report_html(numbers, title, plates_of(numbers, warn) if plots else ())
    try:
        write_file(path, text.encode())
    except OSError as error:
        raise StoreError(f"{path}: must take a report, got {error}") from error


def report_html(
    records: list[Record],
    title: str,
    plates: Sequence[Plate] = (),
    first: Iterable[Table] = (),
) -> str:
    """Return the page of records, as `load_records` returns them.

    Tables `first` stand before its own.
    """
    numbers = numbers_of(records)
    tables = enumerate(display_tables(numbers))
    sections = [Section(f"table-{i}", table) for i, table in tables]
    if card := scorecard(numbers):
        sections.insert(0, Section("scorecard", card))
    sections[:0] = [Section(f"first-{i}", table) for i, table in enumerate(first)]
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
        warnings=warnings_of(records),
        plots=place(plates, sections),
        sections=sections,
        missing=without_result(records),
        about=about_tables(records),
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
    made = {record.made("posenc_compare") for record in records}
    versions = ", ".join(sorted(made - {""}))
    last = max(record.made("started")[:10] for record in records)
    return f"posenc-compare {versions}{f'; {last}' if last else ''}"


def _hash(text: str) -> str:
    digest = hashlib.sha256(text.encode()).digest()
    return f"sha256-{base64.b64encode(digest).decode()}"


def warnings_of(records: Iterable[Record]) -> list[str]:
    """Return a sentence for each reason to claim less than the tables seem to show."""
    found: list[str] = []
    known = list(records)
    trained = [record for record in known if record.task]
    if not trained:
        found.append(
            "Nothing was trained. Measures without training describe schemes; none of "
            "them ranks schemes."
        )
    shared = _common_seeds(trained)
    if shared and max(shared) < FEWEST:
        found.append(
            f"No two schemes have more than {max(shared)} "
            f"seed{'s' * (max(shared) != 1)} in common, and a ranking needs {FEWEST}. "
            f"Differences between rows may be chance."
        )
    steps = {record.spec.setting.get("steps") for record in trained}
    counts = [step for step in steps if isinstance(step, int)]
    if counts and max(counts) <= QUICK:
        found.append(
            f"At most {max(counts)} training steps; the preset quick has {QUICK}. "
            f"Longer training may change the ranking (docs/training.md)."
        )
    lost = sum(record.status in ("failed", "lost") for record in known)
    if lost:
        several = len({record.task for record in trained}) > 1
        ranks = ", except that of reciprocal ranks, which counts them as 0" * several
        found.append(
            f"{lost} of {len(known)} cells failed or were lost, and are in no "
            f"mean{ranks}."
        )
    return found


def _common_seeds(trained: Iterable[Record]) -> list[int]:
    """Return how many seeds each pair of schemes shares, by measure and task."""
    found: dict[tuple[str, str], dict[str, set[int]]] = {}
    for record in trained:
        if record.status == "ok":
            schemes = found.setdefault((record.measure, record.task), {})
            schemes.setdefault(record.label, set()).add(record.spec.seed)
    return [
        len(one & other)
        for schemes in found.values()
        for one, other in combinations(schemes.values(), 2)
    ]


def about_tables(records: list[Record]) -> list[Table]:
    """Return tables of schemes, quantities, programs, machines, settings and texts."""
    specs = [record.spec for record in records]
    parts: dict[str, list[Facts]] = {
        "Programs": [
            {"numbers": spec.numbers, "torch": spec.torch, "threads": spec.threads}
            for spec in specs
        ],
        "Machines and times": [record.provenance for record in records],
    }
    for kind, entry in SETTINGS.entries().items():
        settings = [spec.setting for spec in specs if spec.kind == kind]
        parts[entry.facts["heading"]] = settings
    parts["Corpus"] = [record.corpus for record in records]
    found = [(heading, _values(part)) for heading, part in parts.items()]
    made = [Table(name, ["name", "value"], rows) for name, rows in found if rows]
    return [_schemes(records), _quantities(records), *made]


def _schemes(records: list[Record]) -> Table:
    """Return family, paper and cells of every scheme, by family and name."""
    behind: dict[str, list[Record]] = {}
    for record in records:
        behind.setdefault(record.label, []).append(record)
    families = {label: some[0].family for label, some in behind.items()}
    rows: list[list[str | Cell]] = []
    for label in by_family_of(families, behind):
        some = behind[label]
        seconds = sum(record.seconds for record in some)
        facts = [label, families[label], some[0].source, coverage(some)]
        rows.append([*facts, number(seconds) if seconds else ""])
    return Table("Schemes", ["scheme", "family", "paper", "cells", "seconds"], rows)


def _quantities(records: list[Record]) -> Table:
    """Return measure, name, unit, direction and zero of every quantity."""
    found = {
        (f"{r.measure} {r.spec.measure.version}", q.heading, q.unit, q.better, q.zero)
        for r in records
        for q in r.quantities.values()
    }
    head = ["measure and version", "quantity", "unit", "better", "0 means"]
    return Table("Quantities", head, [[*row] for row in sorted(found)])


def _values(parts: list[Facts]) -> list[list[str | Cell]]:
    """Return for every name its different values, with the number of cells of each.

    Of many values only the least and the greatest are shown.
    """
    found: list[list[str | Cell]] = []
    for name in sorted({name for part in parts for name in part} - {"kind"}):
        values = [part[name] for part in parts if name in part]
        counts = Counter(str(value) for value in sorted(values, key=_place))
        first, *_, last = [*counts, *counts]
        if counts[first] == len(parts):
            text = first
        elif len(counts) <= MANY:
            of = f"of {len(parts)} cells"
            text = ", ".join(f"{value} ({n} {of})" for value, n in counts.items())
        else:
            text = f"{first} to {last} ({len(counts)} different values)"
        found.append([name.replace("_", " "), text])
    return found


def _place(value: Scalar) -> tuple[bool, float, str]:
    """Return what sorts a value: numbers first."""
    number = value if isinstance(value, int | float) else None
    return (number is None, number or 0, str(value))
