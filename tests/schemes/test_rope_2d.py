"""2-D RoPE, axial and mixed, against complex numbers, one pair at a time."""

import cmath
import math
from typing import Any

import pytest
import torch
from torch import Tensor

from posenc_compare.attention import Mask, attention, attention_logits
from posenc_compare.errors import ConfigError, ShapeError
from posenc_compare.schemes import create
from posenc_compare.schemes.rope_2d import Rope2d

KINDS = ["axial", "mixed"]


def normal(*shape: int, seed: int = 0) -> Tensor:
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(*shape, generator=generator, dtype=torch.float64)


def make(head_dim: int = 16, heads: int = 2, seed: int = 0, **options: Any) -> Rope2d:
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        scheme = create(
            "rope_2d", options=options, model_dim=heads * head_dim, heads=heads
        )
    assert isinstance(scheme, Rope2d)
    return scheme.double()


def perturbed(**options: Any) -> Rope2d:
    scheme = make(**options)
    with torch.no_grad():
        for parameter in scheme.parameters():
            parameter += 0.3 * normal(*parameter.shape, seed=4)
    return scheme


def ids(batch: int = 2, length: int = 5) -> Tensor:
    generator = torch.Generator().manual_seed(7)
    return torch.randint(-5, 30, (batch, length, 2), generator=generator)


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
    q, k = normal(2, 2, 5, head_dim), normal(2, 2, 5, head_dim, seed=1)
    places = ids()
    scheme = perturbed(head_dim=head_dim, **rule)
    with torch.no_grad():
        got = attention_logits(
            q, k, scheme=scheme, positions=places, mask=Mask(causal=False)
        )
    pairs = head_dim // 2
    for b in range(2):
        for h in range(2):
            for i in range(5):
                for j in range(5):
                    row, column = (places[b, i] - places[b, j]).tolist()
                    total = 0.0
                    for m in range(pairs):
                        half = rule.get("layout") == "half"
                        two = [m, m + pairs] if half else [2 * m, 2 * m + 1]
                        one = complex(*q[b, h, i, two].tolist())
                        other = complex(*k[b, h, j, two].tolist())
                        angle = slow_angle(scheme, h, m, row, column, rule)
                        turn = cmath.exp(1j * angle)
                        total += (one * other.conjugate() * turn).real
                    expected = total / math.sqrt(head_dim)
                    assert got[b, h, i, j].item() == pytest.approx(expected, abs=1e-12)


def test_axial_is_rope_of_half_a_head_for_each_axis() -> None:
    x, places = normal(2, 2, 5, 16), ids()
    rope = create("rope", options={"base": 100.0}, model_dim=16, heads=2)
    by_column = rope.query(x[..., :8], places[..., 1])
    by_row = rope.query(x[..., 8:], places[..., 0])
    got = make(base=100.0).query(x, places)
    torch.testing.assert_close(
        got, torch.cat([by_column, by_row], -1), rtol=0, atol=1e-14
    )
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
    torch.testing.assert_close(got, make().query(x, places), rtol=0, atol=1e-5)


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
    assert Rope2d.per_layer
    assert make(kind="mixed").angles(ids()) is None


def test_mixed_trains() -> None:
    scheme = perturbed(head_dim=4, kind="mixed")
    q, k, v = (normal(1, 2, 3, 4, seed=seed) for seed in range(3))

    def run(_: Tensor) -> Tensor:
        return attention(q, k, v, scheme=scheme, positions=ids(1, 3))

    assert torch.autograd.gradcheck(run, (scheme.frequencies,))


@pytest.mark.parametrize("kind", KINDS)
def test_logits_depend_on_offsets_of_each_axis_alone(kind: str) -> None:
    q, k = normal(2, 2, 5, 16), normal(2, 2, 5, 16, seed=1)
    scheme = perturbed(kind=kind).requires_grad_(False)
    here, there, scaled = (
        attention_logits(q, k, scheme=scheme, positions=p, mask=Mask(causal=False))
        for p in (ids(), ids() + torch.tensor([300, 4000]), 2 * ids())
    )
    torch.testing.assert_close(here, there, rtol=0, atol=1e-10)
    assert (here - scaled).abs().max() > 0.1


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("steps", [[3, 2], [1] * 5])
def test_decoding_in_pieces_equals_the_whole(kind: str, steps: list[int]) -> None:
    q, k, v = (normal(2, 2, 5, 16, seed=seed) for seed in range(3))
    scheme = perturbed(kind=kind).requires_grad_(False)
    places, start, outs = ids(), 0, []
    whole = attention(q, k, v, scheme=scheme, positions=places)
    for step in steps:
        stop = start + step
        outs.append(
            attention(
                q[:, :, start:stop],
                k[:, :, :stop],
                v[:, :, :stop],
                scheme=scheme,
                positions=places[:, start:stop],
                key_positions=places[:, :stop],
            )
        )
        start = stop
    torch.testing.assert_close(torch.cat(outs, dim=2), whole, rtol=0, atol=1e-12)


@pytest.mark.parametrize("kind", KINDS)
def test_one_row_of_ids_serves_the_whole_batch(kind: str) -> None:
    q, scheme = normal(2, 2, 5, 16), make(kind=kind).requires_grad_(False)
    one = ids(batch=1)[0]
    each = attention(q, q, q, scheme=scheme, positions=one.expand(2, 5, 2))
    shared = attention(q, q, q, scheme=scheme, positions=one)
    torch.testing.assert_close(each, shared, rtol=0, atol=1e-14)


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
    places = torch.tensor([15962, 15966, 15968])[:, None].expand(3, 2)
    x = normal(1, 2, 1, 16).bfloat16().expand(1, 2, 3, 16)
    scheme = make(kind=kind).requires_grad_(False)
    got, wide = scheme.query(x, places), scheme.query(x.double(), places)
    assert got.dtype == torch.bfloat16
    assert got[0, 0].unique(dim=0).shape[0] == 3
    torch.testing.assert_close(got.double(), wide, rtol=2**-8, atol=1e-6)


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
