"""The code of every position as a map in characters, without matplotlib."""

import math

import numpy as np
from numpy.typing import NDArray

SHADES = " .:-=+*#%@"  # from the lowest value to the highest


def text_map(label: str, of: str, values: NDArray[np.float64], room: int) -> list[str]:
    """Return codes as lines of text, a shade for each value.

    Args:
        label: of the scheme.
        of: what the rows are: position or distance.
        values: `(position, channel)`.
        room: most characters in a line. Where channels do not fit, every n-th is
            shown, with an odd n, so that sines and cosines both are.
    """
    places = len(str(len(values) - 1))
    channels = values.shape[1]
    step = math.ceil(channels / max(1, room - places - 2))
    step += 1 - step % 2
    low, high = float(values.min()), float(values.max())
    span = (high - low) or 1.0
    levels = ((values[:, ::step] - low) / span * (len(SHADES) - 1)).round().astype(int)
    every = "" if step == 1 else f", one of every {step} shown"
    lines = [f"{label}: {len(values)} {of}s by {channels} channels{every}"]
    lines += [
        f"{row:{places}} |{''.join(SHADES[level] for level in codes)}"
        for row, codes in enumerate(levels)
    ]
    return [*lines, f"from {low:.4g} ({SHADES[0]!r}) to {high:.4g} ({SHADES[-1]!r})"]
