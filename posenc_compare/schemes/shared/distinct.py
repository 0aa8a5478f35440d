"""The different numbers in a tensor of offsets or rows, and where each stands."""

import torch
from torch import Tensor


def distinct(x: Tensor) -> tuple[Tensor, Tensor]:
    """Return numbers in rising order, among them all of `x`, and the place of each.

    Where the numbers of `x` lie close together, all between the lowest and the highest
    are returned, for they need not be sorted then.

    Returns:
        `(number,)`, and the places in the shape of `x`: `numbers[places]` is `x`.
    """
    if x.numel():
        low, high = torch.stack(x.aminmax()).tolist()
        if high - low < x.numel():
            return torch.arange(low, high + 1, device=x.device), x - low
    return x.unique(return_inverse=True)
