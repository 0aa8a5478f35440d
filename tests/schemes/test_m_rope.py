"""M-RoPE against complex numbers, one pair at a time."""

import cmath
from typing import Any

import pytest
import torch
from schemes.reference import Case, Inputs, RotaryTests
from schemes.tools import (
    normal,
    seeded,
)
from torch import Tensor

from posenc_compare.schemes import Scheme, create


def make(head_dim: int = 16, name: str = "m_rope", **options: Any) -> Scheme:
    return create(name, options=options, model_dim=2 * head_dim, heads=2)


def ids(batch: int = 2, length: int = 5) -> Tensor:
    return torch.randint(-5, 300, (batch, length, 3), generator=seeded(7))


def slow_axes(pairs: int, order: str, counts: tuple[int, ...]) -> list[int]:
    if order == "sections":
        edges = (counts[0], counts[0] + counts[1])
        return [sum(m >= edge for edge in edges) for m in range(pairs)]
    axes = [0] * pairs  # as the released code overwrites them
    for axis in (1, 2):
        for m in range(axis, 3 * counts[axis], 3):
            axes[m] = axis
    return axes


class TestMRope(RotaryTests):
    name = "m_rope"
    sizes = {"model_dim": 32, "heads": 2}
    places = ids().tolist()
    atol = 1e-11
    cases = [
        {"order": "sections", "layout": "adjacent"},
        {"order": "interleaved"},
        {"order": "sections", "sections": "1/2/5", "base": 100.0},
        {"order": "interleaved", "sections": "4/3/1"},
        Case({"order": "interleaved", "layout": "adjacent"}, head_dim=6),
        Case({"order": "sections"}, head_dim=128),
        Case({"order": "interleaved"}, head_dim=128),
    ]
    # Pairs of each axis where no option gives them.
    counts = {
        ("sections", 8): (2, 3, 3),
        ("interleaved", 8): (4, 2, 2),
        ("interleaved", 3): (1, 1, 1),
        ("sections", 64): (16, 24, 24),
        ("interleaved", 64): (24, 20, 20),
    }
    changes = [
        {"base": 9_000.0},
        {"layout": "adjacent"},
        {"order": "interleaved"},
        {"sections": "4/2/2"},
    ]
    errors = [
        *(
            (
                {"sections": sections, "order": order},
                "sections must be time / height / width, 1 or more each, "
                f"8 in all and in reach of the order {order}, got {got}",
            )
            for sections, order, got in (
                ("2/3/4", "sections", "2 / 3 / 4"),
                ("2/6", "sections", "2 / 6"),
                ("2/2/2/2", "sections", "2 / 2 / 2 / 2"),
                ("0/4/4", "sections", "0 / 4 / 4"),
                ("2/x/6", "sections", "2 / 0 / 6"),
                # Interleaved has every third pair for each, so at most 3 of 8.
                ("2/3/3", "interleaved", "2 / 3 / 3"),
            )
        ),
        (Case(head_dim=4), r"head_dim must be at least 6, .* 4$"),
    ]

    def factors(self, t: Inputs, h: int, query: Any, key: Any) -> list[complex]:
        width, order = t.q.shape[-1], t.option("order")
        counts = self.counts[order, width // 2] if width != 16 else None
        if given := t.option("sections"):
            counts = tuple(map(int, given.split("/")))
        counts = counts or self.counts[order, 8]
        axes = slow_axes(width // 2, order, counts)
        return [
            cmath.exp(1j * (query[a] - key[a]) * t.option("base") ** (-2 * m / width))
            for m, a in enumerate(axes)
        ]


@pytest.mark.parametrize("order", ["sections", "interleaved"])
@pytest.mark.parametrize("layout", ["adjacent", "half"])
def test_equal_ids_are_rope(order: str, layout: str) -> None:
    x, positions = normal(2, 2, 5, 16), torch.tensor([0, 1, 70, 500, 15962])
    text = positions[:, None].expand(5, 3)
    rope = make(name="rope", layout=layout)
    scheme = make(order=order, layout=layout)
    assert torch.equal(scheme.query(x, text), rope.query(x, positions))
    assert torch.equal(scheme.key(x, text), rope.key(x, positions))
