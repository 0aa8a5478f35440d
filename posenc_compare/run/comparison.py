"""A comparison from names to results: plan it, compute what is missing, read it.

`compare` does all three. The command line takes the steps one by one, to print between
them. Cells are computed in worker processes, so that a notebook or a script needs no
guard, and a scheme that crashes takes nothing else with it.
"""

import shutil
import signal
import tempfile
import warnings
import weakref
from collections.abc import Iterable, Iterator
from contextlib import closing
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from posenc_compare.errors import ConfigError, PluginError
from posenc_compare.records.cells import Cell, setting_of
from posenc_compare.records.labels import label_settings
from posenc_compare.records.load import Warn, sound
from posenc_compare.records.sanitize import one_line
from posenc_compare.records.store import Store, copy_records, find_records
from posenc_compare.records.trackers import Tracker, track_record, tracker_of
from posenc_compare.registry import MEASURES, SCHEMES, add_plugin, importing
from posenc_compare.run.cluster import workers_of
from posenc_compare.run.devices import fit_to_machine
from posenc_compare.run.plan import (
    Settings,
    axes_of,
    in_shard,
    missing,
    plan,
    settle,
    shuffle_cells,
)
from posenc_compare.run.scheduler import Event, Listener, Scheduler
from posenc_compare.settings.probe import ProbeSetting
from posenc_compare.settings.table import TABLE, Choices, Work, with_arguments_of
from posenc_compare.settings.training import Training
from posenc_compare.source.files import forget
from posenc_compare.validate import hint
from posenc_compare.variants import Variant, parse_variants

if TYPE_CHECKING:
    from posenc_compare.show.results import Results

SHOWN = 8  # names of schemes left out


@dataclass(frozen=True)
class Comparison:
    """A comparison that is planned, with everything checked that can be.

    `remarks` are lines that a reader must know before it runs. `others` are cells of
    other shards: a run helps with those that have no record once its own are done.
    """

    cells: list[Cell]
    work: Work
    name: str = ""
    remarks: tuple[str, ...] = ()
    others: tuple[Cell, ...] = ()

    @property
    def keys(self) -> list[str]:
        """Return the keys of all cells, those of other shards among them."""
        return list(dict.fromkeys(cell.key() for cell in (*self.cells, *self.others)))

    def missing(self, store: Store) -> dict[str, Cell]:
        """Return by key the cells that a run would compute."""
        return missing(self.cells, store, self.work.statuses())

    def find_copies(self, store: Store) -> dict[str, Store]:
        """Return by key who holds a record that a run would copy."""
        folders = self.work.folders
        return find_records(self.missing(store), folders) if folders else {}

    def compute(
        self, store: Store, listen: Listener, tracker: Tracker | None = None
    ) -> str:
        """Compute the cells that have no record, in worker processes.

        Returns:
            What stopped it: the name of a signal, `fail_fast`, or nothing.
        """
        held = self.find_copies(store)
        every = (*self.cells, *self.others)
        with closing(workers_of(self.work, every)) as pool:
            store.create()
            copy_records(held, store)
            own, help = self.missing(store), missing(self.others, store)
            todo = [*shuffle_cells(own.values()), *shuffle_cells(help.values())]
            listen = with_tracker(tracker, listen) if tracker else listen
            run = Scheduler(todo, store, pool, self.work, listen)
            for line in self._notes(store, len(held), len(own), len(help)):
                run.tell(line)
            for cell in self.cells:
                if cell.key() not in own:
                    run.tell_of("reused", cell.record())
            stopped_by = run.run()
        if not missing(every, store):
            store.pack_finished()
        return stopped_by

    def _notes(self, store: Store, copied: int, own: int, help: int) -> Iterator[str]:
        """Yield what a user must know before cells are computed."""
        for name in dict.fromkeys(store.damaged):
            yield f"{name} is damaged, or of another version: it is computed again"
        also = f", {copied} copied" if self.work.reuse else ""
        cells = len(self.cells)
        count = f"{cells} cell{'s' * (cells != 1)}{also}, {own} to compute"
        if help:
            count += f", and {help} of other shards to help with"
        yield f"{count}, records in {store.folder}"

    def results(
        self, store: Store, warn: Warn = warnings.warn, *, arrays: bool = True
    ) -> "Results":
        """Return the records that the cells have by now.

        `warn` is called with a line for every record that cannot be read. Without
        `arrays`, what only plots need is left out.
        """
        from posenc_compare.show.results import Results

        found = (body for key in self.keys if (body := store.read(key)) is not None)
        records = label_settings(sound(found, warn, arrays=arrays), warn)
        return Results(records, store.folder)


def plan_comparison(
    schemes: str,
    measures: str = "all",
    *,
    plugins: Iterable[str | Path] = (),
    **choices: Any,
) -> Comparison:
    """Return the comparison that was asked for.

    The arguments are those of `compare`.
    """
    for name in choices.keys() - TABLE.keys():
        meant = hint(name, [*TABLE, "schemes", "measures", "plugins"])
        raise ConfigError(f"unknown setting {name!r}{meant}", field=name)
    if origin := importing():
        raise PluginError(
            f"plugin {origin}: must not start a comparison while it is imported; "
            f'`if __name__ == "__main__":` above that line would work'
        )
    if isinstance(plugins, str | Path) or not isinstance(plugins, Iterable):
        raise ConfigError(
            f"plugins must be a list of files or modules, got {str(plugins)!r}; "
            f"[{str(plugins or 'my_scheme.py')!r}] would work",
            field="plugins",
        )
    own = {one.name for one in fields(Work)}
    work = Work(**{name: choices.pop(name) for name in own & choices.keys()})
    forget()  # source may have changed since the last plan
    for plugin in plugins:
        add_plugin(str(plugin))
    settings = settle(choices, work.device)
    variants, names, remarks = _fitting(schemes, measures, settings)
    remarks += _unread_settings(choices, settings.used_by(names))
    _check_files(variants, names)
    planned = plan(variants, names, settings, work.threads)
    cells = in_shard(planned, work.shard)
    keys = {cell.key() for cell in cells}
    others = [] if work.statuses() else [c for c in planned if c.key() not in keys]
    work = fit_to_machine(work, planned)
    remarks += _try_schemes(variants, names, settings)
    return Comparison(cells, work, settings.name, tuple(remarks), tuple(others))


@dataclass(frozen=True, kw_only=True)
class Arguments(Choices):
    """The arguments of `compare`, for editors and type checkers."""

    schemes: str = field(default="all", kw_only=False)
    measures: str = field(default="all", kw_only=False)
    out: str | Path | None = None
    plugins: Iterable[str | Path] = ()
    track: str | Tracker | None = None
    on_event: Listener | None = None


@with_arguments_of(Arguments)
def compare(
    schemes: str = "all",
    measures: str = "all",
    *,
    out: str | Path | None = None,
    plugins: Iterable[str | Path] = (),
    track: str | Tracker | None = None,
    on_event: Listener | None = None,
    **choices: Any,
) -> "Results":
    """Measure and train schemes side by side, and return what came out.

    A second call with the same folder computes only what is not there yet.

    Args:
        schemes: comma-separated names, families, globs or variants such as
            `rope:base=500000`, or `all`.
        measures: comma-separated names, `untrained`, `trained` or `all`.
        out: folder for records; by default a temporary one, removed when Python drops
            the returned `Results`.
        plugins: files or modules with schemes, measures or tasks of your own.
        track: where to send every new record: tensorboard, wandb, mlflow, trackio, or
            a `Tracker` of your own. TensorBoard writes to `out`.
        on_event: called with an `Event` at every step; `print` shows them. Without
            it, only omissions are reported, as warnings.
        **choices: settings by name, such as steps or workers; see `Choices`.

    Raises:
        ConfigError: if a name or a value cannot be used.
        StoreError: if the folder cannot be used.
        KeyboardInterrupt: if it was interrupted; what was computed is kept in `out`.

    Example:
        >>> compare("rope,alibi", "uniqueness", positions=8, seeds=1)
        Results(2 of 2 cells ok)
    """
    comparison = plan_comparison(schemes, measures, plugins=plugins, **choices)
    for line in comparison.remarks:
        warnings.warn(line, stacklevel=2)
    folder = Path(out or tempfile.mkdtemp(prefix="posenc-compare-"))
    try:
        store = Store(folder)
        tracker = tracker_of(track, folder) if track else None
        stopped_by = comparison.compute(store, on_event or _warn, tracker)
        if stopped_by in signal.Signals.__members__:
            signal.raise_signal(signal.Signals[stopped_by])
        results = comparison.results(store)
    except BaseException:
        if out is None:
            shutil.rmtree(folder, ignore_errors=True)
        raise
    if out is None:
        weakref.finalize(results, shutil.rmtree, folder, ignore_errors=True)
    return results


def with_tracker(tracker: Tracker, listen: Listener) -> Listener:
    """Return a listener that also sends records to a tracker, until that fails once."""
    works = True

    def both(event: Event) -> None:
        nonlocal works
        listen(event)
        if event.record is None or not works:
            return
        try:
            track_record(tracker, event.record)
        except Exception as error:  # records must go on
            works = False
            note = f"track: must take every record, got {type(error).__name__}: {error}"
            note += "; records are computed without it"
            listen(replace(event, kind="note", record=None, note=one_line(note)))

    return both


def _warn(event: Event) -> None:
    """Warn of cells that have no record, where nobody listens."""
    if event.refused:
        warnings.warn(event.note, stacklevel=2)


def _check_files(variants: list[Variant], measures: list[str]) -> None:
    """Refuse schemes and measures that a worker has no file to import from."""
    schemes = {name for variant in variants for name in variant.schemes}
    for registry, names in ((SCHEMES, sorted(schemes)), (MEASURES, measures)):
        for entry in map(registry.entry, names):
            if entry.path is None:
                raise ConfigError(
                    f"{registry.kind} {entry.name!r}: must stand in a file, which the "
                    f"worker processes import, and stands in {entry.module}; "
                    f"`plugins=['my_{registry.kind}.py']` would work"
                )


def _try_schemes(
    variants: list[Variant], measures: list[str], settings: Settings
) -> list[str]:
    """Refuse what a scheme refuses, and return a line for each that does nothing."""
    if all(
        SCHEMES.entry(variant.name).ours and not variant.options for variant in variants
    ):
        return []  # and torch need not be imported
    from posenc_compare.measures.trial import misspelt, try_options

    try_options(variants, settings.used_by(measures))
    return list(misspelt(variants))


def _fitting(
    schemes: str, measures: str, settings: Settings
) -> tuple[list[Variant], list[str], list[str]]:
    """Return the variants and measures for a text, or a grid, and what is left out."""
    grid, axes = settings.probe.grid, len(settings.probe.sides)
    place = f"a grid of {grid}" if grid else "a text"
    named = MEASURES.select_all(measures)
    chosen = [m for m in named if not grid or setting_of(m) is ProbeSetting]
    if not chosen:
        raise ConfigError(
            f"measures on {place} must be without training, got {measures[:80]!r}; "
            f"`--measures untrained` would work",
            field="measures",
        )
    used = settings.used_by(chosen)
    _check_looks_back(chosen, settings)
    variants, others = [], []
    for variant in parse_variants(schemes):
        fits = any(setting.takes(axes_of(variant)) for setting in used)
        (variants if fits else others).append(variant)
    if not variants:
        found = ", ".join(f"{v.label} of {axes_of(v)}" for v in others[:SHOWN])
        sizes = {2: "`--set grid=16x16`", 3: "`--set grid=4x8x8`"}
        advice = sizes.get(axes_of(others[0]), "a run without a grid")
        if settings.trainings and any(one.task for one in used):
            advice = "`--tasks shapes`"
        raise ConfigError(
            f"schemes must have positions of {axes} {'axes' if axes > 1 else 'axis'} "
            f"for {place}, got {found}; {advice} would work",
            field="schemes",
        )
    remarks = []
    if others:
        names = ", ".join(variant.label for variant in others)
        if len(others) > SHOWN:
            names = f"{len(others)} schemes"
        why = "have several axes, a text has one; "
        why += "`--set grid=16x16` compares those of two"
        if grid:
            why = f"do not have the {axes} axes of {place}"
        remarks.append(f"left out: {names}; their positions {why}")
    if len(chosen) < len(named):
        trained = ", ".join(m for m in named if m not in chosen)
        remarks.append(f"left out: {trained}; networks are trained on text")
    return variants, chosen, remarks


def _unread_settings(
    choices: Iterable[str], used: list[ProbeSetting | Training]
) -> list[str]:
    """Return a line on the settings that no chosen measure reads, if there are any."""
    read = {"preset", "seeds"}.union(*(one.read for one in used))
    unread = ", ".join(name for name in choices if name not in read)
    return [f"not used: {unread}; read by no chosen measure"] if unread else []


def _check_looks_back(measures: list[str], settings: Settings) -> None:
    """Refuse `inside`, which follows attention to earlier tokens, of other networks."""
    others = [one for one in settings.trainings if one.network != "decoder"]
    if "inside" in measures and others:
        raise ConfigError(
            f"inside must be of a decoder, got the task {others[0].task} of "
            f"{others[0].network} networks; `--measures extrapolation` would work",
            field="measures",
        )
