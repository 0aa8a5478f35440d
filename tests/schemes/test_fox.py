"""FoX against products of gates, one pair of tokens at a time."""

import math
from itertools import product

import torch
import torch.nn.functional as F
from schemes.reference import Inputs, LogitTests
from schemes.tools import (
    build,
    close,
    dot,
    drawn,
    normal,
    vectors,
)
from torch import Tensor

from posenc_compare.attention import attention_logits
from posenc_compare.schemes import create
from posenc_compare.schemes.fox import Fox

BATCH, HEADS, WIDTH, LENGTH, DIM = 2, 2, 6, 8, 10
RUN = torch.arange(LENGTH)


def make(**options: float) -> Fox:
    sizes = {"model_dim": DIM, "heads": HEADS, "head_dim": WIDTH}
    return drawn(build(Fox, options, **sizes))


def inputs() -> tuple[Tensor, Tensor, Tensor, Tensor]:
    q, k, v = vectors(BATCH, HEADS, LENGTH, WIDTH)
    return q, k, v, normal(BATCH, LENGTH, DIM, seed=3)


class TestFox(LogitTests):
    name = "fox"
    causal = True
    sizes = {"model_dim": DIM, "heads": HEADS, "head_dim": WIDTH}
    atol = 1e-13
    gradients = [{}]
    identities = [({}, {"gate.bias": 100}, "nope")]
    changes = [{"std": 0.5}, {"bias": 5.0}]
    errors = [({"std": -0.1}, r"std must be 0 or more, got -0\.1")]
    half = None

    def logits(self, t: Inputs) -> Tensor:
        """`q k / sqrt(d) + log` of the product of the gates of j + 1 ... i."""
        weight, bias = t.scheme.gate.weight.tolist(), t.scheme.gate.bias.tolist()
        logits = torch.full((*t.q.shape[:3], t.q.shape[2]), -math.inf).double()
        for b, h, i in product(*map(range, t.q.shape[:3])):
            kept = 1.0
            for j in range(i, -1, -1):
                content = dot(t.q[b, h, i].tolist(), t.k[b, h, j].tolist())
                logits[b, h, i, j] = content / math.sqrt(WIDTH) + math.log(kept)
                z = dot(weight[h], t.x[b, j].tolist()) + bias[h]
                kept *= 1 / (1 + math.exp(-z))
        return logits


def test_cable_is_the_same_with_the_sign_of_the_layer_turned() -> None:
    *_, x = inputs()
    scheme = make()
    turned = F.linear(x, -scheme.gate.weight, -scheme.gate.bias)
    cable = -F.softplus(turned).cumsum(dim=1)
    close(scheme.token_state(x), cable)


def test_sums_are_exact_far_into_a_text() -> None:
    # In float32 a sum of 14 000 is known to 0.001 only.
    scheme = create("fox", options={"std": 0.0}, model_dim=4, heads=1)
    state = scheme.token_state(torch.zeros(1, 20_000, 4, dtype=torch.bfloat16))
    assert state is not None
    steps = state[0, :, 0].diff()
    expected = torch.full_like(steps, -math.log(2))
    close(steps, expected, 1e-7)


def test_gates_without_weights_are_a_slope_for_each_head() -> None:
    q, k, _, x = inputs()
    scheme = make()
    scheme.gate.weight.zero_()
    slopes = torch.tensor([0.25, 0.0625]).double()
    scheme.gate.bias.copy_(-torch.expm1(slopes).log())  # sigmoid is exp(-slope)
    state = scheme.token_state(x)
    got = attention_logits(q, k, scheme=scheme, positions=RUN, state=state)
    distance = RUN[:, None] - RUN
    alibi = q @ k.mT / math.sqrt(WIDTH) - slopes[:, None, None] * distance
    seen = got.isfinite()
    close(got[seen], alibi[seen], 1e-13)
