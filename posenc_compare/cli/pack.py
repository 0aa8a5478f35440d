"""The commands that put records into one file and take them out again."""

from posenc_compare.analysis.core.sanitize import clean
from posenc_compare.cli.console import say, tell
from posenc_compare.cli.options import Folder


def pack(folder: Folder) -> int:
    """Put the records of a finished run into one compressed file."""
    from posenc_compare.analysis.records import pack as packing

    done = packing.pack(folder)
    tell(f"{done.records} records packed into {done.size} bytes")
    return _say_damage(done.damaged)


def unpack(folder: Folder) -> int:
    """Give every packed record a file of its own again."""
    from posenc_compare.analysis.records import pack as packing

    done = packing.unpack(folder)
    tell(f"{done.records} records in files of their own")
    return _say_damage(done.damaged)


def _say_damage(names: list[str]) -> int:
    for name in names:
        say(f"damaged: {clean(name, 80)}; the same run computes it again")
    return int(bool(names))
