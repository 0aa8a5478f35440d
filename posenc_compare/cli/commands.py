"""The commands that compute, tabulate and draw."""

import json
import sys
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.progress import (
    BarColumn,
    Progress,
    TextColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
)

from posenc_compare.analysis.cells import Cell
from posenc_compare.analysis.compare import missing, plan
from posenc_compare.analysis.compare import run as compute
from posenc_compare.analysis.reading import load_records, tell_apart
from posenc_compare.analysis.store import Store
from posenc_compare.analysis.tables import (
    as_markdown,
    display_tables,
    long_table,
    write_tables,
)
from posenc_compare.cli.facts import report_broken
from posenc_compare.cli.settings import Settings
from posenc_compare.cli.show import show
from posenc_compare.registry import MEASURES, SCHEMES
from posenc_compare.schemes import parse_variants


def run(
    schemes: str,
    measures: str,
    settings: Settings,
    out: Path | None,
    format: str,
    plugins: list[str],
    dry_run: bool,
) -> int:
    """Compute what is missing, then show everything that was asked for.

    Returns:
        The exit code: 130 if interrupted, 1 if a cell failed or a plugin is broken,
        else 0.
    """
    for plugin in plugins:
        SCHEMES.add_plugin(plugin)
    cells = plan(
        parse_variants(schemes),
        MEASURES.select_all(measures),
        settings.probe,
        settings.training,
        settings.seeds,
        settings.threads,
    )
    store = Store(out or Path("runs") / settings.preset)
    todo = missing(cells, store)
    if dry_run:
        _show_plan(cells, todo, format)
        return 0
    _say(f"{len(cells)} cells, {len(todo)} to compute, records in {store.folder}")
    store.create()
    try:
        _compute(todo, store)
    except KeyboardInterrupt:
        _say("interrupted; run the same command again to go on")
        return 130
    records = [r for cell in cells if (r := store.read(cell.key())) is not None]
    _show_tables(tell_apart(records), format)
    everything = load_records(store.folder)
    write_tables(everything, store.folder)
    _draw(everything, store.folder)
    _say(f"tables and plots in {store.folder}")
    failed = [record for record in records if record["status"] == "failed"]
    if failed:
        _say(f"{len(failed)} of {len(cells)} cells failed")
    return int(report_broken() or bool(failed))


def table(folder: Path, format: str) -> None:
    """Print and write the tables of a folder of records."""
    records = load_records(folder)
    _show_tables(records, format)
    for path in write_tables(records, folder):
        _say(f"wrote {path}")


def plot(folder: Path) -> None:
    """Draw the plots of a folder of records and print their paths."""
    for path in _draw(load_records(folder), folder):
        print(path)


def _draw(records: list[dict[str, Any]], folder: Path) -> list[Path]:
    from posenc_compare.analysis.plots import draw_all  # seaborn takes two seconds

    return draw_all(records, folder)


def _compute(todo: list[Cell], store: Store) -> None:
    console = Console(stderr=True)
    columns = (
        TextColumn("{task.description}"),
        BarColumn(bar_width=None),
        TextColumn("{task.fields[cells]}"),
        TimeElapsedColumn(),
        TextColumn("left"),
        TimeRemainingColumn(),
    )
    total = sum(cell.setting.work for cell in todo)
    done = 0
    with Progress(*columns, console=console, disable=not console.is_terminal) as bars:
        bar = bars.add_task("starting", total=total, cells="")

        def advance(cell: Cell, units: int) -> None:
            bars.update(
                bar,
                advance=units,
                description=f"{cell.measure} {cell.variant.label}"[:28],
                cells=f"{done}/{len(todo)}",
            )

        def report(record: dict[str, Any]) -> None:
            nonlocal done
            done += 1
            what = f"{record['label']} {record['spec']['measure']['name']}"
            seed = record["spec"]["setting"]["seed"]
            if record["status"] == "failed":
                bars.console.print(
                    f"failed: {what} seed {seed}: {record['error']}",
                    markup=False,
                    soft_wrap=True,
                )
            elif not console.is_terminal and record["seconds"] >= 1:
                _say(f"{done}/{len(todo)} {what} seed {seed} {record['seconds']:.0f} s")

        compute(todo, store, advance, report)


def _show_plan(cells: list[Cell], todo: list[Cell], format: str) -> None:
    waiting = {cell.key() for cell in todo}
    body = []
    for cell in cells:
        key = cell.key()
        state = "to compute" if key in waiting else "done"
        body.append([cell.variant.label, cell.measure, cell.setting.seed, state, key])
    title = f"{len(cells)} cells, {len(todo)} to compute"
    show(title, ["scheme", "measure", "seed", "state", "record"], body, format)


def _show_tables(records: list[dict[str, Any]], format: str) -> None:
    if format in ("json", "csv"):
        long = long_table(records)
        if format == "csv":
            print(long.to_csv(index=False), end="")
        else:
            rows = long.astype(object).where(long.notna(), None)
            print(json.dumps(rows.to_dict(orient="records"), indent=2))
    elif format == "md":
        print(as_markdown(display_tables(records)), end="")
    else:
        for part in display_tables(records):
            show(part.title, part.head, part.body)


def _say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)
