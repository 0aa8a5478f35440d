"""Locality and consistency: how distance changes the ranking of keys.

A scheme is *local* if the same key scores less far away than beside the query, and
*consistent* if the content ranks two keys in the same order at every distance. A bias
of the distance loses neither: it lowers all keys alike. A rotation loses consistency at
distances where the angles of its channel pairs are unrelated.

Definition: queries q and keys k, k' are random and independent, and l(D, k) is the
logit of key k at distance D. Locality is the share with l(D, k) < l(1, k).
Inconsistency is the share in which l(D, k) - l(D, k') and l(1, k) - l(1, k') have
opposite signs. Both are 0.5 if far scores are unrelated to near ones; locality is also
0.5 if the bias falls in half of the heads and rises in the others. The terms come
from the abstract of arXiv:2605.15514; the definitions are those of this package.
"""

from dataclasses import replace

import torch
import torch.nn.functional as F
from torch import Tensor

from posenc_compare.errors import UndefinedPositionError
from posenc_compare.measures.measure import (
    Headline,
    Quantity,
    Result,
    Row,
    register_measure,
)
from posenc_compare.measures.probe import Probe
from posenc_compare.schemes import Scheme, Variant
from posenc_compare.train.progress import Progress

KEYS = 512
DISTANCES = (128, 2048, 32_768, 1_048_576)
SHOWN = 2048
TIE = 1e-9  # of the largest logit, below which two are equal but for rounding

LOCALITY = Quantity(
    "locality",
    unit="share of keys, over queries and heads",
    better="neither",
    zero="every key scores more at this distance than beside the query",
    x="distance, in positions",
    title=f"keys that score less at {SHOWN} (share)",
)
INCONSISTENCY = Quantity(
    "inconsistency",
    unit="share of pairs of keys, over queries and heads",
    better="neither",
    zero="the content ranks two keys as it does beside the query",
    x="distance, in positions",
    title=f"pairs of keys reversed at {SHOWN} (share)",
)


@register_measure(
    "far_keys",
    quantities=(LOCALITY, INCONSISTENCY),
    views=(Headline(LOCALITY, x=SHOWN), Headline(INCONSISTENCY, x=SHOWN)),
)
def far_keys(variant: Variant, probe: Probe, progress: Progress) -> Result:
    """Shares of far keys that score less, and of pairs of keys that change places.

    Returns:
        A row of each quantity at each of `DISTANCES`, or the reason why the scheme has
        no such number. Tokens go through a LayerNorm behind the codes, as in a pre-norm
        network. Equal logits count one half. All is computed in float64.
    """
    probe = replace(probe, dtype="float64")
    scheme = probe.build(variant)
    reason = _without_distance(scheme, probe)
    rows = []
    for distance in DISTANCES:
        values: tuple[float | None, float | None] = (None, None)
        note = reason
        if not reason:
            try:
                values = _shares(*_logits(scheme, probe, distance))
            except UndefinedPositionError as error:
                note = f"not defined beyond {error.limit}"
            else:
                note = "" if values[0] is not None else "hides far keys"
        for quantity, value in zip((LOCALITY, INCONSISTENCY), values, strict=True):
            rows.append(Row(quantity.name, value, distance, note=note))
    return Result(rows)


def _without_distance(scheme: Scheme, probe: Probe) -> str:
    """Return why the measure does not apply to the scheme, or an empty string."""
    if probe.grid:
        return "a grid has no distance this far"
    if scheme.facts.by_order:
        return "reads no position ids"
    if scheme.facts.window:
        return f"hides keys beyond its window of {scheme.facts.window}"
    if scheme.acts_at("positions"):
        return "draws its own ids"
    return ""


def _logits(scheme: Scheme, probe: Probe, distance: int) -> tuple[Tensor, Tensor]:
    """Return logits of each key far from its query and beside it.

    Returns:
        Two tensors `(key, head)`; the second half repeats the queries of the first.
    """
    positions = torch.tensor([0, distance - 1, distance], device=probe.device)
    keys = probe.normal("keys", KEYS, probe.width)
    queries = probe.normal("queries", KEYS // 2, probe.width).repeat(2, 1)
    session = probe.session(scheme, positions)
    x = session.embed(torch.stack([keys, keys, queries], dim=1))
    x = F.layer_norm(x, x.shape[-1:])
    q, k = probe.queries_of(scheme, x), probe.heads_of(x, "key")
    logits = session.logits(0, q, k, x=x)
    return logits[:, :, 2, 0].double(), logits[:, :, 2, 1].double()


def _shares(far: Tensor, near: Tensor) -> tuple[float | None, float | None]:
    """Return locality and inconsistency; None if far keys are hidden."""
    if not far.isfinite().all():
        return None, None
    gap = near - far
    lower = (1 + torch.sign(gap * (gap.abs() > TIE * near.abs().max()))) / 2
    there, here = (torch.sign(of[: KEYS // 2] - of[KEYS // 2 :]) for of in (far, near))
    return float(lower.mean()), float((1 - there * here).mean() / 2)
