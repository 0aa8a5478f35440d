"""The setting of the retrieval of facts from a text by a trained checkpoint."""

from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any, ClassVar, Literal, Self

from posenc_compare.errors import ConfigError
from posenc_compare.settings.canonical import Scalar
from posenc_compare.settings.checkpoint import LONGEST, PLACES
from posenc_compare.settings.setting import (
    SEEDS,
    STDLIB,
    Split,
    Text,
    register_setting,
)
from posenc_compare.validate import check_choice, check_text, check_whole

FILLERS = ("text", "source", "noise")
DEPTHS = 5  # equal parts of a text, each with as many needles


@register_setting("retrieval", order=2, heading="Settings of retrieval")
@dataclass(frozen=True)
class Retrieval:
    """All settings of retrieval, except the scheme.

    Attributes:
        model: its name, for people.
        model_sha256: hash of its files.
        read_length: of text, question and answer together, in tokens.
        trained: length of its training, in tokens.
        fillers: of the texts, by comma. `text`: documents of the corpus; `source`:
            of Python's standard library; `noise`: words of the corpus, shuffled.
        needles: of each kind at each depth of a text.
        split: which held-out documents are read.
        dtype: of the weights.
        seed: of the needles, and which window of a corpus is read, from 0.
        device: where it is read.
        transformers: version of the package that holds its architecture.
        corpus_sha256: hash of the corpus.
        source_sha256: hash of the standard library, if it is read.
        place: of the checkpoint on this machine.
        corpus: file, folder or `stdlib`; the place of the corpus on this machine.
        test_corpus: file or folder to test on; empty for documents of the corpus.
    """

    model: str
    model_sha256: str
    read_length: int
    trained: int
    fillers: str = "text,noise"
    needles: int = 1
    split: Split = "test"
    dtype: Literal["float32", "bfloat16"] = "float32"
    seed: int = 0
    device: str = "cpu"
    transformers: str = ""
    corpus_sha256: str = ""
    source_sha256: str = ""
    place: str = field(default="", compare=False)
    corpus: str = field(default=STDLIB, compare=False)
    test_corpus: str = field(default="", compare=False)

    kind: ClassVar[str]
    on_gpu: ClassVar[bool] = True
    resumes: ClassVar[bool] = False
    reads_corpus = True
    task = ""

    def __post_init__(self) -> None:
        check_text("corpus", self.corpus, STDLIB)
        check_text("test_corpus", self.test_corpus, "books/last.txt")
        check_whole("lengths", self.read_length, 2, LONGEST)
        check_whole("trained", self.trained, 1, LONGEST)
        check_whole("needles", self.needles, 1, 100)
        check_whole("seed", self.seed, 0, SEEDS)
        check_choice("split", self.split, ("test", "validation"))
        check_choice("dtype", self.dtype, ("float32", "bfloat16"))
        check_text("fillers", self.fillers, "text,noise")
        if not self.read_fillers or not {*self.read_fillers} <= {*FILLERS}:
            raise ConfigError(
                f"fillers must be of {', '.join(FILLERS)}, got {self.fillers[:80]!r}; "
                f"text,noise would work"
            )

    @property
    def read_fillers(self) -> list[str]:
        """Return the names of the fillers, each once."""
        names = [name.strip() for name in self.fillers.split(",")]
        return [*dict.fromkeys(filter(None, names))]

    @property
    def work(self) -> int:
        """Return the units of progress of one cell: its texts."""
        return len(self.read_fillers)

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
        """Return the setting with the hashes of its texts."""
        own = "source" in self.read_fillers
        return replace(
            self,
            corpus_sha256=load(self.corpus, self.test_corpus).sha256,
            source_sha256=load(STDLIB).sha256 if own else "",
        )

    @classmethod
    def of(cls, spec: dict[str, Scalar], places: Sequence[str]) -> Self:
        """Return the setting that `spec` describes; its texts lie at `places`."""
        given: dict[str, Any] = {n: v for n, v in spec.items() if n != "kind"}
        corpus, test_corpus, place = [*places, ""][:3]
        return cls(**given, corpus=corpus, test_corpus=test_corpus, place=place)
