"""The setting of measures of a trained checkpoint."""

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar, Literal, Self

from posenc_compare.errors import ConfigError, CorpusError
from posenc_compare.settings.setting import (
    SEEDS,
    STDLIB,
    Setting,
    Split,
    register_setting,
)
from posenc_compare.validate import check_choice, check_text, check_whole

LONGEST = 1 << 20  # tokens
BYTES = 8  # of text for one token, so that a window has tokens enough


@dataclass(frozen=True, kw_only=True)
class OfCheckpoint(Setting):
    """What the settings of all measures of a checkpoint have in common."""

    model: str  # its name, for people
    model_sha256: str  # hash of its files
    trained: int  # length of its training, in tokens
    split: Split = "test"  # which held-out documents are read
    dtype: Literal["float32", "bfloat16"] = "float32"
    transformers: str = ""  # version of the package that holds its architecture
    corpus_sha256: str = ""
    place: str = field(default="", compare=False)  # of the checkpoint on this machine
    corpus: str = field(default=STDLIB, compare=False)
    test_corpus: str = field(default="", compare=False)  # empty: of the corpus

    placed: ClassVar[tuple[str, ...]] = ("corpus", "test_corpus", "place")

    def __post_init__(self) -> None:
        check_text("corpus", self.corpus, STDLIB)
        check_text("test_corpus", self.test_corpus, "books/last.txt")
        check_whole("trained", self.trained, 1, LONGEST)
        check_whole("seed", self.seed, 0, SEEDS)
        check_choice("split", self.split, ("test", "validation"))
        check_choice("dtype", self.dtype, ("float32", "bfloat16"))


@register_setting("checkpoint", order=2, heading="Settings of checkpoints")
@dataclass(frozen=True, kw_only=True)
class Checkpoint(OfCheckpoint):
    """All settings of a measure of a checkpoint, except the scheme.

    The seed is the index, from 0, of the window of the longest length that is read.
    Shorter windows are pieces of its tokens. A checkpoint is given, so nothing is
    drawn.

    Attributes:
        lengths: of the windows that are read, in tokens, by comma.
        rules: by which its rotary positions are read beyond the trained length, by
            comma; `all` for every rule there is.
    """

    lengths: str
    rules: str = "all"

    resumes: ClassVar[bool] = True

    def __post_init__(self) -> None:
        super().__post_init__()
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

    def resolve(self, load: Callable[..., Any]) -> Self:
        """Return the setting with the hash of its corpus, if that is large enough."""
        text = load(self.corpus, self.test_corpus)
        size, count = BYTES * self.test_lengths[-1], self.seed + 1
        try:
            text.windows(self.split, size, size * count)
        except CorpusError as error:
            option = "--test-corpus" if self.split == "test" else "--corpus"
            raise CorpusError(
                f"corpus: must hold out {count} x {size + 1} bytes, each within one "
                f"document, for {self.test_lengths[-1]} tokens; shorter lengths, or "
                f"longer documents in {option}, would work"
            ) from error
        return replace(self, corpus_sha256=text.sha256)


def lengths_of(lengths: str) -> list[int]:
    """Return comma-separated lengths, in tokens, the shortest first."""
    check_text("lengths", lengths, "1024,2048")
    parts = [part.strip() for part in lengths.split(",")]
    if not all(part.isdecimal() and len(part) < 9 for part in parts):
        raise ConfigError(
            f"lengths must be whole numbers by comma, got {lengths[:80]!r}; "
            f"1024,2048,4096 would work"
        )
    return sorted(set(map(int, parts)))
