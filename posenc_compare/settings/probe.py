"""The setting of measures without training."""

import math
import re
from dataclasses import dataclass
from typing import ClassVar, Literal

from posenc_compare.errors import ConfigError
from posenc_compare.settings.setting import SEEDS, Setting, register_setting
from posenc_compare.settings.table import Choices, check_value
from posenc_compare.validate import check_heads, check_whole

GRID = re.compile(r"[1-9][0-9]{0,3}(x[1-9][0-9]{0,3}){1,2}")
CELLS = 1024  # most cells of a grid; every cell attends to every other


@register_setting("probe", order=0, heading="Settings without training")
@dataclass(frozen=True, kw_only=True)
class ProbeSetting(Setting):
    """All settings of a measure without training, except the scheme.

    Attributes:
        tokens: length of the sequence in attention.
        seed: seed of tokens, projections and the scheme's own parameters.
    """

    width: int = Choices.width
    heads: int = Choices.heads
    positions: int = Choices.positions
    tokens: int = 64
    dtype: str = Choices.probe_dtype
    lengths: Literal["scaled", "published"] = Choices.lengths
    grid: str = Choices.grid

    late: ClassVar[tuple[str, ...]] = ("grid",)
    # Choices of a user that it is made from.
    read: ClassVar = {"width", "heads", "lengths", "positions", "probe_dtype", "grid"}

    def __post_init__(self) -> None:
        for name in ("width", "heads", "positions", "lengths"):
            check_value(name, getattr(self, name))
        check_value("probe_dtype", self.dtype)
        check_heads(self.width, self.heads)
        check_whole("tokens", self.tokens, 1, 1 << 20)
        check_whole("seed", self.seed, 0, SEEDS)
        if math.prod(self.sides) != self.positions:
            raise ConfigError(
                f"positions must be {math.prod(self.sides)} on a grid of {self.grid}, "
                f"got {self.positions}",
                field="positions",
            )

    @property
    def work(self) -> int:
        """Return the units of progress of one measure."""
        return 5

    @property
    def sides(self) -> tuple[int, ...]:
        """Return the sizes of the grid, or the length of the sequence."""
        return sides_of(self.grid) if self.grid else (self.positions,)

    def takes(self, axes: int) -> bool:
        """Return whether a scheme has as many axes as the grid, or one of a text."""
        return axes == len(self.sides)


def sides_of(grid: str) -> tuple[int, ...]:
    """Return the two or three sizes of a grid such as `16x16`."""
    fits = isinstance(grid, str) and GRID.fullmatch(grid)
    sides = tuple(map(int, grid.split("x"))) if fits else (0,)
    if min(sides) < 2 or math.prod(sides) > CELLS:
        raise ConfigError(
            f"grid must be ROWSxCOLUMNS, each at least 2, with at most {CELLS} cells, "
            f"got {str(grid)[:40]!r}; 16x16 would work",
            field="grid",
        )
    return sides
