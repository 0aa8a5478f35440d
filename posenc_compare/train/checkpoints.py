"""Checkpoints: the state from which a training resumes with the same result.

A checkpoint is a safetensors file. The manifest beside it is written last. It lists the
last two checkpoints with their checksums; a file that is not listed or has changed is
not read. Resuming does not depend on how the training ended.

A checksum is not a signature: anyone who can write to the folder can forge a file. So a
checkpoint must match the training in every name, shape and number. The folder is named
by the cell's key, which covers the code: no training resumes with other code, another
torch or another package.
"""

import contextlib
import hashlib
import os
import re
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from safetensors import SafetensorError
from safetensors.torch import load, save
from torch import Tensor

from posenc_compare.errors import StoreError
from posenc_compare.records.files import write_file
from posenc_compare.settings.canonical import Body, canonical, parse_strictly
from posenc_compare.train.progress import CheckpointStore
from posenc_compare.validate import read_regular

FORMAT = 2
KEPT = 2
NAME = re.compile(r"[0-9]+-[0-9a-f]{8}\.safetensors")
# Temporary files of an interrupted save, as `write_file` names them.
LITTER = re.compile(r"\.([0-9]+-[0-9a-f]{8}|manifest)\.[0-9]+\.[0-9a-f]{16}")

Tensors = dict[str, Tensor]


class Stopped(BaseException):
    """The run was asked to stop, and the state of the training is saved."""


class Checkpoints(CheckpointStore):
    """The checkpoints of one training, in files.

    Args:
        folder: folder of this training alone, named by its key; None saves nothing.
        interval: seconds between two checkpoints.
        stop: returns whether the run was asked to stop.
        files: module `os`, or a stand-in for tests.
    """

    def __init__(
        self,
        folder: Path | None = None,
        interval: float = 180.0,
        stop: Callable[[], bool] = lambda: False,
        files: Any = os,
    ) -> None:
        super().__init__()
        self.folder = folder
        self.interval = interval
        self.stop = stop
        self.files = files
        self._damaged: list[Body] = []
        self._last = time.monotonic()

    def due(self) -> bool:
        if self.stop():
            return True
        passed = time.monotonic() - self._last
        return self.folder is not None and passed >= self.interval

    def save(self, step: int, tensors: Tensors) -> None:
        """Save the state of a training after `step` steps.

        Raises:
            Stopped: if the run was asked to stop.
            StoreError: if the checkpoint cannot be written.
        """
        try:
            self._save(step, tensors)
        except (Stopped, StoreError) as problem:
            self.raised = problem
            raise

    def _save(self, step: int, tensors: Tensors) -> None:
        if self.folder is not None:
            data = save({name: tensor.contiguous() for name, tensor in tensors.items()})
            try:
                self._publish(self.folder, step, data)
            except FileNotFoundError:
                if not self.folder.parent.parent.is_dir():
                    raise StoreError(
                        f"{self.folder.parent.parent}: must be there, and is gone"
                    ) from None
                # Another run has finished this training and removed its checkpoints.
            except OSError as error:
                raise StoreError(
                    f"{self.folder}: must take a checkpoint of {len(data)} bytes, got "
                    f"{error}"
                ) from error
        self._last = time.monotonic()
        if self.stop():
            raise Stopped

    def load(
        self, restore: Callable[[int, Tensors], None], limit: int
    ) -> tuple[int, Tensors]:
        for entry in self._listed():
            try:
                data = read_regular(self._path(entry), limit)
                if hashlib.sha256(data).hexdigest() != entry["sha256"]:
                    raise ValueError("its checksum does not match")
                tensors = load(data)
                restore(entry["step"], tensors)
            except (OSError, ValueError, KeyError, SafetensorError) as error:
                self.refused.append(f"checkpoint of step {entry['step']}: {error}")
                self._damaged.append(entry)
                continue
            self.resumed_from = entry["step"]
            return self.resumed_from, tensors
        return 0, {}

    def _publish(self, folder: Path, step: int, data: bytes) -> None:
        # The run's own folder exists already; if it is gone, the run has lost it.
        for place in (folder.parent, folder):
            place.mkdir(exist_ok=True)
        kept = [e for e in self._listed() if e not in self._damaged][: KEPT - 1]
        names = {self._path(entry).name for entry in kept}
        for path in list(folder.iterdir()):
            ours = NAME.fullmatch(path.name) or LITTER.fullmatch(path.name)
            if ours and path.name not in names:
                with contextlib.suppress(FileNotFoundError):  # removed by another run
                    self.files.unlink(path)
        digest = hashlib.sha256(data).hexdigest()
        entry = {"step": step, "sha256": digest}
        write_file(self._path(entry), data, self.files)
        listed = [entry, *(e for e in kept if self._path(e) != self._path(entry))]
        body = {"format": FORMAT, "key": folder.name, "checkpoints": listed}
        digest = hashlib.sha256(canonical(body)).hexdigest()
        text = canonical({"sha256": digest, "body": body})
        write_file(folder / "manifest.json", text, self.files)

    def _path(self, entry: Body) -> Path:
        assert self.folder is not None
        return self.folder / f"{entry['step']:d}-{entry['sha256'][:8]}.safetensors"

    def _listed(self) -> list[Body]:
        """Return the entries of the manifest, newest first."""
        if self.folder is None:
            return []
        try:
            manifest = parse_strictly(
                read_regular(self.folder / "manifest.json", 1 << 16)
            )
            body = manifest["body"]
            if manifest["sha256"] != hashlib.sha256(canonical(body)).hexdigest():
                raise ValueError("its checksum does not match")
            if (body["format"], body["key"]) != (FORMAT, self.folder.name):
                raise ValueError("it belongs to another training or format")
            listed = list(body["checkpoints"])
            for entry in listed:
                if not NAME.fullmatch(self._path(entry).name):
                    raise ValueError("it lists a file that is not a checkpoint")
            return listed
        except FileNotFoundError:
            return []
        except (OSError, ValueError, KeyError, TypeError, RecursionError) as error:
            self.refused.append(f"manifest of checkpoints: {error}")
            return []
