"""The report: one HTML file that holds all there is to see, made from records alone.

The page has no script, loads nothing, and forbids both by its content security
policy. Every text from a record is escaped by the template.
"""

import base64
import warnings
from collections import Counter
from importlib.resources import files
from pathlib import Path

from jinja2 import Environment, StrictUndefined

from posenc_compare.analysis.core.files import write_file
from posenc_compare.analysis.core.sanitize import clean
from posenc_compare.analysis.records.load import Warn
from posenc_compare.analysis.records.record import Facts, Record, Scalar
from posenc_compare.analysis.show.plots import images
from posenc_compare.analysis.show.tables import (
    coverage,
    display_tables,
    task_tables,
    without_result,
)
from posenc_compare.errors import StoreError
from posenc_compare.registry import PLOTS

DPI = 160  # of plots: sharp at twice the size of a screen's pixels
MANY = 6  # different values of a setting that are listed one by one
SETTINGS = {"probe": "Settings without training", "training": "Settings of training"}

Listed = list[tuple[str, str]]


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
        records: as `analysis.reading` returns them.
        title: of the page.
        path: of the file; it is replaced if it is there.
        warn: called with a line for every plot that cannot be drawn.
        plots: whether to draw any.

    Raises:
        StoreError: if the file cannot be written.
    """
    files = images(records, warn, endings=("png",), dpi=DPI) if plots else {}
    text = report_html(records, title, files)
    try:
        write_file(path, text.encode())
    except OSError as error:
        raise StoreError(f"{path}: must take a report, got {error}") from error


def report_html(records: list[Record], title: str, plots: dict[str, bytes]) -> str:
    """Return the page.

    Args:
        records: as `analysis.reading` returns them.
        title: of the page.
        plots: PNG files by name.
    """
    source = files("posenc_compare.analysis.show").joinpath("report.html")
    tasks = task_tables(records)
    page = Environment(
        autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True
    ).from_string(source.read_text(encoding="utf-8"))
    return page.render(
        title=clean(title),
        coverage=coverage(records),
        tables=display_tables(records),
        tasks=tasks if len(tasks) > 1 else {},
        figures=[
            (base64.b64encode(data).decode(), _caption(name.removesuffix(".png")))
            for name, data in plots.items()
        ],
        missing=without_result(records),
        quantities=_quantities(records),
        schemes=_schemes(records),
        made_with=_made_with(records),
    )


def _caption(plot: str) -> str:
    return PLOTS.entry(plot).facts["caption"]


def _quantities(records: list[Record]) -> list[list[str]]:
    """Return measure, name, unit, direction and zero of every quantity."""
    found = {
        (
            f"{record.measure} {record.spec.measure.version}",
            quantity.heading,
            quantity.unit,
            quantity.better,
            quantity.zero,
        )
        for record in records
        for quantity in record.quantities.values()
    }
    return [list(row) for row in sorted(found)]


def _schemes(records: list[Record]) -> list[list[str]]:
    """Return label, family, source and state of every scheme."""
    found = {(r.label, r.family, r.source) for r in records}
    return [
        [*row, coverage([r for r in records if r.label == row[0]])]
        for row in sorted(found)
    ]


def _made_with(records: list[Record]) -> dict[str, Listed]:
    """Return what is known of how the records came about, by heading."""
    specs = [record.spec for record in records]
    parts: dict[str, list[Facts]] = {
        "Programs": [
            {"package": spec.package, "torch": spec.torch, "threads": spec.threads}
            for spec in specs
        ],
        "Machines and times": [record.provenance.facts for record in records],
        **{
            heading: [
                {n: v for n, v in spec.setting.items() if n != "kind"}
                for spec in specs
                if spec.kind == kind
            ]
            for kind, heading in SETTINGS.items()
        },
        "Corpus": [record.corpus for record in records],
    }
    return {
        heading: facts for heading, part in parts.items() if (facts := _values(part))
    }


def _values(parts: list[Facts]) -> Listed:
    """Return for every name its different values, with the number of cells of each.

    Of many values only the least and the greatest are shown.
    """
    found: Listed = []
    for name in sorted({name for part in parts for name in part}):
        counts = Counter(str(part[name]) for part in parts if name in part)
        values = {str(part[name]): part[name] for part in parts if name in part}
        order = sorted(values, key=lambda text: _place(values[text]))
        if len(order) == 1 and counts[order[0]] == len(parts):
            text = order[0]
        elif len(order) <= MANY:
            shares = [
                f"{value} ({counts[value]} of {len(parts)} cells)" for value in order
            ]
            text = ", ".join(shares)
        else:
            text = f"{order[0]} to {order[-1]} ({len(order)} different values)"
        found.append((name.replace("_", " "), text))
    return found


def _place(value: Scalar) -> tuple[bool, float, str]:
    number = value if isinstance(value, int | float) else None
    return (number is None, number or 0, str(value))
