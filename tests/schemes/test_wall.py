"""Wall attention against products of gates, one channel of one pair at a time."""

import math
from typing import Any

import pytest
import torch
from schemes.reference import Inputs, LogitTests
from schemes.tools import (
    build,
    check_float32_holds_over_a_long_text,
    close,
    dot,
    drawn,
    normal,
    pair_by_pair,
    vectors,
)
from torch import Tensor

from posenc_compare.attention import attention, attention_logits
from posenc_compare.schemes.fox import Fox
from posenc_compare.schemes.wall import BLOCK, Wall

BATCH, HEADS, WIDTH, DIM = 2, 2, 3, 5
LENGTH = BLOCK + 5  # so that there are two blocks
RUN, CHANNELS = torch.arange(LENGTH), range(WIDTH)
SIZES: dict[str, Any] = {"model_dim": DIM, "heads": HEADS, "head_dim": WIDTH}


def make(**options: object) -> Wall:
    return drawn(build(Wall, options, **SIZES))


def inputs(length: int = LENGTH) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    q, k, v = vectors(BATCH, HEADS, length, WIDTH)
    return q, k, v, normal(BATCH, length, DIM, seed=3)


def opened(layer: torch.nn.Linear, row: int, token: Tensor) -> float:
    """Return one gate that a token makes."""
    z = dot(layer.weight[row].tolist(), token.tolist()) + float(layer.bias[row])
    return 1 / (1 + math.exp(-z))


class TestWall(LogitTests):
    name = "wall"
    causal = True
    sizes = SIZES
    places = [RUN.tolist()] * BATCH
    cases = [{"forget": False}, {"forget": True}]
    gradients = cases
    identities = [({"forget": True}, {"gates.bias": 100, "gate.bias": 100}, "nope")]
    changes = [{"bias": 1.0}, {"forget": True}]
    half = None

    def logits(self, t: Inputs) -> Tensor:
        """Sums of `q k` times the gates of j + 1 ... i, channel by channel."""
        tokens = t.x.flatten(0, 1)
        gates = [
            [opened(t.scheme.gates, row, token) for row in range(HEADS * WIDTH)]
            for token in tokens
        ]
        forget = t.scheme.gate
        of_heads = [
            [opened(forget, h, token) if forget else 1.0 for h in range(HEADS)]
            for token in tokens
        ]

        def logit(b: int, h: int, i: int, j: int) -> float:
            between = range(LENGTH * b + j + 1, LENGTH * b + i + 1)
            kept = [
                math.prod(gates[n][WIDTH * h + c] for n in between) for c in CHANNELS
            ]
            both = t.q[b, h, i].tolist(), t.k[b, h, j].tolist()
            terms = zip(*both, kept, strict=True)
            forgot = math.fsum(math.log(of_heads[n][h]) for n in between)
            return math.fsum(a * c * g for a, c, g in terms) / math.sqrt(WIDTH) + forgot

        return pair_by_pair(t.q, logit, causal=True)


def test_gates_that_shut_leave_each_token_itself() -> None:
    # Their logarithms sum to -1e6: factors of the whole text would be 0 and inf.
    q, k, _, x = inputs()
    scheme = make()
    scheme.gates.weight.zero_()
    scheme.gates.bias.fill_(-30_000.0)
    state = scheme.token_state(x)
    got = attention_logits(q, k, scheme=scheme, positions=RUN, state=state)
    content = (q * k).sum(dim=-1) / math.sqrt(WIDTH)
    alone = torch.diag_embed(content).masked_fill(RUN[:, None] < RUN, -math.inf)
    close(got, alone, 1e-14)


def test_a_sum_far_into_a_text_is_not_rounded_away() -> None:
    # The state is float64, so that gates of 2^-30 are told from none after 4096.
    x = torch.zeros(1, 4096, DIM)
    scheme = build(Wall, **SIZES).float().requires_grad_(False)
    scheme.gates.weight.zero_()
    scheme.gates.bias.fill_(20.0)
    steps = scheme.token_state(x).diff(dim=1)
    close(steps, torch.full_like(steps, -math.log1p(math.exp(-20))), 1e-12)


@pytest.mark.parametrize("forget", [False, True])
def test_float32_reads_the_end_of_a_long_text(forget: bool) -> None:
    sizes = {"model_dim": DIM, "heads": 1, "head_dim": WIDTH}
    scheme = build(Wall, {"bias": -1.0, "forget": forget}, **sizes)
    scheme = scheme.requires_grad_(False).float()  # the gates sum to thousands
    k, x = 8 * normal(1, 1, 4096, WIDTH).float(), normal(1, 4096, DIM).float()
    check_float32_holds_over_a_long_text(scheme, k, x)


def test_shut_gates_have_finite_gradients() -> None:
    q, k, v, x = inputs()
    scheme = make().requires_grad_()
    with torch.no_grad():
        scheme.gates.bias.fill_(-30_000.0)
    state = scheme.token_state(x)
    attention(q, k, v, scheme=scheme, positions=RUN, state=state).sum().backward()
    for parameter in scheme.parameters():
        assert parameter.grad is not None
        assert parameter.grad.isfinite().all()


def test_the_gate_of_a_head_is_that_of_fox() -> None:
    q, k, _, x = inputs()
    scheme = make(forget=True)
    scheme.gates.bias.fill_(100.0)
    assert scheme.gate is not None
    fox = build(Fox, **SIZES).requires_grad_(False)
    fox.gate.load_state_dict(scheme.gate.state_dict())
    got, wanted = (
        attention_logits(q, k, scheme=s, positions=RUN, state=s.token_state(x))
        for s in (scheme, fox)
    )
    close(got, wanted, 1e-13)
