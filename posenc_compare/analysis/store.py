"""Records on disk: one JSON file per cell, named by the cell's key.

The file is the only state: it appears whole, by a rename, or not at all. Whatever is
shown is made from these files, on any machine, without running a scheme.
"""

import hashlib
import json
import os
import secrets
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from posenc_compare.analysis.cells import canonical, spec_key
from posenc_compare.errors import ConfigError

SCHEMA = 1


class Store:
    """A folder of records.

    Args:
        folder: the run's folder; records lie in `cells` below it.

    Raises:
        ConfigError: if the folder is a file.
    """

    def __init__(self, folder: Path) -> None:
        if folder.exists() and not folder.is_dir():
            raise ConfigError(f"{folder}: must be a folder, and is a file")
        self.folder = folder
        self.cells = folder / "cells"

    def create(self) -> None:
        """Make the folder, so that a run that cannot write ends before it begins.

        Raises:
            ConfigError: if that is not possible.
        """
        try:
            self.cells.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise ConfigError(
                f"{self.folder}: must be a folder to write to, got {error}"
            ) from error

    def write(self, body: dict[str, Any]) -> str:
        """Write a record and return its key. The body holds the cell's `spec`."""
        body = {"schema": SCHEMA, **body}
        key = spec_key(body["spec"])
        text = canonical(body)
        envelope = {"sha256": hashlib.sha256(text).hexdigest(), "body": body}
        self.create()
        temporary = self.cells / f".{key}.{os.getpid()}.{secrets.token_hex(8)}"
        try:
            with temporary.open("xb") as file:
                file.write(canonical(envelope) + b"\n")
                file.flush()
                os.fsync(file.fileno())
            temporary.replace(self.cells / f"{key}.json")
        finally:
            temporary.unlink(missing_ok=True)
        return key

    def read(self, key: str) -> dict[str, Any] | None:
        """Return the record of that key, or None if there is none that is intact."""
        try:
            envelope = json.loads((self.cells / f"{key}.json").read_bytes())
            body = envelope["body"]
            intact = (
                envelope["sha256"] == hashlib.sha256(canonical(body)).hexdigest()
                and spec_key(body["spec"]) == key
                and body["schema"] == SCHEMA
            )
        except (OSError, ValueError, KeyError, TypeError):
            return None
        return {**body, "key": key} if intact else None

    def records(self) -> Iterator[dict[str, Any]]:
        """Yield every intact record, in the order of their keys."""
        for path in sorted(self.cells.glob("*.json")):
            if (record := self.read(path.stem)) is not None:
                yield record
