"""Rotary position embedding (RoPE).

Turns each pair of query and key channels by an angle that grows with the position,
so that the logits depend on the distance between the two tokens alone.

Source: Su et al. 2021, arXiv:2104.09864, section 3.2.2 and equation 34.
Layout: adjacent pairs (0, 1), (2, 3), ... as in the paper; half pairs channel i with
i + d/2, as GPT-NeoX and most released checkpoints. `fraction` turns only the first
channels of each head, with the frequencies spread over those (GPT-J, GPT-NeoX); it
is not p-RoPE, which keeps the frequencies of the whole head.
With `fraction` below 1, temperature=cos_sin leaves the channels that do not turn as
they are.

Scaling slows the rotations, for texts beyond the training length. pi: Chen et al. 2023,
arXiv:2306.15595, section 2.3. ntk, ntk_by_parts, ntk_dynamic and yarn: Peng et al.
2023, arXiv:2309.00071, sections 3.1 to 3.4. llama3: Grattafiori et al. 2024,
arXiv:2407.21783, rule from Meta's released code (llama-models, models/llama3/model.py).
longrope: Ding et al. 2024, arXiv:2402.13753, rule from the authors' released code
(LongRoPE, rope/longrope.py). The texts of the last two papers were not opened.
Dynamic NTK: the released code enlarges the base by `factor * length / original -
(factor - 1)` in place of ntk's factor; with a factor of 1 this is the paper's form,
which at one length is ntk. Here the length is a number given beforehand, so the past of
a module has no influence.
YaRN: the paper's ramp is linear in the rotations that a pair makes within the
original length, that of the released code and all its copies in the index of the
pair, between rounded ends. The code multiplies cosines and sines by the root of the
inverse temperature, as the paper proposes, so that a product of query and key gets its
square. Pairs keep their frequency from 32 rotations on, which no pair makes within 200
positions: trained on so few, ntk_by_parts slows every pair, yarn all but the fastest.
LongRoPE: factors are searched for one network and one length. Without a list, a
stand-in takes their place, the factors of ntk; this is not LongRoPE's search. The
list for short texts and the first tokens that keep their angles are left out.
"""

from copy import deepcopy
from dataclasses import replace
from typing import Literal

from torch import Tensor

from posenc_compare.errors import ConfigError
from posenc_compare.schemes.call import Geometry
from posenc_compare.schemes.scheme import Scheme, register
from posenc_compare.schemes.shared.frequencies import inverse_frequencies
from posenc_compare.schemes.shared.rotation import Rotation
from posenc_compare.schemes.shared.scaling import BY_RANK, RULES, Scaling


@register("rope", family="rotary", source="Su et al. 2021, arXiv:2104.09864")
class Rope(Rotation):
    """Rotate queries and keys by their position. Has no parameters.

    Args:
        geometry: `head_dim` is the width of what is turned.
        base: wavelengths run from 2 pi to nearly 2 pi times this, in positions.
        layout: which two channels make a pair.
        fraction: share of each head's channels that turn, in (0, 1].
        scaling: the rule that slows the rotations.
        factor: how many times the original length may be read; at least 1. 0 means
            that none is given, which ntk_dynamic and a list of factors allow.
        original: positions that were trained; 0 means the geometry's length.
        length: of ntk_dynamic, positions of the text; 0 means `factor * original`.
        alpha: of ntk_by_parts, yarn and llama3, rotations within the original length
            up to which a pair is slowed by the whole factor.
        beta: rotations from which a pair keeps its frequency; 0 means as published.
        ramp: of yarn, what the passage from alpha to beta is linear in.
        temperature: of yarn and longrope, where it acts: on cosines and sines, on the
            scale of all products of query and key, or nowhere.
        factors: of longrope, the divisor of each pair, as `1.0/1.2/4.0`.
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
        length: int = 0,
        alpha: float = 1.0,
        beta: float = 0.0,
        ramp: Literal["index", "rotations"] = "index",
        temperature: Literal["cos_sin", "scale", "none"] = "cos_sin",
        factors: str = "",
    ) -> None:
        super().__init__(geometry, base, layout)
        within = 0 < fraction <= 1
        self.rotated_dims = round(geometry.head_dim * fraction) if within else 0
        if self.rotated_dims < 2:
            raise ConfigError(
                f"rope: fraction must be in (0, 1] and turn at least one pair of "
                f"{geometry.head_dim} channels, got {fraction}"
            )
        if self.rotated_dims % 2:
            what = "head_dim" if fraction == 1 else "fraction * head_dim"
            raise ConfigError(f"rope: {what} must be even, got {self.rotated_dims}")
        if scaling not in ("none", "ntk_dynamic") and not factor and not factors:
            raise ConfigError(
                f"rope: scaling={scaling} must have a factor, got none; factor=4 would "
                f"work"
            )
        self.fraction = fraction
        self.scaling = Scaling(
            scaling,
            factor or 1.0,
            original or geometry.length,
            length,
            alpha,
            beta,
            ramp,
            temperature,
            factors,
        )
        self.scaling.check_pairs(self.rotated_dims // 2)

    @property
    def attention_factor(self) -> float:
        on_table = self.scaling.temperature == "cos_sin"
        return self.scaling.attention_factor if on_table else 1.0

    def scale(self, head_dim: int) -> float:
        on_scale = self.scaling.temperature == "scale"
        factor = self.scaling.attention_factor**2 if on_scale else 1.0
        return head_dim**-0.5 * factor

    def angles(self, positions: Tensor) -> Tensor:
        pairs = self.rotated_dims // 2
        inv_freq = inverse_frequencies(pairs, self.base, positions.device)
        inv_freq = self.scaling.inv_freq(inv_freq, self.base)
        return positions[..., None].double() * inv_freq

    def at_length(self, length: int) -> dict[str, Scheme]:
        if self.scaling.rule != "none" or length <= self.geometry.length:
            return {}
        readers: dict[str, Scheme] = {}
        for rule in RULES:
            if self.rotated_dims == 2 and rule in BY_RANK:
                continue  # one pair cannot be both fastest and slowest
            reader = deepcopy(self)  # with all that a subclass adds
            reader.scaling = replace(
                self.scaling,
                rule=rule,
                factor=1.0 if rule == "ntk_dynamic" else length / self.geometry.length,
                original=self.geometry.length,
                length=length,
            )
            stand_in = rule == "longrope" and not self.scaling.factors
            readers["longrope (ntk factors)" if stand_in else rule] = reader
        return readers
