"""Progress of a measure, and the checkpoints that it is handed."""

from collections.abc import Callable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from posenc_compare.train.checkpoints import Checkpoints


class Progress:
    """Progress callback and checkpoints handed to a measure.

    Args:
        advance: called with the units of work just done.
        checkpoints: those of a training; by default nothing is saved.
    """

    def __init__(
        self,
        advance: Callable[[int], None] = lambda units: None,
        checkpoints: "Checkpoints | None" = None,
    ) -> None:
        from posenc_compare.train.checkpoints import Checkpoints

        self.advance = advance
        self.checkpoints = checkpoints or Checkpoints()

    def __call__(self, units: int) -> None:
        """Report that `units` more of the units of `setting.work` are done."""
        self.advance(units)
