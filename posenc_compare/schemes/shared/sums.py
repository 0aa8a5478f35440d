"""Sums over the keys between one key and the query."""

import torch.nn.functional as F
from torch import Tensor


def sums_after(x: Tensor, like: Tensor) -> Tensor:
    """Return the sum of all that comes after each number of a row.

    Args:
        x: `(..., key)`, summed in its own dtype.
        like: a tensor of the dtype to return.

    Returns:
        `(..., key)`; 0 behind the last number.
    """
    from_here = x.flip(-1).cumsum(-1).to(like.dtype).flip(-1)
    return F.pad(from_here, (-1, 1))
