"""The commands that compute a comparison and show it."""

import shlex
import sys
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from posenc_compare.analysis.core.canonical import Body
from posenc_compare.analysis.engine.choices import SettingChoices, WorkChoices
from posenc_compare.cli.config import configured
from posenc_compare.cli.console import progress, say, show
from posenc_compare.cli.list import report_broken
from posenc_compare.cli.options import Format, Formats, Plugins, with_choices
from posenc_compare.cli.table import show_tables

if TYPE_CHECKING:
    from posenc_compare.analysis.engine.comparison import Comparison
    from posenc_compare.analysis.records.cells import Cell
    from posenc_compare.analysis.records.store import Store

SCHEMES = (
    "Comma-separated: names, `all`, families (absolute, relative, ...), globs, or "
    "variants as name:key=value;key=value."
)
Out = Annotated[Path | None, typer.Option(help="Folder for records and what is shown.")]
DryRun = Annotated[bool, typer.Option("--dry-run", help="Show the cells, run none.")]
DTYPE = {"probe_dtype": "--dtype"}  # there is no other dtype without training
COSTED = ("width", "heads", "positions", "probe_dtype")
UNTRAINED = ("seeds", "width", "heads", "positions", "lengths", "probe_dtype", "grid")


@with_choices([*SettingChoices.__annotations__, *WorkChoices.__annotations__])
def run(
    schemes: Annotated[
        str | None, typer.Option(help=SCHEMES, show_default="all")
    ] = None,
    measures: Annotated[
        str | None,
        typer.Option(
            help="Comma-separated names of `list`, `trained`, `untrained` or `all`.",
            show_default="all",
        ),
    ] = None,
    config: Annotated[
        Path | None,
        typer.Option(
            help="TOML file of a comparison: schemes, measures, plugins (a list) and "
            "any of the options from --preset to --grid. What is given here as well "
            "wins over it."
        ),
    ] = None,
    plugin: Plugins = None,
    out: Out = None,
    format: Formats = Format.table,
    dry_run: DryRun = False,
    **chosen: object,
) -> int:
    """Measure and train schemes; write tables and plots.

    A second run of the same command computes only what is not there yet.
    """
    from posenc_compare.analysis.engine.comparison import plan_comparison

    given = {**chosen, "schemes": schemes, "measures": measures, "plugins": plugin}
    with configured(config, _made(given)) as choices:
        asked: Body = {"schemes": "all", **choices}
        comparison = plan_comparison(**asked)
    return run_comparison(comparison, out, format, dry_run)


@with_choices([*UNTRAINED, *WorkChoices.__annotations__], DTYPE, seeds=1)
def measure(
    schemes: Annotated[str, typer.Option(help=SCHEMES)] = "all",
    measures: Annotated[
        str, typer.Option(help="As of `run`; `all` would train too.")
    ] = "untrained",
    plugin: Plugins = None,
    out: Out = None,
    format: Formats = Format.table,
    dry_run: DryRun = False,
    **chosen: object,
) -> int:
    """Measure schemes without training: seconds, not minutes."""
    from posenc_compare.analysis.engine.comparison import plan_comparison

    with configured(None, _made(chosen), DTYPE) as choices:
        comparison = plan_comparison(schemes, measures, plugins=plugin or [], **choices)
    where = out or (None if "grid" in choices else Path("runs/measure"))
    return run_comparison(comparison, where, format, dry_run)


@with_choices(
    [*COSTED, *WorkChoices.__annotations__],
    DTYPE,
    positions=2048,
    width=512,
    heads=8,
    probe_dtype="float32",
)
def cost(
    schemes: Annotated[str, typer.Option(help=SCHEMES)] = "all",
    plugin: Plugins = None,
    out: Out = None,
    format: Formats = Format.table,
    dry_run: DryRun = False,
    **chosen: object,
) -> int:
    """Time attention with schemes by length, beside the bare kernel."""
    from posenc_compare.analysis.engine.comparison import plan_comparison

    with configured(None, _made(chosen), DTYPE) as choices:
        comparison = plan_comparison(
            schemes, "attention_cost", plugins=plugin or [], **choices
        )
    return run_comparison(comparison, out or Path("runs/cost"), format, dry_run)


def _made(chosen: dict[str, object]) -> Body:
    """Return the choices that the user made, or that have a default."""
    return {name: value for name, value in chosen.items() if value is not None}


def run_comparison(
    comparison: "Comparison", out: Path | None, format: str, dry_run: bool
) -> int:
    """Compute what is missing, then show everything that was asked for.

    Returns:
        The exit code: 130 if interrupted, 1 if a cell failed, is lost or has no
        record, else 0.
    """
    from posenc_compare.analysis.records.store import Store

    store = Store(out or Path("runs") / comparison.name)
    for line in comparison.remarks:
        say(line)
    if dry_run:
        _show_plan(comparison, store, format)
        return 0
    with progress() as listen:
        stopped_by = comparison.compute(store, listen)
    if stopped_by and stopped_by != "fail_fast":
        cells = comparison.cells
        left = len(comparison.missing(store))
        say(f"stopped by {stopped_by}: {left} of {len(cells)} cells are missing")
        _say_how_to_go_on()
        return 130
    counts = _show_results(comparison, store, format)
    bad = counts["failed"] + counts["lost"]
    without = len(comparison.keys) - sum(counts.values())
    if bad or without:
        counts["without a record"] = without
        said = ", ".join(f"{n} {status}" for status, n in counts.items() if n)
        say(f"of {len(comparison.keys)} cells: {said}")
        again = bad and not comparison.retry
        _say_how_to_go_on(" --retry failed,lost" if again else "")
    report_broken()
    return int(bool(bad or without))


def _show_results(
    comparison: "Comparison", store: "Store", format: str
) -> Counter[str]:
    """Print tables, write everything that is not new, and count records by status."""
    from posenc_compare.analysis.records.load import load_records
    from posenc_compare.analysis.records.selection import Selection
    from posenc_compare.analysis.show.plots import draw_all, undrawn
    from posenc_compare.analysis.show.tables import write_tables

    records = comparison.results(store, say, arrays=False).records
    show_tables(records, format)
    # Which says what differs.
    everything = load_records(store.folder, say, selection=Selection())
    # This table is written last of all that is shown.
    if store.newer(store.folder / "table.tex") or undrawn(store.folder):
        for path in draw_all(everything, store.folder, say):
            say(str(path))
        write_tables(everything, store.folder)
    say(f"tables and plots in {store.folder}; `posenc-compare report` puts them in one")
    return Counter(record.status for record in records)


def _show_plan(comparison: "Comparison", store: "Store", format: str) -> None:
    from posenc_compare.analysis.records.store import Store

    cells, todo = comparison.cells, comparison.missing(store)
    held = comparison.held(store)
    body = []
    for cell in cells:
        key = cell.key()
        state = "to compute" if key in todo else "done"
        state = f"copied from {held[key].folder}" if key in held else state
        body.append([cell.variant.label, cell.measured, cell.setting.seed, state, key])
    for key in held:
        del todo[key]
    title = f"{len(cells)} cells, {len(todo)} to compute"
    show(title, ["scheme", "measure", "seed", "state", "record"], body, format)
    if todo:
        stores = [store, *map(Store, comparison.reuse)]
        _say_time(list(todo.values()), stores, comparison.limits.workers or 1)


def _say_time(todo: "list[Cell]", stores: "list[Store]", workers: int) -> None:
    """Say how long cells would take, as far as the records of folders tell."""
    from posenc_compare.analysis.engine.estimate import seconds_of
    from posenc_compare.analysis.records.load import sound

    bodies = (body for store in stores for body in store.records())
    known = sound(bodies, say, arrays=False)
    folders = " and ".join(str(store.folder) for store in stores)
    seconds = seconds_of(todo, known, workers)
    count = f"{workers} at once" if workers > 1 else "one by one"
    if seconds:
        short = f"{max(1, round(seconds))} seconds"
        time = short if seconds < 120 else f"{seconds / 60:.0f} minutes"
        say(f"some {time} by the records of {folders}, at their sizes, {count}")
    else:
        say(f"{folders}: no records that tell how long this takes")


def _say_how_to_go_on(more: str = "") -> None:
    say(f"to go on: {shlex.join(['posenc-compare', *sys.argv[1:]])}{more}")
