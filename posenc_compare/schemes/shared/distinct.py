"""The different numbers in a tensor of offsets or rows, and where each stands."""

import torch
from torch import Tensor


def distinct(x: Tensor) -> tuple[Tensor, Tensor]:
    """Return numbers in rising order, among them all of `x`, and the place of each.

    Where whole numbers of `x` lie close together, all between the lowest and the
    highest are returned, for they need not be sorted then. A graph of torch.compile
    cannot branch on numbers, so it always sorts `x`, which must not be empty there, and
    has the last number twice.

    Returns:
        `(number,)`, and the places in the shape of `x`: `numbers[places]` is `x`.
    """
    if torch.compiler.is_compiling():
        numbers, places = x.unique(return_inverse=True)
        torch._check(len(numbers) > 0)
        # Inductor orders strides only where it knows that there is more than one.
        return torch.cat([numbers, numbers[-1:]]), places
    if x.numel() and not x.is_floating_point():
        low, high = torch.stack(x.aminmax()).tolist()
        if high - low < x.numel():
            return torch.arange(low, high + 1, device=x.device), x - low
    return x.unique(return_inverse=True)
