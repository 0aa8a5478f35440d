"""Records on disk: one JSON file per cell, named by the cell's key.

The file is the only state: it appears whole, by a rename, or not at all. Whatever is
shown is made from these files, on any machine, without running a scheme. Those of a
finished run may lie packed in one file instead, which is read like the folder.
"""

import contextlib
import fcntl
import hashlib
import os
import re
import secrets
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from posenc_compare.errors import StoreError
from posenc_compare.records.files import read_file, write_file
from posenc_compare.records.packed import NAME, packed, read_packed
from posenc_compare.settings.canonical import (
    Body,
    canonical,
    parse_strictly,
    spec_key,
)

SCHEMA = 3
LIMIT = 1 << 24  # bytes of a record; the arrays of a wide probe take a few million
RECORD = re.compile(r"[0-9a-f]{32}\.json")
LITTER = re.compile(r"\..+\.[0-9]+\.[0-9a-f]{16}")  # as `write_file` names it
PROBE = 1 << 26  # bytes that are tried at most
MANY = 64  # loose records that the folder of a finished run may hold
STALE = 86_400  # seconds after which an unfinished file is litter


class Store:
    """A folder of records.

    Args:
        folder: the run's folder; records lie in `cells` below it.
        files: module `os`, or what stands in for it.

    Attributes:
        damaged: names of files that `read` found damaged, and of what is damaged in
            the packed file.
        outdated: names of files and packed records that another version wrote.

    Raises:
        StoreError: if the folder is a file, or cannot be reached.
    """

    def __init__(self, folder: Path, files: Any = os) -> None:
        try:
            if folder.exists() and not folder.is_dir():
                raise StoreError(f"{folder}: must be a folder, and is a file")
        except OSError as error:
            raise StoreError(f"{folder}: must be a folder, got {error}") from error
        self.folder = folder
        self.cells = folder / "cells"
        self.checkpoints = folder / "ckpt"
        self.quarantine = folder / "quarantine"
        self.packed = folder / NAME
        self.files = files
        self.damaged: list[str] = []
        self.outdated: list[str] = []
        self._lines: tuple[tuple[int, ...], dict[str, bytes]] = ((), {})

    def create(self) -> None:
        """Make the folder and prove that it takes files, before a run begins.

        Raises:
            StoreError: if it does not, or holds something that is no run.
        """
        try:
            held = {path.name for path in self.folder.glob("*")}
            if held and held.isdisjoint({self.cells.name, self.packed.name}):
                raise StoreError(
                    f"{self.folder}: must be empty or the folder of a run, and holds "
                    f"other files; a new folder would work"
                )
            for part in (self.cells, self.checkpoints, self.quarantine):
                if part.is_symlink():
                    raise StoreError(f"{part}: must be a folder, and is a link")
            self.cells.mkdir(parents=True, exist_ok=True)
            # The folder's own clock says what is old, not this machine's.
            now = self._try_to_write(self.cells, 0)
            for path in self.cells.glob(".*"):
                with contextlib.suppress(OSError):  # another run may be faster
                    old = now - path.lstat().st_mtime > STALE
                    if old and LITTER.fullmatch(path.name):
                        path.unlink()
        except OSError as error:
            raise StoreError(
                f"{self.folder}: must be a folder to write to, got {error}"
            ) from error

    def write(self, body: Body) -> str:
        """Write a record and return its key. The body holds the cell's `spec`.

        Raises:
            StoreError: if it cannot be written.
        """
        body = {"schema": SCHEMA, **body}
        key = spec_key(body["spec"])
        data = sealed(body)
        try:
            write_file(self.cells / f"{key}.json", data, self.files)
        except OSError as error:
            gone = isinstance(error, FileNotFoundError | NotADirectoryError)
            kept = "" if gone else "; what was computed before is kept"
            raise StoreError(
                f"{self.folder}: must take a record of {len(data)} bytes, got {error}"
                f"{kept}"
            ) from error
        return key

    def fits(self, body: Body) -> bool:
        """Return whether a record is short enough to be read again."""
        return len(sealed({"schema": SCHEMA, **body})) <= LIMIT

    def check(self, size: int = 0) -> None:
        """Prove that the folder is there, and that checkpoints of a size find room.

        Raises:
            StoreError: if not.
        """
        if not self.cells.is_dir():
            raise StoreError(f"{self.cells}: must be there, and is gone")
        try:
            if size:
                self.checkpoints.mkdir(exist_ok=True)
                self._try_to_write(self.checkpoints, min(size, PROBE))
        except OSError as error:
            raise StoreError(
                f"{self.folder}: must take checkpoints, got {error}"
            ) from error

    def _try_to_write(self, folder: Path, size: int) -> float:
        """Return when a file of a size was written, which is removed again."""
        probe = folder / f".probe.{os.getpid()}.{secrets.token_hex(8)}"
        write_file(probe, bytes(size), self.files)
        time = probe.stat().st_mtime
        probe.unlink()
        return time

    def read(self, key: str) -> Body | None:
        """Return the record of that key, or None if there is none that is intact."""
        found = self.find(key)
        return found[1] if found else None

    def find(self, key: str) -> tuple[bytes, Body] | None:
        """Return the text of a key's file, or that in the packed one, and its record.

        A file wins over a line of the packed one, unless it is damaged.
        """
        name = f"{key}.json"
        try:
            loose = read_file(self.cells / name, LIMIT)
        except FileNotFoundError:
            loose = None
        except (OSError, ValueError):
            loose = b""  # it is there, and cannot be read
        for what, text in ((name, loose), (f"{NAME} {key}", self.lines().get(key))):
            if text is None:
                continue
            try:
                body = _body(text, key)
            except (ValueError, KeyError, TypeError, RecursionError):
                self.damaged.append(what)
                continue
            # Version 0.1.0 wrote this schema, with keys of other parts.
            if body["schema"] == SCHEMA and "numbers" in body["spec"]:
                return text, {**body, "key": key}
            self.outdated.append(what)
        return None

    def lines(self) -> dict[str, bytes]:
        """Return the texts in the packed file by key, read anew if it has changed."""
        try:
            facts = self.packed.lstat()
            state = (facts.st_ino, facts.st_size, facts.st_mtime_ns)
        except OSError:
            state = ()
        if state != self._lines[0]:
            texts, damaged = read_packed(self.packed) if state else ({}, [])
            self.damaged += damaged
            self._lines = state, texts
        return self._lines[1]

    def forget_checkpoints(self, key: str) -> None:
        """Remove what a finished training would have gone on from."""
        shutil.rmtree(self.checkpoints / key, ignore_errors=True)

    def records(self) -> Iterator[Body]:
        """Yield every intact record, in the order of their keys.

        Raises:
            StoreError: if the folder cannot be read.
        """
        for key in sorted(self.keys()):
            if (record := self.read(key)) is not None:
                yield record

    def keys(self) -> set[str]:
        """Return the keys of all files of records, and of all lines of the packed one.

        Raises:
            StoreError: if the folder cannot be read.
        """
        try:
            names = os.listdir(self.cells) if self.cells.is_dir() else []  # noqa: PTH208
        except OSError as error:
            raise StoreError(f"{self.folder}: must be readable, got {error}") from error
        loose = {n.removesuffix(".json") for n in names if RECORD.fullmatch(n)}
        return loose | self.lines().keys()

    def newer(self, path: Path) -> bool:
        """Return whether a record came after a file, or it is gone.

        It goes by when the records came to this folder: a copy may keep an older time
        of writing.
        """
        try:
            written = path.stat().st_ctime_ns
            files = [*self.cells.glob("*.json"), *self.folder.glob(NAME)]
            return any(file.stat().st_ctime_ns >= written for file in files)
        except OSError:  # another run may move what was there
            return True

    def set_aside(self) -> list[str]:
        """Move damaged and outdated files out of the way and return their names.

        What is damaged in the packed file stays there until it is packed anew.
        """
        names = dict.fromkeys(self.damaged + self.outdated)
        moved = [name for name in names if RECORD.fullmatch(name)]
        self.damaged, self.outdated = [], []
        for name in moved:
            try:
                self.quarantine.mkdir(exist_ok=True)
                aside = self.quarantine / f"{name}.{secrets.token_hex(4)}"
                with contextlib.suppress(FileNotFoundError):  # another run was faster
                    (self.cells / name).replace(aside)
            except OSError as error:
                raise StoreError(
                    f"{self.folder}: must let damaged files be moved, got {error}"
                ) from error
        return moved

    def pack_finished(self) -> None:
        """Pack the folder of a finished run, unless it holds few loose records.

        What cannot be packed stays loose, and so does everything while another process
        packs the folder.
        """
        if len(list(self.cells.glob("*.json"))) >= MANY:
            with contextlib.suppress(StoreError):
                self.pack()

    def pack(self) -> None:
        """Put all records into the packed file.

        Loose files go once the packed one is there. A packed file with records that
        cannot be read is kept in `quarantine`.

        Raises:
            StoreError: if the folder cannot be read or written, its records are too
                long, or another process packs it.
        """
        try:
            folder = os.open(self.folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
            try:
                fcntl.flock(folder, fcntl.LOCK_EX | fcntl.LOCK_NB)
                self._pack()
            finally:
                os.close(folder)
        except (OSError, ValueError) as error:
            raise StoreError(
                f"{self.folder}: must let one process pack its records, got {error}"
            ) from error

    def _pack(self) -> None:
        found = {key: self.find(key) for key in self.keys()}
        texts = {key: one[0] for key, one in found.items() if one}
        data = packed(texts)
        old, damaged = read_packed(self.packed)
        if damaged or old.keys() - texts.keys():
            self.quarantine.mkdir(exist_ok=True)
            aside = self.quarantine / f"{NAME}.{secrets.token_hex(4)}"
            write_file(aside, self.packed.read_bytes(), self.files)
        write_file(self.packed, data, self.files)
        for key, text in texts.items():
            path = self.cells / f"{key}.json"
            # Another run may have written the record anew.
            with contextlib.suppress(FileNotFoundError):
                if path.read_bytes() == text:
                    path.unlink()


def sealed(body: Body) -> bytes:
    """Return the bytes of a record's file."""
    digest = hashlib.sha256(canonical(body)).hexdigest()
    return canonical({"sha256": digest, "body": body}) + b"\n"


def _body(data: bytes, key: str) -> Body:
    """Return what the text of a record's file says.

    Raises:
        ValueError: if it is damaged, or is not of that key; other errors of lists and
            dicts where its shape is odd.
    """
    body = parse_strictly(data)["body"]
    intact = (
        data == sealed(body)  # every byte of it
        and spec_key(body["spec"]) == key
        and isinstance(body["schema"], int)
        and isinstance(body["status"], str)
    )
    if not intact:
        raise ValueError("damaged")
    return body
