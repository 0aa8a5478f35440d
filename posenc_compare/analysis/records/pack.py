"""Put the records of a folder into one compressed file."""

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

MANY = 64  # loose records that the folder of a finished run may hold


@dataclass(frozen=True)
class Done:
    """What came of it.

    Attributes:
        records: how many are in the packed file.
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


def pack_finished(store: Store) -> list[str]:
    """Pack the folder of a finished run, unless it holds few loose records.

    What cannot be packed stays loose, and so does everything while another process
    packs the folder.

    Returns:
        Names of what is damaged.
    """
    if len(list(store.cells.glob("*.json"))) < MANY:
        return []
    try:
        return pack(store.folder).damaged
    except StoreError:
        return []


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
    """Let no other process pack a folder."""
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
