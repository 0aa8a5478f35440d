"""Faults that a test must see, one file for each room of the package.

A room has `FILES`, the patterns of the files that it covers, and `FAULTS`. To add a
fault, take text that occurs once in its file and is not likely to move, and name the
smallest test that turns red: `python tests/mutants.py "NAME"` shows whether it does.
"""

from dataclasses import dataclass


@dataclass(frozen=True)
class Fault:
    """One line, wrong.

    Attributes:
        file: of the package.
        name: what is wrong, in a few words.
        old: text that occurs in it exactly once.
        new: what takes its place.
        tests: what pytest runs, a file or one of its tests.
        label: scheme whose conformance is checked first, with its options; nothing
            means that none is.
    """

    file: str
    name: str
    old: str
    new: str
    tests: str
    label: str = ""
