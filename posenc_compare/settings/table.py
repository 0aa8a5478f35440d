"""The table of settings: name, type, default, unit and one sentence for each.

`compare`, `--set`, `--config` and `describe settings` read this table. A new setting is
one field here, and the code that reads its value. Defaults that depend on the preset
are in `presets`.
"""

from collections.abc import Callable
from dataclasses import Field, dataclass, field, fields
from pathlib import Path
from typing import Any, Literal, ParamSpec, TypeVar, get_args, get_origin

from posenc_compare.errors import ConfigError
from posenc_compare.settings.setting import STDLIB, Convolution, Norm, Pool, Split
from posenc_compare.validate import (
    check_choice,
    check_number,
    check_text,
    check_whole,
    number,
)

RETRY = ("failed", "lost", "unsupported", "ok")
P = ParamSpec("P")
R = TypeVar("R")


def setting(
    default: object,
    sentence: str,
    *,
    unit: str = "",
    low: float = 0,
    high: float = 0,
    example: str = "",
    caption: str = "",
    compare: bool = True,
) -> Any:
    """Return a field of the table.

    `default` is the value unless the preset sets another, and `example` is suggested
    instead of it. `caption` stands in captions for other values than the default.
    `compare` states whether results depend on the value.
    """
    facts = {"sentence": sentence, "unit": unit, "caption": caption}
    facts |= {"low": low, "high": high, "example": example or default}
    return field(default=default, compare=compare, metadata=facts)


@dataclass(frozen=True, kw_only=True)
class Network:
    """Settings of the network and its training."""

    layers: int = setting(2, "Layers of the decoder.", low=1, high=1000)
    width: int = setting(128, "Channels of a token vector.", low=1, high=1 << 16)
    heads: int = setting(4, "Attention heads per layer.", low=1, high=1024)
    norm: Norm = setting(
        "layer", "Normalisation: LayerNorm or RMSNorm.", caption="norm: {}"
    )
    convolution: Convolution = setting(
        "none",
        "Short convolutions: over preceding tokens in every layer, or (peg) over all "
        "neighbours after the first layer.",
        caption="convolution: {}",
    )
    pool: Pool = setting(
        "mean",
        "Input of the classification: the mean of all outputs, or the class token's "
        "output.",
        caption="pool: {}",
    )
    length: int = setting(64, "Training length.", unit="tokens", low=1, high=1 << 20)
    lengths: Literal["scaled", "published"] = setting(
        "scaled",
        "Position counts in scheme defaults: scaled to the training length, or as "
        "published.",
        caption="{} numbers of positions",
    )
    longest: int = setting(
        16, "Longest test, in training lengths; a power of two.", low=1, high=1024
    )
    steps: int = setting(300, "Optimiser steps.", low=1, high=10**9)
    batch: int = setting(16, "Sequences per step.", low=1, high=1 << 20)
    learning_rate: float = setting(
        2e-3, "Peak learning rate of AdamW.", low=1e-12, high=100
    )
    weight_decay: float = setting(0.1, "Weight decay of weight matrices.", high=100)
    scheme_rate: float = setting(
        0.0,
        "Learning-rate multiplier for the scheme's own parameters; 0 = chosen per "
        "parameter.",
        high=1e6,
        caption="rate of a scheme's own parameters {} times",
    )
    drop: float = setting(
        0.0,
        "Fraction of the steps, at the end of training, without positions; tests then "
        "run without them too (DroPE).",
        high=1,
        caption="positions dropped for the last {} of the steps",
    )
    test_bytes: int = setting(
        32_768, "Held-out tokens per test length.", unit="tokens", low=1, high=1 << 40
    )
    split: Split = setting("test", "Held-out documents to test on.")
    tests: Literal["all", "lengths"] = setting(
        "all",
        "lengths = without sliding windows and other scalings; all = with them.",
    )
    dtype: Literal["float32", "bfloat16"] = setting(
        "float32", "Precision of training; bfloat16 uses autocast.", caption="in {}"
    )
    compiled: bool = setting(
        False, "Compile the network with torch.compile; on a GPU, with CUDA graphs."
    )
    corpus: str = setting(STDLIB, "File or folder of text to train on.", compare=False)
    test_corpus: str = setting(
        "",
        "File or folder of text to test on; empty = held-out documents of the corpus.",
        example="books/last.txt",
        compare=False,
    )


@dataclass(frozen=True, kw_only=True)
class Work:
    """Settings of the execution; results do not depend on them."""

    device: Literal["auto", "cpu", "cuda"] = setting(
        "auto",
        "Device; auto = a GPU for large networks if there is one, else the CPU.",
    )
    threads: int = setting(1, "CPU threads per worker.", low=1, high=1024)
    workers: int = setting(
        0, "Worker processes; 0 = one per core, and at most 8 on a GPU.", high=1024
    )
    timeout: float = setting(
        3600.0,
        "Seconds without progress before a cell (a measure of one scheme and seed) "
        "is stopped.",
        unit="seconds",
        low=0.1,
        high=1e9,
    )
    memory: float = setting(
        0.0, "Memory limit per worker in GiB, on CPUs; 0 = none.", unit="GiB", high=1e6
    )
    checkpoint_every: float = setting(
        180.0, "Time between checkpoints of a training run.", unit="seconds", high=1e9
    )
    retry: str = setting(
        "",
        "Recompute cells that failed (an error) or were lost (the process died): "
        "failed, lost, or failed,lost.",
        example="failed,lost",
    )
    overwrite: bool = setting(False, "Recompute all cells.")
    fail_fast: bool = setting(False, "Stop at the first failed cell.")
    reuse: str = setting(
        "",
        "Comma-separated folders of other runs to copy records from.",
        example="runs/quick",
    )
    shard: str = setting(
        "1/1",
        "I/N: compute part I of N of the cells first, then cells of other parts that "
        "have no record yet.",
        example="1/4",
    )
    engine: Literal["local", "ray"] = setting(
        "local", "Processes on this machine, or a Ray cluster."
    )
    address: str = setting(
        "",
        "Address of the Ray cluster; empty = RAY_ADDRESS, or a new cluster.",
        example="10.0.0.1:6379",
    )
    gpu_share: float = setting(
        1.0,
        "GPUs per cell on a Ray cluster; 0.25 = four cells share one.",
        low=0.01,
        high=64,
    )

    def __post_init__(self) -> None:
        check_fields(self)
        if self.gpu_share > 1 and self.gpu_share % 1:
            raise ConfigError(
                f"gpu_share must be whole if it is above 1, got {self.gpu_share:g}; 1 "
                f"or 0.5 would work",
                field="gpu_share",
            )
        for name in ("address", "gpu_share") if self.engine == "local" else ():
            given, default = getattr(self, name), getattr(Work, name)
            if given != default:
                raise ConfigError(
                    f"{name} must be left out on this machine alone, got {given!r}; "
                    f"`--engine ray` would work",
                    field=name,
                )
        if self.folders and self.overwrite:
            raise ConfigError(
                f"reuse must be left out where every cell is computed again, "
                f"got {self.reuse[:80]!r}; a run without `--overwrite` would work",
                field="reuse",
            )

    @property
    def folders(self) -> list[Path]:
        """Return the folders to copy records from."""
        return [Path(one.strip()) for one in self.reuse.split(",") if one.strip()]

    def statuses(self) -> tuple[str, ...]:
        """Return the statuses of records that count as missing."""
        if self.overwrite:
            return RETRY
        asked = tuple(filter(None, self.retry.replace(" ", "").split(",")))
        for status in asked:
            check_choice("retry", status, RETRY[:2])
        return asked


@dataclass(frozen=True, kw_only=True)
class Choices(Work, Network):
    """All settings of a comparison, as `compare` takes them by name."""

    preset: Literal["quick", "survey", "standard", "gpu"] = setting(
        "quick",
        "Sizes, training settings and seeds: quick takes minutes, the others hours. "
        "'posenc-compare describe settings' lists the values in each preset.",
    )
    tasks: str = setting(
        "language",
        "Comma-separated tasks, or `all`; `language` trains on text. "
        "'posenc-compare list' shows their names.",
    )
    seeds: int | str = setting(
        3, "Number of paired seeds, such as 3; or a range, 100-109; or a list, 5,7,9."
    )
    positions: int = setting(
        512,
        "Number of positions for training-free measures; uniqueness also takes 2 and 4 "
        "times as many.",
        low=2,
        high=1 << 20,
    )
    probe_dtype: Literal["float64", "float32", "bfloat16", "float16"] = setting(
        "float64", "Precision of training-free measures."
    )
    grid: str = setting(
        "", "Grid of positions for schemes of two or three axes.", example="16x16"
    )


TABLE: dict[str, Field[Any]] = {one.name: one for one in fields(Choices)}
GROUPS = {
    "Comparison, and measures without training": Choices,
    "Network and training": Network,
    "Execution": Work,
}


def check_fields(values: object) -> None:
    """Check the settings in an instance; make its numbers floats where they may be."""
    for one in fields(values):  # type: ignore[arg-type]
        if one.metadata:
            check_value(one.name, getattr(values, one.name))
        if one.type is float:  # 1 and 1.0 must give the same key, and so 0 and -0
            value = float(getattr(values, one.name)) + 0.0
            object.__setattr__(values, one.name, value)


def check_value(name: str, value: object) -> None:
    """Check a value of a setting."""
    one = TABLE[name]
    low, high, example = (one.metadata[fact] for fact in ("low", "high", "example"))
    if get_origin(one.type) is Literal:
        check_choice(name, value, get_args(one.type))
    elif one.type is bool:
        check_choice(name, value, (True, False))
    elif one.type is int:
        check_whole(name, value, low, high, example)
    elif one.type is float:
        check_number(name, value, low, high, example)
    elif one.type is str:
        check_text(name, value, example)


def parse_value(one: Field[Any], text: str) -> object:
    """Return the value that a text stands for; a wrong one is left for its check."""
    if one.type is bool:
        return {"true": True, "false": False}.get(text.lower(), text)
    return number(text, one.type) if one.type in (int, float) else text


def type_text(one: Field[Any]) -> str:
    """Return the type of a setting in words, with its unit."""
    words = {int: "whole number", float: "number", bool: "true or false", str: "text"}
    kind = words.get(one.type) or " | ".join(
        words.get(part, str(part)) for part in get_args(one.type)
    )
    unit = one.metadata["unit"]
    return f"{kind}, {unit}" if unit else kind


def with_arguments_of(
    kind: Callable[P, object],
) -> Callable[[Callable[..., R]], Callable[P, R]]:
    """Type a function with the arguments of a class, for editors and checkers."""
    del kind
    return lambda function: function
