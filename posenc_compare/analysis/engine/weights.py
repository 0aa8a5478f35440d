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
        trained: returns whether all steps are done.
        **more: as `Checkpoints` takes them.
    """

    def __init__(self, file: Path, trained: Callable[[], bool], **more: Any) -> None:
        super().__init__(**more)
        self._file = file
        self._trained = trained
        self._written = False

    def due(self) -> bool:
        """Return whether a checkpoint should be made now."""
        return super().due() or (self._trained() and not self._written)

    def save(self, step: int, tensors: Tensors) -> None:
        """Save the state of a training, and its weights at its end.

        Raises:
            Stopped: if the run was asked to stop.
            StoreError: if a file cannot be written.
        """
        if self._trained() and not self._written:
            self._write(tensors)
            self._written = True
        super().save(step, tensors)

    def _write(self, tensors: Tensors) -> None:
        named = {n: t for n, t in tensors.items() if n.startswith(MODEL)}
        weights = {n.removeprefix(MODEL): t.contiguous() for n, t in named.items()}
        try:
            self._file.parent.mkdir(exist_ok=True)
            write_file(self._file, save(weights), os)
        except OSError as error:
            self.raised = StoreError(f"{self._file}: must take weights, got {error}")
            raise self.raised from error
