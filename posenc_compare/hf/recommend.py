"""A rule for a longer text as a scheme, and as the configuration of transformers."""

import copy
import warnings
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from posenc_compare.errors import ConfigError
from posenc_compare.hf.candidates import geometry_of, stated, turning
from posenc_compare.hf.checkpoint import (
    DESCRIBED,
    configuration_in,
    local_place,
    sha256_of,
)
from posenc_compare.hf.measure import alike
from posenc_compare.hf.rotary import one_rope
from posenc_compare.hf.rules import AS_TRAINED, variants_for
from posenc_compare.records.labels import Warn
from posenc_compare.records.record import Record
from posenc_compare.schemes import Geometry, Variant
from posenc_compare.validate import check_whole

# By rule: `rope_type` in transformers, and the parameters that a configuration states.
TYPES = {
    "pi": "linear",
    "ntk_by_parts": "llama3",
    "yarn": "yarn",
    "llama3": "llama3",
    AS_TRAINED: "default",
}
SHARE = "partial_rotary_factor"  # which the configuration states, or does not
MORE = {  # rotations within the trained length, between which pairs are scaled in part
    "llama3": {"low_freq_factor": 1.0, "high_freq_factor": 4.0},
    "ntk_by_parts": {"low_freq_factor": 1.0, "high_freq_factor": 32.0},
}


@dataclass(frozen=True)
class Target:
    """A model with the `rope` of its training, and a length that it is to read."""

    place: Path
    config: Any
    own: Variant
    geometry: Geometry
    base: float
    length: int

    @property
    def factor(self) -> float:
        """Return how many times the trained length it is, at least 1."""
        return max(1.0, self.length / self.geometry.length)

    @property
    def title(self) -> str:
        """Return what is asked, in words."""
        trained = f"{self.factor:g} times the {self.geometry.length} of its training"
        return f"{self.length} tokens: {trained}"

    @property
    def rules(self) -> list[str]:
        """Return the names of the scalings to this length."""
        found = variants_for(self.own, self.geometry, self.length, "all")
        return [rule for rule in found if rule != AS_TRAINED]

    def variant(self, rule: str) -> Variant:
        """Return the scheme under a rule; as trained within the trained length."""
        if rule == AS_TRAINED or self.factor == 1:
            return self.own
        return variants_for(self.own, self.geometry, self.length, rule)[rule]

    def another(self, record: Record) -> list[str]:
        """Return how the checkpoint of a record differs, [] if it is this model."""
        spec, own = record.spec, self.geometry
        name, sha256, trained = (
            str(spec.setting[field]) for field in ("model", "model_sha256", "trained")
        )
        weights = self.place.is_file() or any(self.place.glob("*.safetensors"))
        if sha256 == sha256_of(self.place) if weights else name == self.place.name:
            return []
        options = spec.scheme.options.items()
        kept = {n: v for n, v in options if n not in ("scaling", "factor")}
        label = Variant(spec.scheme.name, kept).label
        return [
            f"these are records of another model: {name}, trained at {trained} tokens "
            f"with {label}; its sizes are not recorded",
            f"this model: {own.length} tokens, {self.own.label}, {own.layers} layers, "
            f"width {own.model_dim}, head_dim {own.head_dim}",
            "so no number was measured on this model: its ranking may differ",
        ]

    def rope_parameters(self, rule: str) -> dict[str, Any] | None:
        """Return the same for a config.json; None if no parameters give the model that.

        transformers has no such rule then, or the model does not read its parameters.
        `ntk` is another base: `base * factor ** (d / (d - 2))` for d rotated channels.
        """
        variant = self.variant(rule)
        if self.factor == 1:
            rule = AS_TRAINED
        base, dims = self.base, variant.build(self.geometry).rotated_dims
        if rule == "ntk":
            rule, base = AS_TRAINED, base * self.factor ** (dims / (dims - 2))
        if rule not in TYPES:
            return None
        found: dict[str, Any] = {"rope_type": TYPES[rule], "rope_theta": base}
        if rule != AS_TRAINED:
            found["factor"] = self.factor
        shares = [one[SHARE] for one in stated(self.config) if one.get(SHARE)]
        if shares:
            found[SHARE] = shares[0]
        if rule in ("ntk_by_parts", "yarn", "llama3"):
            found["original_max_position_embeddings"] = self.geometry.length
        found |= MORE.get(rule, {})
        return found if self._gives(found, variant) else None

    def _gives(self, parameters: dict[str, Any], variant: Variant) -> bool:
        """Return whether a small model with these parameters rotates as a scheme."""
        config, head = copy.deepcopy(self.config), self.geometry.head_dim
        config.rope_parameters = dict(parameters)
        try:
            made = turning(one_rope(config)[0], head, self.geometry.length)
        except Exception:  # whatever the model makes of them
            return False
        return alike(made, turning(variant, head, self.geometry.length))


def target(model: str, length: int, warn: Warn = warnings.warn) -> Target:
    """Return a model and a length that it is to read; no weights are loaded.

    `warn` is as in `configuration_in`.
    """
    check_whole("length", length, 1, 1 << 24)
    place = local_place(model, DESCRIBED)
    config = configuration_in(place, warn)
    own, kind, trained = one_rope(config)
    if "scaling" in own.options:
        raise ConfigError(
            f"model must have a rope without scaling, got {kind} in its "
            f"configuration, which `hf describe` prints; the configuration before it "
            f"was extended would work"
        )
    geometry = geometry_of(config.get_text_config(), trained)
    base = float(own.options.get("base", 10_000.0))
    return Target(place, config, own, geometry, base, length)
