"""Files written whole or not at all, and read without trust."""

import os
import secrets
import stat
from pathlib import Path
from typing import Any


def write_file(path: Path, data: bytes, files: Any = os) -> None:
    """Make `path` hold `data`: whole or as it was before, also through a crash.

    Args:
        path: in a folder that exists.
        data: all of the file.
        files: module `os`, or what stands in for it.

    Raises:
        OSError: if that is not possible; nothing is left behind.
    """
    token = f".{path.stem}.{os.getpid()}.{secrets.token_hex(8)}"
    temporary = path.with_name(token)
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC
    try:
        descriptor = files.open(temporary, flags, 0o644)
        try:
            view = memoryview(data)
            while view:
                view = view[files.write(descriptor, view) :]
            files.fsync(descriptor)
        finally:
            files.close(descriptor)
        files.replace(temporary, path)
    except OSError:
        temporary.unlink(missing_ok=True)
        raise
    folder = files.open(path.parent, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        files.fsync(folder)
    finally:
        files.close(folder)


def read_file(path: Path, limit: int) -> bytes:
    """Return what a regular file of at most `limit` bytes holds.

    Raises:
        OSError: if it cannot be read.
        ValueError: if it is a link, a device, a pipe, or longer.
    """
    flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
    with open(os.open(path, flags), "rb") as file:  # noqa: PTH123
        facts = os.fstat(file.fileno())
        if not stat.S_ISREG(facts.st_mode) or facts.st_size > limit:
            raise ValueError("not a regular file of a size that is read")
        return file.read(facts.st_size)
