"""Shift error: do attention logits survive moving the whole sequence?

A relative scheme sees offsets only, so adding the same number to every position
leaves its logits unchanged and this measure is zero up to rounding. On a grid it is
added to every coordinate.

Definition: max over batch, heads, queries, keys of |logits(p + k) - logits(p)|.

The text is only `tokens` long. A scheme whose absolute positions matter only further on
shows no change; its rows then have a note.
"""

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
from posenc_compare.measures.rounding import rounding_note
from posenc_compare.measures.shift_linearity import SHIFTS
from posenc_compare.records.quantities import NEAR
from posenc_compare.schemes import Scheme, Variant
from posenc_compare.train.progress import Progress

SEQUENCES = 4


ERROR = Quantity(
    "shift_error",
    unit="logit",
    better="neither",
    zero="moving the whole sequence changes no logit",
    x="shift k, in positions",
    title="shift by 64 after LayerNorm (logit)",
)


@register_measure(
    "shift_error",
    quantities=(ERROR,),
    views=(Headline(ERROR, "after LayerNorm", 64),),
    version=3,
)
def shift_error(variant: Variant, probe: Probe, progress: Progress) -> Result:
    """Largest change of any logit when all positions move by k.

    Returns:
        A row per shift, for tokens that go into attention as they are (case
        `plain`) and through a LayerNorm, as in a pre-norm network. What the
        LayerNorm removes of a code no longer shows in the second.
    """
    scheme = probe.build(variant)
    hides = not (scheme.facts.relative or scheme.acts_at("embed"))
    rows = []
    for normed, case in ((False, "plain"), (True, "after LayerNorm")):
        still = _logits(scheme, probe, 0, normed)
        for k in SHIFTS:
            try:
                moved = _logits(scheme, probe, k, normed)
            except UndefinedPositionError as error:
                note = f"not defined beyond {error.limit}"
                rows.append(Row(ERROR.name, None, k, case, note))
            else:
                seen = still.isfinite()
                change = float((moved - still)[seen].abs().max())
                note = rounding_note(change, float(still[seen].abs().max()), probe)
                if hides and (note or not change):
                    note = NEAR
                rows.append(Row(ERROR.name, change, k, case, note))
    return Result(rows)


def _logits(scheme: Scheme, probe: Probe, shift: int, normed: bool) -> Tensor:
    count = min(probe.tokens, probe.positions)
    session = probe.session(scheme, probe.arange(count) + shift)
    x = session.embed(probe.normal("tokens", SEQUENCES, count, probe.width))
    if normed:
        x = F.layer_norm(x, x.shape[-1:])
    return session.logits(0, probe.queries_of(scheme, x), probe.heads_of(x, "key"), x=x)
