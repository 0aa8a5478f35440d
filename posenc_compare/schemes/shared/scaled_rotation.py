"""Rotation by the frequencies of RoPE, which a rule may slow for longer texts."""

from copy import deepcopy

from torch import Tensor

from posenc_compare.schemes.scheme import Scheme
from posenc_compare.schemes.shared.frequencies import inverse_frequencies
from posenc_compare.schemes.shared.rotation import Rotation
from posenc_compare.schemes.shared.scaling import BY_RANK, RULES, Scaling


class ScaledRotation(Rotation):
    """Rotation of some channels under a rule of `Scaling`."""

    rotated_dims: int
    scaling: Scaling

    @property
    def attention_factor(self) -> float:
        return self.scaling.attention_factor

    def angles(self, positions: Tensor) -> Tensor:
        pairs = self.rotated_dims // 2
        inv_freq = inverse_frequencies(pairs, self.base, positions.device)
        inv_freq = self.scaling.inv_freq(inv_freq, self.base)
        return positions[..., None].double() * inv_freq

    def schemes_for_length(self, length: int) -> dict[str, Scheme]:
        if self.scaling.rule != "none" or length <= self.geometry.length:
            return {}
        found: dict[str, Scheme] = {}
        for rule in RULES:
            if self.rotated_dims == 2 and rule in BY_RANK:
                continue  # one pair cannot be both fastest and slowest
            other = deepcopy(self)  # with all that a subclass adds
            # ntk_dynamic with a factor of 1, as in the paper, is ntk at one length.
            same = "ntk" if rule == "ntk_dynamic" else rule
            trained = self.geometry.length
            other.scaling = Scaling(self.name, same, trained, length / trained)
            found["longrope (ntk factors)" if rule == "longrope" else rule] = other
        return found
