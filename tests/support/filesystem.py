"""What tests inject: file systems that fail, and a watch."""

import contextlib
import hashlib
import os
import random
import signal
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NoReturn

from posenc_compare.records import diff
from posenc_compare.records.cells import Cell
from posenc_compare.records.record import Record
from posenc_compare.settings.canonical import canonical, parse_strictly
from posenc_compare.settings.probe import ProbeSetting
from posenc_compare.variants import Variant

CELL = Cell(Variant("rope"), "shift_error", ProbeSetting(), threads=1)
# Those that write a file that is whole or absent.
CALLS = ["open", "write", "fsync", "close", "replace", "open", "fsync", "close"]
WATCHED = ("open", "write", "fsync", "close", "replace", "unlink")


class Crash(BaseException):
    """Stands for a process that dies here, and a machine with it."""


class Seam:
    """Module `os`, with something happening at one call.

    Nothing is really synchronised: what was not when the machine dies is cut off.

    Args:
        at: number of the call, from 1; 0 for none.
        act: what happens there: an error number that it fails with, something to
            call, or by default the death of the machine.
        when: before the call, after it, or at half of what a call writes.
        most: bytes that one call writes at most.
    """

    def __init__(
        self,
        at: int = 0,
        act: int | Callable[[], object] | None = None,
        when: str = "before",
        most: int = 1 << 30,
    ) -> None:
        self.at, self.act, self.when, self.most = at, act, when, most
        self.calls: list[str] = []
        self._lying: dict[Any, Path] = {}  # written and not synchronised

    def __getattr__(self, name: str) -> Any:
        if name not in WATCHED:
            return getattr(os, name)
        return lambda *given: self._call(name, *given)

    def _call(self, name: str, *given: Any) -> Any:
        self.calls.append(name)
        here = len(self.calls) == self.at
        # A descriptor is closed even by a call that fails, and by a process that dies.
        early = here and self.when == "before" and name != "close"
        if early:
            self._happen()
        if here and self.when == "half" and name == "write":
            given = (given[0], given[1][: len(given[1]) // 2])
        result = self._do(name, *given)
        if here and not early:
            if name == "open" and not callable(self.act):
                os.close(result)
            self._happen()
        return result

    def _do(self, name: str, *given: Any) -> Any:
        if name == "fsync":
            self._lying.pop(given[0], None)
            return None
        if name == "write":
            given = (given[0], given[1][: self.most])
            self._lying[given[0]] = Path(f"/proc/self/fd/{given[0]}").resolve()
        if name == "close" and given[0] in self._lying:
            path = self._lying.pop(given[0])
            self._lying[path] = path
        if name == "replace" and given[0] in self._lying:
            self._lying[given[1]] = given[1]
            del self._lying[given[0]]
        return getattr(os, name)(*given)

    def _happen(self) -> None:
        if callable(self.act):
            self.act()
        elif self.act is not None:
            raise OSError(self.act, os.strerror(self.act))
        else:
            for path in self._lying.values():
                os.truncate(path, 0)
            raise Crash


def body(value: float = 1.5, cell: Cell = CELL, **changes: Any) -> dict[str, Any]:
    """Return a record's body with numbers and letters that JSON can write twice."""
    fact = {"name": "gain", "unit": "logit", "better": "lower", "zero": "none"}
    fact |= {"x": "", "title": ""}
    row = {"quantity": "gain", "value": value, "x": 1e-05, "case": "", "note": "é"}
    return {
        **cell.record().to_json(),
        "status": "ok",
        "error": "",
        "trace": [],
        "quantities": {"gain": {**fact, "headline": ["", 1e-05]}},
        "rows": [row],
        "arrays": {},
        "corpus": None,
        "provenance": {},
        **changes,
    }


def result(body: dict[str, Any]) -> bytes:
    """Return the canonical text of what came out, of a record's body."""
    read = parse_strictly(canonical({"key": "", **body}))
    return diff.result(Record.from_json(read))


def cuts(data: bytes, count: int) -> Iterator[bytes]:
    """Yield so many beginnings of a file, from none of it up."""
    for part in range(count):
        yield data[: part * len(data) // count]


def flips(data: bytes, count: int) -> Iterator[bytes]:
    """Yield a file with one bit of it flipped, at so many places."""
    draw = random.Random(0)
    for _ in range(count):
        place = draw.randrange(len(data))
        flipped = data[place] ^ 1 << draw.randrange(8)
        yield data[:place] + bytes([flipped]) + data[place + 1 :]


def sealed(text: bytes) -> bytes:
    """Return the file of a body given as text, with the checksum of that text."""
    digest = hashlib.sha256(text).hexdigest().encode()
    return b'{"body":' + text + b',"sha256":"' + digest + b'"}\n'


def snapshot(folder: Path) -> dict[str, Any]:
    """Return every name below a folder, with content and time of change."""
    return {
        str(path.relative_to(folder)): (
            path.lstat().st_mtime_ns,
            path.read_bytes() if path.is_file() else None,
        )
        for path in [folder, *folder.rglob("*")]
    }


@contextlib.contextmanager
def within(seconds: float) -> Iterator[None]:
    """Fail if what is done takes longer, also in a call that blocks."""

    def late(*_: object) -> NoReturn:
        raise AssertionError(f"took longer than {seconds} s")

    before = signal.signal(signal.SIGALRM, late)
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
