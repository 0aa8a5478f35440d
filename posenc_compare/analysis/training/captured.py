"""Steps of training that a GPU launches as CUDA graphs, where that can be done.

A step of a small network is some hundreds of launches, and each costs the host more
time than the GPU. A CUDA graph is a recording of launches. It reads and writes the same
memory in every step, and runs no Python. So a step is recorded only if it is the same
every time but for its batch: what it sends to the GPU besides, as position ids and the
constants of a scheme, must be equal in the steps before, nothing may be drawn, and the
host may not wait for the GPU. After the recording one batch is read both ways. Where
any of this fails, steps run as they are, and a note says why.
"""

from collections.abc import Callable
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from typing import Any, Protocol

import torch
from torch import Tensor

from posenc_compare.transfer import Sent, remembering

WARM = 3  # steps before a recording, as torch has them
# Of a loss that was read both ways. The launches are the same, so a loss differs by
# rounding at the most; one of another batch nearly always differs by more than this.
TOLERANCE = 2.0**-12


@dataclass
class Fed:
    """What a step is given.

    Attributes:
        tokens: `(batch, seq)` int64, on the device of the network.
        targets: `(batch * seq,)` int64, there too.
        weights: `(batch * seq,)` of the targets; None if all count alike.
        positions: `(seq,)` or `(seq, axes)` int64, on the CPU.
        ids: generator of position ids, for schemes that draw them.
    """

    tokens: Tensor
    targets: Tensor
    weights: Tensor | None
    positions: Tensor
    ids: torch.Generator

    @property
    def batch(self) -> list[Tensor]:
        """Return the tensors on the device."""
        weights = [] if self.weights is None else [self.weights]
        return [self.tokens, self.targets, *weights]

    def copied(self) -> "Fed":
        """Return the same in memory of its own."""
        tokens, targets, *others = (part.clone() for part in self.batch)
        weights = others[0] if others else None
        return Fed(tokens, targets, weights, self.positions, self.ids)

    def take(self, other: "Fed") -> bool:
        """Take over another batch, in the memory of this one, if it fits there.

        Returns:
            Whether it does: positions and all sizes are the same.
        """
        here, there = self.batch, other.batch
        sizes = [[part.shape for part in parts] for parts in (here, there)]
        if sizes[0] != sizes[1] or not torch.equal(self.positions, other.positions):
            return False
        for part, new in zip(here, there, strict=True):
            part.copy_(new)
        self.ids = other.ids
        return True


class Steps(Protocol):
    """What a step consists of."""

    def gradients(self, fed: Fed) -> tuple[Tensor, Tensor]:
        """Return the loss and the norm of all gradients, which are there then."""
        ...

    def update(self, norm: Tensor) -> None:
        """Clip gradients, whose norm is given, and move the parameters by them."""
        ...

    def loss(self, fed: Fed) -> Tensor:
        """Return the loss alone."""
        ...


@dataclass(frozen=True)
class Recording:
    """A recorded function.

    Attributes:
        replay: run it again, in the memory of the first time.
        made: what it returned; every replay writes there.
    """

    replay: Callable[[], object]
    made: Any


class Graphs(Protocol):
    """What records functions."""

    def warming(self, *, strict: bool = False) -> AbstractContextManager[object]:
        """Return the context in which a function runs before it is recorded.

        Args:
            strict: raise a RuntimeError where the host would wait for the function.
        """
        ...

    def record(self, part: Callable[[], object]) -> Recording:
        """Return the recording of a function; nothing is computed."""
        ...


class CudaGraphs:
    """CUDA graphs that are replayed in the order in which they were recorded.

    Args:
        device: of all tensors.

    Attributes:
        failed: whether a recording has failed in this process, which leaves torch's
            memory for recordings in a state that no other can begin in.
    """

    failed = False

    def __init__(self, device: torch.device) -> None:
        self.stream: Any = torch.cuda.Stream(device)
        self.pool = torch.cuda.graph_pool_handle()

    @contextmanager
    def warming(self, *, strict: bool = False) -> Any:
        """Run a function on the stream on which it will be recorded."""
        current: Any = torch.cuda.current_stream(self.stream.device)
        before = torch.cuda.get_sync_debug_mode()
        self.stream.wait_stream(current)
        try:
            with torch.cuda.stream(self.stream):
                torch.cuda.set_sync_debug_mode("error" if strict else before)
                yield
        finally:
            torch.cuda.set_sync_debug_mode(before)
            current.wait_stream(self.stream)

    def record(self, part: Callable[[], object]) -> Recording:
        """Return the recording of a function; nothing is computed.

        Raises:
            RuntimeError: if it cannot be recorded, or another could not before.
        """
        if CudaGraphs.failed:
            raise RuntimeError("a recording has failed before in this process")
        graph = torch.cuda.CUDAGraph()
        current: Any = torch.cuda.current_stream(self.stream.device)
        try:
            with torch.cuda.graph(graph, pool=self.pool, stream=self.stream):
                made = part()
        except Exception:
            CudaGraphs.failed = True
            torch.cuda.set_stream(current)  # torch may leave the other one current
            raise
        return Recording(graph.replay, made)


def graphs_for(device: torch.device) -> Graphs | None:
    """Return what records functions on a device; None where nothing can."""
    return CudaGraphs(device) if device.type == "cuda" else None


class Captured:
    """Steps that are recorded after some, and replayed from there on.

    Args:
        steps: as they are.
        graphs: what records them; None where nothing can.

    Attributes:
        why: why steps run as they are; empty if they do not.
    """

    def __init__(self, steps: Steps, graphs: Graphs | None) -> None:
        self.steps = steps
        self.graphs = graphs
        self.why = "" if graphs else "a CPU has no CUDA graphs"
        self.begin()

    def begin(self) -> None:
        """Forget the recording: from here on, a step does something else."""
        self._warm = 0
        self._sent = Sent()
        self._fed: Fed | None = None
        self._both: tuple[Recording, Recording] | None = None
        self._checked = False

    def gradients(self, fed: Fed) -> tuple[Tensor, Tensor]:
        """Return the loss and the norm of all gradients, which are there then."""
        if self._warm == WARM and not self._both:
            self._record()  # with the batch of the step before
        fed = self._held(fed)
        if self.graphs is None or self.why:
            return self.steps.gradients(fed)
        if self._both is None:
            return self._warmed(fed, self.graphs)
        recording = self._both[0]
        recording.replay()
        loss, norm = (made.clone() for made in recording.made)
        if not self._checked:
            self._check(loss, fed)
        return self.steps.gradients(fed) if self.why else (loss, norm)

    def update(self, norm: Tensor) -> None:
        """Clip gradients, whose norm is given, and move the parameters by them."""
        if self._both:
            self._both[1].replay()
        elif self.graphs is None or self.why:
            self.steps.update(norm)
        else:
            with self.graphs.warming():
                self.steps.update(norm)

    def _held(self, fed: Fed) -> Fed:
        """Return the batch in memory that every step reads."""
        if self.why:
            return fed
        if self._fed is None:
            self._fed = fed.copied()
        elif not self._fed.take(fed):
            self._refuse("batches differ in size or in positions")
            return fed
        return self._fed

    def _warmed(self, fed: Fed, graphs: Graphs) -> tuple[Tensor, Tensor]:
        """Take a step as it is, and see whether it is the same every time."""
        self._warm += 1
        before, last = fed.ids.get_state(), self._warm == WARM
        try:
            with graphs.warming(strict=last), remembering(self._sent):
                found = self.steps.gradients(fed)
        except RuntimeError as error:
            if not last:
                raise
            self._refuse(f"the host waits in a step: {_line(error)}")
            return self.steps.gradients(fed)
        if not torch.equal(before, fed.ids.get_state()):
            self._refuse("the scheme draws in every step")
        elif self._sent.differs:
            self._refuse("what is sent to the GPU differs from step to step")
        return found

    def _record(self) -> None:
        """Record both parts of a step, if nothing is refused there."""
        graphs, fed = self.graphs, self._fed
        if graphs is None or fed is None or self.why:
            return
        self._sent.only = True
        try:
            with remembering(self._sent):
                first = graphs.record(lambda: self.steps.gradients(fed))
            second = graphs.record(lambda: self.steps.update(first.made[1]))
        except Exception as error:  # whatever CUDA or torch cannot record
            # Where a recording ends badly, torch raises over what ended it.
            self._refuse(
                f"a step cannot be recorded: {_line(error.__context__ or error)}"
            )
            return
        self._both = first, second

    def _check(self, loss: Tensor, fed: Fed) -> None:
        """Compare the first loss of a replay with that of the step as it is."""
        with torch.no_grad():
            own = self.steps.loss(fed)
        if (loss - own).abs() <= TOLERANCE * own.abs():
            self._checked = True
        else:
            self._refuse(f"a loss was {float(loss)} when replayed, not {float(own)}")

    def _refuse(self, why: str) -> None:
        self.begin()
        self.why = why


def _line(error: BaseException) -> str:
    return f"{type(error).__name__}: {error}".partition("\n")[0][:200]
