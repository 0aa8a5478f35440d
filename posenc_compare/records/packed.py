"""Records of a run in one compressed file, which is read like the folder of them.

A line is the text of a record's file with its key in it. Lines stand in the order of
their keys, so that the same records make the same file. A loose file of a record wins
over its line: `run` writes loose files beside a packed one, and its end merges them.
"""

import io
import lzma
import re
from pathlib import Path

from posenc_compare.records.files import read_file

NAME = "cells.jsonl.xz"
PACKED = 1 << 28  # bytes of a packed file
LONG = 1 << 29  # bytes of all its lines
LINE = (1 << 24) + 64  # bytes of a record with its key
SHORT = 1 << 10  # bytes that any line counts for, so that lines are limited too
SEAL = len(',"sha256":""}\n') + 64  # bytes at the end of a record's text
KEY = re.compile(rb',"key":"([0-9a-f]{32})"')
KEYED = len(',"key":""') + 32  # bytes before those


def read_packed(path: Path) -> tuple[dict[str, bytes], list[str]]:
    """Return the texts of a packed file by key, and the names of what is damaged.

    A damaged line costs itself alone, and a cut file the records behind the cut.
    Whether a text is intact shows where it is read, as that of a file does.
    """
    try:
        return _unpacked(read_file(path, PACKED))
    except FileNotFoundError:
        return {}, []
    except (OSError, ValueError):
        return {}, [NAME]


def _unpacked(data: bytes) -> tuple[dict[str, bytes], list[str]]:
    texts: dict[str, bytes] = {}
    damaged: list[str] = []
    size = number = 0
    try:
        with lzma.LZMAFile(io.BytesIO(data)) as file:
            while line := file.readline(LINE):
                number += 1
                size += max(len(line), SHORT)
                if size > LONG:
                    raise ValueError(f"more than {LONG} bytes")
                text, end = line[:-SEAL], line[-SEAL:]
                found = KEY.fullmatch(text[-KEYED:])
                key = found[1].decode() if found else ""
                if not found or key in texts:
                    damaged.append(f"{NAME} line {number}")
                else:
                    texts[key] = text[:-KEYED] + end
    except (ValueError, EOFError, MemoryError, lzma.LZMAError):
        damaged.append(NAME)
    return texts, damaged


def packed(texts: dict[str, bytes]) -> bytes:
    """Return the packed file of some records' texts by key.

    Raises:
        ValueError: if it does not read as the same texts, such as if it is too long.
    """
    lines = [
        text[:-SEAL] + f',"key":"{key}"'.encode() + text[-SEAL:]
        for key, text in sorted(texts.items())
    ]
    data = lzma.compress(b"".join(lines), preset=6)
    if len(data) > PACKED or _unpacked(data) != (texts, []):
        raise ValueError(f"records of at most {LONG} bytes in all can be packed")
    return data
