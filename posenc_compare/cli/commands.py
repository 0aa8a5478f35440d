"""The commands that compute: plan, compute what is missing, show everything."""

import os
import shlex
import sys
from dataclasses import dataclass
from pathlib import Path

from rich.console import Console
from rich.progress import (
    BarColumn,
    Progress,
    TextColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
)

from posenc_compare.analysis.core.sanitize import clean
from posenc_compare.analysis.core.settings import ProbeSetting
from posenc_compare.analysis.engine.plan import (
    MANY,
    axes_of,
    by_axes,
    in_shard,
    missing,
    plan,
    shuffled,
)
from posenc_compare.analysis.engine.scheduler import Limits, Supervisor
from posenc_compare.analysis.records.cells import Cell, setting_of
from posenc_compare.analysis.records.record import Record
from posenc_compare.analysis.records.store import Store
from posenc_compare.cli.facts import report_broken
from posenc_compare.cli.machine import check_machine, check_memory, memory_of
from posenc_compare.cli.say import say
from posenc_compare.cli.settings import Settings
from posenc_compare.cli.show import show
from posenc_compare.errors import ConfigError
from posenc_compare.registry import MEASURES, SCHEMES
from posenc_compare.validate import check_choice, check_number, check_whole
from posenc_compare.variants import Variant, parse_variants

SHOWN = 8  # names of schemes left out
RETRY = ("failed", "lost", "unsupported", "ok")


@dataclass(frozen=True)
class Work:
    """How a run goes about its cells.

    Attributes:
        workers: processes; 0 for one per core, or one if any cell is on a GPU.
        timeout: seconds that a cell may go on without progress.
        memory: GiB of data for one worker; 0 for all of the machine's.
        checkpoint_every: seconds between checkpoints of a training.
        retry: comma-separated statuses of records to compute again.
        overwrite: compute every cell again.
        fail_fast: stop at the first cell that fails.
        shard: `I/N`, the cells that this run of N takes.
        yes: compute however many cells there are.
    """

    workers: int = 0
    timeout: float = 3600.0
    memory: float = 0.0
    checkpoint_every: float = 180.0
    retry: str = ""
    overwrite: bool = False
    fail_fast: bool = False
    shard: str = "1/1"
    yes: bool = False

    def statuses(self) -> tuple[str, ...]:
        """Return the statuses of records that count as missing."""
        if self.overwrite:
            return RETRY
        asked = tuple(filter(None, self.retry.replace(" ", "").split(",")))
        for status in asked:
            check_choice("retry", status, RETRY[:2])
        return asked

    def limits(self, cells: list[Cell], threads: int) -> Limits:
        """Return what the supervisor takes, checked for those cells."""
        check_whole("workers", self.workers, 0, 1024)
        check_number("timeout", self.timeout, 0.1, 1e9)
        check_number("memory", self.memory, 0, 1e6)
        check_number("checkpoint-every", self.checkpoint_every, 0, 1e9)
        on_cpu = all(cell.setting.device == "cpu" for cell in cells)
        if self.memory and not on_cpu:
            raise ConfigError(
                f"memory must be left out for cells on a GPU, whose memory it does not "
                f"limit, got {self.memory:g}; `--device cpu` would work"
            )
        cores = len(os.sched_getaffinity(0)) if on_cpu else 1
        workers = self.workers or max(1, cores // threads)
        check_machine(workers)
        asked = int(self.memory * 2**30)
        return Limits(
            workers=workers,
            timeout=self.timeout,
            memory=(asked or memory_of("cpu")) if on_cpu else -1,
            interval=self.checkpoint_every,
            fail_fast=self.fail_fast,
        )


def run(
    schemes: str,
    measures: str,
    settings: Settings,
    work: Work,
    out: Path | None,
    format: str,
    plugins: list[str],
    dry_run: bool,
) -> int:
    """Compute what is missing, then show everything that was asked for.

    Returns:
        The exit code: 130 if interrupted, 1 if a cell failed, is lost or has no record
        or a plugin is broken, else 0.
    """
    for plugin in plugins:
        SCHEMES.add_plugin(plugin)
    variants, chosen, left_out = _fitting(schemes, measures, settings.probe)
    planned = plan(
        variants,
        chosen,
        settings.probe,
        settings.training,
        settings.seeds,
        settings.threads,
        sys.maxsize if work.yes else MANY,
    )
    limits, retry = work.limits(planned, settings.threads), work.statuses()
    cells = in_shard(planned, work.shard)
    check_memory(cells, limits.memory)
    store = Store(out or Path("runs") / settings.name)
    todo = missing(cells, store, retry)
    for line in left_out:
        say(f"left out: {line}")
    if dry_run:
        _show_plan(cells, todo, format)
        return 0
    store.create()
    for name in store.set_aside():
        say(f"damaged record {name} moved to {store.quarantine}; it is computed again")
    say(f"{len(cells)} cells, {len(todo)} to compute, records in {store.folder}")
    stopped_by = _compute(todo, store, plugins, limits, retry)
    if stopped_by and stopped_by != "fail_fast":
        left = len(missing(cells, store))
        say(f"stopped by {stopped_by}: {left} of {len(cells)} cells are missing")
        _say_how_to_go_on()
        return 130
    from posenc_compare.cli.shown import show_run  # pandas takes half a second

    counts = show_run(cells, store, format)
    bad = counts["failed"] + counts["lost"]
    without = len({cell.key() for cell in cells}) - sum(counts.values())
    if bad or without:
        counts["without a record"] = without
        said = ", ".join(f"{n} {status}" for status, n in counts.items() if n)
        say(f"of {len(cells)} cells: {said}")
        _say_how_to_go_on(" --retry failed,lost" if bad and not work.retry else "")
    return int(report_broken() or bool(bad or without))


def _fitting(
    schemes: str, measures: str, probe: ProbeSetting
) -> tuple[list[Variant], list[str], list[str]]:
    """Return the variants and measures for a text, or a grid, and what is left out."""
    axes, chosen = len(probe.sides), MEASURES.select_all(measures)
    variants, others = by_axes(parse_variants(schemes), axes)
    place = f"a grid of {probe.grid}" if probe.grid else "a text"
    if not variants:
        others = parse_variants(schemes)
        found = ", ".join(f"{v.label} of {axes_of(v)}" for v in others[:SHOWN])
        raise ConfigError(
            f"schemes must have positions of {_axes(axes)} for {place}, got {found}; "
            f"{_place_for(axes_of(others[0]))} would work"
        )
    trained = [m for m in chosen if setting_of(m) is not ProbeSetting]
    if probe.grid:
        chosen = [measure for measure in chosen if measure not in trained]
    if not chosen:
        raise ConfigError(
            f"measures on {place} must be without training, got {measures[:80]!r}; "
            f"`--measures untrained` would work"
        )
    left_out = []
    if others:
        names = ", ".join(variant.label for variant in others)
        if len(others) > SHOWN:
            names = f"{len(others)} schemes"
        why = "have several axes, a text has one; `--grid 16x16` compares those of two"
        if probe.grid:
            why = f"do not have the {axes} axes of {place}"
        left_out.append(f"{names}; their positions {why}")
    if probe.grid and trained:
        left_out.append(f"{', '.join(trained)}; networks are trained on text")
    return variants, chosen, left_out


def _axes(count: int) -> str:
    return f"{count} {'axis' if count == 1 else 'axes'}"


def _place_for(axes: int) -> str:
    """Return how to compare schemes of so many axes."""
    sizes = {2: "16x16", 3: "4x8x8"}.get(axes)
    return f"`--grid {sizes}`" if sizes else "a run without `--grid`"


def _say_how_to_go_on(more: str = "") -> None:
    say(f"to go on: {shlex.join(['posenc-compare', *sys.argv[1:]])}{more}")


def _compute(
    todo: dict[str, Cell],
    store: Store,
    plugins: list[str],
    limits: Limits,
    retry: tuple[str, ...],
) -> str:
    console = Console(stderr=True)
    columns = (
        TextColumn("{task.description}", markup=False),
        BarColumn(bar_width=None),
        TextColumn("{task.fields[cells]}"),
        TimeElapsedColumn(),
        TextColumn("left"),
        TimeRemainingColumn(elapsed_when_finished=False),
    )
    total = sum(cell.setting.work for cell in todo.values())
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

        def report(record: Record) -> None:
            nonlocal done
            done += 1
            what = f"{record.label} {record.measure}"
            seed, seconds = record.spec.seed, record.provenance.seconds
            if record.status in ("failed", "lost"):
                text = f"{record.status}: {what} seed {seed}: {record.error}"
                bars.console.print(clean(text), markup=False, soft_wrap=True)
            elif not console.is_terminal and seconds >= 1:
                say(f"{done}/{len(todo)} {what} seed {seed} {seconds:.0f} s")

        stopped_by = Supervisor(
            shuffled(todo), store, plugins, limits, retry, advance, report
        ).run()
    say(f"computed {done} of {len(todo)} cells")
    return stopped_by


def _show_plan(cells: list[Cell], todo: dict[str, Cell], format: str) -> None:
    body = []
    for cell in cells:
        key = cell.key()
        state = "to compute" if key in todo else "done"
        body.append([cell.variant.label, cell.measure, cell.setting.seed, state, key])
    title = f"{len(cells)} cells, {len(todo)} to compute"
    show(title, ["scheme", "measure", "seed", "state", "record"], body, format)
