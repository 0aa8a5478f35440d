"""Independent streams of random numbers, one for each purpose.

A stream's seed is a hash of all that it is for, so that no two purposes share
numbers and none depends on what was drawn before.
"""

import hashlib


def stream_seed(*purpose: str | int) -> int:
    """Return a seed below 2**63 for a purpose such as `("batch", seed, step)`."""
    text = "\0".join(map(str, purpose)).encode()
    return int.from_bytes(hashlib.sha256(text).digest()[:8], "little") >> 1
