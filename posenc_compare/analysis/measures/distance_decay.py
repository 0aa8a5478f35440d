"""Distance decay: how do logits fall, or rise, as a key lies further back?

Every sequence of the probe repeats one token, and queries and keys share one
projection: without positions all logits would be equal, so what is left is the
scheme's own. On a grid, distances are Euclidean, whatever the direction.
"""

import numpy as np
import torch
from torch import Tensor

from posenc_compare.analysis.core.progress import Progress
from posenc_compare.analysis.measures.measure import (
    Headline,
    Quantity,
    Result,
    Row,
    register_measure,
)
from posenc_compare.analysis.measures.probe import Probe
from posenc_compare.schemes import Scheme, Variant
from posenc_compare.schemes.shared.rotation import rotation_angles

SEQUENCES = 8
DISTANCES = 256

MONOTONICITY = Quantity(
    "decay_monotonicity",
    unit="rank correlation of logit and distance",
    better="neither",
    zero="logits do not follow the distance; -1 means that they always fall",
    title="decay (rank correlation)",
)
DROP = Quantity(
    "decay_drop",
    unit="logit",
    better="neither",
    zero="the furthest key gets the logit of the nearest",
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
    quantities=(MONOTONICITY, DROP, BOUND),
    views=(Headline(MONOTONICITY),),
    version=2,
)
def distance_decay(variant: Variant, probe: Probe, progress: Progress) -> Result:
    """Mean logit by distance on sequences of one repeated token.

    Returns:
        `decay_monotonicity` (Spearman), and `decay_drop` from distance 0 to the
        largest. For schemes that rotate, `rotation_bound`: the mean of |S_i| of Su et
        al. 2021, section 3.4.3, equation 37. Arrays: `mean_logit` and
        `rotation_bound` at every distance. The last three in a sequence only.
    """
    scheme = probe.build(variant)
    count = probe.positions if probe.grid else min(DISTANCES, probe.positions)
    curve = mean_logits(scheme, probe, count)
    rows = [
        Row(MONOTONICITY.name, _rank_correlation(curve)),
        Row(DROP.name, float(curve[0] - curve[-1])),
    ]
    if probe.grid:
        return Result(rows)
    arrays = {"mean_logit": curve.tolist()}
    angles = rotation_angles(scheme, probe.arange(count))
    if angles is not None:
        bound = rotation_bound(angles)
        arrays["rotation_bound"] = bound.tolist()
        for distance in (2**i for i in range(count.bit_length())):
            if distance < count:
                rows.append(Row(BOUND.name, float(bound[distance]), distance))
    return Result(rows, arrays)


def mean_logits(scheme: Scheme, probe: Probe, count: int) -> Tensor:
    """Return the mean logit at each distance, the nearest first, in float64."""
    session = probe.session(scheme, probe.arange(count))
    tokens = probe.normal("tokens", SEQUENCES, 1, probe.width)
    x = session.embed(tokens.expand(-1, count, -1))
    same = probe.heads_of(x, "query")
    gain = scheme.query_init_gain(probe.geometry.head_dim)
    logits = session.logits(0, same * gain, same, x=x)
    total, apart = logits.double().mean(dim=(0, 1)), probe.apart(count)
    if session.mask.causal:
        apart[~torch.ones_like(apart, dtype=torch.bool).tril()] = torch.nan
    distances = apart[apart.isfinite()].unique()
    return torch.stack([total[apart == distance].mean() for distance in distances])


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


def _rank_correlation(curve: Tensor) -> float:
    """Return Spearman's correlation with the distance; 0 for a flat curve."""
    values = curve.cpu().numpy()
    flat = np.ptp(values) <= 1e-9 * max(1.0, float(np.abs(values).max()))
    if flat or len(values) < 2:
        return 0.0
    _, inverse, counts = np.unique(
        values.round(12), return_inverse=True, return_counts=True
    )
    ranks = (np.cumsum(counts) - (counts - 1) / 2)[inverse]
    return float(np.corrcoef(ranks, np.arange(len(values)))[0, 1])
