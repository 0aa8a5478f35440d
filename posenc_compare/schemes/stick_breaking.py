"""Stick-breaking attention.

Each key breaks off a share of what is left of a stick, the nearest key first, so that
a near key hides those behind it. The shares take the place of the softmax and of
positions.

Formula: `w_ij = s(z_ij) prod (1 - s(z_ik))` over `k = j + 1 ... i - 1`, s the sigmoid.
Source: Tan et al. 2024, arXiv:2410.17980; that a token does not see itself is that of
the authors' released code (attend_current is off), and so is leaving what remains of
the stick. The first token of a text sees nothing then.
Only the order of the tokens is used, no position ids. It writes a matrix of all pairs.
"""

import torch
import torch.nn.functional as F
from torch import Tensor

from posenc_compare.schemes.scheme import Call, Facts, Geometry, Scheme, register
from posenc_compare.schemes.shared.sums import sums_after


@register(
    "stick_breaking",
    family="contextual",
    source="Tan et al. 2024, arXiv:2410.17980",
    identities="weights equal the pieces of the stick, broken off one by one",
    checked="authors' code",
)
class StickBreaking(Scheme):
    """Weigh keys by the pieces of a stick, from the nearest on. Has no parameters.

    Args:
        geometry: not used.
        own: let a token see itself, first of all.
    """

    facts = Facts(by_order=True, causal_only=True)

    def __init__(self, geometry: Geometry, *, own: bool = False) -> None:
        super().__init__(geometry)
        self.own = own

    def weights(self, logits: Tensor, call: Call) -> Tensor:
        if not self.own:
            key = torch.arange(call.sizes[1], device=logits.device)
            place = torch.arange(call.sizes[0], device=logits.device) + call.past
            logits = torch.where(key == place[:, None], -torch.inf, logits)
        kept = F.logsigmoid(-logits.double())  # 0 where a query may not look
        return (F.logsigmoid(logits) + sums_after(kept, logits)).exp()
