"""What users give, read without trust: names, numbers and files.

Files are written whole.
"""

import importlib
import os
import secrets
import stat
from collections.abc import Iterable
from difflib import get_close_matches
from pathlib import Path
from types import ModuleType
from typing import Any

from posenc_compare.errors import ConfigError

LONGEST = 80  # letters of a name that are looked at, and shown
FILES = (".csv", ".html", ".json", ".md", ".pdf", ".png", ".svg", ".tex")
CLOSE = 0.58  # share of letters in common from which a name is suggested


def near(name: str, known: Iterable[str], close: float = CLOSE) -> list[str]:
    """Return at most three known names that may be meant, the likeliest first.

    Initials stand for a name, as `lr` for `learning_rate`.
    """
    word, names = name[:LONGEST].lower(), list(known)
    short = [n for n in names if "".join(w[:1] for w in n.split("_")) == word]
    return short[:3] or get_close_matches(word, names, 3, close)


def hint(name: str, known: Iterable[str]) -> str:
    """Return `; did you mean ...?` for a message, or nothing if no name is near."""
    found = near(name, known)
    return f"; did you mean {' or '.join(found)}?" if found else ""


def number(text: str, kind: type[int] | type[float]) -> int | float | str:
    """Turn ASCII text into a number, or leave it for the check of its range to refuse.

    As in Python and TOML, `1_000` and `1e3` are numbers.
    """
    try:
        return kind(text) if str(text).isascii() else text
    except ValueError:
        return text


def import_extra(module: str, extra: str, field: str) -> ModuleType:
    """Return a module of an optional package; `field` is the setting that needs it."""
    try:
        return importlib.import_module(module)
    except ImportError as error:
        raise ConfigError(
            f"{field}: {extra} must be installed, got {error}; "
            f"`pip install 'posenc-compare[{extra}]'` would work",
            field=field,
        ) from error


def read_regular(path: Path, limit: int) -> bytes:
    """Return what a regular file holds, or a link to one."""
    with open(path, "rb", opener=_without_waiting) as file:
        facts = os.fstat(file.fileno())
        if not stat.S_ISREG(facts.st_mode):
            raise ValueError("no regular file")
        if facts.st_size > limit:
            raise ValueError(f"{facts.st_size} bytes, more than {limit}")
        return file.read(facts.st_size)


def _without_waiting(path: str, flags: int) -> int:
    return os.open(path, flags | os.O_NONBLOCK)


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


def check_text(name: str, value: object, example: str) -> None:
    """Raise `ConfigError` unless `value` is text, as the example is."""
    if not isinstance(value, str):
        raise ConfigError(
            f"{name} must be text, got {_short(value)}; {example!r} would work",
            field=name,
        )


def check_whole(
    name: str, value: object, low: int, high: int, example: int | None = None
) -> None:
    """Raise `ConfigError` unless `value` is a whole number from `low` to `high`."""
    if type(value) is not int or not low <= value <= high:
        raise ConfigError(
            f"{name} must be a whole number from {low} to {high}, got {_short(value)}"
            f"{_advice(example)}",
            field=name,
        )


def check_number(
    name: str, value: object, low: float, high: float, example: float | None = None
) -> None:
    """Raise `ConfigError` unless `value` is a finite number from `low` to `high`."""
    if (
        not isinstance(value, int | float)
        or isinstance(value, bool)
        or not low <= value <= high
    ):
        raise ConfigError(
            f"{name} must be a number from {low:g} to {high:g}, got {_short(value)}"
            f"{_advice(example)}",
            field=name,
        )


def check_choice(name: str, value: object, choices: tuple[object, ...]) -> None:
    """Raise `ConfigError` unless `value` is one of `choices`."""
    if not any(type(value) is type(c) and value == c for c in choices):
        wanted = " or ".join(str(choice).lower() for choice in choices)
        meant = hint(str(value), map(str, choices))
        raise ConfigError(
            f"{name} must be {wanted}, got {_short(value)}{meant}", field=name
        )


def check_heads(width: int, heads: int) -> None:
    """Raise `ConfigError` unless `heads` divides `width`."""
    if width % heads:
        raise ConfigError(
            f"width must be a multiple of heads, got width {width} and heads {heads}; "
            f"width {width - width % heads or heads} would work",
            field="width",
        )


def check_folder(name: str, path: Path) -> None:
    """Raise `ConfigError` if the name of a new folder is that of a file."""
    if path.suffix.lower() in FILES and not path.is_dir():
        raise ConfigError(
            f"{name} must be a folder, got {str(path)!r}; "
            f"{str(path.with_suffix(''))!r} would work",
            field=name,
        )


def _advice(example: float | None) -> str:
    return "" if example is None else f"; {example:g} would work"


def _short(value: object) -> str:
    try:
        return repr(value)[:LONGEST]
    except ValueError:  # of a number with thousands of digits
        return f"a {type(value).__name__} that is too long to be shown"
