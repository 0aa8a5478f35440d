"""How a measure tells what it has done, and where a training keeps its state."""

from collections.abc import Callable
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from torch import Tensor


class CheckpointStore(Protocol):
    """Where a training keeps what it would lose if its process died.

    Attributes:
        refused: why files of an earlier checkpoint were not used.
        resumed_from: step of the checkpoint that was used, 0 for none.
        resumed_elsewhere: whether another run had written it.
        raised: the exception by which `save` ends a training, once it has.
    """

    refused: list[str]
    resumed_from: int
    resumed_elsewhere: bool
    raised: BaseException | None

    def due(self) -> bool:
        """Return whether a checkpoint should be made now."""
        ...

    def save(self, step: int, tensors: "dict[str, Tensor]") -> None:
        """Keep the state of a training after `step` steps."""
        ...

    def load(
        self, restore: "Callable[[int, dict[str, Tensor]], None]", limit: int
    ) -> "tuple[int, dict[str, Tensor]]":
        """Return step and state of the newest checkpoint that `restore` accepts."""
        ...


class NoCheckpoints:
    """Keeps nothing; a training that is cut off begins again."""

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
        checkpoints: where a training keeps its state; none by default.
    """

    def __init__(
        self,
        advance: Callable[[int], None] = lambda units: None,
        checkpoints: CheckpointStore | None = None,
    ) -> None:
        self.advance = advance
        self.checkpoints: CheckpointStore = checkpoints or NoCheckpoints()

    def __call__(self, units: int) -> None:
        """Tell that so many more of the units of `setting.work` are done."""
        self.advance(units)
