"""The standard streams of every command: open, able to show any text, and honest."""

import io
import os
import sys
from typing import TYPE_CHECKING

from posenc_compare.errors import StoreError

if TYPE_CHECKING:
    from _typeshed import ReadableBuffer


class Output(io.FileIO):
    """Stdout or stderr. That stdout takes no more is an error; stderr then is mute."""

    def write(self, data: "ReadableBuffer") -> int | None:
        try:
            return super().write(data)
        except OSError as error:
            # Python writes what is left as it ends: that goes nowhere.
            nowhere = os.open(os.devnull, os.O_WRONLY)
            os.dup2(nowhere, self.fileno())
            os.close(nowhere)
            if isinstance(error, BrokenPipeError):  # the reader has seen enough
                raise
            if self.fileno() == 1:
                raise StoreError(
                    f"stdout: must take what is printed, got {error}"
                ) from error
            return super().write(data)


def open_streams() -> None:
    """Make of the process's own streams what commands and workers rely on.

    Raises:
        StoreError: if stdout is closed.
    """
    if sys.stdout is not sys.__stdout__:  # of a caller in Python, or made here before
        return
    for number in range(3):
        try:
            os.fstat(number)
        except OSError:  # a pipe would get the number, and a child mistake it
            os.set_inheritable(os.open(os.devnull, os.O_RDWR), True)
    closed = sys.stdout is None
    sys.stdout, sys.stderr = _opened(1, sys.stdout), _opened(2, sys.stderr)
    if closed:
        raise StoreError(
            "stdout: must be open, and is closed; `> /dev/null` would work"
        )


def _opened(number: int, before: object) -> io.TextIOWrapper:
    """Return a stream that writes as an escape what its encoding lacks."""
    return io.TextIOWrapper(
        io.BufferedWriter(Output(number, "w", closefd=False)),
        encoding=getattr(before, "encoding", "utf-8"),
        errors="backslashreplace",
        line_buffering=number == 2 or os.isatty(number),
    )
