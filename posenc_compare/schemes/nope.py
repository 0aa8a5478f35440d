"""No positional encoding (NoPE).

Attention sees a set of tokens; only a causal mask tells it about order.

Formula: logits `q_i k_j / sqrt(d)`.
Source: Haviv et al. 2022, arXiv:2203.16634; Kazemnejad et al. 2023,
arXiv:2305.19466, section 3.
"""

from posenc_compare.schemes.scheme import Scheme, register


@register(
    "nope",
    family="none",
    source="Kazemnejad et al. 2023, arXiv:2305.19466",
    identities="a permutation of tokens permutes outputs; positions change nothing",
    checked="paper",
)
class Nope(Scheme):
    """Add nothing: the baseline, without positional encoding."""
