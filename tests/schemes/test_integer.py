"""Integer positions against a loop, and what LayerNorm leaves of them."""

import pytest
import torch
import torch.nn.functional as F
from schemes.tools import close, normal
from torch import Tensor

from posenc_compare.errors import ConfigError
from posenc_compare.schemes import create


def slow_code(positions: list[int], width: int, divisor: int) -> Tensor:
    rows = [[p / divisor for _ in range(width)] for p in positions]
    return torch.tensor(rows, dtype=torch.float64)


@pytest.mark.parametrize(
    ("options", "divisor"),
    [({}, 48), ({"normalised": True}, 48), ({"normalised": False}, 1)],
)
def test_equals_the_slow_reference(options: dict[str, bool], divisor: int) -> None:
    x = normal(2, 6, 5)
    positions = [0, 1, 2, 47, 500, 3]
    scheme = create("integer", options=options, model_dim=5, heads=1, length=48)
    got = scheme.embed(x, torch.tensor(positions))
    expected = x + slow_code(positions, 5, divisor)
    close(got, expected)


def test_normalised_trained_positions_lie_from_0_to_below_1() -> None:
    scheme = create("integer", model_dim=4, heads=1, length=32)
    code = scheme.embed(torch.zeros(1, 32, 4).double(), torch.arange(32))
    assert code.min() == 0
    assert code.max() == 31 / 32


def test_batches_may_stand_at_different_positions() -> None:
    x = normal(2, 3, 4)
    positions = torch.tensor([[0, 1, 2], [9, 8, 7]])
    scheme = create("integer", model_dim=4, heads=1, length=10)
    got = scheme.embed(x, positions)
    for row in range(2):
        assert torch.equal(
            got[row : row + 1], scheme.embed(x[row, None], positions[row])
        )


@pytest.mark.parametrize("normalised", [True, False])
def test_layer_norm_removes_the_whole_code(normalised: bool) -> None:
    x = normal(2, 8, 16)
    scheme = create(
        "integer", options={"normalised": normalised}, model_dim=16, heads=1, length=8
    )
    positions = torch.arange(8)
    changed = scheme.embed(x, positions)
    assert (changed - x).abs().max() > 0.8
    # Adding p <= 7 rounds each channel by at most 8 * 2**-53.
    norm = F.layer_norm(changed, (16,)), F.layer_norm(x, (16,))
    torch.testing.assert_close(*norm, rtol=0, atol=1e-13)


def test_normalised_changes_with_the_length_and_raw_does_not() -> None:
    x, positions = torch.zeros(1, 4, 2).double(), torch.arange(4)

    def code(normalised: bool, length: int) -> Tensor:
        options = {"normalised": normalised}
        scheme = create("integer", options=options, model_dim=2, heads=1, length=length)
        return scheme.embed(x, positions)

    assert torch.equal(code(True, 8), 2 * code(True, 16))
    assert torch.equal(code(False, 8), code(False, 16))
    assert not torch.equal(code(False, 8), code(True, 8))


@pytest.mark.parametrize("normalised", [True, False])
def test_bfloat16_rounds_the_code_and_the_sum_only(normalised: bool) -> None:
    # 15962 and 15966 are one number in bfloat16; int64 and float64 keep them apart.
    positions = torch.arange(15_900, 16_000)
    count, length = len(positions), 10_007
    scheme = create(
        "integer",
        options={"normalised": normalised},
        model_dim=8,
        heads=1,
        length=length,
    )
    x = normal(1, count, 8).bfloat16()
    code = slow_code(positions.tolist(), 8, length if normalised else 1)
    got = scheme.embed(x, positions)
    assert got.dtype == torch.bfloat16
    exact = x.double() + code
    unit = 2.0**-8  # half the distance of 1 to the next bfloat16
    bound = unit * (code.abs() + exact.abs() * (1 + unit) + unit * code.abs())
    assert ((got.double() - exact).abs() <= bound).all()
    # On a zero token there is one rounding: the very number torch rounds to.
    alone = scheme.embed(torch.zeros(1, count, 8, dtype=torch.bfloat16), positions)
    assert torch.equal(alone[0], code.bfloat16())
    apart = scheme.embed(torch.zeros(1, count, 8).double(), positions)[0, :, 0]
    assert apart.unique().numel() == count


def test_wrong_option_value() -> None:
    with pytest.raises(ConfigError, match="normalised must be true or false, got '3'"):
        create("integer", options={"normalised": 3})
