"""Put the records of a folder into one file, take them out again, or remove some."""

import contextlib
import fcntl
import os
import secrets
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from posenc_compare.analysis.core.files import read_file, write_file
from posenc_compare.analysis.records.packed import (
    LINES,
    LONG,
    PACKED,
    packed,
    read_packed,
)
from posenc_compare.analysis.records.store import LIMIT, Store
from posenc_compare.errors import ConfigError, StoreError


@dataclass(frozen=True)
class Done:
    """What came of it.

    Attributes:
        records: how many are in the packed file, or were taken out.
        size: bytes of the packed file.
        damaged: names of what could not be read; files stay where they are, and what
            is damaged in a packed file is kept in the folder `quarantine`.
    """

    records: int
    size: int
    damaged: list[str]


def pack(folder: Path) -> Done:
    """Put all records of a folder into its packed file.

    Loose files go once the packed one is there and reads as they do.

    Raises:
        ConfigError: if the folder holds no records.
        StoreError: if it cannot be read or written, or another process packs it.
    """
    store = Store(folder)
    with _alone_in(folder), _told(folder):
        texts = _texts(store)
        data = packed(texts)
        long = sum(map(len, texts.values())) > LONG // 2 or len(data) > PACKED
        if long or len(texts) > LINES:
            raise StoreError(
                f"{folder}: must have at most {LINES} records of {LONG // 2} bytes in "
                f"all to be packed; a folder for each part of the run would work"
            )
        if _damage(store):
            _keep_aside(store)
        write_file(store.packed, data)
        if read_packed(store.packed).texts != texts:
            raise StoreError(f"{store.packed}: must read as it was written")
        for key, text in texts.items():
            path = store.cells / f"{key}.json"
            # Another run may have written the record anew.
            with contextlib.suppress(FileNotFoundError, ValueError):
                if read_file(path, LIMIT) == text:
                    path.unlink()
    return Done(len(texts), len(data), store.damaged)


def unpack(folder: Path) -> Done:
    """Give every record of a packed file a file of its own; the packed one goes.

    Raises:
        ConfigError: if the folder holds no packed file.
        StoreError: if it cannot be read or written, or another process packs it.
    """
    store = Store(folder)
    with _alone_in(folder), _told(folder):
        if not store.packed.exists():
            raise ConfigError(
                f"{store.packed}: must be there to be unpacked, and is not"
            )
        size, texts = store.packed.lstat().st_size, _texts(store)
        damaged, keep = list(store.damaged), _damage(store)
        store.set_aside()
        store.cells.mkdir(exist_ok=True)
        for key in texts.keys() & store.lines().keys():
            path = store.cells / f"{key}.json"
            if not path.exists():
                write_file(path, texts[key])
        if keep:
            _keep_aside(store)
        store.packed.unlink()
    return Done(len(texts), size, damaged)


def _texts(store: Store) -> dict[str, bytes]:
    """Return the texts of all intact records by key."""
    texts = {
        record["key"]: found[0]
        for record in store.records()
        if (found := store.find(record["key"])) is not None
    }
    if not texts:
        raise ConfigError(f"{store.folder}: must hold records of a run, and holds none")
    store.damaged = list(dict.fromkeys(store.damaged))
    return texts


def _damage(store: Store) -> bool:
    """Return whether anything in the packed file is damaged."""
    return any(name.startswith(store.packed.name) for name in store.damaged)


def _keep_aside(store: Store) -> None:
    """Keep a copy of a damaged packed file."""
    store.quarantine.mkdir(exist_ok=True)
    name = f"{store.packed.name}.{secrets.token_hex(4)}"
    with contextlib.suppress(ValueError):  # a link or a folder is no file to keep
        write_file(store.quarantine / name, read_file(store.packed, PACKED))


@contextlib.contextmanager
def _told(folder: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise StoreError(f"{folder}: must take files, got {error}") from error


@contextlib.contextmanager
def _alone_in(folder: Path) -> Iterator[None]:
    """Let no other `pack` or `unpack` work in a folder."""
    try:
        descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    except OSError as error:
        raise StoreError(f"{folder}: must be a folder, got {error}") from error
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        os.close(descriptor)
        raise StoreError(
            f"{folder}: must be packed by one process at a time, got {error}"
        ) from error
    try:
        yield
    finally:
        os.close(descriptor)
