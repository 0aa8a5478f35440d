"""Distance decay: how do logits fall, or rise, as a key lies further back?

Every sequence of the probe repeats one token, and queries and keys share one
projection: without positions all logits would be equal, so what is left is the
scheme's own. Tokens go through a LayerNorm first, as in a pre-norm network: what it
removes of a code moves no logit. On a grid, distances are Euclidean, whatever the
direction.

The logits of a rotation fall because queries and keys are equal. If these are
independent and of mean 0, the expected logit of a rotation is 0 at every distance. The
drop of such logits is measured as well.

Su et al. 2021, section 3.4.3, claim that RoPE's logits decay with the distance, and
Press et al. 2022 build ALiBi to do so. `attention_reach` says what a softmax makes of
it.
"""

from dataclasses import replace

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
from posenc_compare.schemes import HOOKS, Scheme, Variant
from posenc_compare.schemes.shared.rotation import Rotation, rotation_angles
from posenc_compare.train.progress import Progress

SEQUENCES = 8
DISTANCES = 256
STUDENT = 2.3646  # 97.5 % quantile of Student's t, SEQUENCES - 1 degrees of freedom

DROP = Quantity(
    "logit_drop",
    unit="logit",
    better="neither",
    zero="the key at this distance gets the logit of the nearest",
    x="distance, in positions",
    title="drop to the furthest key (logit)",
)
INDEPENDENT = Quantity(
    "logit_drop_independent",
    unit="logit",
    better="neither",
    zero="the key at this distance gets the logit of the nearest",
    title="drop, independent queries and keys (logit)",
)
INTERVAL = Quantity(
    "logit_drop_interval",
    unit="logit, half width of the 95 % interval of the mean over sequences",
    better="neither",
    zero="the drop is the same whatever the token",
    x="distance, in positions",
)
BOUND = Quantity(
    "rotation_bound",
    unit="ratio to its value at distance 0",
    better="neither",
    zero="all rotations cancel",
    x="distance, in positions",
)


@register_measure(
    "distance_decay",
    quantities=(DROP, INDEPENDENT, INTERVAL, BOUND),
    views=(Headline(DROP, "furthest"), Headline(INDEPENDENT, "furthest")),
    version=5,
)
def distance_decay(variant: Variant, probe: Probe, progress: Progress) -> Result:
    """Drop of the logit by distance on sequences of one repeated token.

    Returns:
        `logit_drop`, the mean logit at distance 0 minus that at each distance, and
        `logit_drop_interval`; both at the largest distance, at most 255 (case
        `furthest`). `logit_drop_independent` is that of independent queries and keys;
        its interval has the case `furthest, independent`. For schemes that only rotate,
        `rotation_bound`: the mean of `|S_i|` of Su et al. 2021, section 3.4.3, equation
        37. Arrays: `mean_logit` and `rotation_bound` at every distance. In a sequence
        also the drop at powers of two, the bound and the arrays.
    """
    scheme = probe.build(variant)
    count = probe.positions if probe.grid else min(DISTANCES, probe.positions)
    curves = logits_by_distance(scheme, probe, count)
    rows = _drop(curves, -1, probe, case="furthest")
    independent = logits_by_distance(scheme, probe, count, keys="key")
    drop, interval = _drop(independent, -1, probe, case="furthest")
    rows.append(replace(drop, quantity=INDEPENDENT.name))
    rows.append(replace(interval, case="furthest, independent"))
    if probe.grid:
        return Result(rows)
    distances = [2**i for i in range(count.bit_length()) if 2**i < count]
    for distance in distances:
        rows += _drop(curves, distance, probe, x=distance)
    arrays = {"mean_logit": curves.mean(dim=0).tolist()}
    angles = own_angles(scheme, probe, count)
    if angles is not None:
        bound = rotation_bound(angles)
        arrays["rotation_bound"] = bound.tolist()
        rows += [Row(BOUND.name, float(bound[d]), d) for d in distances]
    return Result(rows, arrays)


def own_angles(scheme: Scheme, probe: Probe, count: int) -> Tensor | None:
    """Return the angles `(position, pair)` of a scheme that only rotates, or None."""
    doors = {door for door in HOOKS if scheme.acts_at(door)}
    if not isinstance(scheme, Rotation) or doors != {"query", "key"}:
        return None
    return rotation_angles(scheme, probe.arange(count))


def logits_by_distance(
    scheme: Scheme, probe: Probe, count: int, keys: str = "query"
) -> Tensor:
    """Return mean logits `(sequence, distance)`, the nearest first, in float64.

    Args:
        scheme: whose logits they are.
        probe: of the tokens.
        count: how many stand in a sequence.
        keys: the purpose of their projection; that of queries is `query`.
    """
    session = probe.session(scheme, probe.arange(count))
    tokens = probe.normal("tokens", SEQUENCES, 1, probe.width)
    x = session.embed(tokens.expand(-1, count, -1))
    x = F.layer_norm(x, x.shape[-1:])
    q, k = probe.queries_of(scheme, x), probe.heads_of(x, keys)
    logits = session.logits(0, q, k, x=x)
    total, apart = logits.double().mean(dim=1), probe.apart(count)
    if session.mask.causal:
        apart[~torch.ones_like(apart, dtype=torch.bool).tril()] = torch.nan
    distances = apart[apart.isfinite()].unique()
    return torch.stack([total[:, apart == d].mean(dim=1) for d in distances], dim=1)


def _drop(
    curves: Tensor, at: int, probe: Probe, x: float | None = None, case: str = ""
) -> list[Row]:
    """Return the mean drop over sequences from index 0 to `at`, and its interval."""
    drops = curves[:, 0] - curves[:, at]
    if not drops.isfinite().all():
        return [
            Row(q.name, None, x, case, "the mask hides it") for q in (DROP, INTERVAL)
        ]
    size = float(curves.abs().max())
    mean, half = float(drops.mean()), float(drops.std()) * STUDENT * SEQUENCES**-0.5
    return [
        Row(quantity.name, value, x, case, rounding_note(value, size, probe))
        for quantity, value in ((DROP, mean), (INTERVAL, half))
    ]


def rotation_bound(angles: Tensor) -> Tensor:
    """Return the mean over i of |S_i|, S_i the sum of the first i rotations.

    Args:
        angles: `(distance, pair)` radians, fastest pair first.

    Returns:
        `(distance,)` relative to distance 0.
    """
    phasors = torch.polar(torch.ones_like(angles), angles)
    sums = phasors.cumsum(dim=1).abs().mean(dim=1)
    return sums / sums[0]
