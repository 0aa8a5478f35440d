"""Perturbation: how much does the scheme change what it is applied to?

A code longer than the tokens drowns them; one much shorter is not heard. For rotary
schemes the queries and keys are looked at, for biases the logits.
"""

import torch
import torch.nn.functional as F
from torch import Tensor

from posenc_compare.measures.measure import (
    Headline,
    Quantity,
    Result,
    Row,
    register_measure,
)
from posenc_compare.measures.probe import Probe
from posenc_compare.measures.rounding import rounding_note
from posenc_compare.schemes import Scheme, Variant
from posenc_compare.schemes.contract import ask
from posenc_compare.train.progress import Progress

VOCABULARY = 1000

SIZE = Quantity(
    "relative_size",
    unit="ratio |change| / |vector|, mean over positions",
    better="neither",
    zero="the vectors are left as they are",
    title="|PE| / |x| (ratio)",
)
LARGEST = Quantity(
    "largest_relative_size",
    unit="ratio |change| / |vector|, largest over positions",
    better="neither",
    zero="the vectors are left as they are",
)
ANGLE = Quantity(
    "angle",
    unit="degrees between vector and changed vector, mean",
    better="neither",
    zero="the direction is left as it is",
)
OWN = Quantity(
    "own_token_nearest",
    unit="share of tokens",
    better="neither",
    zero="no token is still nearest to its own vocabulary vector",
)
NORMED = Quantity(
    "left_after_layernorm",
    unit="ratio |LN(x + PE) - LN(x)| / |LN(x)|, mean",
    better="neither",
    zero="a following LayerNorm removes the whole code",
    title="left after LayerNorm (ratio)",
)
BIAS = Quantity(
    "bias_share",
    unit="share of the variance of logits over keys",
    better="neither",
    zero="the bias is the same for all keys; 1 means that the content has no effect",
    title="bias in logits at start (share)",
)


@register_measure(
    "perturbation",
    quantities=(SIZE, LARGEST, ANGLE, OWN, NORMED, BIAS),
    views=(
        Headline(SIZE, "N(0, 1)"),
        Headline(NORMED, "N(0, 1)"),
        Headline(BIAS),
    ),
    version=5,
)
def perturbation(variant: Variant, probe: Probe, progress: Progress) -> Result:
    """Size and angle of the change to tokens, queries, keys or logits.

    Tokens are drawn as N(0, 1), PyTorch's default, and as N(0, 0.02^2), GPT-2's, each
    with and without the factor sqrt(width) of Vaswani et al. Content logits are those
    of unit tokens whose queries and keys are as large as the decoder starts them, and
    are scaled as the scheme scales them: by 1 / sqrt(head_dim), but for DeBERTa by
    1 / sqrt(3 head_dim), which makes its bias count for more.

    Returns:
        Rows for tokens by how they are drawn, for queries, for keys (cases `query`,
        `key`), unless a scheme gives them more channels. For the logits, `bias_share`
        b / (b + c), the mean over heads; b and c are the variances over keys of the
        bias and of the content logits. The bias is what queries and keys of zeros
        leave, or, where it depends on queries, what is added to their products. Where
        a scheme does not act, its change is 0.
    """
    scheme = probe.build(variant)
    rows = []
    for std, name in ((1.0, "N(0, 1)"), (0.02, "N(0, 0.02^2)")):
        rows += _tokens(scheme, probe, std, name)
        rows += _tokens(scheme, probe, std * probe.width**0.5, f"{name} sqrt(d)")
    session = probe.session(scheme, probe.arange(probe.positions))
    x = probe.normal("tokens", 1, probe.positions, probe.width)
    call = session.call(0, *(probe.heads_of(x, door) for door in ("query", "key")), x=x)
    for door, before in (("query", call.q), ("key", call.k)):
        after = ask(scheme, door, before, call.q_positions, call)
        if scheme.facts.widens == 1:  # else there is nothing to compare with
            rows += _change(before, after, door)
    share = _bias_share(scheme, probe)
    note = "changes logits by no bias" if share is None else ""
    rows.append(Row(BIAS.name, share, note=note))
    return Result(rows)


def _tokens(scheme: Scheme, probe: Probe, std: float, case: str) -> list[Row]:
    vocabulary = probe.normal("vocabulary", VOCABULARY, probe.width) * std
    own = torch.arange(probe.positions, device=probe.device) % VOCABULARY
    x = vocabulary[own][None]
    y = probe.session(scheme, probe.arange(probe.positions)).embed(x)
    nearest = _nearest(y[0], vocabulary)
    before, after = (F.layer_norm(z, z.shape[-1:]) for z in (x, y))
    left = (after - before).norm(dim=-1) / before.norm(dim=-1)
    note = rounding_note(float(left.mean()), float(y.abs().max()) / std, probe)
    return [
        *_change(x, y, case),
        Row(OWN.name, float((nearest == own).double().mean()), case=case),
        Row(NORMED.name, float(left.mean()), case=case, note=note),
    ]


def _change(before: Tensor, after: Tensor, case: str) -> list[Row]:
    ratio = (after - before).norm(dim=-1) / before.norm(dim=-1)
    return [
        Row(SIZE.name, float(ratio.mean()), case=case),
        Row(LARGEST.name, float(ratio.max()), case=case),
        Row(ANGLE.name, float(_degrees(before, after).mean()), case=case),
    ]


def _degrees(before: Tensor, after: Tensor) -> Tensor:
    """Return the angle of two vectors; exact near 0, where the cosine is flat."""
    u, v = (F.normalize(vectors.double(), dim=-1) for vectors in (before, after))
    half = torch.atan2((u - v).norm(dim=-1), (u + v).norm(dim=-1))
    return torch.rad2deg(2 * half)


def _nearest(x: Tensor, vocabulary: Tensor) -> Tensor:
    """Return the index of the nearest vocabulary vector, in blocks of rows."""
    sizes = vocabulary.square().sum(dim=1)
    return torch.cat(
        [(sizes - 2 * rows @ vocabulary.mT).argmin(dim=1) for rows in x.split(4096)]
    )


def _bias_share(scheme: Scheme, probe: Probe) -> float | None:
    """Return the mean over heads of the bias's share of variance.

    None if the scheme changes logits in another way.
    """
    tokens = min(probe.tokens, probe.positions)
    x = probe.normal("tokens", 1, tokens, probe.width)
    q, k = probe.queries_of(scheme, x), probe.heads_of(x, "key")
    session = probe.session(scheme, probe.arange(tokens))
    logits, bias = (session.logits(0, q * on, k * on, x=x) for on in (1, 0))
    seen = logits.isfinite()
    call = session.call(0, q, k, x=x)
    q = ask(scheme, "query", call.q, call.q_positions, call)
    k = ask(scheme, "key", call.k, call.k_positions, call)
    added = logits - q @ k.mT * scheme.scale(call.q.shape[-1])
    if scheme.acts_at("scores"):
        if added[seen].any() and not bias[seen].any():
            return None
    elif scheme.acts_at("pair_bias"):
        bias = added
    of_bias, of_content = (_variance(part, seen) for part in (bias, logits - bias))
    return float((of_bias / (of_bias + of_content)).mean())


def _variance(logits: Tensor, seen: Tensor) -> Tensor:
    """Return the variance `(head,)` around each query's own mean over its keys.

    What is the same for all keys of a query changes nothing after the softmax.
    """
    kept = logits.masked_fill(~seen, 0)
    mean = kept.sum(dim=-1, keepdim=True) / seen.sum(dim=-1, keepdim=True)
    squares = (kept - mean).masked_fill(~seen, 0).square()
    return squares.sum(dim=(0, 2, 3)) / seen.sum(dim=(0, 2, 3))
