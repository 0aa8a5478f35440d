"""Attention reach: how far back does attention look before any training?

The last query of a text attends to all keys. `attention_beyond` is the share of its
softmax on keys at least so far back, and `effective_keys` how many keys of equal weight
would have the same entropy. Both depend on the length: a scheme that does not confine
attention spreads it over ever more keys.

Press et al. 2022 hold attention back from distant keys so that a model reads beyond its
training length; Nakanishi 2025 (Scalable-Softmax) sets out to cure the dilution of
attention over long texts. Tokens are drawn at random and go through a
LayerNorm; queries and keys are as large as those of the decoder at its start.
"""

import torch
import torch.nn.functional as F
from torch import Tensor

from posenc_compare.errors import UndefinedPositionError
from posenc_compare.measures.measure import (
    Curve,
    Floor,
    Headline,
    Quantity,
    Result,
    Row,
    register_measure,
)
from posenc_compare.measures.probe import Probe
from posenc_compare.schemes import Scheme, Variant
from posenc_compare.train.progress import Progress

SEQUENCES = 8
EQUAL = "uniform attention"  # in tables, a row below the schemes
TINY = 1e-30  # sum of the weights of a query that looks nowhere
MULTIPLES = (1, 2, 4, 8, 16)  # lengths of texts, in the lengths that schemes are for
SHARES = (1 / 16, 1 / 8, 1 / 4, 1 / 2, 1, 2, 4, 8)  # distances, likewise

BEYOND = Quantity(
    "attention_beyond",
    unit="share of the softmax",
    better="neither",
    zero="no attention goes so far back",
    x="distance d, in lengths L that the scheme is built for",
    title="attention beyond L, of 16 L (share)",
)
KEYS = Quantity(
    "effective_keys",
    unit="keys, exp of the entropy of the softmax",
    better="neither",
    zero="never; 1 means that one key has all the attention, n that all have the same",
    x="keys n",
    title="effective number of keys at start",
)
# By the quantity that it stands below.
UNIFORM = {
    of: Quantity(f"uniform_{of.name}", of.unit, of.better, of.zero, of.x)
    for of in (BEYOND, KEYS)
}


@register_measure(
    "attention_reach",
    quantities=(BEYOND, KEYS, *UNIFORM.values()),
    views=(
        *(Headline(BEYOND, "16 L", 1.0), Curve(KEYS)),
        *(Floor(uniform, of) for of, uniform in UNIFORM.items()),
    ),
    version=4,
)
def attention_reach(variant: Variant, probe: Probe, progress: Progress) -> Result:
    """Attention mass beyond a distance, and effective number of keys, untrained.

    The scheme is built for L = `tokens`. Each number is a mean over 8 sequences and
    all heads of layer 0, of the last query of a text of L, 2 L, ... or 16 L tokens.

    Returns:
        `attention_beyond` for texts of L and 16 L (cases `L`, `16 L`), and
        `effective_keys` for each length; with a reason where the scheme does not
        define so many positions. `uniform_effective_keys`, n, and
        `uniform_attention_beyond`, 1 - d / n for 16 L, are those of equal weights.
    """
    if probe.grid:
        note = "measured in a sequence only"
        rows = [Row(BEYOND.name, None, 1.0, "16 L", note)]
        return Result([*rows, Row(KEYS.name, None, probe.positions, note=note)])
    scheme, rows = probe.build(variant, probe.tokens), []
    for times in MULTIPLES:
        count, case = probe.tokens * times, f"{times} L" if times > 1 else "L"
        far = _distances(probe.tokens, times) if times in (1, MULTIPLES[-1]) else {}
        rows.append(Row(UNIFORM[KEYS].name, count, count, EQUAL))
        if times == MULTIPLES[-1]:
            rows += [
                Row(UNIFORM[BEYOND].name, 1 - distance / count, share, EQUAL)
                for share, distance in far.items()
            ]
        try:
            weights = last_weights(scheme, probe, count)
        except UndefinedPositionError as error:
            note = f"not defined beyond {error.limit}"
            rows.append(Row(KEYS.name, None, count, note=note))
            rows += [Row(BEYOND.name, None, s, case, note) for s in far]
            continue
        shares = weights
        if scheme.acts_at("weights"):  # whose sum may be below 1, as beside a sink
            shares = weights / weights.sum(dim=-1, keepdim=True).clamp(min=TINY)
        rows.append(Row(KEYS.name, float(effective_keys(shares).mean()), count))
        for share, distance in far.items():
            beyond = weights[..., : count - distance].sum(dim=-1).mean()
            rows.append(Row(BEYOND.name, float(beyond), share, case))
    return Result(rows)


def _distances(length: int, times: int) -> dict[float, int]:
    """Return the whole distances within a text of so many lengths, by their share."""
    shares = [share for share in SHARES if share < times]
    return {share: int(share * length) for share in shares if share * length % 1 == 0}


def last_weights(scheme: Scheme, probe: Probe, count: int) -> Tensor:
    """Return the weights `(batch, head, key)` of the last of `count` tokens.

    The tokens before it are fed first, so that one row of logits is computed alone.
    """
    session = probe.session(scheme, probe.arange(count), causal=True, fed=count - 1)
    tokens = probe.normal("tokens", SEQUENCES, count, probe.width)
    past = F.layer_norm(session.embed(tokens[:, :-1]), (probe.width,))
    k = probe.heads_of(past, "key")
    if count > 1:  # a call keeps token states
        session.call(0, probe.queries_of(scheme, past), k, x=past)
    session.extend()
    last = F.layer_norm(session.embed(tokens[:, -1:]), (probe.width,))
    q = probe.queries_of(scheme, last)
    k = torch.cat([k, probe.heads_of(last, "key")], dim=2)
    logits = session.logits(0, q, k, x=last)
    weights = scheme.weights(logits, session.call(0, q, k, x=last))
    weights = logits.softmax(dim=-1) if weights is None else weights
    return weights[:, :, 0].double()


def effective_keys(weights: Tensor) -> Tensor:
    """Return exp of the entropy over the last axis of weights, in nats."""
    return (-torch.special.xlogy(weights, weights).sum(dim=-1)).exp()
