"""What a description of a model consists of."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Literal

from posenc_compare.variants import Variant

Kind = Literal["rotary", "table", "bias", "none", "other"]


@dataclass(frozen=True)
class Described:
    """How some layers of a model place tokens.

    Attributes:
        layers: all, the kind that the configuration names, numbers as `0-2,4-6`, or
            the name of a table.
        kind: rotary, a table that is added to tokens, a bias of logits, none, or
            other.
        measured: numbers by name.
        variant: the scheme of this package; None if there is none.
        off: largest relative difference of what was measured from the scheme; None if
            the scheme states no numbers, as of trained ones.
        logits_off: largest difference of a logit under the scheme, in parts of the
            largest; None if it was not compared.
        note: why there is no scheme, or what else is done; empty if nothing is.
        numbers: of these layers; empty for tables and biases.
        frequencies: of rotary pairs, in radians per position; empty if there are none.
    """

    layers: str
    kind: Kind
    measured: Mapping[str, float | int | str | None] = field(default_factory=dict)
    variant: Variant | None = None
    off: float | None = None
    logits_off: float | None = None
    note: str = ""
    numbers: tuple[int, ...] = ()
    frequencies: tuple[float, ...] = ()

    def with_note(self, note: str) -> "Described":
        """Return the same with another note behind its own."""
        return replace(self, note="; ".join(filter(None, [self.note, note])))

    @property
    def label(self) -> str:
        """Return the label of the scheme; n/a if there is none."""
        return self.variant.label if self.variant else "n/a"

    @property
    def text(self) -> str:
        """Return the numbers in one line."""
        known = {n: v for n, v in self.measured.items() if v is not None}
        return ", ".join(
            f"{name} {value:.4g}" if isinstance(value, float) else f"{name} {value}"
            for name, value in known.items()
        )
