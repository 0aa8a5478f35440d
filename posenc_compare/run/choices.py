"""From the choices of a user to the settings of cells."""

import math
from dataclasses import dataclass, replace

from posenc_compare.errors import ConfigError
from posenc_compare.registry import TASK_SIZES, TASKS
from posenc_compare.run.devices import resolve_device
from posenc_compare.settings.canonical import Body
from posenc_compare.settings.presets import PRESETS
from posenc_compare.settings.probe import ProbeSetting, sides_of
from posenc_compare.settings.seeds import named_seeds
from posenc_compare.settings.setting import STDLIB
from posenc_compare.settings.table import check_value
from posenc_compare.settings.training import Training

TEXTS = {"tasks", "corpus"}
ON_GRID = {"width", "heads", "lengths", "positions", "probe_dtype"}


@dataclass(frozen=True)
class Settings:
    """The settings of a comparison.

    Attributes:
        preset: that they started from.
        trainings: of trained measures, one for each task.
        probe: of all other measures.
        seeds: which.
        probe_seeds: of measures without training, if they have fewer.
        left_out: tasks that need a file, where there is none.
    """

    preset: str
    trainings: tuple[Training, ...]
    probe: ProbeSetting
    seeds: tuple[int, ...]
    probe_seeds: tuple[int, ...]
    left_out: list[str]

    @property
    def name(self) -> str:
        """Return the name of the folder that a run goes to by default."""
        return f"grid-{self.probe.grid}" if self.probe.grid else self.preset


def settle(chosen: Body, device: str) -> Settings:
    """Return the settings that follow from choices, on `device`.

    Args:
        chosen: values by the names of `Choices`; any may be missing or wrong.
        device: auto, cpu or cuda.

    Raises:
        ConfigError: if a value has the wrong type or range.
    """
    chosen = dict(chosen)
    preset = chosen.pop("preset", "quick")
    check_value("preset", preset)
    training = PRESETS[preset].training
    given = chosen.pop("seeds", None)
    seeds = named_seeds(PRESETS[preset].seeds if given is None else given)
    probed = seeds if given is not None else seeds[: PRESETS[preset].probe_seeds]
    grid = chosen.pop("grid", None)
    for name in chosen.keys() - ON_GRID if grid is not None else ():
        raise ConfigError(
            f"{name} must be left out on a grid, where none is trained", field=name
        )
    cells = 0 if grid is None else math.prod(sides_of(grid))
    if chosen.get("test_corpus") and chosen.get("split") == "validation":
        raise ConfigError(
            "test_corpus must be left out with split=validation, whose documents are "
            f"of the corpus, got {str(chosen['test_corpus'])[:80]!r}",
            field="test_corpus",
        )
    tasks, left_out = _tasks(**{n: chosen[n] for n in TEXTS & chosen.keys()})
    chosen.pop("tasks", None)
    probe = ProbeSetting(
        positions=chosen.pop("positions", cells or ProbeSetting.positions),
        tokens=cells or ProbeSetting.tokens,
        grid=grid or "",
        dtype=chosen.pop("probe_dtype", ProbeSetting.dtype),
        width=chosen.get("width", training.width),
        heads=chosen.get("heads", training.heads),
        lengths=chosen.get("lengths", training.lengths),
        device=resolve_device(device, on_gpu=ProbeSetting.on_gpu),
    )
    place = resolve_device(device, on_gpu=Training.on_gpu)
    trainings = tuple(
        replace(
            training, **{**_sizes(preset, task), **chosen, "task": task}, device=place
        )
        for task in tasks
    )
    _check_texts_are_read(chosen, trainings)
    return Settings(preset, trainings, probe, seeds, probed, left_out)


def _check_texts_are_read(chosen: Body, trainings: tuple[Training, ...]) -> None:
    """Refuse a text that no task reads.

    Raises:
        ConfigError: if there is one.
    """
    tasks = [training.task for training in trainings]
    texts = {n: chosen.get(n, "") for n in ("corpus", "test_corpus")}
    given = [name for name, text in texts.items() if text not in ("", STDLIB)]
    if given and not any(training.reads_corpus for training in trainings):
        raise ConfigError(
            f"{given[0]} must be left out with tasks that read none, "
            f"{', '.join(tasks)}, got {str(texts[given[0]])[:80]!r}; "
            f"`--tasks language` would work",
            field=given[0],
        )


def _tasks(tasks: str = Training.task, corpus: str = STDLIB) -> tuple[list[str], ...]:
    """Return the tasks of a text, and those that a group has and no file is for.

    Raises:
        ConfigError: if a task is unknown, or is named and needs a file.
    """
    found, without = TASKS.select_all(tasks), []
    if corpus == STDLIB:
        without = [name for name in found if TASKS.entry(name).facts.get("needs_file")]
    for name in without:
        if len(without) == len(found) or name in tasks.replace(" ", "").split(","):
            raise ConfigError(
                f"task {name}: must have a file, got none; `--corpus FILE` would work",
                field="tasks",
            )
    return [name for name in found if name not in without], without


def _sizes(preset: str, task: str) -> Body:
    """Return the sizes that a task states, if the preset takes them."""
    facts = TASKS.entry(task).facts if PRESETS[preset].by_task else {}
    return {name: facts[name] for name in TASK_SIZES if name in facts}
