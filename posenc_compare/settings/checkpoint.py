"""The setting of measures of a trained checkpoint."""

from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any, ClassVar, Literal, Self

from posenc_compare.errors import ConfigError
from posenc_compare.settings.canonical import Scalar
from posenc_compare.settings.setting import (
    SEEDS,
    STDLIB,
    Split,
    Text,
    register_setting,
)
from posenc_compare.validate import check_choice, check_text, check_whole

LONGEST = 1 << 20  # tokens
BYTES = 8  # of text for one token, so that a window has tokens enough


@register_setting("checkpoint", order=2, heading="Settings of checkpoints")
@dataclass(frozen=True)
class Checkpoint:
    """All settings of a measure of a checkpoint, except the scheme.

    Attributes:
        model: its name, for people.
        model_sha256: hash of its files.
        lengths: of the windows that are read, in tokens, by comma.
        trained: length of its training, in tokens.
        rules: by which its rotary positions are read beyond the trained length, by
            comma; `all` for every rule there is.
        split: which held-out documents are read.
        dtype: of the weights.
        seed: which window of the longest length is read, from 0; shorter ones are
            pieces of its tokens. A checkpoint is given, so nothing is drawn.
        device: where it is read.
        transformers: version of the package that holds its architecture.
        corpus_sha256: hash of the corpus.
        place: of the checkpoint on this machine.
        corpus: file, folder or `stdlib`; the place of the corpus on this machine.
        test_corpus: file or folder to test on; empty for documents of the corpus.
    """

    model: str
    model_sha256: str
    lengths: str
    trained: int
    rules: str = "all"
    split: Split = "test"
    dtype: Literal["float32", "bfloat16"] = "float32"
    seed: int = 0
    device: str = "cpu"
    transformers: str = ""
    corpus_sha256: str = ""
    place: str = field(default="", compare=False)
    corpus: str = field(default=STDLIB, compare=False)
    test_corpus: str = field(default="", compare=False)

    kind: ClassVar[str]
    on_gpu: ClassVar[bool] = True
    resumes: ClassVar[bool] = True
    reads_corpus = True
    task = ""

    def __post_init__(self) -> None:
        check_text("corpus", self.corpus, STDLIB)
        check_text("test_corpus", self.test_corpus, "books/last.txt")
        check_whole("trained", self.trained, 1, LONGEST)
        check_whole("seed", self.seed, 0, SEEDS)
        check_choice("split", self.split, ("test", "validation"))
        check_choice("dtype", self.dtype, ("float32", "bfloat16"))
        for length in self.test_lengths:
            check_whole("lengths", length, 2, LONGEST)
            if self.test_lengths[-1] % length:
                raise ConfigError(
                    f"lengths must divide the longest, {self.test_lengths[-1]}, got "
                    f"{length}; 1024,2048,4096 would work"
                )

    @property
    def test_lengths(self) -> list[int]:
        """Return the lengths of windows in tokens, the shortest first."""
        return lengths_of(self.lengths)

    @property
    def work(self) -> int:
        """Return the units of progress of one cell: its lengths."""
        return len(self.test_lengths)

    @property
    def places(self) -> tuple[str, str, str]:
        """Return where this machine finds its texts, and the checkpoint."""
        return self.corpus, self.test_corpus, self.place

    def takes(self, axes: int) -> bool:
        """Return whether a scheme has the one axis of a text."""
        return axes == 1

    def spec(self) -> dict[str, Scalar]:
        """Return the fields for a cell's key: all except places."""
        spec = {"kind": self.kind, **asdict(self)}
        return {n: v for n, v in spec.items() if n not in PLACES}

    def resolve(self, load: Callable[..., Text]) -> Self:
        """Return the setting with the hash of its corpus, if that is large enough."""
        text = load(self.corpus, self.test_corpus)
        size = BYTES * self.test_lengths[-1]
        text.windows(self.split, size, size * (self.seed + 1))
        return replace(self, corpus_sha256=text.sha256)

    @classmethod
    def of(cls, spec: dict[str, Scalar], places: Sequence[str]) -> Self:
        """Return the setting that `spec` describes; its texts lie at `places`."""
        given: dict[str, Any] = {n: v for n, v in spec.items() if n != "kind"}
        corpus, test_corpus, place = [*places, ""][:3]
        return cls(**given, corpus=corpus, test_corpus=test_corpus, place=place)


PLACES = ("place", "corpus", "test_corpus")


def lengths_of(lengths: str) -> list[int]:
    """Return lengths that stand by comma, in tokens, the shortest first."""
    check_text("lengths", lengths, "1024,2048")
    parts = [part.strip() for part in lengths.split(",")]
    if not all(part.isdecimal() and len(part) < 9 for part in parts):
        raise ConfigError(
            f"lengths must be whole numbers by comma, got {lengths[:80]!r}; "
            f"1024,2048,4096 would work"
        )
    return sorted(set(map(int, parts)))
