"""The different numbers in a tensor, sorted or counted up."""

import pytest
import torch
from torch import Tensor

from posenc_compare.schemes.shared.distinct import distinct

FAR = 2**62


@pytest.mark.parametrize(
    ("x", "numbers"),
    [
        (torch.tensor([[2, -1], [1, 2]]), [-1, 0, 1, 2]),
        (torch.tensor([[3, -2], [1, 3]]), [-2, 1, 3]),  # six numbers for four places
        (torch.tensor([FAR, -FAR, 5]), [-FAR, 5, FAR]),
        (torch.tensor([7]), [7]),
        (torch.zeros(2, 0, dtype=torch.int64), []),
    ],
)
def test_numbers_rise_and_each_is_found(x: Tensor, numbers: list[int]) -> None:
    found, places = distinct(x)
    assert found.tolist() == numbers
    assert torch.equal(found[places], x)
