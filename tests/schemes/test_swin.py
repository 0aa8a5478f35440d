"""Swin's bias against reading the table, one pair at a time."""

from typing import Any

import pytest
import torch
from schemes.tools import (
    build,
    close,
    content_plus,
    decoded,
    grid,
    normal,
    on_paths,
    perturbed,
    vectors,
)
from torch import Tensor

from posenc_compare.attention import Mask, attention, attention_logits
from posenc_compare.errors import ConfigError, UndefinedPositionError
from posenc_compare.schemes import create
from posenc_compare.schemes.swin import Swin


def make(
    length: int = 12, heads: int = 3, trained: bool = True, **options: int | str
) -> Swin:
    sizes = {"model_dim": 8 * heads, "heads": heads, "length": length}
    scheme = build(Swin, options, **sizes)
    return perturbed(scheme, 1.0 if trained else 0.0)


@pytest.mark.parametrize(("height", "width"), [(3, 4), (4, 3), (12, 1), (1, 12)])
@pytest.mark.parametrize("causal", [False, True])
def test_equals_the_slow_reference(height: int, width: int, causal: bool) -> None:
    scheme = make(height=height, width=width)
    q, k, _ = vectors(2, 3, 12, 8)
    cells = grid(height, width)
    positions = torch.stack([cells, cells.flip(0)])
    got = attention_logits(
        q, k, scheme=scheme, positions=positions, mask=Mask(causal=causal)
    )
    edge = torch.tensor([height - 1, width - 1])

    def bias(b: int, h: int, i: int, j: int) -> float:
        down, right = (positions[b, i] - positions[b, j] + edge).tolist()
        return scheme.table[down * (2 * width - 1) + right, h].item()

    close(got, content_plus(q, k, bias, causal))


def test_one_column_is_a_table_of_offsets() -> None:
    scheme = make(height=6, width=4)
    zero = torch.zeros(1, 3, 6, 8, dtype=torch.float64)
    for column in (0, 3):
        places = torch.stack([torch.arange(6), torch.full((6,), column)], dim=-1)
        logits = attention_logits(
            zero, zero, scheme=scheme, positions=places, mask=Mask(causal=False)
        )[0]
        for offset in range(-5, 6):
            row = (offset + 5) * 7 + 3
            diagonal = logits.diagonal(-offset, dim1=1, dim2=2)
            assert torch.equal(diagonal, scheme.table[row][:, None].expand_as(diagonal))


def test_every_offset_of_the_window_has_its_own_row() -> None:
    scheme = make(height=3, width=4, heads=1)
    with torch.no_grad():
        scheme.table.copy_(torch.arange(35)[:, None])
    zero = torch.zeros(1, 1, 12, 8, dtype=torch.float64)
    places = grid(3, 4)
    rows = attention_logits(
        zero, zero, scheme=scheme, positions=places, mask=Mask(causal=False)
    )[0, 0]
    offsets = (places[:, None] - places[None]).flatten(0, 1).tolist()
    found = {}
    for offset, row in zip(offsets, rows.flatten().tolist(), strict=True):
        assert found.setdefault(tuple(offset), row) == row
    assert sorted(found.values()) == list(range(35))


@pytest.mark.parametrize(
    ("length", "side"), [(1, 1), (2, 2), (4, 2), (5, 3), (9, 3), (10, 4), (16, 4)]
)
def test_window_is_the_smallest_square(length: int, side: int) -> None:
    scheme = make(length)
    assert (scheme.height, scheme.width) == (side, side)
    assert scheme.table.shape == ((2 * side - 1) ** 2, 3)
    mixed = make(length, width=7)
    assert (mixed.height, mixed.width) == (side, 7)


def test_starts() -> None:
    table = make(2500, trained=False).table
    assert table.std().item() == pytest.approx(0.02, rel=0.03)
    zero = make(trained=False, start="zeros")
    assert not zero.table.any()
    x = normal(1, 3, 12, 8)
    plain, started = (
        attention(x, x, x, scheme=scheme, positions=positions, mask=Mask(causal=False))
        for scheme, positions in (
            (create("nope", model_dim=24, heads=3), torch.arange(12)),
            (zero, grid(3, 4)),
        )
    )
    close(started, plain, 1e-13)


def test_logits_do_not_change_under_a_shift() -> None:
    x, scheme = normal(1, 3, 12, 8), make()
    here = attention(x, x, x, scheme=scheme, positions=grid(3, 4))
    shift = torch.tensor([100_000, -7])
    there = attention(x, x, x, scheme=scheme, positions=grid(3, 4) + shift)
    assert torch.equal(here, there)


def test_offsets_off_the_table_are_an_error() -> None:
    scheme, x = make(height=3, width=4), normal(1, 3, 2, 8)

    def look(row: int, column: int) -> Tensor:
        places = torch.tensor([[5, 5], [5 + row, 5 + column]])
        return attention(x, x, x, scheme=scheme, positions=places)

    for row, column in ((2, 3), (-2, -3), (2, -3)):
        assert look(row, column).isfinite().all()
    for row, column, limit in ((3, 0, 3), (-4, 0, 3), (0, 4, 4), (1, -6, 4)):
        apart = max(abs(row), abs(column))
        what, option = ("rows", "height") if limit == 3 else ("columns", "width")
        with pytest.raises(
            UndefinedPositionError,
            match=f"swin: {what} between two cells must be from 0 to {limit - 1}, "
            f"got {apart}; `{option}={apart + 1}` would work",
        ):
            look(row, column)


def test_keys_after_the_queries_may_leave_the_window_too() -> None:
    scheme, x = make(height=3, width=4), normal(1, 3, 2, 8)

    def look(row: int) -> Tensor:
        places = torch.tensor([[5, 5], [5, 6]])
        keys = places + torch.tensor([row, 0])
        return attention(
            x,
            x,
            x,
            scheme=scheme,
            positions=places,
            key_positions=keys,
            mask=Mask(causal=False),
        )

    for row in (-2, 2):
        assert look(row).isfinite().all()
    for row in (-3, 3):
        with pytest.raises(UndefinedPositionError, match=r"swin: rows .*, got 3; "):
            look(row)


def test_gradient_counts_the_pairs_of_each_offset() -> None:
    scheme = make(height=2, width=2, heads=1)
    zero = torch.zeros(1, 1, 4, 8, dtype=torch.float64)
    attention_logits(
        zero, zero, scheme=scheme, positions=grid(2, 2), mask=Mask(causal=False)
    ).sum().backward()
    assert scheme.table.grad is not None
    assert scheme.table.grad.flatten().tolist() == [1, 2, 1, 2, 4, 2, 1, 2, 1]


@pytest.mark.parametrize("causal", [False, True])
def test_paths_agree(causal: bool) -> None:
    x, scheme = normal(2, 3, 12, 8), make(16).requires_grad_(False)
    places = torch.stack([grid(3, 4), grid(4, 3)])
    first, *others = on_paths(
        x, x, x, scheme=scheme, positions=places, mask=Mask(causal=causal)
    )
    for other in others:
        close(other, first)


@pytest.mark.parametrize("steps", [[11, 1], [4, 4, 4], [1] * 12], ids=str)
def test_cached_decoding_equals_the_full_pass(steps: list[int]) -> None:
    x, places, scheme = normal(2, 3, 12, 8), grid(3, 4), make()
    whole = attention(x, x, x, scheme=scheme, positions=places)
    close(decoded(x, x, x, steps, scheme=scheme, positions=places), whole)


def test_bfloat16_keeps_close_positions_apart() -> None:
    places = torch.tensor([[0, 15_962], [0, 15_966], [0, 15_968]])
    zero = torch.zeros(1, 3, 3, 8, dtype=torch.bfloat16)
    scheme = make(height=1, width=7)
    logits = attention_logits(
        zero, zero, scheme=scheme, positions=places, mask=Mask(causal=False)
    )
    expected = scheme.table[[6, 2, 0], 0].float()
    assert torch.equal(logits[0, 0, 0], expected)


@pytest.mark.parametrize(
    ("one", "other"),
    [({"height": 5}, {}), ({"width": 5}, {}), ({"start": "zeros"}, {})],
)
def test_each_option_changes_the_output(
    one: dict[str, Any], other: dict[str, Any]
) -> None:
    x, places = normal(1, 3, 12, 8), grid(3, 4)
    changed, default = (
        attention(
            x,
            x,
            x,
            scheme=make(trained=False, **options),
            positions=places,
            mask=Mask(causal=False),
        )
        for options in (one, other)
    )
    assert (changed - default).abs().max() > 1e-4


@pytest.mark.parametrize("name", ["height", "width"])
def test_window_out_of_range(name: str) -> None:
    options: dict[str, Any] = {name: -1}
    with pytest.raises(ConfigError, match=f"swin: {name} must be at least 1, got -1"):
        make(**options)
