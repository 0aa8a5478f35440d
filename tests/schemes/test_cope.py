"""CoPE against the paper's sums, one key at a time."""

import math
from itertools import product

import torch
from schemes.reference import Inputs, LogitTests, combine
from schemes.tools import (
    build,
    dot,
    drawn,
    vectors,
)
from torch import Tensor

from posenc_compare.attention import attention_logits
from posenc_compare.schemes import create
from posenc_compare.schemes.cope import Cope

BATCH, HEADS, WIDTH, LENGTH = 2, 2, 6, 9
SHAPE = (BATCH, HEADS, LENGTH, WIDTH)
RUN = torch.arange(LENGTH)


class TestCope(LogitTests):
    name = "cope"
    causal = True
    sizes = {"model_dim": HEADS * WIDTH, "heads": HEADS, "length": 16}
    by_document = True
    cases = combine(limit=(1, 2, 4, 0), scaled=(False, True))
    gradients = [{"limit": 3}]
    starts_as = [({}, "nope")]
    changes = [{"limit": 3}, {"scaled": True}]
    errors = [({"limit": -2}, "limit must be at least 1, got -2")]
    half = None

    def logits(self, t: Inputs) -> Tensor:
        table = t.scheme.table.tolist()
        factor = 1 / math.sqrt(WIDTH) if t.option("scaled") else 1.0
        logits = torch.full((*t.q.shape[:3], t.q.shape[2]), -math.inf).double()
        for b, h, i in product(*map(range, t.q.shape[:3])):
            query, place = t.q[b, h, i].tolist(), 0.0
            for j in range(i, -1, -1):
                if t.segments is not None and t.segments[b, i] != t.segments[b, j]:
                    break
                content = dot(query, t.k[b, h, j].tolist()) / math.sqrt(WIDTH)
                place += 1 / (1 + math.exp(-content))
                clamped = min(place, len(table) - 1)
                below = min(math.floor(clamped), len(table) - 1)
                above = min(below + 1, len(table) - 1)
                share = clamped - below
                low, high = dot(query, table[below]), dot(query, table[above])
                between = (1 - share) * low + share * high
                logits[b, h, i, j] = content + between * factor
        return logits


def make(**options: int | bool) -> Cope:
    sizes = {"model_dim": HEADS * WIDTH, "heads": HEADS, "length": 16}
    return drawn(build(Cope, options, **sizes))


def test_bfloat16_counts_in_float32() -> None:
    length = 600  # more than the 256 whole numbers that bfloat16 holds
    one = torch.ones(1, HEADS, length, WIDTH, dtype=torch.bfloat16)
    scheme = create(
        "cope", model_dim=HEADS * WIDTH, heads=HEADS, length=length
    ).requires_grad_(False)
    scheme.get_parameter("table").copy_(torch.arange(length + 1.0)[:, None] / WIDTH)
    got = attention_logits(one, 40 * one, scheme=scheme, positions=torch.arange(length))
    content = 40 * WIDTH / math.sqrt(WIDTH)
    counted = got[0, 0, -1] - content
    expected = torch.arange(length, 0, -1).float()
    torch.testing.assert_close(counted, expected, rtol=1e-5, atol=1e-3)


def test_open_gates_look_up_the_distance_plus_one() -> None:
    q, k, _ = vectors(*SHAPE)
    q = q.abs()
    scheme = make(limit=5)
    got = attention_logits(q, 0 * k + 1e4, scheme=scheme, positions=RUN)
    content = q @ (0 * k + 1e4).mT / math.sqrt(WIDTH)
    assert content.min() > 40  # every gate is 1 to 53 bits
    place = (RUN[:, None] - RUN + 1).clamp(0, 4)  # stops at the last vector
    added = (q @ scheme.table.T).gather(-1, place.expand_as(content))
    seen = got.isfinite()
    assert torch.equal(seen, torch.ones_like(got).tril().bool())
    torch.testing.assert_close(got[seen], (content + added)[seen], rtol=1e-12, atol=0)
