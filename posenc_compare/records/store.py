"""Records on disk: one JSON file per cell, named by the cell's key.

The file is the only state: it appears whole, by a rename, or not at all. Whatever is
shown is made from these files, on any machine, without running a scheme.

Records of a finished run may lie packed in one compressed file instead, which is read
like the folder. A line is the text of a record's file with its key in it. Lines stand
in the order of their keys, so that the same records make the same file. A loose file
wins over its line: `run` writes loose files beside a packed one, and its end merges
them.
"""

import contextlib
import fcntl
import hashlib
import io
import lzma
import os
import re
import shutil
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from posenc_compare.errors import ConfigError, StoreError
from posenc_compare.records.record import Record
from posenc_compare.settings.canonical import Body, canonical, parse_strictly, spec_key
from posenc_compare.validate import check_folder, read_regular, write_file

SCHEMA = 3
RECORD_BYTES = 1 << 24  # the arrays of a wide probe take a few million
RECORD = re.compile(r"[0-9a-f]{32}\.json")
MOST_LOOSE = 64  # records, from which a finished run packs its folder
ARCHIVE = "cells.jsonl.xz"
PACKED = 1 << 28  # bytes of a packed file
LINE = re.compile(rb'(.*),"key":"([0-9a-f]{32})"(,"sha256":"[0-9a-f]{64}"\}\n)')
SEAL = len(',"sha256":""}\n') + 64  # bytes at the end of a record's text


class Store:
    """A folder of records.

    Args:
        folder: the run's folder; records lie in `cells` below it.
        files: module `os`, or what stands in for it.

    Attributes:
        damaged: names of what `read` found damaged, or written by another version:
            files, and records in the packed file.
    """

    def __init__(self, folder: Path, files: Any = os) -> None:
        self.folder = folder
        self.cells = folder / "cells"
        self.checkpoints = folder / "ckpt"
        self.packed = folder / ARCHIVE
        self.files = files
        self.damaged: list[str] = []
        self._lines: tuple[tuple[int, ...], dict[str, bytes]] = ((), {})
        with self._must("be a folder"):
            if folder.exists() and not folder.is_dir():
                raise NotADirectoryError("a file")

    @contextlib.contextmanager
    def _must(self, what: str) -> Iterator[None]:
        """Raise a `StoreError` of one line for any error of the file system."""
        try:
            yield
        except (OSError, ValueError) as error:
            raise StoreError(f"{self.folder}: must {what}, got {error}") from error

    def create(self) -> None:
        """Make the folder and prove that it takes files, before a run begins."""
        check_folder("out", self.folder)
        with self._must("be a folder to write to"):
            held = {path.name for path in self.folder.glob("*")}
            if held and held.isdisjoint({self.cells.name, self.packed.name}):
                raise StoreError(
                    f"{self.folder}: must be empty or the folder of a run, and holds "
                    f"other files; a new folder would work"
                )
            self.cells.mkdir(parents=True, exist_ok=True)
            probe = self.cells / ".probe"
            write_file(probe, b"", self.files)
            probe.unlink(missing_ok=True)  # another run may be faster

    def write(self, body: Body) -> str:
        """Write a record and return its key. The body holds the cell's `spec`."""
        key = spec_key(body["spec"])
        self.put(key, encode_record({"schema": SCHEMA, **body}))
        return key

    def put(self, key: str, text: bytes) -> None:
        """Write the text of a record's file."""
        with self._must(f"take a record of {len(text)} bytes"):
            write_file(self.cells / f"{key}.json", text, self.files)

    def fits(self, body: Body) -> bool:
        """Return whether a record is short enough to be read again."""
        return len(encode_record({"schema": SCHEMA, **body})) <= RECORD_BYTES

    def check(self) -> None:
        """Prove that the folder is there."""
        if not self.cells.is_dir():
            raise StoreError(f"{self.cells}: must be there, and is gone")

    def read(self, key: str) -> Body | None:
        """Return the record of that key, or None if there is none that is intact."""
        found = self.find(key)
        return found[1] if found else None

    def find(self, key: str) -> tuple[bytes, Body] | None:
        """Return the text of a key's file, or that in the packed one, and its record.

        A file wins over a line of the packed one.
        """
        name = f"{key}.json"
        try:
            text = read_regular(self.cells / name, RECORD_BYTES)
        except FileNotFoundError:
            name, text = f"{ARCHIVE} {key}", self.lines().get(key)
        except (OSError, ValueError):
            text = b""  # it is there, and cannot be read
        if text is None:
            return None
        try:
            return text, {**_body(text, key), "key": key}
        except (ValueError, KeyError, TypeError, RecursionError):
            self.damaged.append(name)
            return None

    def lines(self) -> dict[str, bytes]:
        """Return the texts in the packed file by key, read anew if it has changed."""
        try:
            facts = self.packed.lstat()
            state = (facts.st_ino, facts.st_size, facts.st_mtime_ns)
        except OSError:
            state = ()
        if state != self._lines[0]:
            texts, damaged = read_packed(self.packed)
            self.damaged += damaged
            self._lines = state, texts
        return self._lines[1]

    def forget_checkpoints(self, key: str) -> None:
        """Remove what a finished training would have gone on from."""
        shutil.rmtree(self.checkpoints / key, ignore_errors=True)

    def records(self) -> Iterator[Body]:
        """Yield every intact record, in the order of their keys."""
        return filter(None, map(self.read, sorted(self.keys())))

    def keys(self) -> set[str]:
        """Return the keys of all files of records, and of all packed ones."""
        with self._must("be readable"):
            names = os.listdir(self.cells) if self.cells.is_dir() else []  # noqa: PTH208
        loose = {n.removesuffix(".json") for n in names if RECORD.fullmatch(n)}
        return loose | self.lines().keys()

    def newer(self, path: Path) -> bool:
        """Return whether a record came after a file, or it is gone.

        It goes by when the records came to this folder: a copy may keep an older time
        of writing.
        """
        try:
            written = path.stat().st_ctime_ns
            files = [*self.cells.glob("*.json"), *self.folder.glob(ARCHIVE)]
            return any(file.stat().st_ctime_ns >= written for file in files)
        except OSError:  # another run may move what was there
            return True

    def pack_finished(self) -> None:
        """Pack the folder of a finished run, unless it holds few loose records.

        What cannot be packed stays loose, and so does everything while another process
        packs the folder.
        """
        if len(list(self.cells.glob("*.json"))) >= MOST_LOOSE:
            with contextlib.suppress(StoreError):
                self.pack()

    def pack(self) -> None:
        """Put all records into the packed file.

        Loose files go once the packed one is there. Lines that cannot be read stay.
        """
        with self._must("let one process pack its records"):
            folder = os.open(self.folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
            try:
                fcntl.flock(folder, fcntl.LOCK_EX | fcntl.LOCK_NB)
                self._pack()
            finally:
                os.close(folder)

    def _pack(self) -> None:
        texts, damaged = read_packed(self.packed)
        if ARCHIVE in damaged:
            raise ValueError(f"a damaged {ARCHIVE}")
        for key in self.keys():
            if found := self.find(key):
                texts[key] = found[0]
        data = pack_records(texts)
        write_file(self.packed, data, self.files)
        for key, text in texts.items():
            path = self.cells / f"{key}.json"
            # Another run may have written the record anew.
            with contextlib.suppress(FileNotFoundError):
                if path.read_bytes() == text:
                    path.unlink()


def read_packed(path: Path) -> tuple[dict[str, bytes], list[str]]:
    """Return the texts of a packed file by key, and the names of what is damaged.

    A damaged line costs itself alone, and a cut file the records behind the cut.
    Whether a text is intact shows where it is read, as that of a file does.
    """
    texts: dict[str, bytes] = {}
    damaged: list[str] = []
    try:
        data = read_regular(path, PACKED)
        with lzma.LZMAFile(io.BytesIO(data)) as file:
            for number, line in enumerate(file, 1):
                found = LINE.fullmatch(line)
                if found and (key := found[2].decode()) not in texts:
                    texts[key] = found[1] + found[3]
                else:
                    damaged.append(f"{ARCHIVE} line {number}")
    except FileNotFoundError:
        pass
    except (OSError, ValueError, EOFError, lzma.LZMAError):
        damaged.append(ARCHIVE)
    return texts, damaged


def pack_records(texts: dict[str, bytes]) -> bytes:
    """Return the packed file of some records' texts by key."""
    lines = [
        text[:-SEAL] + f',"key":"{key}"'.encode() + text[-SEAL:]
        for key, text in sorted(texts.items())
    ]
    # Preset 6 takes ten times as long, and saves a quarter of the file.
    data = lzma.compress(b"".join(lines), preset=1)
    if len(data) > PACKED:
        raise ValueError(f"they take {len(data)} bytes, more than {PACKED}")
    return data


def find_records(keys: Iterable[str], folders: Iterable[Path]) -> dict[str, Store]:
    """Return the first of some folders that has a record of a key, by key.

    A key names all that a number depends on, so a record of that key can be copied as
    it is. What was timed, or did not come out well, is computed anew.
    """
    held: dict[str, Store] = {}
    left = list(keys)
    for store in map(Store, folders):
        if not store.packed.exists() and not store.cells.is_dir():
            raise ConfigError(
                f"reuse {store.folder}: must be the folder of a run, and holds no "
                f"records"
            )
        for key in left:
            with contextlib.suppress(ValueError):
                if key not in held and Record.from_json(store.read(key)).stays_true:
                    held[key] = store
    return held


def copy_records(held: dict[str, Store], to: Store) -> None:
    """Copy records into a folder, to the byte."""
    for key, store in held.items():
        if found := store.find(key):  # or else it was removed a moment ago
            to.put(key, found[0])


def encode_record(body: Body) -> bytes:
    """Return the bytes of a record's file."""
    text = canonical(body)
    digest = hashlib.sha256(text).hexdigest().encode()
    return b'{"body":%b,"sha256":"%b"}\n' % (text, digest)


def _body(data: bytes, key: str) -> Body:
    """Return what the text of a record's file says."""
    body = parse_strictly(data)["body"]
    intact = (
        data == encode_record(body)  # every byte of it
        and spec_key(body["spec"]) == key
        and body["schema"] == SCHEMA
        and "numbers" in body["spec"]  # version 0.1.0 wrote this schema without
        and isinstance(body["status"], str)
    )
    if not intact:
        raise ValueError("damaged, or of another version")
    return body
