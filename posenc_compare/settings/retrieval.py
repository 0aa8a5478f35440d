"""The setting of the retrieval of facts from a text by a trained checkpoint."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, Self

from posenc_compare.errors import ConfigError
from posenc_compare.settings.checkpoint import LONGEST, OfCheckpoint
from posenc_compare.settings.setting import STDLIB, register_setting
from posenc_compare.validate import check_text, check_whole

FILLERS = ("text", "source", "noise")
DEPTHS = 5  # equal parts of a text, each with as many needles


@register_setting("retrieval", order=2, heading="Settings of retrieval")
@dataclass(frozen=True, kw_only=True)
class Retrieval(OfCheckpoint):
    """All settings of retrieval, except the scheme.

    The seed draws the needles, and is the index of the window of a corpus, from 0.

    Attributes:
        read_length: of text, question and answer together, in tokens.
        fillers: of the texts, by comma. `text`: documents of the corpus; `source`:
            of Python's standard library; `noise`: words of the corpus, shuffled.
        needles: of each kind at each depth of a text.
        source_sha256: hash of the standard library, if it is read.
    """

    read_length: int
    fillers: str = "text,noise"
    needles: int = 1
    source_sha256: str = ""

    def __post_init__(self) -> None:
        super().__post_init__()
        check_whole("lengths", self.read_length, 2, LONGEST)
        check_whole("needles", self.needles, 1, 100)
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

    def resolve(self, load: Callable[..., Any]) -> Self:
        """Return the setting with the hashes of its texts."""
        own = "source" in self.read_fillers
        return replace(
            self,
            corpus_sha256=load(self.corpus, self.test_corpus).sha256,
            source_sha256=load(STDLIB).sha256 if own else "",
        )
