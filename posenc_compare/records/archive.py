"""Records of a run in one compressed file, which is read like the folder of them.

A line is the text of a record's file with its key in it. Lines stand in the order of
their keys, so that the same records make the same file. A loose file of a record wins
over its line: `run` writes loose files beside a packed one, and its end merges them.
"""

import io
import lzma
import re
from pathlib import Path

from posenc_compare.validate import read_regular

ARCHIVE = "cells.jsonl.xz"
PACKED = 1 << 28  # bytes of a packed file
LINE = re.compile(rb'(.*),"key":"([0-9a-f]{32})"(,"sha256":"[0-9a-f]{64}"\}\n)')
SEAL = len(',"sha256":""}\n') + 64  # bytes at the end of a record's text


def read_packed(path: Path) -> tuple[dict[str, bytes], list[str]]:
    """Return the texts of a packed file by key, and the names of what is damaged.

    A damaged line costs itself alone, and a cut file the records behind the cut.
    Whether a text is intact shows where it is read, as that of a file does.
    """
    texts: dict[str, bytes] = {}
    damaged: list[str] = []
    try:
        data = read_regular(path, PACKED)
        with lzma.LZMAFile(io.BytesIO(data)) as file:
            for number, line in enumerate(file, 1):
                found = LINE.fullmatch(line)
                if found and (key := found[2].decode()) not in texts:
                    texts[key] = found[1] + found[3]
                else:
                    damaged.append(f"{ARCHIVE} line {number}")
    except FileNotFoundError:
        pass
    except (OSError, ValueError, EOFError, lzma.LZMAError):
        damaged.append(ARCHIVE)
    return texts, damaged


def pack_records(texts: dict[str, bytes]) -> bytes:
    """Return the packed file of some records' texts by key."""
    lines = [
        text[:-SEAL] + f',"key":"{key}"'.encode() + text[-SEAL:]
        for key, text in sorted(texts.items())
    ]
    # Preset 6 takes ten times as long, and saves a quarter of the file.
    data = lzma.compress(b"".join(lines), preset=1)
    if len(data) > PACKED:
        raise ValueError(f"they take {len(data)} bytes, more than {PACKED}")
    return data
