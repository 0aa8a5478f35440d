"""Say something to the user, beside what was asked for."""

import sys

from posenc_compare.analysis.text import clean


def say(text: str) -> None:
    """Print one line to stderr, with nothing in it that a terminal would act on."""
    print(clean(text), file=sys.stderr, flush=True)
