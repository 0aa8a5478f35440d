"""Columns of displayed tables, and which of them are to be shown."""

from collections.abc import Iterable
from dataclasses import dataclass
from fnmatch import fnmatchcase

from posenc_compare.errors import ConfigError
from posenc_compare.records.quantities import Better
from posenc_compare.show.frame import Mean
from posenc_compare.show.ranking import ByLabel
from posenc_compare.validate import hint

SHOWN = 12  # headings that a refusal names


@dataclass(frozen=True)
class Column:
    """A column of a displayed table."""

    name: str
    measure: str
    means: ByLabel
    better: Better = "neither"
    floors: tuple[Mean, ...] = ()
    heading: str = ""


def pointed(name: str, better: Better) -> str:
    """Return a heading with an arrow to its better end."""
    return name + {"lower": " ↓", "higher": " ↑"}.get(better, "")


class Chosen:
    """The columns that are asked for, by their names.

    Args:
        wanted: comma-separated names or globs; empty for all columns.
    """

    def __init__(self, wanted: str = "") -> None:
        parts = (part.strip(" ↓↑") for part in wanted.split(","))
        self.patterns = [part for part in parts if part]
        self.seen: dict[str, None] = {}

    def of(self, columns: Iterable[Column]) -> list[Column]:
        """Return those of some columns that are asked for, in their order."""
        columns = [*columns]
        self.seen |= dict.fromkeys(column.name for column in columns)
        patterns = self.patterns or ["*"]
        return [c for c in columns if any(fnmatchcase(c.name, p) for p in patterns)]

    def check(self) -> None:
        """Check that every pattern fits a column that there was."""
        for pattern in self.patterns:
            if not any(fnmatchcase(name, pattern) for name in self.seen):
                some = [*self.seen][:SHOWN]
                near = hint(pattern, self.seen) or f"; there are {', '.join(some)}"
                raise ConfigError(f"no table has a column {pattern[:80]!r}{near}")
