"""Progress of a measure, and the protocol of a checkpoint store."""

from collections.abc import Callable
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from torch import Tensor


class CheckpointStore(Protocol):
    """A store for the state of a training, so that it can resume after a crash.

    Attributes:
        refused: reasons why earlier checkpoint files were not used.
        resumed_from: step of the checkpoint in use, 0 for none.
        resumed_elsewhere: whether another run wrote this checkpoint.
        raised: the exception with which `save` ended the training, if it did.
    """

    refused: list[str]
    resumed_from: int
    resumed_elsewhere: bool
    raised: BaseException | None

    def due(self) -> bool:
        """Return whether a checkpoint should be made now."""
        ...

    def save(self, step: int, tensors: "dict[str, Tensor]") -> None:
        """Save the state of a training after `step` steps."""
        ...

    def load(
        self, restore: "Callable[[int, dict[str, Tensor]], None]", limit: int
    ) -> "tuple[int, dict[str, Tensor]]":
        """Return step and state of the newest checkpoint that `restore` accepts."""
        ...


class NoCheckpoints:
    """A store that saves nothing; an interrupted training starts from zero."""

    def __init__(self) -> None:
        self.refused: list[str] = []
        self.resumed_from = 0
        self.resumed_elsewhere = False
        self.raised: BaseException | None = None

    def due(self) -> bool:
        """Return False."""
        return False

    def save(self, step: int, tensors: "dict[str, Tensor]") -> None:
        """Do nothing."""

    def load(
        self, restore: "Callable[[int, dict[str, Tensor]], None]", limit: int
    ) -> "tuple[int, dict[str, Tensor]]":
        """Return step 0 and no state."""
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
        self.checkpoints: CheckpointStore = checkpoints or NoCheckpoints()

    def __call__(self, units: int) -> None:
        """Report that `units` more of the units of `setting.work` are done."""
        self.advance(units)
