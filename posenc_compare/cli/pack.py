"""The commands that put records into one file and take them out again."""

from pathlib import Path

from posenc_compare.analysis.core.sanitize import clean
from posenc_compare.analysis.records import pack as packing
from posenc_compare.cli.say import say, tell


def pack(folder: Path) -> int:
    """Put the records of a folder into one compressed file; 1 if any is damaged."""
    done = packing.pack(folder)
    tell(f"{done.records} records packed into {done.size} bytes")
    return _say_damage(done.damaged)


def unpack(folder: Path) -> int:
    """Give every packed record a file of its own again; 1 if any is damaged."""
    done = packing.unpack(folder)
    tell(f"{done.records} records in files of their own")
    return _say_damage(done.damaged)


def _say_damage(names: list[str]) -> int:
    for name in names:
        say(f"damaged: {clean(name, 80)}; the same run computes it again")
    return int(bool(names))
