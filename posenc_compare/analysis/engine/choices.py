"""The choices of a comparison by name, and the settings that follow from them.

A choice stands here once, with its type and a line of help: it is a flag of the command
line, a key of a file of settings and an argument of `compare`. A choice that is not
made has the value of its preset, or the default of `Work`.
"""

import math
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated, Literal, TypedDict

from posenc_compare.analysis.core.canonical import Body
from posenc_compare.analysis.core.seeds import named_seeds
from posenc_compare.analysis.core.settings import STDLIB, Convolution, Norm
from posenc_compare.analysis.engine.devices import resolve_device
from posenc_compare.analysis.settings.presets import PRESETS
from posenc_compare.analysis.settings.probe import ProbeSetting, sides_of
from posenc_compare.analysis.settings.training import Training
from posenc_compare.errors import ConfigError
from posenc_compare.registry import TASK_SIZES, TASKS
from posenc_compare.validate import check_choice, check_text


class SettingChoices(TypedDict, total=False):
    """What numbers depend on, beside schemes and measures."""

    preset: Annotated[
        Literal["quick", "survey", "standard", "gpu"],
        "Sizes and seeds by one name.",
    ]
    tasks: Annotated[
        str,
        "What networks are trained on: comma-separated, or `all`; default: language.",
    ]
    corpus: Annotated[str, "File or folder of text; default: stdlib."]
    test_corpus: Annotated[
        str, "File or folder to test on; default: documents of the corpus."
    ]
    seeds: Annotated[int | str, "How many paired seeds, or which: 3, 100-109, 5,7,9."]
    layers: Annotated[int, "Layers of the decoder."]
    width: Annotated[int, "Channels of a token."]
    heads: Annotated[int, "Attention heads."]
    norm: Annotated[Norm, "LayerNorm by default, or RMSNorm."]
    convolution: Annotated[
        Convolution, "Of every layer, over the tokens before: none by default."
    ]
    length: Annotated[int, "Training length, bytes."]
    lengths: Annotated[
        Literal["scaled", "published"],
        "Whether a default of a scheme that is a number of positions is scaled to the "
        "length, or is that of the paper.",
    ]
    longest: Annotated[int, "Longest test, in training lengths."]
    steps: Annotated[int, "Optimiser steps."]
    batch: Annotated[int, "Sequences per step."]
    learning_rate: Annotated[float, "Peak rate."]
    weight_decay: Annotated[float, "Of matrices."]
    scheme_rate: Annotated[
        float, "Rate of a scheme's own parameters, in rates; 0: by what they act on."
    ]
    drop: Annotated[
        float,
        "Share of the steps, at their end, without positions, as all tests then are.",
    ]
    test_bytes: Annotated[int, "Held-out bytes per test length."]
    split: Annotated[
        Literal["test", "validation"], "Documents to test on; validation, to choose by."
    ]
    dtype: Annotated[str, "Of training: float32 or bfloat16 (autocast)."]
    compiled: Annotated[bool, "Use torch.compile, on a GPU with CUDA graphs."]
    positions: Annotated[int, "Positions that codes are measured over."]
    probe_dtype: Annotated[
        str, "Without training: float64, float32, bfloat16 or float16."
    ]
    grid: Annotated[
        str, "Compare schemes of two axes on a grid, as 16x16, or of three."
    ]


class WorkChoices(TypedDict, total=False):
    """How the cells are computed, which changes no number."""

    device: Annotated[
        Literal["auto", "cpu", "cuda"],
        "Where to compute; auto: train on a GPU if there is one, all else on the CPU.",
    ]
    threads: Annotated[int, "CPU threads of one worker."]
    workers: Annotated[int, "Processes; 0: one for each core, or one on a GPU."]
    timeout: Annotated[float, "Seconds a cell may go on without progress."]
    memory: Annotated[float, "GiB of data a worker may hold; 0: all. On CPUs."]
    checkpoint_every: Annotated[float, "Seconds between checkpoints of a training."]
    retry: Annotated[str, "Compute these again: failed, lost, or both by comma."]
    overwrite: Annotated[bool, "Compute every cell again."]
    fail_fast: Annotated[bool, "Stop at the first cell that fails."]
    deterministic: Annotated[
        bool, "Refuse operations whose result may differ from time to time on a GPU."
    ]
    reuse: Annotated[
        str, "Folders of runs, by comma: what they have is copied, not computed again."
    ]
    shard: Annotated[str, "I/N: this run's share of N; then it helps the others."]
    engine: Annotated[
        Literal["local", "ray"], "Processes of this machine, or of a Ray cluster."
    ]
    address: Annotated[str, "Of the Ray cluster; default: RAY_ADDRESS, or a new one."]
    gpu_share: Annotated[float, "GPUs for one cell of a Ray cluster; 0.25: four share."]
    yes: Annotated[bool, "Compute however many cells there are."]


class Choices(SettingChoices, WorkChoices, total=False):
    """All choices of a comparison beside schemes, measures and folder."""


TEXTS = {"tasks", "corpus"}
ON_GRID = {"width", "heads", "lengths", "positions", "probe_dtype"}
RETRY = ("failed", "lost", "unsupported", "ok")


@dataclass(frozen=True)
class Work:
    """How a run goes about its cells.

    Attributes:
        device: auto, cpu or cuda.
        threads: of the CPU for one cell.
        workers: processes; 0 for one per core, or one if any cell is on a GPU.
        timeout: seconds that a cell may go on without progress.
        memory: GiB of data for one worker; 0 for all of the machine's.
        checkpoint_every: seconds between checkpoints of a training.
        retry: comma-separated statuses of records to compute again.
        overwrite: compute every cell again.
        fail_fast: stop at the first cell that fails.
        deterministic: let torch refuse what may give other bytes another time.
        reuse: comma-separated folders of runs, whose records are copied.
        shard: `I/N`, the cells that this run of N takes first.
        engine: local or ray.
        address: of the Ray cluster; empty for that of RAY_ADDRESS, or a new one.
        gpu_share: GPUs for one cell of a Ray cluster.
        yes: compute however many cells there are.
    """

    device: str = "auto"
    threads: int = 1
    workers: int = 0
    timeout: float = 3600.0
    memory: float = 0.0
    checkpoint_every: float = 180.0
    retry: str = ""
    overwrite: bool = False
    fail_fast: bool = False
    deterministic: bool = False
    reuse: str = ""
    shard: str = "1/1"
    engine: str = "local"
    address: str = ""
    gpu_share: float = 1.0
    yes: bool = False

    def folders(self) -> tuple[Path, ...]:
        """Return the folders whose records are copied."""
        check_text("reuse", self.reuse, "runs/quick")
        named = [name.strip() for name in self.reuse.split(",") if name.strip()]
        if named and self.overwrite:
            raise ConfigError(
                f"reuse must be left out where every cell is computed again, "
                f"got {self.reuse[:80]!r}; a run without `--overwrite` would work"
            )
        return tuple(map(Path, named))

    def statuses(self) -> tuple[str, ...]:
        """Return the statuses of records that count as missing."""
        if self.overwrite:
            return RETRY
        check_text("retry", self.retry, "failed,lost")
        asked = tuple(filter(None, self.retry.replace(" ", "").split(",")))
        for status in asked:
            check_choice("retry", status, RETRY[:2])
        return asked


@dataclass(frozen=True)
class Settings:
    """The settings of a comparison.

    Attributes:
        preset: that they started from.
        trainings: of trained measures, one for each task.
        probe: of all other measures.
        seeds: which.
        left_out: tasks that need a file, where there is none.
    """

    preset: str
    trainings: tuple[Training, ...]
    probe: ProbeSetting
    seeds: tuple[int, ...]
    left_out: list[str]

    @property
    def name(self) -> str:
        """Return the name of the folder that a run goes to by default."""
        return f"grid-{self.probe.grid}" if self.probe.grid else self.preset


def settle(chosen: Body, device: str) -> Settings:
    """Return the settings that follow from choices, on `device`.

    Args:
        chosen: values by the names of `SettingChoices`; any may be missing or wrong.
        device: auto, cpu or cuda.

    Raises:
        ConfigError: if a value has the wrong type or range.
    """
    chosen = dict(chosen)
    preset = chosen.pop("preset", "quick")
    check_choice("preset", preset, tuple(PRESETS))
    training = PRESETS[preset].training
    seeds = named_seeds(chosen.pop("seeds", PRESETS[preset].seeds))
    grid = chosen.pop("grid", None)
    for name in chosen.keys() - ON_GRID if grid is not None else ():
        raise ConfigError(f"{name} must be left out on a grid, where none is trained")
    cells = 0 if grid is None else math.prod(sides_of(grid))
    if chosen.get("test_corpus") and chosen.get("split") == "validation":
        raise ConfigError(
            "test_corpus must be left out with --split validation, whose documents are "
            f"of the corpus, got {str(chosen['test_corpus'])[:80]!r}"
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
    return Settings(preset, trainings, probe, seeds, left_out)


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
            f"`--tasks language` would work"
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
                f"task {name}: must have a file, got none; `--corpus FILE` would work"
            )
    return [name for name in found if name not in without], without


def _sizes(preset: str, task: str) -> Body:
    """Return the sizes that a task states, if the preset takes them."""
    facts = TASKS.entry(task).facts if PRESETS[preset].by_task else {}
    return {name: facts[name] for name in TASK_SIZES if name in facts}
