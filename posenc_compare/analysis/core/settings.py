"""The settings of cells, by kind.

A measure declares the kind of its setting. A setting knows a lower bound of its
memory, so that a cell which cannot fit is refused before anything is computed.
"""

import math
import re
from collections.abc import Callable, Sequence
from dataclasses import Field, asdict, dataclass, field, replace
from typing import Any, ClassVar, Literal, Protocol, Self, get_args

from posenc_compare.analysis.core.canonical import Scalar
from posenc_compare.errors import ConfigError
from posenc_compare.registry import TASKS
from posenc_compare.validate import (
    check_choice,
    check_heads,
    check_number,
    check_text,
    check_whole,
)

Split = Literal["test", "validation"]  # sets of documents that are not trained on
Norm = Literal["layer", "rms"]
STDLIB = "stdlib"  # the name of the default corpus
SEEDS = (1 << 63) - 1  # the largest seed
LENGTHS = ("scaled", "published")
DTYPES = ("float64", "float32", "bfloat16", "float16")
GRID = re.compile(r"[1-9][0-9]{0,3}(x[1-9][0-9]{0,3}){1,2}")
CELLS = 1024  # most cells of a grid; every cell attends to every other


class Text(Protocol):
    """What a setting asks of a corpus."""

    @property
    def sha256(self) -> str:
        """Return the hash of all of it."""
        ...

    def windows(self, split: Split, length: int, total: int) -> object:
        """Return held-out windows.

        Raises:
            CorpusError: if it holds out too little.
        """
        ...

    def batch(self, size: int, length: int, seed: int, step: int) -> object:
        """Return a batch to train on.

        Raises:
            CorpusError: if there is too little to train on.
        """
        ...


class Setting(Protocol):
    """Everything that a number depends on beside scheme and measure.

    Attributes:
        kind: by which measures ask for it.
        on_gpu: whether the device `auto` is a GPU if there is one.
        resumes: whether its cells keep checkpoints.
    """

    __dataclass_fields__: ClassVar[dict[str, Field[Any]]]
    kind: ClassVar[str]
    on_gpu: ClassVar[bool]
    resumes: ClassVar[bool]

    @property
    def seed(self) -> int:
        """Return what all random numbers come from."""
        ...

    @property
    def dtype(self) -> str:
        """Return the dtype of what is computed."""
        ...

    @property
    def device(self) -> str:
        """Return where it is computed: `cpu` or `cuda`."""
        ...

    @property
    def places(self) -> tuple[str, ...]:
        """Return where this machine finds its texts, as `load_corpus` takes them."""
        ...

    @property
    def reads_corpus(self) -> bool:
        """Return whether its cells read the corpus."""
        ...

    def takes(self, axes: int) -> bool:
        """Return whether it has positions for a scheme of so many axes."""
        ...

    @property
    def work(self) -> int:
        """Return the units of progress that one cell counts for."""
        ...

    @property
    def memory(self) -> int:
        """Return the bytes that one cell needs at the least."""
        ...

    def spec(self) -> dict[str, Scalar]:
        """Return what a cell's key is made of."""
        ...

    def resolve(self, load: Callable[..., Text]) -> Self:
        """Return the setting with all that its text decides.

        Args:
            load: returns the text at places.

        Raises:
            CorpusError: if the text is missing or too small.
        """
        ...

    @classmethod
    def of(cls, spec: dict[str, Scalar], places: Sequence[str]) -> Self:
        """Return the setting that `spec` describes; its texts lie at `places`.

        Raises:
            TypeError: if a field is missing or unknown.
            ConfigError: if a value cannot be used.
        """
        ...


@dataclass(frozen=True)
class ProbeSetting:
    """All settings of a measure without training, except the scheme.

    Attributes:
        width: channels of a token vector.
        heads: attention heads.
        positions: number of positions, and the length that the scheme is built for.
        tokens: length of the sequence in attention.
        seed: seed of tokens, projections and the scheme's own parameters.
        dtype: dtype of the computation.
        device: device of the computation.
        lengths: whether schemes scale published numbers of positions to `positions`.
        grid: `ROWSxCOLUMNS`, or three sizes, of a grid that holds the positions in
            raster order; empty for a sequence.
    """

    width: int = 128
    heads: int = 4
    positions: int = 512
    tokens: int = 64
    seed: int = 0
    dtype: Literal["float64", "float32", "bfloat16", "float16"] = "float64"
    device: str = "cpu"
    lengths: Literal["scaled", "published"] = "scaled"
    grid: str = ""

    def __post_init__(self) -> None:
        check_whole("width", self.width, 1, 1 << 16)
        check_whole("heads", self.heads, 1, 1024)
        check_heads(self.width, self.heads)
        check_whole("positions", self.positions, 2, 1 << 20)
        check_whole("tokens", self.tokens, 1, 1 << 20)
        check_whole("seed", self.seed, 0, SEEDS)
        check_choice("probe_dtype", self.dtype, DTYPES)
        check_choice("lengths", self.lengths, LENGTHS)
        if math.prod(self.sides) != self.positions:
            raise ConfigError(
                f"positions must be {math.prod(self.sides)} on a grid of {self.grid}, "
                f"got {self.positions}"
            )

    kind: ClassVar[str] = "probe"
    on_gpu: ClassVar[bool] = False  # small, and in float64
    resumes: ClassVar[bool] = False
    reads_corpus = False
    places = ()
    work = 5  # units of progress of one measure

    @property
    def sides(self) -> tuple[int, ...]:
        """Return the sizes of the grid, or the length of the sequence."""
        return sides_of(self.grid) if self.grid else (self.positions,)

    def takes(self, axes: int) -> bool:
        """Return whether a scheme has as many axes as the grid, or one of a text."""
        return axes == len(self.sides)

    @property
    def memory(self) -> int:
        """Return a lower bound of the bytes of one measure: two copies of the codes."""
        return 2 * 8 * self.positions * self.width

    def spec(self) -> dict[str, Scalar]:
        """Return the fields for a cell's key; `grid` is omitted for a sequence."""
        spec = {"kind": self.kind, **asdict(self)}
        return spec if self.grid else {k: v for k, v in spec.items() if k != "grid"}

    def resolve(self, load: Callable[..., Text]) -> Self:
        """Return it as it is: it needs no text."""
        return self

    @classmethod
    def of(cls, spec: dict[str, Scalar], places: Sequence[str]) -> Self:
        """Return the setting that `spec` describes."""
        given: dict[str, Any] = {n: v for n, v in spec.items() if n != "kind"}
        return cls(**given)


def sides_of(grid: str) -> tuple[int, ...]:
    """Return the two or three sizes of a grid such as `16x16`.

    Raises:
        ConfigError: if the text has another form, or the grid is too small or large.
    """
    fits = isinstance(grid, str) and GRID.fullmatch(grid)
    sides = tuple(map(int, grid.split("x"))) if fits else (0,)
    if min(sides) < 2 or math.prod(sides) > CELLS:
        raise ConfigError(
            f"grid must be ROWSxCOLUMNS, each at least 2, with at most {CELLS} cells, "
            f"got {str(grid)[:40]!r}; 16x16 would work"
        )
    return sides


@dataclass(frozen=True)
class Training:
    """All settings of a trained measure, except the scheme.

    Attributes:
        task: the task that the network is trained and tested on.
        layers: layers of the decoder.
        width: channels of a token vector.
        heads: attention heads.
        norm: what precedes attention and perceptron, LayerNorm or RMSNorm.
        length: tokens per training sequence, and the shortest test length.
        lengths: whether schemes scale published numbers of positions to `length`.
        steps: optimiser steps.
        batch: sequences per step.
        learning_rate: peak rate of AdamW.
        weight_decay: weight decay of the network's matrices.
        scheme_rate: rate of a scheme's own parameters, as a multiple of the rate of
            the network; 0: by what they act on, see `training.optimiser`.
        longest: the longest test length, in multiples of `length`; test lengths
            double from `length` up to it.
        test_bytes: held-out tokens that are predicted at every length.
        split: which held-out documents those are from: test, or validation to choose
            a setting by.
        dtype: float32, or bfloat16 for autocast.
        compiled: whether to compile the network.
        seed: seed of initial weights and batches.
        device: device of the training.
        corpus_sha256: hash of the corpus; empty if the task reads none.
        corpus: file, folder or `stdlib`; the place of the corpus on this machine.
        test_corpus: file or folder to test on; empty for documents of the corpus.
    """

    task: str = "language"
    layers: int = 2
    width: int = 128
    heads: int = 4
    norm: Norm = "layer"
    length: int = 64
    lengths: Literal["scaled", "published"] = "scaled"
    steps: int = 300
    batch: int = 16
    learning_rate: float = 2e-3
    weight_decay: float = 0.1
    scheme_rate: float = 0.0
    longest: int = 16
    test_bytes: int = 32_768
    split: Split = "test"
    dtype: Literal["float32", "bfloat16"] = "float32"
    compiled: bool = False
    seed: int = 0
    device: str = "cpu"
    corpus_sha256: str = ""
    corpus: str = field(default=STDLIB, compare=False)
    test_corpus: str = field(default="", compare=False)

    kind: ClassVar[str] = "training"
    on_gpu: ClassVar[bool] = True
    resumes: ClassVar[bool] = True

    def __post_init__(self) -> None:
        TASKS.entry(self.task)
        check_whole("layers", self.layers, 1, 1000)
        check_whole("width", self.width, 1, 1 << 16)
        check_whole("heads", self.heads, 1, 1024)
        check_heads(self.width, self.heads)
        check_whole("length", self.length, 1, 1 << 20)
        check_whole("steps", self.steps, 1, 10**9)
        check_whole("batch", self.batch, 1, 1 << 20)
        check_whole("seed", self.seed, 0, SEEDS)
        check_number("learning_rate", self.learning_rate, 1e-12, 100)
        check_number("weight_decay", self.weight_decay, 0, 100)
        check_number("scheme_rate", self.scheme_rate, 0, 1e6)
        check_choice("norm", self.norm, get_args(Norm))
        check_choice("split", self.split, get_args(Split))
        check_choice("longest", self.longest, tuple(1 << i for i in range(11)))
        check_whole("test_bytes", self.test_bytes, self.length * self.longest, 1 << 40)
        check_choice("dtype", self.dtype, ("float32", "bfloat16"))
        check_choice("lengths", self.lengths, LENGTHS)
        check_choice("compiled", self.compiled, (True, False))
        check_text("corpus", self.corpus, STDLIB)
        check_text("test_corpus", self.test_corpus, "books/last.txt")
        # 1 and 1.0 are the same rate, so they must give the same key.
        for name in ("learning_rate", "weight_decay", "scheme_rate"):
            object.__setattr__(self, name, float(getattr(self, name)))

    @property
    def work(self) -> int:
        """Return the units of progress of one cell: its steps."""
        return self.steps

    @property
    def memory(self) -> int:
        """Return a lower bound of the bytes of training and testing.

        It counts weights, gradients and AdamW's two moments. For a step it adds the
        saved activations of each layer and the logits, or for a test one layer and the
        logits, if these are more.
        """
        tokens = TASKS.entry(self.task).facts["vocabulary"]
        weights = self.layers * 12 * self.width**2 + tokens * self.width
        step = self.batch * self.length * (self.layers * 10 * self.width + 2 * tokens)
        longest = self.length * self.longest * (6 * self.width + 2 * tokens)
        return 4 * (4 * weights + max(step, longest))

    @property
    def reads_corpus(self) -> bool:
        """Return whether the task reads the corpus."""
        facts = TASKS.entry(self.task).facts
        return facts.get("corpus", False) or facts.get("needs_file", False)

    @property
    def places(self) -> tuple[str, str]:
        """Return where this machine finds its texts, as `load_corpus` takes them."""
        return self.corpus, self.test_corpus

    def takes(self, axes: int) -> bool:
        """Return whether a scheme has the axes of the task, or one, which counts."""
        return axes in (1, TASKS.entry(self.task).facts.get("axes", 1))

    @property
    def test_lengths(self) -> list[int]:
        """Return the test lengths in tokens, from the training length up."""
        return [self.length << i for i in range(self.longest.bit_length())]

    def spec(self) -> dict[str, Scalar]:
        """Return the fields for a cell's key: all except the places of texts."""
        spec = {"kind": self.kind, **asdict(self)}
        return {n: v for n, v in spec.items() if n not in ("corpus", "test_corpus")}

    def resolve(self, load: Callable[..., Text]) -> Self:
        """Return the setting with the hash of its corpus, which must be large enough.

        Raises:
            CorpusError: if the corpus is missing or too small.
        """
        if not self.reads_corpus:
            return self
        text = load(*self.places)
        text.windows(self.split, self.test_lengths[-1], self.test_bytes)
        text.batch(1, self.length, seed=0, step=0)
        return replace(self, corpus_sha256=text.sha256)

    @classmethod
    def of(cls, spec: dict[str, Scalar], places: Sequence[str]) -> Self:
        """Return the setting that `spec` describes; its texts lie at `places`."""
        given: dict[str, Any] = {n: v for n, v in spec.items() if n != "kind"}
        corpus, test_corpus = places
        return cls(**given, corpus=corpus, test_corpus=test_corpus)


SETTINGS: dict[str, type[Setting]] = {
    setting.kind: setting for setting in (ProbeSetting, Training)
}
"""The kinds of settings, those of quick cells first."""
