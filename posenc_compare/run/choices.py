"""From the choices of a user to the settings of cells."""

import math
from collections.abc import Iterable
from dataclasses import dataclass, replace

from posenc_compare.errors import ConfigError
from posenc_compare.records.cells import setting_of
from posenc_compare.registry import MEASURES, TASK_SIZES, TASKS
from posenc_compare.run.devices import resolve_device
from posenc_compare.settings.canonical import Body
from posenc_compare.settings.presets import PRESETS
from posenc_compare.settings.probe import ProbeSetting, sides_of
from posenc_compare.settings.seeds import named_seeds
from posenc_compare.settings.setting import STDLIB
from posenc_compare.settings.table import check_value
from posenc_compare.settings.training import Training

ON_GRID = {"width", "heads", "lengths", "positions", "probe_dtype"}


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
    for name in chosen.keys() - ON_GRID if grid is not None else ():
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
