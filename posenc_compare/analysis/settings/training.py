"""The setting of measures that train a network."""

from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any, ClassVar, Literal, Self, get_args

from posenc_compare.analysis.core.canonical import Scalar
from posenc_compare.analysis.core.settings import (
    LENGTHS,
    SEEDS,
    STDLIB,
    Convolution,
    Norm,
    Split,
    Text,
    register_setting,
)
from posenc_compare.errors import ConfigError
from posenc_compare.registry import TASKS
from posenc_compare.validate import (
    check_choice,
    check_heads,
    check_number,
    check_text,
    check_whole,
)

GONE = {("captured", False)}  # of older records: what is done without the setting


@register_setting("training", order=1, heading="Settings of training")
@dataclass(frozen=True)
class Training:
    """All settings of a trained measure, except the scheme.

    Attributes:
        task: the task that the network is trained and tested on.
        layers: layers of the decoder.
        width: channels of a token vector.
        heads: attention heads.
        norm: what precedes attention and perceptron, LayerNorm or RMSNorm.
        convolution: over the tokens before, in every layer; `training.convolution`.
        length: tokens per training sequence, and the shortest test length.
        lengths: whether schemes scale published numbers of positions to `length`.
        steps: optimiser steps.
        batch: sequences per step.
        learning_rate: peak rate of AdamW.
        weight_decay: weight decay of the network's matrices.
        scheme_rate: rate of a scheme's own parameters, as a multiple of the rate of
            the network; 0: by what they act on, see `training.optimiser`.
        drop: share of the steps, the last ones, that are trained without positions, as
            all tests are then (DroPE, Gelberg et al. 2025, arXiv:2512.12167).
        longest: the longest test length, in multiples of `length`; test lengths
            double from `length` up to it.
        test_bytes: held-out tokens that are predicted at every length.
        split: which held-out documents those are from: test, or validation to choose
            a setting by.
        dtype: float32, or bfloat16 for autocast.
        compiled: whether to compile the network, on a GPU with CUDA graphs.
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
    convolution: Convolution = "none"
    length: int = 64
    lengths: Literal["scaled", "published"] = "scaled"
    steps: int = 300
    batch: int = 16
    learning_rate: float = 2e-3
    weight_decay: float = 0.1
    scheme_rate: float = 0.0
    drop: float = 0.0
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

    kind: ClassVar[str]
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
        check_number("drop", self.drop, 0, 1)
        check_choice("norm", self.norm, get_args(Norm))
        check_choice("convolution", self.convolution, get_args(Convolution))
        check_choice("split", self.split, get_args(Split))
        check_choice("longest", self.longest, tuple(1 << i for i in range(11)))
        check_whole("test_bytes", self.test_bytes, self.length * self.longest, 1 << 40)
        check_choice("dtype", self.dtype, ("float32", "bfloat16"))
        check_choice("lengths", self.lengths, LENGTHS)
        check_choice("compiled", self.compiled, (True, False))
        check_text("corpus", self.corpus, STDLIB)
        check_text("test_corpus", self.test_corpus, "books/last.txt")
        # 1 and 1.0 are the same rate, so they must give the same key.
        for name in ("learning_rate", "weight_decay", "scheme_rate", "drop"):
            object.__setattr__(self, name, float(getattr(self, name)) + 0.0)  # no -0
        if self.drop and not self.dropped_steps:
            raise ConfigError(
                f"drop must be 0 or a step of {self.steps} at least, got {self.drop}"
            )

    @property
    def work(self) -> int:
        """Return the units of progress of one cell: its steps."""
        return self.steps

    @property
    def dropped_steps(self) -> int:
        """Return how many steps, the last ones, are trained without positions."""
        return round(self.drop * self.steps)

    @property
    def memory(self) -> int:
        """Return a lower bound of the bytes of training and testing.

        It counts weights, gradients and AdamW's two moments. For a step it adds the
        saved activations of each layer and the logits, or for a test one layer and the
        logits, if these are more. Convolutions are not counted.
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
        given: dict[str, Any] = {
            n: v for n, v in spec.items() if n != "kind" and (n, v) not in GONE
        }
        corpus, test_corpus = places
        return cls(**given, corpus=corpus, test_corpus=test_corpus)
