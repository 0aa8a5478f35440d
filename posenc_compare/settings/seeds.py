"""Seeds as users name them, and independent streams of random numbers.

The seed of a stream is a hash of its purpose. So no two purposes share numbers, and no
stream depends on earlier draws of another.
"""

import hashlib
import re

from posenc_compare.errors import ConfigError

MOST_SEEDS = 10_000  # of a comparison
SOME = re.compile(r"([0-9]{1,18})(?:-([0-9]{1,18}))?")


def stream_seed(*purpose: str | int) -> int:
    """Return a seed below 2**63 for a purpose such as `("batch", seed, step)`."""
    text = "\0".join(map(str, purpose)).encode()
    return int.from_bytes(hashlib.sha256(text).digest()[:8], "little") >> 1


def named_seeds(given: object) -> tuple[int, ...]:
    """Return the seeds that a user asks for, each once and in order.

    `given` is how many, for `0 ... given - 1`, or which, as `100-109` or `5,7,9`.
    """
    text = "" if isinstance(given, bool) else str(given).replace(" ", "")
    parts = [SOME.fullmatch(part) for part in text.split(",")]
    spans = [range(int(part[1]), int(part[2] or part[1]) + 1) for part in parts if part]
    if len(parts) == 1 and spans and "-" not in text:
        spans = [range(int(text))]
    count = sum(map(len, spans))
    if not all(parts) or not 1 <= count <= MOST_SEEDS:
        raise ConfigError(
            f"seeds must be a count (3), a range (100-109) or a list (5,7,9) of at "
            f"most {MOST_SEEDS}, got {str(given)[:40]!r}",
            field="seeds",
        )
    return tuple(sorted({seed for span in spans for seed in span}))
