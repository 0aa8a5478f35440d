"""What all settings of cells have in common, whatever their kind.

A measure declares the kind of its setting.
"""

from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from typing import Any, ClassVar, Literal, Self, TypeVar

from posenc_compare.registry import SETTINGS
from posenc_compare.settings.canonical import Scalar

Split = Literal["test", "validation"]  # sets of documents that are not trained on
Norm = Literal["layer", "rms"]
Convolution = Literal["none", "canon", "canon_a", "kv_shift", "peg"]
Pool = Literal["mean", "class"]
STDLIB = "stdlib"  # the name of the default corpus
SEEDS = (1 << 63) - 1  # the largest seed


@dataclass(frozen=True, kw_only=True)
class Setting:
    """Everything that a number depends on beside scheme and measure.

    Measures ask for it by `kind`. If it `resumes`, its cells keep checkpoints. `placed`
    are fields that name files of this machine, and that no key depends on. `late` are
    fields newer than the first records; keys omit them at their defaults.
    """

    seed: int = 0
    dtype: str = "float32"
    device: str = "cpu"

    kind: ClassVar[str]
    resumes: ClassVar[bool] = False
    placed: ClassVar[tuple[str, ...]] = ()
    late: ClassVar[tuple[str, ...]] = ()

    task = ""  # of its network; empty if it trains none

    @property
    def places(self) -> tuple[str, ...]:
        """Return where this machine finds its files, the texts first."""
        return tuple(getattr(self, name) for name in self.placed)

    @property
    def reads_corpus(self) -> bool:
        """Return whether its cells read the corpus."""
        return bool(self.placed)

    @property
    def work(self) -> int:
        """Return the units of progress that one cell counts for."""
        return 1

    def takes(self, axes: int) -> bool:
        """Return whether it has positions for a scheme of so many axes."""
        return axes == 1

    def spec(self) -> dict[str, Scalar]:
        """Return what a cell's key is made of."""
        spec = {"kind": self.kind, **asdict(self)}
        unset = {name for name in self.late if spec[name] == getattr(type(self), name)}
        return {n: v for n, v in spec.items() if n not in {*self.placed, *unset}}

    def resolve(self, load: Callable[..., Any]) -> Self:
        """Return the setting with all that its text decides.

        `load` returns the `Corpus` at places, which raises `CorpusError` if it is too
        small.
        """
        return self

    @classmethod
    def of(cls, spec: dict[str, Scalar], places: Sequence[str]) -> Self:
        """Return the setting that `spec` describes; its texts lie at `places`."""
        given: dict[str, Any] = {n: v for n, v in spec.items() if n != "kind"}
        given.update(zip(cls.placed, places, strict=False))
        return cls(**given)


S = TypeVar("S", bound=type)


def register_setting(kind: str, *, order: int, heading: str) -> Callable[[S], S]:
    """Register a class of settings under its kind and return it.

    Cells are ordered by `order` among those of a seed, quick ones first. `heading`
    stands over the values where a report shows how records came about.
    """

    def file(setting: S) -> S:
        named: Any = setting
        named.kind = kind
        facts: dict[str, object] = {"order": order, "heading": heading}
        SETTINGS.add(kind, setting, setting, facts)
        return setting

    return file
