"""A small training on a text, for tests of what is trained."""

from pathlib import Path
from typing import Any

from posenc_compare.settings.training import Training
from posenc_compare.tasks.corpus import load_corpus

WORDS = b"the quick brown fox jumps over the lazy dog. "
SIZES: dict[str, Any] = {"layers": 1, "width": 16, "heads": 2, "length": 8, "steps": 3}
SIZES |= {"batch": 2, "longest": 2, "test_bytes": 64}

WHOLE_RUN = """
steps = 3
layers = 1
width = 16
heads = 2
length = 8
longest = 2
batch = 2
test_bytes = 64
seeds = 1
"""


def small(text: str | Path, **changes: Any) -> Training:
    """Return a training of three steps on the text in a file."""
    setting = Training(**{**SIZES, **changes}, corpus=str(text))
    return setting.resolve(load_corpus)


def words(folder: Path, times: int = 400) -> Path:
    """Write the same words again and again into a file; return its path."""
    path = folder / "text.txt"
    path.write_bytes(WORDS * times)
    return path
