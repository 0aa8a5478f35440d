"""Sinks against a softmax over one key more, whose value is zero."""

import math

import pytest
import torch
from schemes.tools import build, close, decoded, drawn, vectors
from torch import Tensor

from posenc_compare.analysis.training.decoder import Decoder
from posenc_compare.attention import Mask, attention, attention_logits
from posenc_compare.errors import ConfigError
from posenc_compare.schemes import create
from posenc_compare.schemes.call import Geometry
from posenc_compare.schemes.sink import Sink
from posenc_compare.variants import labelled

BATCH, HEADS, WIDTH, LENGTH = 2, 3, 6, 8
RUN = torch.arange(LENGTH)


def make(**options: object) -> Sink:
    return build(Sink, options, model_dim=HEADS * WIDTH, heads=HEADS)


def slow(logits: Tensor, sinks: Tensor, v: Tensor) -> Tensor:
    out = torch.zeros_like(v)
    for b in range(BATCH):
        for h in range(HEADS):
            for i in range(LENGTH):
                shares = [math.exp(z) for z in logits[b, h, i].tolist()]
                total = math.fsum(shares) + math.exp(sinks[h].item())
                for j in range(LENGTH):
                    out[b, h, i] += shares[j] / total * v[b, h, j]
    return out


@pytest.mark.parametrize("inside", ["rope", "alibi", "nope"])
@pytest.mark.parametrize("causal", [False, True])
def test_equals_the_slow_reference(causal: bool, inside: str) -> None:
    q, k, v = vectors(BATCH, HEADS, LENGTH, WIDTH)
    scheme, mask = drawn(make(scheme=inside)), Mask(causal=causal)
    within = create(inside, model_dim=HEADS * WIDTH, heads=HEADS).double()
    logits = attention_logits(q, k, scheme=within, positions=RUN, mask=mask)
    got = attention(q, k, v, scheme=scheme, positions=RUN, mask=mask)
    close(got, slow(logits, scheme.logit, v), 1e-14)


def test_sinks_that_are_shut_are_the_scheme_inside() -> None:
    q, k, v = vectors(BATCH, HEADS, LENGTH, WIDTH)
    rope = create("rope", model_dim=HEADS * WIDTH, heads=HEADS).double()
    got = attention(q, k, v, scheme=make(start=-1e4), positions=RUN)
    close(got, attention(q, k, v, scheme=rope, positions=RUN), 1e-14)


def test_few_keys_weigh_less_than_many() -> None:
    zero = torch.zeros(1, HEADS, LENGTH, WIDTH).double()
    one = torch.ones_like(zero)
    got = attention(zero, zero, one, scheme=make(scheme="nope"), positions=RUN)
    shares = [n / (n + 1) for n in range(1, 9)]
    close(got[0, 0, :, 0], torch.tensor(shares, dtype=torch.float64), 1e-15)


def test_decoding() -> None:
    q, k, v = vectors(BATCH, HEADS, LENGTH, WIDTH)
    scheme = drawn(make())
    got = decoded(q, k, v, [3, 1, 4], scheme=scheme, positions=RUN)
    close(got, attention(q, k, v, scheme=scheme, positions=RUN), 1e-14)


def test_gradient_of_a_sink() -> None:
    q, k, v = vectors(1, HEADS, 4, WIDTH)
    scheme = drawn(make()).requires_grad_()

    def run(_: Tensor) -> Tensor:
        return attention(q, k, v, scheme=scheme, positions=RUN[:4])

    assert torch.autograd.gradcheck(run, (scheme.logit,))


def test_the_softmax_must_be_free() -> None:
    message = "sink: the scheme inside must leave the softmax, got stick_breaking"
    with pytest.raises(ConfigError, match=message):
        make(scheme="stick_breaking")


def test_every_layer_has_sinks_of_its_own() -> None:
    geometry = Geometry(model_dim=HEADS * WIDTH, heads=HEADS)
    model = Decoder(labelled("sink"), 4, geometry, seed=0)
    sinks = [x for name, x in model.named_parameters() if name.endswith("logit")]
    assert [len(x) for x in sinks] == [HEADS] * 4


def test_axes_other_than_one_are_refused() -> None:
    with pytest.raises(ConfigError, match="positions of 2 axes, got 1"):
        make(scheme="alibi_2d")
