"""The trained weights of a cell, kept beside its record."""

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

from safetensors.torch import save

from posenc_compare.analysis.core.files import write_file
from posenc_compare.analysis.training.checkpoints import Checkpoints, Tensors
from posenc_compare.errors import StoreError

MODEL = "model."  # before the name of a weight, in a checkpoint


class WithWeights(Checkpoints):
    """Checkpoints of a training that also write its weights once it is trained.

    Args:
        file: where they go, as safetensors.
        steps: of the whole training.
        done: returns how many of them are done.
        **more: as `Checkpoints` takes them.
    """

    def __init__(
        self, file: Path, steps: int, done: Callable[[], int], **more: Any
    ) -> None:
        super().__init__(**more)
        self._file = file
        self._steps = steps
        self._done = done
        self._written = False

    def due(self) -> bool:
        """Return whether a checkpoint should be made now."""
        return super().due() or (self._done() >= self._steps and not self._written)

    def save(self, step: int, tensors: Tensors) -> None:
        """Save the state of a training, and its weights at its end.

        Raises:
            Stopped: if the run was asked to stop.
            StoreError: if a file cannot be written.
        """
        self._write(step, tensors)
        super().save(step, tensors)

    def load(
        self, restore: Callable[[int, Tensors], None], limit: int
    ) -> tuple[int, Tensors]:
        """Load as `Checkpoints` does; write the weights of what is already trained.

        Raises:
            StoreError: if they cannot be written.
        """
        step, tensors = super().load(restore, limit)
        self._write(step, tensors)
        return step, tensors

    def _write(self, step: int, tensors: Tensors) -> None:
        if step < self._steps or self._written:
            return
        named = {n: t for n, t in tensors.items() if n.startswith(MODEL)}
        weights = {n.removeprefix(MODEL): t.contiguous() for n, t in named.items()}
        data = save(weights, metadata={"key": self._file.stem})
        try:
            self._file.parent.mkdir(exist_ok=True)
            write_file(self._file, data, os)
        except OSError as error:
            self.raised = StoreError(f"{self._file}: must take weights, got {error}")
            raise self.raised from error
        self._written = True
