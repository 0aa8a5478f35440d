"""The plan of a comparison: from the choices of a user to settings and cells."""

import math
import re
import secrets
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from posenc_compare.errors import ConfigError
from posenc_compare.records.cells import Cell, setting_of
from posenc_compare.records.store import Store
from posenc_compare.registry import MEASURES, SCHEMES, SETTINGS, TASK_SIZES, TASKS
from posenc_compare.run.devices import graphics, resolve_device
from posenc_compare.settings.canonical import Body
from posenc_compare.settings.presets import PRESETS
from posenc_compare.settings.probe import ProbeSetting, sides_of
from posenc_compare.settings.seeds import named_seeds
from posenc_compare.settings.setting import STDLIB, Setting
from posenc_compare.settings.table import check_value
from posenc_compare.settings.training import Training
from posenc_compare.tasks.corpus import load_corpus
from posenc_compare.tasks.random_task import check_length
from posenc_compare.validate import check_text
from posenc_compare.variants import Variant

MOST_CELLS = 100_000  # cells that nobody plans by intention
SHARD = re.compile(r"([0-9]{1,6})/([0-9]{1,6})")


@dataclass(frozen=True)
class Settings:
    """The settings of a comparison.

    The seeds in `probe` and `trainings` are replaced. `trainings` holds one for each
    task. `probe_seeds` are those of measures without training, if they have fewer.
    """

    probe: ProbeSetting
    trainings: tuple[Training, ...]
    seeds: tuple[int, ...]
    probe_seeds: tuple[int, ...] = ()
    name: str = ""

    def used_by(self, measures: Iterable[str]) -> list[ProbeSetting | Training]:
        """Return the settings that some of these measures take."""
        kinds = {setting_of(name).kind for name in measures}
        return [s for s in (self.probe, *self.trainings) if s.kind in kinds]

    def seeds_of(self, measure: str) -> tuple[int, ...]:
        """Return the seeds that a measure is computed with."""
        if MEASURES.entry(measure).facts.get("once"):
            return self.seeds[:1]
        probed = setting_of(measure).kind == self.probe.kind
        return (probed and self.probe_seeds) or self.seeds


def settle(chosen: Body, device: str) -> Settings:
    """Return the settings that follow from choices, on `device`.

    Args:
        chosen: values by the names of `Choices`; any may be missing or wrong.
        device: auto, cpu or cuda.
    """
    chosen = dict(chosen)
    preset = chosen.pop("preset", "quick")
    check_value("preset", preset)
    training = PRESETS[preset].training
    given = chosen.pop("seeds", None)
    seeds = named_seeds(PRESETS[preset].seeds if given is None else given)
    grid = chosen.pop("grid", None)
    for name in chosen.keys() - ProbeSetting.read if grid is not None else ():
        raise ConfigError(
            f"{name} must be left out on a grid, where no network is trained",
            field=name,
        )
    cells = 0 if grid is None else math.prod(sides_of(grid))
    tasks = TASKS.select_all(chosen.pop("tasks", Training.task))
    probe = ProbeSetting(
        positions=chosen.pop("positions", cells or ProbeSetting.positions),
        tokens=cells or ProbeSetting.tokens,
        grid=grid or "",
        dtype=chosen.pop("probe_dtype", ProbeSetting.dtype),
        width=chosen.get("width", training.width),
        heads=chosen.get("heads", training.heads),
        lengths=chosen.get("lengths", training.lengths),
        device=resolve_device(device, on_gpu=False),  # small, and in float64
    )
    trainings = [
        replace(training, **{**_sizes(preset, task), **chosen, "task": task})
        for task in tasks
    ]
    trainings = tuple(
        replace(one, device=resolve_device(device, on_gpu=one.on_gpu))
        for one in trainings
    )
    _check_texts(chosen, trainings)
    return Settings(
        probe,
        trainings,
        seeds,
        seeds[: PRESETS[preset].probe_seeds] if given is None else seeds,
        f"grid-{grid}" if grid else preset,
    )


def _check_texts(chosen: Body, trainings: tuple[Training, ...]) -> None:
    """Refuse a text that no task reads."""
    texts = {name: chosen.get(name, "") for name in ("corpus", "test_corpus")}
    given = [name for name, text in texts.items() if text not in ("", STDLIB)]
    if given and not any(training.reads_corpus for training in trainings):
        tasks = ", ".join(training.task for training in trainings)
        raise ConfigError(
            f"{given[0]} must be left out with tasks that read no text, {tasks}, got "
            f"{texts[given[0]][:80]!r}; `--tasks language` would work",
            field=given[0],
        )
    if texts["test_corpus"] and chosen.get("split") == "validation":
        raise ConfigError(
            "test_corpus must be left out with split=validation, whose documents are "
            f"of the corpus, got {texts['test_corpus'][:80]!r}",
            field="test_corpus",
        )


def _sizes(preset: str, task: str) -> Body:
    """Return the sizes that a task states, if the preset takes them."""
    facts = TASKS.entry(task).facts if PRESETS[preset].by_task else {}
    return {name: facts[name] for name in TASK_SIZES if name in facts}


def plan(
    variants: Sequence[Variant],
    measures: Sequence[str],
    settings: Settings,
    threads: int,
) -> list[Cell]:
    """Return the cells of a comparison, those of one seed together.

    More than `MOST_CELLS` cells are refused.
    """
    used = settings.used_by(measures)
    fitting = {s: [v for v in variants if s.takes(axes_of(v))] for s in used}
    parts = [
        (name, setting, settings.seeds_of(name))
        for name in sorted(measures, key=lambda name: place_of(setting_of(name).kind))
        for setting in used
        if setting.kind == setting_of(name).kind
    ]
    count = sum(len(fitting[setting]) * len(seeds) for _, setting, seeds in parts)
    if count > MOST_CELLS:
        raise ConfigError(
            f"the comparison must have at most {MOST_CELLS} cells, got {count}: "
            f"{len(variants)} variants, {len(measures)} measures, "
            f"{len(settings.trainings)} tasks, {len(settings.seeds)} seeds"
        )
    for setting in used:
        if isinstance(setting, Training):
            check_length(setting)
    resolved = {setting: setting.resolve(load_corpus) for setting in used}
    return [
        Cell(
            variant,
            name,
            replace(resolved[setting], seed=seed),
            threads,
            graphics_of(setting),
        )
        for seed in settings.seeds
        for name, setting, seeds in parts
        if seed in seeds
        for variant in fitting[setting]
    ]


def graphics_of(setting: Setting) -> str:
    """Return the name of the GPU of this machine, if a setting is for one."""
    return graphics() if setting.device == "cuda" else ""


def axes_of(variant: Variant) -> int:
    """Return how many coordinates a position has."""
    return SCHEMES.entry(variant.name).facts.get("axes", 1)


def place_of(kind: str) -> int:
    """Return the place of a kind of cells among those of a seed, quick ones first."""
    return SETTINGS.entry(kind).facts["order"]


def missing(
    cells: Iterable[Cell], store: Store, retry: Iterable[str] = ()
) -> dict[str, Cell]:
    """Return by key, each once, the cells that have no intact record."""
    return {
        key: cell
        for key, cell in {cell.key(): cell for cell in cells}.items()
        if (record := store.read(key)) is None or record["status"] in retry
    }


def in_shard(cells: list[Cell], shard: str) -> list[Cell]:
    """Return the cells of one of several runs that share the work without talking.

    `shard` is `I/N`, the I-th of N. Which cells it holds depends on their keys alone.
    """
    check_text("shard", shard, "1/4")
    match = SHARD.fullmatch(shard)
    mine, count = map(int, match.groups()) if match else (0, 0)
    if not 1 <= mine <= count:
        raise ConfigError(
            f"shard must be I/N with I from 1 to N, of six digits at most, got "
            f"{shard[:40]!r}; 1/4 would work"
        )
    return [cell for cell in cells if int(cell.key(), 16) % count == mine - 1]


def shuffle_cells(cells: Iterable[Cell]) -> list[Cell]:
    """Return the cells seed by seed, the quick kinds of a seed first.

    The rest of the order is this run's own: runs that share a folder then seldom
    compute the same cell at the same time.
    """

    def place(cell: Cell) -> tuple[int, int, int]:
        setting = cell.setting
        return setting.seed, place_of(setting.kind), secrets.randbits(64)

    return sorted(cells, key=place)
