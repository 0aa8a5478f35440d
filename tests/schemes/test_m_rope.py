"""M-RoPE against complex numbers, one pair at a time."""

import cmath
from typing import Any

import pytest
import torch
from schemes.tools import (
    CLOSE_POSITIONS,
    check_rotation_keeps_close_positions_apart,
    close,
    decoded,
    normal,
    pair_by_pair,
    rotation_by_complex,
    seeded,
    vectors,
)
from torch import Tensor

from posenc_compare.attention import Mask, attention, attention_logits
from posenc_compare.errors import ConfigError, ShapeError
from posenc_compare.schemes import Scheme, create


def make(head_dim: int = 16, name: str = "m_rope", **options: Any) -> Scheme:
    return create(name, options=options, model_dim=2 * head_dim, heads=2)


def ids(batch: int = 2, length: int = 5) -> Tensor:
    return torch.randint(-5, 300, (batch, length, 3), generator=seeded(7))


def slow_axes(pairs: int, order: str, counts: tuple[int, int, int]) -> list[int]:
    if order == "sections":
        edges = (counts[0], counts[0] + counts[1])
        return [sum(m >= edge for edge in edges) for m in range(pairs)]
    axes = [0] * pairs  # as the released code overwrites them
    for axis in (1, 2):
        for m in range(axis, 3 * counts[axis], 3):
            axes[m] = axis
    return axes


CASES = [
    ({"order": "sections"}, 16, (2, 3, 3)),
    ({"order": "interleaved"}, 16, (4, 2, 2)),
    ({"order": "sections", "sections": "1/2/5", "base": 100.0}, 16, (1, 2, 5)),
    ({"order": "interleaved", "sections": "4/3/1"}, 16, (4, 3, 1)),
    ({"order": "interleaved", "layout": "adjacent"}, 6, (1, 1, 1)),
    ({"order": "sections", "layout": "adjacent"}, 128, (16, 24, 24)),
    ({"order": "interleaved"}, 128, (24, 20, 20)),
]


@pytest.mark.parametrize(("options", "head_dim", "counts"), CASES, ids=str)
def test_equals_the_slow_reference(
    options: dict[str, Any], head_dim: int, counts: tuple[int, int, int]
) -> None:
    q, k, _ = vectors(2, 2, 5, head_dim)
    places = ids()
    got = attention_logits(
        q,
        k,
        scheme=make(head_dim, **options),
        positions=places,
        mask=Mask(causal=False),
    )
    pairs, base = head_dim // 2, options.get("base", 1e4)
    axes = slow_axes(pairs, options["order"], counts)
    assert tuple(axes.count(axis) for axis in range(3)) == counts

    def logit(b: int, h: int, i: int, j: int) -> float:
        offsets = (places[b, i, axes] - places[b, j, axes]).tolist()
        factors = [
            cmath.exp(1j * offset * base ** (-2 * m / head_dim))
            for m, offset in enumerate(offsets)
        ]
        layout = options.get("layout", "half")
        return rotation_by_complex(q[b, h, i], k[b, h, j], factors, layout)

    close(got, pair_by_pair(q, logit), 1e-11)


@pytest.mark.parametrize("order", ["sections", "interleaved"])
@pytest.mark.parametrize("layout", ["adjacent", "half"])
def test_equal_ids_are_rope(order: str, layout: str) -> None:
    x, positions = normal(2, 2, 5, 16), torch.tensor([0, 1, 70, 500, 15962])
    text = positions[:, None].expand(5, 3)
    rope = make(name="rope", layout=layout)
    scheme = make(order=order, layout=layout)
    assert torch.equal(scheme.query(x, text), rope.query(x, positions))
    assert torch.equal(scheme.key(x, text), rope.key(x, positions))


@pytest.mark.parametrize("order", ["sections", "interleaved"])
def test_logits_depend_on_offsets_of_each_axis_alone(order: str) -> None:
    q, k, _ = vectors(2, 2, 5, 16)
    here, there, scaled = (
        attention_logits(
            q, k, scheme=make(order=order), positions=p, mask=Mask(causal=False)
        )
        for p in (ids(), ids() + torch.tensor([3, 400, 60]), 2 * ids())
    )
    close(here, there, 1e-11)
    assert (here - scaled).abs().max() > 0.1


@pytest.mark.parametrize("axis", range(3))
def test_every_axis_counts(axis: int) -> None:
    x, places = normal(2, 2, 5, 16), ids()
    other = places.clone()
    other[..., axis] += 1
    for order in ("sections", "interleaved"):
        change = make(order=order).query(x, places) - make(order=order).query(x, other)
        assert change.abs().max() > 1e-3


@pytest.mark.parametrize("steps", [[3, 2], [1] * 5])
def test_decoding_in_pieces_equals_the_whole(steps: list[int]) -> None:
    q, k, v = vectors(2, 2, 5, 16)
    whole = attention(q, k, v, scheme=make(), positions=ids())
    close(decoded(q, k, v, steps, scheme=make(), positions=ids()), whole)


def test_one_row_of_ids_serves_the_whole_batch() -> None:
    q = normal(2, 2, 5, 16)
    one = ids(batch=1)[0]
    each = attention(q, q, q, scheme=make(), positions=one.expand(2, 5, 3))
    shared = attention(q, q, q, scheme=make(), positions=one)
    close(each, shared, 1e-14)


@pytest.mark.parametrize(
    "options",
    [
        {"base": 9_000.0},
        {"layout": "adjacent"},
        {"order": "interleaved"},
        {"sections": "4/2/2"},
    ],
)
def test_each_option_changes_the_output(options: dict[str, Any]) -> None:
    x, places = normal(2, 2, 5, 16), ids()
    change = make(**options).query(x, places) - make().query(x, places)
    assert change.abs().max() > 1e-4


def test_close_positions_stay_apart_in_bfloat16() -> None:
    places = CLOSE_POSITIONS[:, None].expand(3, 3)
    check_rotation_keeps_close_positions_apart(make().query, places)


def test_ids_of_one_axis_are_refused() -> None:
    q = normal(2, 2, 5, 16)
    with pytest.raises(ShapeError, match=r"positions must be \(5, 3\) or \(2, 5, 3\)"):
        attention(q, q, q, scheme=make(), positions=torch.arange(5))


@pytest.mark.parametrize(
    ("options", "got"),
    [
        ({"sections": "2/3/4"}, "2 / 3 / 4"),
        ({"sections": "2/6"}, "2 / 6"),
        ({"sections": "2/2/2/2"}, "2 / 2 / 2 / 2"),
        ({"sections": "0/4/4"}, "0 / 4 / 4"),
        ({"sections": "2/x/6"}, "2 / 0 / 6"),
        # Interleaved has every third pair for each, so at most 3 of 8.
        ({"sections": "2/3/3", "order": "interleaved"}, "2 / 3 / 3"),
    ],
)
def test_sections_that_do_not_fit(options: dict[str, Any], got: str) -> None:
    order = options.get("order", "sections")
    with pytest.raises(
        ConfigError,
        match="m_rope: sections must be time / height / width, 1 or more each, "
        f"8 in all and in reach of the order {order}, got {got}",
    ):
        make(**options)


def test_odd_head() -> None:
    with pytest.raises(ConfigError, match="m_rope: head_dim must be even, got 7"):
        make(7)
    with pytest.raises(
        ConfigError, match=r"m_rope: head_dim must be at least 6, .* 4$"
    ):
        make(4)
