"""Atomic writing of files."""

import os
import secrets
from pathlib import Path
from typing import Any


def write_file(path: Path, data: bytes, files: Any = os) -> None:
    """Write a file atomically: after a crash it is the old one or the new one."""
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
