"""Rotary position embedding (RoPE).

Rotates each pair of query and key channels by an angle that grows with the position,
so that, for given contents, the logits depend only on the offset between two tokens.

Formula: pair m of d / 2 at position p rotates by `p * base ** (-2 m / d)`.
Source: Su et al. 2021, arXiv:2104.09864, section 3.2.2 and equation 34.
Layout: `adjacent` pairs (0, 1), (2, 3), ... as in the paper; `half` pairs channel i
with i + d/2, as in GPT-NeoX and most released checkpoints. `fraction` rotates only the
first channels of each head, with the frequencies spread over those (GPT-J, GPT-NeoX).
Scaling: pi is arXiv:2306.15595; ntk, ntk_by_parts, ntk_dynamic and yarn are
arXiv:2309.00071; llama3 is arXiv:2407.21783 and longrope arXiv:2402.13753, as in
transformers. `shared/scaling.py` has the rules, docs/schemes.md the deviations.
"""

from typing import Literal

from posenc_compare.errors import ConfigError
from posenc_compare.schemes.scheme import Geometry, register
from posenc_compare.schemes.shared.rotation import pair_count
from posenc_compare.schemes.shared.scaled_rotation import ScaledRotation
from posenc_compare.schemes.shared.scaling import Scaling


@register(
    "rope",
    family="rotary",
    source="Su et al. 2021, arXiv:2104.09864",
    real=True,
    identities="a shift changes no logit",
    oracles="transformers 2e-7, x-transformers 1e-7, rotary-embedding-torch 3e-7",
    checked="paper; scalings: their papers, except `llama3` and `longrope` (released "
    "code, papers not opened)",
)
class Rope(ScaledRotation):
    """Rotate queries and keys by their position. Has no parameters.

    Args:
        geometry: `head_dim` channels are rotated.
        base: wavelengths run from 2 pi to nearly 2 pi times this, in positions.
        layout: which two channels make a pair.
        fraction: share of each head's channels that are rotated, in (0, 1].
        scaling: the rule that slows the rotations.
        factor: of a scaling, how many times as long the text may become, at least 1.
            0 means none, which longrope allows with a list of factors.
        original: of ntk_by_parts, yarn, llama3 and longrope, positions that were
            trained; 0 means the geometry's length.
        alpha: of ntk_by_parts, yarn and llama3; pairs with at most so many rotations
            within the original length are slowed by the whole factor.
        beta: of these; pairs with at least so many keep their frequency. 0 means as
            published: 32, or 4 for llama3.
        factors: of longrope, the divisor of each pair, as `1.0/1.2/4.0`.
        truncate: of yarn, whether the ramp between fast and slow pairs begins and ends
            at integer indices, as in the authors' code. GPT-OSS does not round.
        attention: of yarn, the factor on cosines and sines; 0 means as published.
            DeepSeek has 1 and multiplies all logits instead.
    """

    def __init__(
        self,
        geometry: Geometry,
        *,
        base: float = 10_000.0,
        layout: Literal["adjacent", "half"] = "adjacent",
        fraction: float = 1.0,
        scaling: Literal[
            "none",
            "pi",
            "ntk",
            "ntk_dynamic",
            "ntk_by_parts",
            "yarn",
            "llama3",
            "longrope",
        ] = "none",
        factor: float = 0.0,
        original: int = 0,
        alpha: float = 1.0,
        beta: float = 0.0,
        factors: str = "",
        truncate: bool = True,
        attention: float = 0.0,
    ) -> None:
        super().__init__(geometry, base, layout)
        if fraction == 1 or geometry.head_dim < 2:
            pair_count(self.name, geometry.head_dim)
        within = 0 < fraction <= 1
        self.rotated_dims = round(geometry.head_dim * fraction) if within else 0
        if self.rotated_dims < 2:
            raise ConfigError(
                f"{self.name}: fraction must be in (0, 1] and rotate at least one pair "
                f"of {geometry.head_dim} channels, got {fraction}"
            )
        if self.rotated_dims % 2:
            raise ConfigError(
                f"{self.name}: fraction * head_dim must be even, got "
                f"{self.rotated_dims}"
            )
        self.scaling = Scaling.of(
            self.name,
            scaling,
            geometry.length,
            {"factor": factor, "original": original, "alpha": alpha}
            | {"beta": beta, "factors": factors}
            | {"truncate": truncate, "attention": attention},
        )
        self.scaling.check_pairs(self.rotated_dims // 2)
