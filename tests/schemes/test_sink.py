"""Sinks against a softmax over one key more, whose value is zero."""

import math
from itertools import product

import torch
from schemes.reference import Inputs, LogitTests
from schemes.tools import build, close
from torch import Tensor

from posenc_compare.attention import Mask, attention, attention_logits
from posenc_compare.schemes import create
from posenc_compare.schemes.scheme import Geometry
from posenc_compare.schemes.sink import Sink
from posenc_compare.train.decoder import Decoder
from posenc_compare.variants import labelled

HEADS, WIDTH, LENGTH = 3, 6, 8
RUN = torch.arange(LENGTH)


def make(**options: object) -> Sink:
    return build(Sink, options, model_dim=HEADS * WIDTH, heads=HEADS)


class TestSink(LogitTests):
    name = "sink"
    sizes = {"model_dim": HEADS * WIDTH, "heads": HEADS}
    cases = [{"scheme": inside} for inside in ("rope", "alibi", "nope")]
    gradients = [{}]
    identities = [
        ({"scheme": name}, {"logit": -1e4}, name) for name in ("rope", "alibi")
    ]
    changes = [{"start": 1.0}, {"scheme": "alibi"}]
    errors = [
        (
            {"scheme": "stick_breaking"},
            "the scheme inside must leave the softmax, got stick_breaking",
        ),
        ({"scheme": "alibi_2d"}, "^.*positions of 2 axes, got 1"),
    ]
    half = None

    def logits(self, t: Inputs) -> Tensor:
        within = create(t.option("scheme"), model_dim=HEADS * WIDTH, heads=HEADS)
        mask = Mask(causal=False)
        return attention_logits(
            t.q, t.k, scheme=within, positions=t.positions, mask=mask
        )

    def read(self, t: Inputs, logits: Tensor) -> Tensor:
        out = torch.zeros_like(t.v)
        for b, h, i in product(*map(range, out.shape[:3])):
            shares = [math.exp(z) for z in logits[b, h, i].tolist()]
            total = math.fsum(shares) + math.exp(t.scheme.logit[h].item())
            for share, value in zip(shares, t.v[b, h], strict=True):
                out[b, h, i] += share / total * value
        return out


def test_few_keys_weigh_less_than_many() -> None:
    zero = torch.zeros(1, HEADS, LENGTH, WIDTH).double()
    one = torch.ones_like(zero)
    got = attention(zero, zero, one, scheme=make(scheme="nope"), positions=RUN)
    shares = [n / (n + 1) for n in range(1, 9)]
    close(got[0, 0, :, 0], torch.tensor(shares, dtype=torch.float64), 1e-15)


def test_every_layer_has_sinks_of_its_own() -> None:
    geometry = Geometry(model_dim=HEADS * WIDTH, heads=HEADS)
    model = Decoder(labelled("sink"), 4, geometry, seed=0)
    sinks = [x for name, x in model.named_parameters() if name.endswith("logit")]
    assert [len(x) for x in sinks] == [HEADS] * 4
