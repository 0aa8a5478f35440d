"""Order sensitivity: does the output notice that the context was shuffled?

Without positions, attention sees a set: shuffling the context changes nothing. With a
causal mask it can tell order even so, from the second layer on. This is the network at
the start: a table that starts small can still learn all there is to know of the order.
"""

import torch
import torch.nn.functional as F
from einops import rearrange
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
from posenc_compare.train.progress import Progress

SEQUENCES = 8
LAYERS = 2
MASKS = {"bidirectional": False, "causal": True}

SENSITIVITY = Quantity(
    "order_sensitivity",
    unit="ratio to the size of the output",
    better="neither",
    zero="the order of the context makes no difference",
    title="order at start, causal (ratio)",
)


@register_measure(
    "order_sensitivity",
    quantities=(SENSITIVITY,),
    views=(Headline(SENSITIVITY, "causal"),),
    version=3,
)
def order_sensitivity(variant: Variant, probe: Probe, progress: Progress) -> Result:
    """Change of the last token's output when all tokens before it are shuffled.

    Measured before any training, in a pre-norm network of two attention layers and a
    final LayerNorm, with random weights.

    Returns:
        A row with and one without the causal mask.
    """
    scheme = probe.build(variant)
    tokens = min(probe.tokens, probe.positions)
    x = probe.normal("tokens", SEQUENCES, tokens, probe.width)
    if tokens < 3:
        note = "needs at least 3 positions"
        return Result(
            [Row(SENSITIVITY.name, None, case=case, note=note) for case in MASKS]
        )
    generator, same = probe.generator("shuffle"), torch.arange(tokens - 1)
    order = same
    while torch.equal(order, same):
        order = torch.randperm(tokens - 1, generator=generator)
    order = torch.cat([order, torch.tensor([tokens - 1])]).to(x.device)
    rows = []
    for case, causal in MASKS.items():
        if scheme.facts.causal_only and not causal:
            note = "needs a causal mask"
            rows.append(Row(SENSITIVITY.name, None, case=case, note=note))
            continue
        straight = _last(scheme, probe, x, causal)
        shuffled = _last(scheme, probe, x[:, order], causal)
        if not straight.any():
            note = "a LayerNorm leaves nothing of the output"
            rows.append(Row(SENSITIVITY.name, None, case=case, note=note))
            continue
        change = float((shuffled - straight).norm() / straight.norm())
        note = rounding_note(change, 1.0, probe)
        rows.append(Row(SENSITIVITY.name, change, case=case, note=note))
    return Result(rows)


def _last(scheme: Scheme, probe: Probe, x: Tensor, causal: bool) -> Tensor:
    """Return the normed output of the last token, `(batch, width)`."""
    session = probe.session(scheme, probe.arange(x.shape[1]), causal)
    x = session.embed(x)
    for layer in range(LAYERS):
        seen = F.layer_norm(x, x.shape[-1:])
        q = probe.queries_of(scheme, seen, f"query {layer}")
        k, v = (probe.heads_of(seen, f"{part} {layer}") for part in ("key", "value"))
        read = session.attend(layer, q, k, v, x=seen)
        x = x + rearrange(read, "b head seq d -> b seq (head d)")
    return F.layer_norm(x[:, -1], x.shape[-1:])
