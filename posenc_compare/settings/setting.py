"""What all settings of cells have in common, whatever their kind.

A measure declares the kind of its setting.
"""

from collections.abc import Callable, Sequence
from dataclasses import Field
from typing import Any, ClassVar, Literal, Protocol, Self, TypeVar

from posenc_compare.registry import SETTINGS
from posenc_compare.settings.canonical import Scalar

Split = Literal["test", "validation"]  # sets of documents that are not trained on
Norm = Literal["layer", "rms"]
Convolution = Literal["none", "canon", "canon_a", "kv_shift"]
STDLIB = "stdlib"  # the name of the default corpus
SEEDS = (1 << 63) - 1  # the largest seed
LENGTHS = ("scaled", "published")


class Text(Protocol):
    """What a setting asks of a corpus: held-out windows, and batches to train on.

    One that is too small for them raises `CorpusError`.
    """

    @property
    def sha256(self) -> str: ...

    def windows(self, split: Split, length: int, total: int) -> object: ...

    def batch(self, size: int, length: int, seed: int, step: int) -> object: ...


class Setting(Protocol):
    """Everything that a number depends on beside scheme and measure.

    Attributes:
        kind: by which measures ask for it.
        on_gpu: whether the device `auto` is a GPU if there is one.
        resumes: whether its cells keep checkpoints.
        task: of its network; empty if it trains none.
        seed: of all random numbers.
        dtype: of what is computed.
        device: where it is computed, `cpu` or `cuda`.
        places: where this machine finds its texts, as `load_corpus` takes them.
        reads_corpus: whether its cells read the corpus.
        work: units of progress that one cell counts for.
    """

    __dataclass_fields__: ClassVar[dict[str, Field[Any]]]
    kind: ClassVar[str]
    on_gpu: ClassVar[bool]
    resumes: ClassVar[bool]

    @property
    def task(self) -> str: ...

    @property
    def seed(self) -> int: ...

    @property
    def dtype(self) -> str: ...

    @property
    def device(self) -> str: ...

    @property
    def places(self) -> tuple[str, ...]: ...

    @property
    def reads_corpus(self) -> bool: ...

    @property
    def work(self) -> int: ...

    def takes(self, axes: int) -> bool:
        """Return whether it has positions for a scheme of so many axes."""
        ...

    def spec(self) -> dict[str, Scalar]:
        """Return what a cell's key is made of."""
        ...

    def resolve(self, load: Callable[..., Text]) -> Self:
        """Return the setting with all that its text decides."""
        ...

    @classmethod
    def of(cls, spec: dict[str, Scalar], places: Sequence[str]) -> Self:
        """Return the setting that `spec` describes; its texts lie at `places`."""
        ...


S = TypeVar("S", bound=type)


def register_setting(kind: str, *, order: int, heading: str) -> Callable[[S], S]:
    """File a class of settings under its kind and return it.

    Args:
        kind: as measures name it.
        order: of its cells among those of a seed; quick ones first.
        heading: over its values, where it is shown how records came about.
    """

    def file(setting: S) -> S:
        named: Any = setting
        named.kind = kind
        facts: dict[str, object] = {"order": order, "heading": heading}
        SETTINGS.add(kind, setting, setting, facts)
        return setting

    return file
