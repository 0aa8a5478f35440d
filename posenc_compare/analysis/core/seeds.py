"""Independent streams of random numbers, one for each purpose.

The seed of a stream is a hash of its purpose. So no two purposes share numbers, and no
stream depends on earlier draws of another.
"""

import hashlib


def stream_seed(*purpose: str | int) -> int:
    """Return a seed below 2**63 for a purpose such as `("batch", seed, step)`."""
    text = "\0".join(map(str, purpose)).encode()
    return int.from_bytes(hashlib.sha256(text).digest()[:8], "little") >> 1
