"""Slower rotations, by which a rotary network reads beyond its training length.

Every rule divides the inverse frequency of each pair by a number of its own, so that
in a text `factor` times as long the slow pairs rotate about as far as in training. A
factor of 1 changes nothing.

Source: pi: Chen et al. 2023, arXiv:2306.15595, section 2.3. ntk, ntk_by_parts,
ntk_dynamic and yarn: Peng et al. 2023, arXiv:2309.00071, sections 3.1 to 3.4. llama3:
Grattafiori et al. 2024, arXiv:2407.21783, rule from Meta's released code
(llama-models, models/llama3/model.py). longrope: Ding et al. 2024, arXiv:2402.13753,
rule from the authors' released code (LongRoPE, rope/longrope.py). docs/schemes.md says
where papers and codes disagree.
"""

import math
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from posenc_compare.errors import ConfigError

RAMP = ("factor", "original", "alpha", "beta")
OPTIONS = {  # of `rope`, that each rule has
    "none": (),
    "pi": ("factor",),
    "ntk": ("factor",),
    "ntk_dynamic": ("factor",),
    "ntk_by_parts": RAMP,
    "yarn": (*RAMP, "truncate", "attention"),
    "llama3": RAMP,
    "longrope": ("factor", "original", "factors"),
}
DEFAULTS = {"factor": 0.0, "original": 0, "alpha": 1.0, "beta": 0.0, "factors": ""}
DEFAULTS |= {"truncate": True, "attention": 0.0}
RULES = tuple(rule for rule in OPTIONS if rule != "none")
BY_RANK = ("ntk", "ntk_dynamic", "longrope")  # from the fastest pair to the slowest


@dataclass(frozen=True)
class Scaling:
    """A rule with its numbers, named as the options of `rope`.

    Attributes:
        scheme: name of the scheme that uses it, for messages.
        rule: one of `RULES`, or none.
        original: positions that were trained.
        factor: how many times as long the text may become.
        alpha: pairs with fewer rotations within the original length are slowed by
            the whole factor.
        beta: pairs with more rotations keep their frequency; 0 means as published,
            32 and for llama3 4.
        factors: of longrope, the divisor of each pair, as `1.0/1.2/4.0`.
        truncate: of yarn, whether the passage between fast and slow pairs begins and
            ends at whole pairs.
        attention: of yarn, the factor on cosines and sines; 0 means as published.
    """

    scheme: str
    rule: str
    original: int
    factor: float = 1.0
    alpha: float = 1.0
    beta: float = 0.0
    factors: str = ""
    truncate: bool = True
    attention: float = 0.0

    def __post_init__(self) -> None:
        if not self.factor >= 1:
            raise self._error(f"factor must be at least 1, got {self.factor}")
        if self.original < 1:
            raise self._error(
                f"original must be at least 1, or 0 for the default, got "
                f"{self.original}"
            )
        if self.rule == "longrope" and self.original < 2:
            raise self._error("longrope needs an original length of 2, got 1")
        if not 0 < self.alpha < self._beta:
            raise self._error(
                f"alpha must be above 0 and below beta, got {self.alpha} and "
                f"{self._beta}"
            )
        if not 0 <= self.attention < math.inf:
            raise self._error(
                f"attention must be at least 0, and 0 is as published, got "
                f"{self.attention}"
            )

    @classmethod
    def of(
        cls, scheme: str, rule: str, length: int, options: dict[str, float | str]
    ) -> "Scaling":
        """Return a rule with those of the options that are not at their default.

        Args:
            scheme: name of the scheme that uses it.
            rule: one of `RULES`, or none.
            length: positions that were trained, unless the options name another number.
            options: of `rope`, by name.
        """
        given: dict[str, Any] = {n: x for n, x in options.items() if x != DEFAULTS[n]}
        for name in given:
            if name not in OPTIONS[rule]:
                other = next(r for r, names in OPTIONS.items() if name in names)
                raise ConfigError(
                    f"{scheme}: {name} must not be given with scaling={rule}, got "
                    f"{given[name]!r}; scaling={other} would work"
                )
        if rule != "none" and given.keys().isdisjoint({"factor", "factors"}):
            raise ConfigError(
                f"{scheme}: scaling={rule} must have a factor, got none; "
                f"factor=4 would work"
            )
        return cls(scheme, rule, **{"original": length, **given})

    @property
    def attention_factor(self) -> float:
        """Return the factor on cosines and sines that makes up for longer texts."""
        if self.rule == "yarn":
            return self.attention or 0.1 * math.log(self.factor) + 1
        if self.rule == "longrope":
            return math.sqrt(1 + math.log(self.factor) / math.log(self.original))
        return 1.0

    def check_pairs(self, pairs: int) -> None:
        """Raise `ConfigError` unless the rule serves this many pairs."""
        count = len(self._parse_factors())
        if count not in (0, pairs):
            raise self._error(
                f"factors must hold one number for each of {pairs} pairs, got {count}"
            )
        if not count and self.rule in BY_RANK and pairs < 2:
            raise self._error(f"{self.rule} needs at least 2 pairs, got {pairs}")

    def inv_freq(self, inv_freq: Tensor, base: float) -> Tensor:
        """Return the inverse frequencies of all pairs under this rule.

        Args:
            inv_freq: `(pair,)` float64, the unchanged `base ** (-m / pairs)`.
            base: base of these powers.

        Returns:
            `(pair,)` float64, radians per position.
        """
        match self.rule:
            case "pi":
                return inv_freq / self.factor
            case "ntk":
                return inv_freq / _by_rank(inv_freq, self.factor)
            case "ntk_dynamic":
                grown = self.factor * (self.factor - 1) + 1
                return inv_freq / _by_rank(inv_freq, grown)
            case "longrope":
                listed = self._parse_factors()
                if listed:
                    return inv_freq / inv_freq.new_tensor(listed)
                return inv_freq / _by_rank(inv_freq, self.factor)
            case "ntk_by_parts" | "yarn" | "llama3":
                kept = self._kept_share(inv_freq, base)
                return torch.lerp(inv_freq / self.factor, inv_freq, kept)
        return inv_freq

    def _error(self, why: str) -> ConfigError:
        return ConfigError(f"{self.scheme}: {why}")

    def _kept_share(self, inv_freq: Tensor, base: float) -> Tensor:
        """Return how much of its frequency each pair keeps, from 0 to 1."""
        if self.rule != "yarn":
            rotations = self.original * inv_freq / (2 * math.pi)
            share = (rotations - self.alpha) / (self._beta - self.alpha)
            return share.clamp(0, 1)
        if base <= 1:
            raise self._error(f"yarn needs a base above 1, got {base}")
        first = self._index(self._beta, inv_freq, base)
        last = self._index(self.alpha, inv_freq, base)
        if self.truncate:
            first, last = math.floor(first), math.ceil(last)
        first = max(first, 0)
        last = max(first, min(last, 2 * len(inv_freq) - 1))
        steps = torch.arange(len(inv_freq), dtype=torch.float64, device=inv_freq.device)
        share = (steps - first) / (last - first if last != first else 0.001)
        return 1 - share.clamp(0, 1)

    def _index(self, rotations: float, inv_freq: Tensor, base: float) -> float:
        """Return, as a real number, the pair with so many rotations in training."""
        wavelength = self.original / rotations
        return len(inv_freq) * math.log(wavelength / (2 * math.pi)) / math.log(base)

    @property
    def _beta(self) -> float:
        return self.beta or (4.0 if self.rule == "llama3" else 32.0)

    def _parse_factors(self) -> list[float]:
        try:
            numbers = [float(part) for part in self.factors.split("/") if part.strip()]
        except ValueError:
            numbers = [math.nan]
        if not all(0 < number < math.inf for number in numbers):
            raise self._error(
                f"factors must be positive numbers parted by /, got "
                f"{self.factors[:80]!r}"
            )
        return numbers


def _by_rank(inv_freq: Tensor, factor: float) -> Tensor:
    """Return `factor ** (m / (pairs - 1))`: 1 for the fastest, all for the slowest.

    The same as `base * factor ** (pairs / (pairs - 1))` in place of the base.
    """
    steps = torch.arange(len(inv_freq), dtype=torch.float64, device=inv_freq.device)
    return factor ** (steps / (len(inv_freq) - 1))
