"""Additive GRAPE along the path (GRAPE-AP).

Every token between key and query lowers the logit; one that matches the query better
lowers it less. This is FoX with gates that also depend on the query.

Formula: `bias[h, i, j]` is m_h times the sum of `logsigmoid(p_i R_t n_t / w)` over
`t = j + 1 ... i`, where p are w trained channels a head, n_t = p_t of size sqrt(w), R_t
rotates every pair of channels by t radians and m are the slopes of ALiBi.
Source: Zhang et al. 2025, arXiv:2512.07805, from the authors' released code
(llama-mha-grape-ap-v1.py).
Disagreement: the paper claims a law of the distance alone, but the released code
rotates the tokens and not the query (`turned=tokens`), which depends on where the text
begins. `turned=both` rotates the query as well, and is relative.
Start: p is drawn from N(0, 1/(4 model_dim)), as the code draws hidden matrices.
Layout: half pairs, as in the code, whose rotation has the opposite sign.
Direction: a key's own share does not count, so a token sees itself undiminished.
"""

from dataclasses import replace
from typing import Literal

import torch
import torch.nn.functional as F
from einops import rearrange
from torch import Tensor, nn

from posenc_compare.errors import ConfigError
from posenc_compare.schemes.scheme import (
    Call,
    Facts,
    Geometry,
    PairBias,
    Scheme,
    WholeBias,
    register,
)
from posenc_compare.schemes.shared.layers import apply_wide
from posenc_compare.schemes.shared.rotation import rotate, rotation_table
from posenc_compare.schemes.shared.slopes import slopes
from posenc_compare.schemes.shared.sums import sums_after
from posenc_compare.transfer import to_device


@register(
    "grape_ap",
    family="contextual",
    source="Zhang et al. 2025, arXiv:2512.07805",
    real=True,
    identities="is relative with `turned=both`, but not as released",
    checked="authors' code, paper not opened; they differ, see `turned`",
)
class GrapeAp(Scheme):
    """Decay logits by gates of the query and the tokens in between, summed.

    `model_dim * heads * width` parameters.

    Args:
        geometry: `model_dim` channels make `heads` vectors.
        width: channels of a vector.
        turned: rotate the tokens alone, as released, or the query as well.
    """

    facts = Facts(per_layer=True, relative=False, causal_only=True)

    def __init__(
        self,
        geometry: Geometry,
        *,
        width: int = 8,
        turned: Literal["tokens", "both"] = "tokens",
    ) -> None:
        super().__init__(geometry)
        if width < 2 or width % 2:
            raise ConfigError(
                f"grape_ap: width must be even and at least 2, got {width}"
            )
        self.both = turned == "both"
        self.facts = replace(self.facts, relative=self.both)
        self.slopes = slopes(geometry.heads)
        self.path = nn.Linear(geometry.model_dim, geometry.heads * width, bias=False)
        nn.init.normal_(self.path.weight, std=0.5 * geometry.model_dim**-0.5)

    def token_state(self, x: Tensor, past: Tensor | None = None) -> Tensor:
        """Return the vectors p of every token, `(batch, key, channel)`."""
        made = apply_wide(self.path, x)
        return made if past is None else torch.cat([past, made], dim=1)

    def pair_bias(self, call: Call) -> PairBias:
        if call.state is None:
            raise ConfigError(
                "grape_ap: needs the state that token_state returns, got none"
            )
        heads, queries = self.geometry.heads, call.sizes[0]
        p = rearrange(call.state, "b key (head w) -> b head key w", head=heads)
        asked = p[:, :, call.past : call.past + queries]
        if self.both:
            asked = _turned(asked, call.q_positions)
        unit = F.rms_norm(p, p.shape[-1:])
        agreed = asked @ _turned(unit, call.k_positions).mT / p.shape[-1]
        slope = to_device(torch.tensor(self.slopes, dtype=p.dtype), p.device)
        taken = F.logsigmoid(agreed) * slope[:, None, None]
        # The path ends at the query: nothing after it is on the way.
        bias = sums_after(taken.tril(call.past).double(), like=p)
        return WholeBias(lambda b, h, i, j: bias[b, h, i, j], lambda: bias)


def _turned(x: Tensor, positions: Tensor) -> Tensor:
    """Rotate all pairs of channels of `(batch, head, seq, width)` by the position."""
    angles = positions[:, None, :, None].double().expand(-1, -1, -1, x.shape[-1] // 2)
    phasors = torch.polar(torch.ones_like(angles), angles)
    return rotate(x, rotation_table(phasors, x.dtype, "half"), "half")
