"""2-D RoPE, axial and mixed, against complex numbers, one pair at a time."""

import cmath
import math
from typing import Any

import pytest
import torch
from schemes.tools import (
    CLOSE_POSITIONS,
    build,
    check_gradients,
    check_rotation_keeps_close_positions_apart,
    close,
    decoded,
    normal,
    pair_by_pair,
    perturbed,
    rotation_by_complex,
    seeded,
    vectors,
)
from torch import Tensor

from posenc_compare.attention import Mask, attention, attention_logits
from posenc_compare.errors import ConfigError, ShapeError
from posenc_compare.schemes import create
from posenc_compare.schemes.rope_2d import Rope2d
from posenc_compare.schemes.shared.rotation import rotation_angles

KINDS = ["axial", "mixed"]


def make(head_dim: int = 16, heads: int = 2, seed: int = 0, **options: Any) -> Rope2d:
    sizes = {"model_dim": heads * head_dim, "heads": heads}
    return build(Rope2d, options, seed=seed, **sizes)


def ids(batch: int = 2, length: int = 5) -> Tensor:
    return torch.randint(-5, 30, (batch, length, 2), generator=seeded(7))


def slow_angle(
    scheme: Rope2d, head: int, m: int, row: int, column: int, rule: dict[str, Any]
) -> float:
    quarter = scheme.geometry.head_dim // 4
    if rule.get("kind") == "mixed":
        down, across = (scheme.frequencies[axis, head, m].item() for axis in (0, 1))
        return row * down + column * across
    base = rule.get("base", 100.0)
    speed = base ** (-4 * (m % quarter) / (4 * quarter))
    second = m >= quarter
    by_row = second if rule.get("first", "w") == "w" else not second
    return (row if by_row else column) * speed


CASES = [
    {},
    {"first": "h"},
    {"base": 7.0, "layout": "half"},
    {"kind": "mixed"},
    {"kind": "mixed", "layout": "half", "base": 50.0},
]


@pytest.mark.parametrize("head_dim", [4, 16])
@pytest.mark.parametrize("rule", CASES, ids=str)
def test_equals_the_slow_reference(rule: dict[str, Any], head_dim: int) -> None:
    q, k, _ = vectors(2, 2, 5, head_dim)
    places = ids()
    scheme = perturbed(make(head_dim=head_dim, **rule), 0.3)
    with torch.no_grad():
        got = attention_logits(
            q, k, scheme=scheme, positions=places, mask=Mask(causal=False)
        )

    def logit(b: int, h: int, i: int, j: int) -> float:
        row, column = (places[b, i] - places[b, j]).tolist()
        factors = [
            cmath.exp(1j * slow_angle(scheme, h, m, row, column, rule))
            for m in range(head_dim // 2)
        ]
        layout = rule.get("layout", "adjacent")
        return rotation_by_complex(q[b, h, i], k[b, h, j], factors, layout)

    close(got, pair_by_pair(q, logit))


def test_axial_is_rope_of_half_a_head_for_each_axis() -> None:
    x, places = normal(2, 2, 5, 16), ids()
    rope = create("rope", options={"base": 100.0}, model_dim=16, heads=2)
    by_column = rope.query(x[..., :8], places[..., 1])
    by_row = rope.query(x[..., 8:], places[..., 0])
    got = make(base=100.0).query(x, places)
    close(got, torch.cat([by_column, by_row], -1), 1e-14)
    swapped = make(first="h").query(x, places.flip(-1))
    assert torch.equal(swapped, got)


def test_mixed_with_straight_directions_is_axial() -> None:
    x, places = normal(2, 2, 5, 16), ids()
    scheme = make(kind="mixed", base=100.0)
    size = torch.tensor([100.0 ** (-m / 4) for m in range(4)])
    none = torch.zeros(4)
    with torch.no_grad():
        scheme.frequencies[0] = torch.cat([none, size])  # row
        scheme.frequencies[1] = torch.cat([size, none])  # column
        got = scheme.query(x, places)
    close(got, make().query(x, places), 1e-5)


def test_start_of_mixed() -> None:
    table = make(head_dim=32, heads=64, kind="mixed").frequencies.detach()
    assert table.shape == (2, 64, 16)
    size = table.norm(dim=0)  # a frequency of its own in each half, for all heads
    expected = torch.tensor([10.0 ** (-m / 8) for m in range(8)] * 2).double()
    torch.testing.assert_close(size, expected.expand(64, 16), rtol=1e-6, atol=0)
    # One direction per head, the second half a quarter turn further.
    angle = torch.atan2(table[0], table[1]) % (2 * math.pi)
    first, second = angle[:, :8], angle[:, 8:]
    torch.testing.assert_close(first, first[:, :1].expand(-1, 8), rtol=1e-5, atol=1e-5)
    ahead = (second - first) % (2 * math.pi)
    torch.testing.assert_close(
        ahead, torch.full_like(ahead, math.pi / 2), rtol=1e-5, atol=1e-5
    )
    drawn = first[:, 0].sort().values
    assert drawn[0] < 1 < 5.3 < drawn[-1]
    assert drawn.diff().max() < 1
    other = make(head_dim=32, heads=64, seed=1, kind="mixed").frequencies
    assert not torch.equal(table, other.detach())


def test_parameters() -> None:
    assert list(make().parameters()) == []
    (table,) = make(kind="mixed").parameters()
    assert table.numel() == 2 * 16
    assert Rope2d.facts.per_layer
    assert rotation_angles(make(kind="mixed"), ids()) is None


def test_mixed_trains() -> None:
    scheme = perturbed(make(head_dim=4, kind="mixed"), 0.3)
    check_gradients(scheme, *vectors(1, 2, 3, 4), ids(1, 3))


@pytest.mark.parametrize("kind", KINDS)
def test_logits_depend_on_offsets_of_each_axis_alone(kind: str) -> None:
    q, k, _ = vectors(2, 2, 5, 16)
    scheme = perturbed(make(kind=kind), 0.3).requires_grad_(False)
    here, there, scaled = (
        attention_logits(q, k, scheme=scheme, positions=p, mask=Mask(causal=False))
        for p in (ids(), ids() + torch.tensor([300, 4000]), 2 * ids())
    )
    close(here, there, 1e-10)
    assert (here - scaled).abs().max() > 0.1


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("steps", [[3, 2], [1] * 5])
def test_decoding_in_pieces_equals_the_whole(kind: str, steps: list[int]) -> None:
    q, k, v = vectors(2, 2, 5, 16)
    scheme = perturbed(make(kind=kind), 0.3).requires_grad_(False)
    whole = attention(q, k, v, scheme=scheme, positions=ids())
    close(decoded(q, k, v, steps, scheme=scheme, positions=ids()), whole)


@pytest.mark.parametrize("kind", KINDS)
def test_one_row_of_ids_serves_the_whole_batch(kind: str) -> None:
    q, scheme = normal(2, 2, 5, 16), make(kind=kind).requires_grad_(False)
    one = ids(batch=1)[0]
    each = attention(q, q, q, scheme=scheme, positions=one.expand(2, 5, 2))
    shared = attention(q, q, q, scheme=scheme, positions=one)
    close(each, shared, 1e-14)


@pytest.mark.parametrize(
    ("base", "changed"),
    [
        ({}, {"kind": "mixed"}),
        ({}, {"base": 99.0}),
        ({}, {"first": "h"}),
        ({}, {"layout": "half"}),
        ({"kind": "mixed"}, {"base": 11.0}),
        ({"kind": "mixed"}, {"layout": "half"}),
        ({"kind": "mixed"}, {"seed": 1}),
    ],
)
def test_each_option_changes_the_output(
    base: dict[str, Any], changed: dict[str, Any]
) -> None:
    x, places = normal(2, 2, 5, 16), ids()
    one, other = make(**base), make(**{**base, **changed})
    assert (one.query(x, places) - other.query(x, places)).abs().max() > 1e-4


@pytest.mark.parametrize("kind", KINDS)
def test_close_positions_stay_apart_in_bfloat16(kind: str) -> None:
    scheme = make(kind=kind).requires_grad_(False)
    places = CLOSE_POSITIONS[:, None].expand(3, 2)
    check_rotation_keeps_close_positions_apart(scheme.query, places)


def test_ids_of_one_axis_are_refused() -> None:
    q = normal(2, 2, 5, 16)
    with pytest.raises(ShapeError, match=r"positions must be \(5, 2\) or \(2, 5, 2\)"):
        attention(q, q, q, scheme=make(), positions=torch.arange(5))


@pytest.mark.parametrize("head_dim", [6, 7])
def test_head_that_is_no_multiple_of_four(head_dim: int) -> None:
    with pytest.raises(
        ConfigError,
        match=f"rope_2d: head_dim must be a multiple of 4, got {head_dim}",
    ):
        make(head_dim)


def test_base_must_be_positive() -> None:
    with pytest.raises(ConfigError, match=r"base must be greater than 0, got -1\.0"):
        make(kind="mixed", base=-1.0)
