"""What the optimiser does with each parameter: its learning rate and its decay.

A token vector is a row of the embedding times sqrt(width), so a step of Adam moves it
by sqrt(width) times the rate. A scheme adds its codes to tokens, and its biases to
logits, without such a factor. So parameters of a scheme that act on tokens or logits
get the rate times sqrt(width), to move as fast. Parameters that act on activations, as
the network's own matrices do, get the rate. What a scheme's parameters act on is told
by the doors that it overrides, not by the layers that it is made of. No parameter of a
scheme is decayed: no paper of theirs decays one.
"""

from collections.abc import Iterator
from typing import Literal

from torch import nn

from posenc_compare.analysis.training.decoder import Decoder
from posenc_compare.schemes import Scheme

Target = Literal["logits", "tokens", "activations"]
DOORS: dict[Target, tuple[str, ...]] = {
    "logits": ("offset_bias", "pair_bias", "scores", "weights"),
    "tokens": ("embed",),
}


def acts_on(scheme: Scheme) -> Target:
    """Return what the scheme's own parameters act on, by the doors it overrides."""
    for target, doors in DOORS.items():
        if any(map(scheme.acts_at, doors)):
            return target
    return "activations"


def owned(scheme: Scheme) -> Iterator[tuple[Scheme, nn.Parameter]]:
    """Return the parameters of a scheme with the scheme that owns each.

    A scheme may hold others; a parameter is owned by the innermost that holds it.
    """
    owner: dict[nn.Parameter, Scheme] = {}
    for module in scheme.modules():  # outer ones first
        if isinstance(module, Scheme):
            owner.update(dict.fromkeys(module.parameters(), module))
    yield from ((scheme, parameter) for parameter, scheme in owner.items())


def groups(
    model: Decoder, weight_decay: float, scheme_rate: float
) -> list[dict[str, object]]:
    """Return AdamW's groups; `rate` of each multiplies the learning rate.

    Args:
        model: the decoder.
        weight_decay: of the network's matrices.
        scheme_rate: of the parameters of schemes, if it is not 0.
    """
    rates = {
        parameter: scheme_rate or _rate(owner, model.embedding.embedding_dim)
        for scheme in model.schemes
        for owner, parameter in owned(scheme)
    }
    network = [p for p in model.parameters() if p not in rates]
    found: list[dict[str, object]] = [
        {"params": [p for p in network if p.dim() > 1], "weight_decay": weight_decay},
        {"params": [p for p in network if p.dim() < 2], "weight_decay": 0.0},
    ]
    found = [{**group, "rate": 1.0} for group in found]
    for rate in sorted(set(rates.values())):
        params = [p for p, own in rates.items() if own == rate]
        found.append({"params": params, "weight_decay": 0.0, "rate": rate})
    return found


def _rate(scheme: Scheme, width: int) -> float:
    return 1.0 if acts_on(scheme) == "activations" else width**0.5
