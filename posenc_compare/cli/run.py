"""The commands that compute a comparison and show it."""

import shlex
from collections import Counter
from collections.abc import Collection, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from posenc_compare.cli.config import configured
from posenc_compare.cli.console import (
    NUMBERS,
    progress,
    say,
    say_how_to_go_on,
    say_stopped,
    show,
    show_tables,
)
from posenc_compare.cli.list import report_broken
from posenc_compare.cli.options import COMMON, WORK, Format, with_options
from posenc_compare.cli.table import what_to_show
from posenc_compare.registry import SCHEMES
from posenc_compare.settings.canonical import Body
from posenc_compare.settings.probe import ProbeSetting
from posenc_compare.settings.table import TABLE, Work
from posenc_compare.validate import check_choice, check_text

if TYPE_CHECKING:
    from posenc_compare.records.cells import Cell
    from posenc_compare.records.record import Record
    from posenc_compare.records.store import Store
    from posenc_compare.run.comparison import Comparison

SCREEN = 40  # cells of a plan that are listed one by one
DATA = ("preset", "tasks", "seeds", "corpus", "test_corpus")
UNTRAINED = {*ProbeSetting.read, "seeds", *Work.__dataclass_fields__}
COSTED = UNTRAINED - {"seeds", "lengths", "grid"}


@with_options(
    *("schemes", "measures", *COMMON, *DATA, *WORK),
    schemes="all",
    measures="all",
    out="runs/PRESET",
)
def run(**options: Any) -> int:
    """Measure and train schemes; write tables and plots.

    If you repeat the command, it computes only what is missing. A cell is one measure
    of one scheme with one seed, and its result is a record.
    """
    return _run(options, TABLE, schemes="all")


@with_options(
    *("schemes", "measures", *COMMON, "seeds", *WORK),
    schemes="all",
    measures="untrained",
    seeds="1",
    out="runs/measure",
)
def measure(**options: Any) -> int:
    """Compute measures; by default those without training, which take seconds."""
    defaults: Body = {"schemes": "all", "measures": "untrained", "seeds": 1}
    return _run(options, UNTRAINED, "runs/measure", **defaults)


@with_options("schemes", *COMMON, *WORK, schemes="all", out="runs/cost")
def cost(**options: Any) -> int:
    """Measure the run time of attention at several lengths.

    The lengths are 2048 tokens and fractions of that; `--set positions=8192` changes
    the longest. Each scheme is compared with PyTorch's `scaled_dot_product_attention`.
    """
    defaults: Body = {"positions": 2048, "width": 512, "heads": 8}
    defaults |= {"schemes": "all", "measures": "attention_cost"}
    return _run(options, COSTED, "runs/cost", probe_dtype="float32", **defaults)


def _run(
    options: Body, allowed: Collection[str], folder: str = "", **defaults: Any
) -> int:
    """Plan and run a comparison.

    An option that is None was not given. Records go to `folder` by default; if it is
    empty, or on a grid, to that of the preset.
    """
    from posenc_compare.run.comparison import plan_comparison

    with configured(options, allowed) as given:
        chosen: Body = {**defaults, **given}
        out, format = chosen.pop("out", None), str(chosen.pop("format", "table"))
        dry_run = chosen.pop("dry_run", False)
        track = str(chosen.pop("track", ""))
        if out is not None and not isinstance(out, Path):
            check_text("out", out, "runs/mine")
        check_choice("format", format, tuple(map(str, Format)))
        check_choice("dry_run", dry_run, (True, False))
        comparison = plan_comparison(**chosen)
    out = out or ("" if "grid" in chosen else folder)
    place = Path(out) if out else None
    return run_comparison(comparison, place, format, dry_run, track)


def run_comparison(
    comparison: "Comparison",
    out: Path | None,
    format: str,
    dry_run: bool,
    track: str = "",
) -> int:
    """Compute what is missing, then show everything that was asked for.

    Returns:
        The exit code: 130 if interrupted, 1 if a cell failed, is lost or has no
        record, else 0.
    """
    from posenc_compare.records.store import Store
    from posenc_compare.records.trackers import tracker_of
    from posenc_compare.show.frame import Numbers
    from posenc_compare.show.scorecard import scorecard

    store = Store(out or Path("runs") / comparison.name)
    tracker = tracker_of(track, store.folder) if track else None
    for line in comparison.remarks:
        say(line)
    if dry_run:
        _show_plan(comparison, store, format)
        return 0

    def recorded() -> "list[Record]":
        return comparison.results(store, lambda _: None, arrays=False).records

    known = recorded()
    with progress(lambda new: scorecard(Numbers([*known, *new]))) as listen:
        stopped_by = comparison.compute(store, listen, tracker)
    if stopped_by and stopped_by != "fail_fast":
        table = scorecard(Numbers(recorded()))
        if table and format not in NUMBERS:
            show_tables([table], format)
        say_stopped(comparison, store, stopped_by)
        return 130
    counts = _show_results(comparison, store, format)
    bad = counts["failed"] + counts["lost"]
    without = len(comparison.keys) - sum(counts.values())
    if bad or without:
        counts["without a record"] = without
        said = ", ".join(f"{n} {status}" for status, n in counts.items() if n)
        say(f"of {len(comparison.keys)} cells: {said}")
        again = bad and not comparison.work.statuses()
        say_how_to_go_on(" --retry failed,lost" if again else "")
    _say_unchecked(comparison)
    report_broken()
    return int(bool(bad or without))


def _say_unchecked(comparison: "Comparison") -> None:
    """Name the schemes of plugins, which `run` trains without checking them."""
    names = sorted({cell.variant.name for cell in comparison.cells})
    own = [n for n in names if not SCHEMES.entry(n).ours]
    if own:
        say(f"{', '.join(own)}: not checked here; `posenc-compare check` does that")


def _show_results(
    comparison: "Comparison", store: "Store", format: str
) -> Counter[str]:
    """Print tables, write everything that is not new, and count records by status."""
    from posenc_compare.records.labels import label_settings
    from posenc_compare.records.load import read_folder
    from posenc_compare.records.selection import Selection, newest
    from posenc_compare.show.frame import Numbers
    from posenc_compare.show.plots.drawing import draw_all, undrawn
    from posenc_compare.show.scorecard import scorecard
    from posenc_compare.show.tables import write_tables

    found = read_folder(store.folder, say)
    keys = set(comparison.keys)
    records = label_settings([r for r in found if r.key in keys], lambda line: None)
    numbers = Numbers(records)
    card = scorecard(numbers) if format not in NUMBERS else None
    frame, tables = (None, [card]) if card else what_to_show(numbers, format)
    show_tables(tables, format, frame)
    # This call reports settings that differ.
    everything = label_settings(Selection().of(found, say, keys), say)
    shown = {record.key for record in everything}
    # This table is written last of all that is shown.
    other = any(record.key not in shown for record in newest(found))
    if other or store.newer(store.folder / "table.tex") or undrawn(store.folder):
        same = len(everything) == len(records)  # all of the folder are of this run
        numbers = numbers if same else Numbers(everything)
        for path in draw_all(numbers, store.folder, say):
            say(str(path))
        write_tables(numbers, store.folder)
    folder = shlex.quote(str(store.folder))
    written = "tables and plots" if any(store.folder.glob("*.png")) else "tables"
    say(
        f"{written} in {store.folder}; `posenc-compare report {folder}` writes "
        f"one HTML file"
    )
    return Counter(record.status for record in records)


def _show_plan(comparison: "Comparison", store: "Store", format: str) -> None:
    cells, todo = comparison.cells, comparison.missing(store)
    held = comparison.find_copies(store)
    body: list[list[Any]] = []
    settings = _differing(cells)
    for cell in cells:
        key = cell.key()
        state = "to compute" if key in todo else "done"
        state = f"copied from {held[key].folder}" if key in held else state
        place = cell.variant.label, cell.measured, settings[key], cell.setting.seed
        body.append([*place, state, key])
    left = len(todo.keys() - held.keys())
    title = f"{len(cells)} cell{'s' * (len(cells) != 1)}, {left} to compute"
    if len(body) > SCREEN and format == "table":
        show(title, ["measure", "state", "cells"], _counts(body))
        say("`--format csv` lists every cell")
    else:
        head = ["scheme", "measure", "setting", "seed", "state", "record"]
        if format not in NUMBERS and not any(settings.values()):
            head, *body = [[*row[:2], *row[3:]] for row in (head, *body)]
        show(title, head, body, format)


def _differing(cells: "Sequence[Cell]") -> dict[str, str]:
    """Return, by key, what distinguishes a cell from others of its measure and seed."""
    specs = {cell.key(): cell.setting.spec() for cell in cells}
    values: dict[tuple[str, str], set[str]] = {}
    for cell in cells:
        for name, value in specs[cell.key()].items():
            values.setdefault((cell.measured, name), set()).add(str(value))
    return {
        cell.key(): ", ".join(
            f"{name}={value}"
            for name, value in specs[cell.key()].items()
            if name not in ("seed", "task") and len(values[cell.measured, name]) > 1
        )
        for cell in cells
    }


def _counts(body: list[list[Any]]) -> list[list[str]]:
    """Return how many cells of a plan each measure has in each state."""
    counts = Counter((row[1], row[4]) for row in body)
    return [[*place, str(count)] for place, count in sorted(counts.items())]
