"""Learned positions against reading the table row by row."""

import pytest
import torch
from schemes.tools import build, normal

from posenc_compare.errors import ConfigError, ShapeError, UndefinedPositionError
from posenc_compare.schemes import create
from posenc_compare.schemes.learned import Learned


def make(seed: int = 0, length: int = 12, **options: float) -> Learned:
    sizes = {"model_dim": 6, "heads": 1, "length": length}
    return build(Learned, options, seed=seed, **sizes)


def test_equals_the_slow_reference() -> None:
    scheme, x = make(std=1.0), normal(2, 4, 6)
    positions = [[0, 11, 3, 3], [5, 4, 0, 11]]
    got = scheme.embed(x, torch.tensor(positions))
    table = scheme.table.tolist()
    for b in range(2):
        for i in range(4):
            for c in range(6):
                expected = float(x[b, i, c]) + table[positions[b][i]][c]
                assert got[b, i, c].item() == pytest.approx(expected, abs=1e-12)


def test_permuting_rows_is_permuting_positions() -> None:
    scheme, other, x = make(), make(), normal(1, 12, 6)
    order = torch.randperm(12, generator=torch.Generator().manual_seed(1))
    with torch.no_grad():
        other.table.copy_(scheme.table[order])
    assert torch.equal(other.embed(x, torch.arange(12)), scheme.embed(x, order))


def test_gradient_reaches_used_rows_only() -> None:
    scheme = make()
    scheme.embed(normal(1, 3, 6), torch.tensor([2, 2, 7])).sum().backward()
    assert scheme.table.grad is not None
    counts = scheme.table.grad[:, 0].tolist()
    assert counts == [0, 0, 2, 0, 0, 0, 0, 1, 0, 0, 0, 0]


@pytest.mark.parametrize(
    ("position", "options"), [(12, {}), (-1, {}), (5, {"length": 5})]
)
def test_positions_off_the_table_are_an_error(
    position: int, options: dict[str, int]
) -> None:
    last = options.get("length", 12) - 1
    scheme = make(**options)
    with pytest.raises(
        UndefinedPositionError,
        match=f"learned: positions must be from 0 to {last}, got {position}",
    ) as caught:
        scheme.embed(normal(1, 2, 6), torch.tensor([0, position]))
    assert caught.value.limit == last + 1


def test_initial_spread_is_the_option() -> None:
    for std in (0.02, 0.5):
        table = make(length=4000, std=std).table
        # The spread of 24000 draws is known to 1 / sqrt(48000) = 0.46 %.
        assert table.std().item() == pytest.approx(std, rel=0.03)
    assert make(length=4000).table.std().item() == pytest.approx(0.02, rel=0.03)


def test_each_option_changes_the_output() -> None:
    x, positions = torch.zeros(1, 3, 6).double(), torch.arange(3)
    default = make().embed(x, positions)
    assert not torch.equal(default, make(std=0.1).embed(x, positions))
    assert make(length=12).table.shape == (12, 6)
    assert make(length=5).table.shape == (5, 6)
    with torch.random.fork_rng(devices=[]):
        assert create("learned", options={"length": 7}, length=5).get_parameter(
            "table"
        ).shape == (7, 512)


def test_bfloat16_reads_the_right_row() -> None:
    positions = torch.tensor([15962, 15966, 15968])  # the first two collide there
    scheme = make(length=16000, std=1.0)
    x = normal(1, 3, 6).bfloat16()
    got = scheme.embed(x, positions)
    assert got.dtype == torch.bfloat16
    code = torch.stack([scheme.table[p] for p in positions.tolist()])
    exact = x.double() + code
    unit = 2.0**-8
    bound = unit * (code.abs() + exact.abs() * (1 + unit) + unit * code.abs())
    assert ((got.double() - exact).abs() <= bound).all()
    alone = scheme.embed(torch.zeros_like(x), positions)[0]
    assert torch.equal(alone, code.bfloat16())
    assert alone.unique(dim=0).shape[0] == 3


def test_width_must_be_that_of_the_table() -> None:
    with pytest.raises(
        ShapeError, match="learned: the width must be 6, as the table's, got 8"
    ):
        make().embed(normal(1, 2, 8), torch.arange(2))


def test_negative_length() -> None:
    with pytest.raises(ConfigError, match="learned: length must be at least 1, got -4"):
        create("learned", options={"length": -4})


def test_negative_spread() -> None:
    with pytest.raises(ConfigError, match="learned: std"):
        make(std=-1.0)
