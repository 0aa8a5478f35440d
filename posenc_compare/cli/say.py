"""Say something to the user, with nothing in it that a terminal would act on.

Paths, docstrings and messages of plugins may be those of strangers.
"""

import sys

from posenc_compare.analysis.core.sanitize import clean


def say(text: str) -> None:
    """Print one line to stderr, beside what was asked for."""
    print(clean(text), file=sys.stderr, flush=True)


def tell(text: str) -> None:
    """Print one line to stdout, as what was asked for."""
    print(clean(text, sys.maxsize), flush=True)
