"""Checkpoints: the state from which a training resumes with the same result.

A checkpoint is one file: its sha256, the step, and the tensors as safetensors. It is
written atomically, so that a crash leaves the old one or the new one. A file that has
changed is not read. Resuming does not depend on how the training ended.

A checksum is not a signature: anyone who can write to the folder can forge a file. So a
checkpoint must match the training in every name, shape and number. The folder is named
by the cell's key, which covers the code: no training resumes with other code, another
torch or another package.
"""

import contextlib
import hashlib
import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from safetensors import SafetensorError
from safetensors.torch import load, save
from torch import Tensor

from posenc_compare.errors import StoreError
from posenc_compare.validate import read_regular, write_file

FILE_NAME = "checkpoint"
DIGEST, STEP = 32, 8  # bytes before the tensors

Tensors = dict[str, Tensor]


class Stopped(BaseException):
    """The run was asked to stop, and the state of the training is saved."""


class Checkpoints:
    """The checkpoint of one training, in a file.

    Args:
        folder: folder of this training alone, named by its key; None saves nothing.
        interval: seconds between two checkpoints.
        stop: returns whether the run was asked to stop.
        files: module `os`, or a stand-in for tests.

    Attributes:
        refused: reasons why earlier checkpoint files were not used.
        resumed_from: step of the checkpoint in use, 0 for none.
        raised: the exception with which `save` ended the training, if it did.
    """

    def __init__(
        self,
        folder: Path | None = None,
        interval: float = 180.0,
        stop: Callable[[], bool] = lambda: False,
        files: Any = os,
    ) -> None:
        self.refused: list[str] = []
        self.resumed_from = 0
        self.raised: BaseException | None = None
        self.folder = folder
        self.interval = interval
        self.stop = stop
        self.files = files
        self._last = time.monotonic()

    def due(self) -> bool:
        """Return whether a checkpoint should be made now."""
        if self.stop():
            return True
        passed = time.monotonic() - self._last
        return self.folder is not None and passed >= self.interval

    def save(self, step: int, tensors: Tensors) -> None:
        """Save the state of a training after `step` steps."""
        try:
            if self.folder is not None:
                self._write(self.folder, step, tensors)
            self._last = time.monotonic()
            if self.stop():
                raise Stopped
        except (Stopped, StoreError) as problem:
            self.raised = problem
            raise

    def load(
        self, restore: Callable[[int, Tensors], None], limit: int
    ) -> tuple[int, Tensors]:
        """Load the newest checkpoint that is intact and matches the training.

        Args:
            restore: uses step and tensors; raises ValueError if they do not match.
            limit: most bytes of a checkpoint file.

        Returns:
            Step and tensors; 0 and {} if there is no such checkpoint.
        """
        if self.folder is None:
            return 0, {}
        what = "checkpoint"
        try:
            data = read_regular(self.folder / FILE_NAME, limit)
            if data[:DIGEST] != _digest(self.folder, data[DIGEST:]):
                raise ValueError("its checksum does not match")
            step = int.from_bytes(data[DIGEST : DIGEST + STEP])
            what = f"checkpoint of step {step}"
            tensors = load(data[DIGEST + STEP :])
            restore(step, tensors)
        except FileNotFoundError:
            return 0, {}
        except (OSError, ValueError, KeyError, SafetensorError) as error:
            self.refused.append(f"{what}: {error}")
            return 0, {}
        self.resumed_from = step
        return step, tensors

    def _write(self, folder: Path, step: int, tensors: Tensors) -> None:
        data = save({name: tensor.contiguous() for name, tensor in tensors.items()})
        data = step.to_bytes(STEP) + data
        try:
            # The run's own folder exists already; if it is gone, the run has lost it.
            for place in (folder.parent, folder):
                place.mkdir(exist_ok=True)
            for path in folder.glob(
                f".{FILE_NAME}.*"
            ):  # of a save that was interrupted
                with contextlib.suppress(FileNotFoundError):  # removed by another run
                    self.files.unlink(path)
            write_file(folder / FILE_NAME, _digest(folder, data) + data, self.files)
        except FileNotFoundError:
            if not folder.parent.parent.is_dir():
                raise StoreError(
                    f"{folder.parent.parent}: must be there, and is gone"
                ) from None
            # Another run has finished this training and removed its checkpoint.
        except OSError as error:
            raise StoreError(
                f"{folder}: must take a checkpoint of {len(data)} bytes, got {error}"
            ) from error


def _digest(folder: Path, data: bytes) -> bytes:
    """Return the hash that stands before `data` in a file of this folder."""
    return hashlib.sha256(folder.name.encode() + data).digest()
