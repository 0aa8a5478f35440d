"""What all schemes that rotate share: one table for a pass, and angles to be seen."""

from typing import get_args

import pytest
import torch
from torch import Tensor
from torch.func import jvp, vjp

from posenc_compare.errors import ConfigError
from posenc_compare.schemes import SCHEMES, create
from posenc_compare.schemes.shared import rotation
from posenc_compare.schemes.shared.rotation import Layout, rotate, rotation_table

SHAPE = (2, 2, 5, 8)


def normal(seed: int) -> Tensor:
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(SHAPE, generator=generator, dtype=torch.float64)


@pytest.mark.parametrize("layout", get_args(Layout))
def test_one_angle_may_serve_all_positions(
    layout: Layout, monkeypatch: pytest.MonkeyPatch
) -> None:
    x, angles = normal(0).bfloat16(), torch.linspace(0, 3, 4).double()
    phasors = torch.polar(torch.ones(1, 1, 1, 4).double(), angles)
    table = rotation_table(phasors, x.dtype, layout)
    whole = rotate(x, table, layout)
    monkeypatch.setattr(rotation, "BLOCK", x[:, :, :1].numel())
    assert torch.equal(rotate(x, table, layout), whole)


@pytest.mark.filterwarnings("ignore:.torch.jit.script. is deprecated")  # of `jvp`
@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.bfloat16])
@pytest.mark.parametrize("pairs", [4, 2])
@pytest.mark.parametrize("layout", get_args(Layout))
def test_blocks_of_rows_change_no_bit(
    layout: Layout, pairs: int, dtype: torch.dtype, monkeypatch: pytest.MonkeyPatch
) -> None:
    angles = torch.arange(5.0).double()[:, None] * torch.logspace(0, -2, pairs)
    phasors = torch.polar(torch.full_like(angles, 1.25), angles)[None, None]
    table = rotation_table(phasors, dtype, layout)
    x, tangent = (normal(seed).to(dtype) for seed in (0, 1))

    def turned(x: Tensor) -> Tensor:
        return rotate(x, table, layout)

    def each() -> list[Tensor]:
        back = vjp(turned, x)[1]
        return [turned(x), back(tangent)[0], jvp(turned, (x,), (tangent,))[1]]

    whole = each()
    monkeypatch.setattr(rotation, "BLOCK", 2 * x[:, :, :1].numel())  # two rows
    for got, expected in zip(each(), whole, strict=True):
        assert torch.equal(got, expected)


# Schemes that turn channels, and wrappers whose default does.
TURNING = [
    name
    for name, entry in SCHEMES.entries().items()
    if (entry.facts["family"] == "rotary" or "rope" in name)
    and name != "pope"  # which turns each channel by itself
]


@pytest.mark.parametrize("head_dim", [1, 3, 7])
@pytest.mark.parametrize("name", TURNING)
def test_odd_head_dims_are_refused_by_that_name(name: str, head_dim: int) -> None:
    message = rf"^\w+: .*head_dim.*\b{head_dim}\b"
    with pytest.raises(ConfigError, match=message) as caught:
        create(name, heads=2, head_dim=head_dim)
    assert "fraction" not in str(caught.value)
