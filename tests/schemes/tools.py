"""What the tests of the schemes share."""

import torch
from torch import Tensor


def normal(*shape: int, seed: int = 0) -> Tensor:
    """Draw float64 numbers from a normal distribution, the same for the same seed."""
    return torch.randn(*shape, generator=seeded(seed), dtype=torch.float64)


def seeded(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)
