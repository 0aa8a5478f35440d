"""Progress of a measure, and the store of checkpoints that it is handed."""

from collections.abc import Callable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from torch import Tensor


class CheckpointStore:
    """A store for the state of a training, which resumes from it after a crash.

    This one saves nothing; an interrupted training starts from zero.

    Attributes:
        refused: reasons why earlier checkpoint files were not used.
        resumed_from: step of the checkpoint in use, 0 for none.
        raised: the exception with which `save` ended the training, if it did.
    """

    def __init__(self) -> None:
        self.refused: list[str] = []
        self.resumed_from = 0
        self.raised: BaseException | None = None

    def due(self) -> bool:
        """Return whether a checkpoint should be made now."""
        return False

    def save(self, step: int, tensors: "dict[str, Tensor]") -> None:
        """Save the state of a training after `step` steps."""

    def load(
        self, restore: "Callable[[int, dict[str, Tensor]], None]", limit: int
    ) -> "tuple[int, dict[str, Tensor]]":
        """Load the newest checkpoint that is intact and matches the training.

        Args:
            restore: uses step and tensors; raises ValueError if they do not match.
            limit: most bytes of a checkpoint file.

        Returns:
            Step and tensors; 0 and {} if there is no such checkpoint.
        """
        return 0, {}


class Progress:
    """Progress callback and checkpoint store handed to a measure.

    Args:
        advance: called with the units of work just done.
        checkpoints: store for the state of a training; by default nothing is saved.
    """

    def __init__(
        self,
        advance: Callable[[int], None] = lambda units: None,
        checkpoints: CheckpointStore | None = None,
    ) -> None:
        self.advance = advance
        self.checkpoints = checkpoints or CheckpointStore()

    def __call__(self, units: int) -> None:
        """Report that `units` more of the units of `setting.work` are done."""
        self.advance(units)
