"""Numbers as measures return them: rows, the facts of their quantities, and views."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Literal

Better = Literal["lower", "higher", "neither"]
RENAMED = {
    "read under a scaling": "with RoPE scaling",
    "fresh windows": "non-overlapping windows",
    "65 536": "65,536",
}
"""What titles say today, by what they say in older records."""
Array = None | float | Sequence["Array"]
"""Numbers too many for a table, as nested lists."""


@dataclass(frozen=True)
class Quantity:
    """Facts of one number that a measure returns.

    Attributes:
        name: as in the tables.
        unit: of the value; "share" is from 0 to 1, "ratio" has no bound.
        better: lower, higher, or neither where the number describes, not ranks.
        zero: what the value 0 means.
        x: what the row's `x` counts, with its unit, if rows form a curve.
        title: heading of its column in the summary; the name if not given.
        repeatable: whether the same machine gives the same number again, to the
            last bit; a time is not. `diff` leaves others out.
    """

    name: str
    unit: str
    better: Better
    zero: str
    x: str = ""
    title: str = ""
    repeatable: bool = True

    @property
    def heading(self) -> str:
        """Return what stands above its numbers."""
        title = self.title
        for before, now in RENAMED.items():
            title = title.replace(before, now)
        return title or self.name


@dataclass(frozen=True)
class Headline:
    """Show one row of a quantity, in a column of the summary.

    Attributes:
        quantity: whose.
        case: of the row.
        x: of the row.
    """

    quantity: Quantity
    case: str = ""
    x: float | None = None


@dataclass(frozen=True)
class Curve:
    """Show a table of a quantity: a column for each x, a row for scheme and case.

    A scheme with a reason at every x, and no number, is left out, unless all are so.
    """

    quantity: Quantity


@dataclass(frozen=True)
class ByCase:
    """Show a table of a quantity, with a row for each scheme and case that has any.

    Attributes:
        quantity: whose.
        of: the quantity that it measures under other conditions; schemes have a row of
            it, `as trained`, beside their cases. None: there is no such row.
    """

    quantity: Quantity
    of: Quantity | None = None


@dataclass(frozen=True)
class Floor:
    """Show a quantity that no scheme decides in rows below another, by case.

    Attributes:
        quantity: the same in the records of every scheme.
        of: the quantity that it is a floor of.
    """

    quantity: Quantity
    of: Quantity


View = Headline | Curve | ByCase | Floor


NEAR = "no change here, though the scheme is not relative"
"""Note on a shift that changes no logit of a short text."""
ONE_LAYER = "of layer 1, others may differ"
"""Note on a number without training, where layers may have different schemes."""


def joined(notes: Iterable[str]) -> str:
    """Return different notes as one text."""
    return "; ".join(dict.fromkeys(filter(None, notes)))


def has_note(text: str, note: str) -> bool:
    """Return whether a note is one of those that `joined` put into a text."""
    return note in text.split("; ")


@dataclass(frozen=True)
class Row:
    """One number of a measure.

    Attributes:
        quantity: name of the quantity.
        value: the number; None if there is none, and then `note` says why.
        x: where on the curve, if the quantity is one.
        case: the condition it was measured under, if there are several.
        note: what a reader must know of this number.
    """

    quantity: str
    value: float | None
    x: float | None = None
    case: str = ""
    note: str = ""
