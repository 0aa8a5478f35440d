"""Columns of displayed tables, and which of them are to be shown."""

from collections.abc import Iterable
from dataclasses import dataclass, field
from fnmatch import fnmatchcase

from posenc_compare.errors import ConfigError
from posenc_compare.records.quantities import Better
from posenc_compare.show.floors import FloorMean
from posenc_compare.show.means import Mean
from posenc_compare.validate import hint

SHOWN = 12  # headings that a refusal names


@dataclass(frozen=True)
class Column:
    """A column of a displayed table: of two means of a scheme the later one shows.

    Attributes:
        name: above it.
        measure: whose.
        means: in it.
        better: which end is, if schemes are to be put in an order.
        floors: what schemes must beat, by name.
        arrow: whether an arrow above it points to the better end.
    """

    name: str
    measure: str
    means: list[Mean]
    better: Better = "neither"
    floors: dict[str, FloorMean] = field(default_factory=dict)
    arrow: bool = False

    @property
    def heading(self) -> str:
        """Return the name, with its arrow if it has one."""
        return pointed(self.name, self.better) if self.arrow else self.name


def pointed(name: str, better: Better) -> str:
    """Return a heading with an arrow to its better end."""
    return name + {"lower": " ↓", "higher": " ↑"}.get(better, "")


class Chosen:
    """The columns that are asked for, by their headings without arrows.

    Args:
        wanted: comma-separated headings or globs; empty for all columns.
    """

    def __init__(self, wanted: str = "") -> None:
        parts = (part.strip(" ↓↑") for part in wanted.split(","))
        self.patterns = [part for part in parts if part]
        self.seen: dict[str, None] = {}

    def of(self, columns: Iterable[Column]) -> list[Column]:
        """Return those of some columns that are asked for, in their order."""
        return [column for column in columns if self.asks(column.name)]

    def asks(self, name: str) -> bool:
        """Return whether a column of that heading, without arrows, is asked for."""
        self.seen[name] = None
        return not self.patterns or bool(self._named(name))

    def check(self) -> None:
        """Check that every pattern fits a column that there was.

        Raises:
            ConfigError: if one does not.
        """
        named = {part for name in self.seen for part in self._named(name)}
        for pattern in self.patterns:
            if pattern not in named:
                some = [*self.seen][:SHOWN]
                near = hint(pattern, self.seen) or f"; there are {', '.join(some)}"
                raise ConfigError(f"no table has a column {pattern[:80]!r}{near}")

    def _named(self, name: str) -> list[str]:
        """Return the patterns that ask for a heading, which may hold commas itself."""
        parts = name.split(", ")
        places = range(len(self.patterns) - len(parts) + 1)
        for i in places if len(parts) > 1 else ():
            if self.patterns[i : i + len(parts)] == parts:
                return parts
        return [p for p in self.patterns if fnmatchcase(name, p)]
