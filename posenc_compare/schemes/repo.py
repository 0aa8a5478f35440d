"""RePo: positions that the text makes.

Every token gets one real position a head, computed from the token alone, and queries
and keys are rotated by these positions as RoPE rotates them by their ids.

Formula: `z = W3 (silu(Wg x) * Wc x)`; pair m of head h rotates by
`z_h * base ** (-2 m / d)`.
Source: Li et al. 2025, arXiv:2512.14391, from the authors' released code
(SakanaAI/repo, mode swigluex_multihead), whose hidden layer is an eighth of the model
and whose base is that of OLMo 2.
Layers: the released models keep RoPE in their first layers; `mix` can only place RePo
in every n-th layer. RePo never reads ids, so alone it distinguishes tokens by content,
not by order.
Layout: `half` pairs channel i with i + d/2, as in the code.
"""

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from posenc_compare.errors import ConfigError
from posenc_compare.schemes.scheme import Call, Facts, Geometry, Scheme, register
from posenc_compare.schemes.shared.frequencies import position_angles
from posenc_compare.schemes.shared.layers import apply_wide
from posenc_compare.schemes.shared.rotation import pair_count, rotate, rotation_table


@register(
    "repo",
    family="contextual",
    source="Li et al. 2025, arXiv:2512.14391",
    identities="equal tokens have equal positions",
    checked="authors' code, paper not opened",
)
class Repo(Scheme):
    """Rotate queries and keys by a position that each token chooses.

    `(2 * model_dim + heads) * hidden` parameters.

    Args:
        geometry: `heads` positions; `head_dim` channels are rotated.
        base: wavelengths run from 2 pi to nearly 2 pi times this, in positions.
        hidden: units of the hidden layer; 0 means an eighth of `model_dim`.
    """

    facts = Facts(per_layer=True, by_order=True)

    def __init__(
        self, geometry: Geometry, *, base: float = 500_000.0, hidden: int = 0
    ) -> None:
        super().__init__(geometry)
        if hidden < 0:
            raise ConfigError(f"repo: hidden must be at least 1, got {hidden}")
        if not base > 0:
            raise ConfigError(f"repo: base must be greater than 0, got {base}")
        self.base, self.pairs = base, pair_count("repo", geometry.head_dim)
        width, hidden = geometry.model_dim, hidden or max(1, geometry.model_dim // 8)
        self.gate, self.content = (
            nn.Linear(width, hidden, bias=False) for _ in range(2)
        )
        self.place = nn.Linear(hidden, geometry.heads, bias=False)

    def token_state(self, x: Tensor, past: Tensor | None = None) -> Tensor:
        """Return the positions of all tokens, `(batch, key, head)`."""
        units = F.silu(apply_wide(self.gate, x)) * apply_wide(self.content, x)
        made = apply_wide(self.place, units)
        return made if past is None else torch.cat([past, made], dim=1)

    def query(self, q: Tensor, positions: Tensor, call: Call | None = None) -> Tensor:
        places = self._places(call)
        here = 0 if call is None else call.past
        return self._rotated(q, places[:, here : here + q.shape[2]])

    def key(self, k: Tensor, positions: Tensor, call: Call | None = None) -> Tensor:
        return self._rotated(k, self._places(call))

    def _places(self, call: Call | None) -> Tensor:
        if call is None or call.state is None:
            raise ConfigError(
                "repo: needs the state that token_state returns, got none"
            )
        return call.state

    def _rotated(self, x: Tensor, places: Tensor) -> Tensor:
        angles = position_angles(places.mT, self.pairs, self.base)
        phasors = torch.polar(torch.ones_like(angles), angles)
        return rotate(x, rotation_table(phasors, x.dtype, "half"), "half")
