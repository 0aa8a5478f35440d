"""What a task is: what a network is trained on, and what it is tested by.

A task states its facts in its decorator, and gives batches that are pure
functions of step and seed, so that every scheme sees the same tokens in the same order.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TypeVar, get_args

import torch
import torch.nn.functional as F
from torch import Tensor

from posenc_compare.errors import ConfigError, PluginError
from posenc_compare.registry import TASKS
from posenc_compare.settings.training import NetworkKind, Training
from posenc_compare.validate import check_choice


@dataclass(frozen=True)
class Batch:
    """Sequences of tokens, and the token to be predicted at each place.

    Attributes:
        tokens: `(sequence, length)` int64, below the task's vocabulary.
        targets: `(sequence, length)` int64.
        weights: `(sequence, length)` floating point, how much each place counts; None
            if all count alike.
        positions: `(length,)` int64, or `(length, axes)` of a task of several axes;
            None if they count the places.
    """

    tokens: Tensor
    targets: Tensor
    weights: Tensor | None = None
    positions: Tensor | None = None

    @property
    def sides(self) -> tuple[int, int]:
        """Return rows and columns of an image; of a text, one row of its length.

        They are 0 if positions of two axes are not those of a grid, row by row.
        """
        if self.positions is None or self.positions.shape[1:] != (2,):
            return 1, self.tokens.shape[1]
        rows, columns = (self.positions.amax(dim=0).long() + 1).tolist()
        grid = torch.cartesian_prod(torch.arange(rows), torch.arange(columns))
        return (rows, columns) if torch.equal(self.positions, grid) else (0, 0)

    def positions_for(self, axes: int) -> Tensor:
        """Return the positions that a scheme of so many axes reads.

        A scheme of one axis counts the places of a task of several. If a scheme has
        more axes, its leading ids are 0: an image is one frame of a video.
        """
        if self.positions is None or self.positions.dim() > axes:
            return torch.arange(self.tokens.shape[1])
        if axes == 1:
            return self.positions
        return F.pad(self.positions, (axes - self.positions.shape[1], 0))


class Task(ABC):
    """What a network is trained on and tested by.

    Args:
        setting: batch size, lengths and amount of testing.

    Attributes:
        documents: which document each test sequence of the longest length is from;
            empty if all are independent.
    """

    documents: Sequence[int] = ()

    def __init__(self, setting: Training) -> None:
        self.setting = setting

    @abstractmethod
    def batch(self, step: int, seed: int) -> Batch:
        """Return the training batch of a step, of the setting's sizes."""

    @abstractmethod
    def test(self, length: int) -> Batch:
        """Return the test sequences of a length; none of them was trained on."""

    def variations(self, length: int) -> dict[str, Batch]:
        """Return other tests of a length by their names, such as a harder one."""
        return {}

    def sliding(self, context: int, stride: int) -> Batch | None:
        """Return windows that slide over the longest test sequences, or None.

        Every token beyond the training length counts once, in the order of the
        sequences; it is among the last `stride` of a window of `context` tokens.
        """
        return None

    def floors(self, length: int) -> dict[str, Tensor]:
        """Return the scores of simple models on the test sequences, by their names.

        Returns:
            `(sequence, length)` each.
        """
        return {}


def check_task(task: Task) -> None:
    """Refuse a task if its first batch, a test or a floor is not what `Task` describes.

    Raises:
        PluginError: if a tensor has another shape, dtype or range.
    """
    setting = task.setting
    name, tests = setting.task, {n: task.test(n) for n in setting.test_lengths}
    first = task.batch(0, setting.seed)
    check_batch(f"{name}: batch(0, seed)", first, setting.length, name, setting.batch)
    for length, batch in tests.items():
        check_batch(f"{name}: test({length})", batch, length, name)
        for case, other in task.variations(length).items():
            check_batch(f"{name}: variation {case!r}", other, length, name)
        for case, floor in task.floors(length).items():
            _check_sizes(f"{name}: floor {case!r} must be", floor, batch.tokens.shape)
    known, count = task.documents, len(tests[max(tests)].tokens)
    if not isinstance(known, list | tuple) or len(known) not in (0, count):
        raise PluginError(
            f"{name}: documents must be a list of {count} numbers, one for each "
            f"sequence of the longest test, got {known!r:.60}"
        )


def check_batch(
    who: str, batch: object, length: int, name: str, count: int = 0
) -> None:
    """Check a batch of the task `name`.

    Args:
        who: begins the message.
        batch: what the task returned.
        length: of its sequences; 0 for any length.
        name: of the task.
        count: of its sequences; 0 for any number.

    Raises:
        PluginError: if it is not a batch of that task with these sizes.
    """
    if not isinstance(batch, Batch):
        raise PluginError(f"{who} must return a Batch, got {type(batch).__name__}")
    facts = TASKS.entry(name).facts
    vocabulary, axes = facts["vocabulary"], facts.get("axes", 1)
    # One that is given no sizes, or is no matrix, must have a token at least.
    found = tuple(getattr(batch.tokens, "shape", ()))
    rows, columns = found if len(found) == 2 else (1, 1)
    sizes = count or rows or 1, length or columns or 1
    for part, x in (("tokens", batch.tokens), ("targets", batch.targets)):
        _check_sizes(f"{who} must have {part}", x, sizes)
        if x.dtype != torch.int64 or not 0 <= x.min() <= x.max() < vocabulary:
            raise PluginError(
                f"{who} must have {part} in int64 from 0 to {vocabulary - 1}, the "
                f"vocabulary, got {x.dtype} from {x.min()} to {x.max()}"
            )
    if batch.positions is not None:
        wanted = sizes[1:] if axes == 1 else (sizes[1], axes)
        _check_sizes(f"{who} must have positions", batch.positions, wanted)
    weights = batch.weights
    if weights is None:
        return
    _check_sizes(f"{who} must have weights", weights, sizes)
    if not weights.min() >= 0 < weights.sum() < torch.inf:
        raise PluginError(
            f"{who} must have weights of 0 or more, and some above 0, got "
            f"{weights.min():g} to {weights.max():g}"
        )


def _check_sizes(must: str, x: object, sizes: tuple[int, ...]) -> None:
    """Raise `PluginError` unless `x` is a tensor of these sizes.

    The message starts with `must`.
    """
    got = tuple(x.shape) if isinstance(x, Tensor) else type(x).__name__
    if got != tuple(sizes):
        raise PluginError(f"{must} a tensor {tuple(sizes)}, got {got}")


T = TypeVar("T", bound=type[Task])


def register_task(
    name: str,
    *,
    vocabulary: int,
    score: str,
    chance: float,
    corpus: bool = False,
    axes: int = 1,
    network: NetworkKind = "decoder",
    extra: bool = False,
    **sizes: float,
) -> Callable[[T], T]:
    """Register a task class under a name and return it unchanged.

    Args:
        name: what users type; lower case.
        vocabulary: number of different tokens.
        score: what tests report, bits_per_byte or accuracy; the quantity of that name
            says which direction is better.
        chance: the score of a uniform guess.
        corpus: whether it reads the corpus of the setting.
        axes: of its positions; schemes of one axis count the places.
        network: a decoder has a causal mask, an encoder has none, and a classifier is
            an encoder whose outputs are averaged over places. A batch of a classifier
            repeats the class of a sequence at each place, without weights.
        extra: whether it must be named, since `all` leaves it out.
        **sizes: length, steps, batch and learning_rate of its training, in place of
            those of the preset, in all presets but `quick`.

    Raises:
        ConfigError: if the score or the network is unknown, or the name is taken or
            not valid.
    """

    def file(task: T) -> T:
        if not (isinstance(task, type) and issubclass(task, Task)):
            raise ConfigError(
                f"task {name!r}: must be a class derived from Task, got {task!r}"
            )
        check_choice("network", network, get_args(NetworkKind))
        facts: dict[str, object] = {
            "vocabulary": vocabulary,
            "score": score,
            "chance": chance,
            "corpus": corpus,
            "axes": axes,
            "network": network,
            **sizes,
        }
        if extra:
            facts["extra"] = True
        TASKS.add(name, task, task, facts)
        return task

    return file
