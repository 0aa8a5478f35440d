"""PaTH against products of matrices written out, one pair of tokens at a time."""

import math
from typing import Any

import torch
from schemes.reference import Inputs, LogitTests
from schemes.tools import (
    build,
    close,
    drawn,
    normal,
    vectors,
)
from torch import Tensor

from posenc_compare.attention import attention, attention_logits
from posenc_compare.schemes import create
from posenc_compare.schemes.path import Path

BATCH, HEADS, WIDTH, LENGTH, DIM = 2, 2, 6, 9, 10
RUN = torch.arange(LENGTH)


class TestPath(LogitTests):
    name = "path"
    causal = True
    sizes = {"model_dim": DIM, "heads": HEADS, "head_dim": WIDTH}
    by_document = True
    cases = [
        {},
        {"convolve": False},
        {"forget": True},
        {"rank": 2},
        {"convolve": False, "forget": True, "rank": 1},
    ]
    gradients = [{"rank": 2, "forget": True}]
    identities = [({}, {"strength.bias": -1000}, "nope")]
    changes = [{"rank": 2}, {"convolve": False}, {"forget": True}]
    errors = [({"rank": 0}, "rank must be at least 1, got 0")]
    half = None

    def logits(self, t: Inputs) -> Tensor:
        """`q_i H_i ... H_{j+1} k_j / sqrt(d)`, with a gate if there is one."""
        scheme, length = t.scheme, t.q.shape[2]
        logits = torch.full((*t.q.shape[:3], length), -math.inf).double()
        for b, x in enumerate(t.x):
            segment = [0] * length if t.segments is None else t.segments[b].tolist()
            starts = [segment.index(s) for s in segment]
            w = [slow_direction(scheme, x, n, first) for n, first in enumerate(starts)]
            for h in range(HEADS):
                matrices, gates = [], []
                for n in range(length):
                    beta = 2 * opened(scheme.strength, h, x[n])
                    direction = torch.tensor(w[n][h], dtype=torch.float64)
                    outer = direction[:, None] * direction
                    matrices.append(torch.eye(WIDTH).double() - beta * outer)
                    gate = opened(scheme.gate, h, x[n]) if scheme.gate else 1.0
                    gates.append(math.log(gate))
                for i in range(length):
                    product, kept = torch.eye(WIDTH).double(), 0.0
                    for j in range(i, starts[i] - 1, -1):
                        total = float(t.q[b, h, i] @ product @ t.k[b, h, j]) + kept
                        logits[b, h, i, j] = total / math.sqrt(WIDTH)
                        product = product @ matrices[j]
                        kept += gates[j]
        return logits


def make(**options: Any) -> Path:
    sizes = {"model_dim": DIM, "heads": HEADS, "head_dim": WIDTH}
    return drawn(build(Path, options, **sizes))


def inputs() -> tuple[Tensor, Tensor, Tensor, Tensor]:
    q, k, v = vectors(BATCH, HEADS, LENGTH, WIDTH)
    return q, k, v, normal(BATCH, LENGTH, DIM, seed=3)


def sigmoid(z: float) -> float:
    return 1 / (1 + math.exp(-z))


def opened(layer: torch.nn.Linear, head: int, token: Tensor) -> float:
    """Return one gate that a token makes."""
    return sigmoid(float(layer.weight[head] @ token + layer.bias[head]))


def slow_direction(scheme: Path, x: Tensor, t: int, first: int) -> list[list[float]]:
    """w of token t in every head; the convolution sees no token before `first`."""
    made = []
    for channel in range(HEADS * WIDTH):
        row = scheme.up.weight[channel] @ scheme.down.weight
        if scheme.taps is None:
            made.append(float(row @ x[t]))
            continue
        total = 0.0
        for back in range(3):
            if t - back >= first:
                total += float(scheme.taps.weight[channel, back] * (row @ x[t - back]))
        made.append(total * sigmoid(total))
    heads = [made[h * WIDTH : (h + 1) * WIDTH] for h in range(HEADS)]
    return [[c / math.hypot(*head) for c in head] for head in heads]


def test_decoding_one_token_changes_every_earlier_key() -> None:
    # As the released code decodes: k_j <- H_t k_j for each new token t.
    q, k, _, x = inputs()
    scheme = make()
    state = scheme.token_state(x)
    cached = k.clone()
    got = attention_logits(q, k, scheme=scheme, positions=RUN, state=state)
    for t in range(LENGTH):
        for b in range(BATCH):
            w = slow_direction(scheme, x[b], t, 0)
            for h in range(HEADS):
                z = scheme.strength.weight[h] @ x[b, t] + scheme.strength.bias[h]
                beta, direction = (
                    2 * sigmoid(float(z)),
                    torch.tensor(w[h], dtype=torch.float64),
                )
                for j in range(t):
                    along = float(cached[b, h, j] @ direction)
                    cached[b, h, j] -= beta * along * direction
        row = torch.einsum("bhd,bhjd->bhj", q[:, :, t], cached[:, :, : t + 1])
        expected = row / math.sqrt(WIDTH)
        close(got[:, :, t, : t + 1], expected)


def test_a_long_text_stays_finite_in_float32() -> None:
    scheme = create("path", model_dim=DIM, heads=HEADS, head_dim=WIDTH)
    x = normal(1, 700, DIM).float().requires_grad_()
    q, k = (normal(1, HEADS, 700, WIDTH, seed=seed).float() for seed in (1, 2))
    state = scheme.token_state(x)
    got = attention(q, k, k, scheme=scheme, positions=torch.arange(700), state=state)
    got.square().sum().backward()
    assert x.grad is not None
    assert x.grad.isfinite().all()
    double = scheme.double()
    exact = attention(
        q.double(),
        k.double(),
        k.double(),
        scheme=double,
        positions=torch.arange(700),
        state=double.token_state(x.double()),
    )
    close(got.double(), exact, 1e-4)
