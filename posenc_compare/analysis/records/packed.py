"""Records of a run in one compressed file, which is read like the folder of them.

A line is the text of a record's file with its key in it. Lines stand in the order of
their keys, so that the same records make the same file. A loose file of a record wins
over its line: `run` writes loose files beside a packed one, and the next `pack` merges.
"""

import lzma
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from posenc_compare.analysis.core.files import read_file

NAME = "cells.jsonl.xz"
PACKED = 1 << 28  # bytes of a packed file
LONG = 1 << 29  # bytes of all its lines
LINES = 100_000  # that are read
LINE = (1 << 24) + 64  # bytes of a record with its key
MEMORY = 1 << 27  # bytes that unpacking may take beside what it gives
STEP = 1 << 20  # bytes that are unpacked at a time
SEALED = re.compile(rb'(,"sha256":"[0-9a-f]{64}"}\n)')
KEYED = re.compile(rb',"key":"([0-9a-f]{32})"(,"sha256":"[0-9a-f]{64}"}\n)')
TAIL = 120  # bytes of a line that hold key and checksum


@dataclass(frozen=True)
class Lines:
    """What a packed file holds.

    Attributes:
        texts: of records, as their files would hold them, by key.
        damaged: what cannot be read, by name.
    """

    texts: dict[str, bytes]
    damaged: list[str]


def read_packed(path: Path) -> Lines:
    """Return what a packed file holds; what is damaged costs no more than itself.

    Whether a text is sound shows where it is read, as that of a file does.
    """
    texts: dict[str, bytes] = {}
    damaged: list[str] = []
    try:
        for number, line in enumerate(_lines(read_file(path, PACKED)), start=1):
            if number > LINES:
                raise ValueError("more lines than are read")
            start = max(0, len(line) - TAIL)
            found = KEYED.search(line, start)
            key = found[1].decode() if found and found.end() == len(line) else ""
            if not found or not key or key in texts:
                damaged.append(f"{NAME} line {number}")
            else:
                texts[key] = line[: found.start()] + found[2]
    except FileNotFoundError:
        pass
    except (OSError, ValueError, EOFError, MemoryError, lzma.LZMAError):
        damaged.append(NAME)
    return Lines(texts, damaged)


def packed(texts: dict[str, bytes]) -> bytes:
    """Return the packed file of some records' texts by key."""
    lines = []
    for key, text in sorted(texts.items()):
        end = SEALED.search(text, max(0, len(text) - TAIL))
        assert end is not None
        lines.append(text[: end.start()] + f',"key":"{key}"'.encode() + end[1])
    return lzma.compress(b"".join(lines), preset=6)


def _lines(data: bytes) -> Iterator[bytes]:
    """Yield the lines of a compressed text.

    Raises:
        LZMAError: if it is not of this format, or would take too much memory.
        ValueError: if there is too much of it.
        EOFError: if it is cut.
    """
    unpacker = lzma.LZMADecompressor(lzma.FORMAT_XZ, memlimit=MEMORY)
    size, rest = 0, b""
    while not unpacker.eof:
        given = data if size == 0 and not rest else b""
        piece = unpacker.decompress(given, STEP)
        if not piece and unpacker.needs_input:
            raise EOFError("cut")
        size += len(piece)
        *whole, rest = (rest + piece).split(b"\n")
        if size > LONG or len(rest) > LINE:
            raise ValueError("more than is read")
        for line in whole:
            yield line + b"\n"
    if rest or unpacker.unused_data:
        raise ValueError("something behind the last line")
