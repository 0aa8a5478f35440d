"""Faults in attention through the hook and its paths."""

from planted import Fault

FILES = ("attention.py",)
STRIDED = "tests/test_attention.py::test_strided_at_lengths_around_the_block"
FAULTS = [
    Fault("attention.py", "one key too many", ">= keys\n", "> keys\n", STRIDED),
]
