"""The rotary positions of a Hugging Face model, as a `rope` of this package.

A configuration says which frequencies a model should have, and the model builds some.
Both are compared, since a base that is read from a wrong place changes every logit and
fails nowhere.
"""

import math
import sys
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from transformers import AutoModelForCausalLM, PreTrainedConfig

from posenc_compare.hf.places import UnsupportedModelError
from posenc_compare.hf.sizes import geometry_of
from posenc_compare.schemes.shared.rotation import Rotation
from posenc_compare.variants import Variant

# By type in transformers: the options of our rule, and the parameters that fill them.
RULES: dict[str, tuple[str, dict[str, str]]] = {
    "default": ("none", {}),
    "linear": ("pi", {"factor": "factor"}),
    "llama3": (
        "llama3",
        {"factor": "factor", "original": "original_max_position_embeddings"}
        | {"alpha": "low_freq_factor", "beta": "high_freq_factor"},
    ),
    "yarn": (
        "yarn",
        {"factor": "factor", "original": "original_max_position_embeddings"}
        | {"alpha": "beta_slow", "beta": "beta_fast"},
    ),
}


@dataclass(frozen=True)
class Rotary:
    """The rotary positions of the layers of one kind.

    Attributes:
        layers: the kind, as the configuration names it; all, if there is one.
        rope_type: of transformers.
        variant: the scheme of this package that it is; None if there is none, as for
            a temperature or a number of pairs that ours has not.
        apart: largest relative difference of a frequency, as built, from that of the
            variant; None without one.
        attention_factor: of cosines and sines, as built.
        pairs: of channels that are rotated.
        slow: pairs that do not finish a turn within the length the model is for.
        length: positions that the model is for.
    """

    layers: str
    rope_type: str
    variant: Variant | None
    apart: float | None
    attention_factor: float
    pairs: int
    slow: int
    length: int


def rotary_of(config: PreTrainedConfig) -> list[Rotary]:
    """Return the rotary positions that a model with this configuration builds.

    No weights are made or read.

    Raises:
        UnsupportedModelError: if the model has none.
    """
    with torch.device("meta"):
        model: nn.Module = AutoModelForCausalLM.from_config(config)
    kinds = {
        type(part): part
        for part in model.modules()
        if type(part).__name__.endswith("RotaryEmbedding")
    }
    if not kinds:
        raise UnsupportedModelError(f"{type(model).__name__}: has no rotary positions")
    return [one for kind in kinds for one in _built(kind, config.get_text_config())]


def _built(kind: Callable[..., nn.Module], config: Any) -> list[Rotary]:
    """Return what a module of rotary positions holds, for each kind of layer."""
    made, found = kind(config), []
    for name, frequencies in made.named_buffers():
        head = name.removesuffix("inv_freq")
        if head == name or head.endswith("original_"):
            continue
        layers = head.removesuffix("_")
        given = config.rope_parameters
        given = given[layers] if layers else given
        factor = float(getattr(made, f"{head}attention_scaling"))
        variant = _variant(given, config, _layout(kind))
        apart = variant and _apart(variant, factor, frequencies, config)
        turns = config.max_position_embeddings * frequencies / (2 * math.pi)
        found.append(
            Rotary(
                layers or "all",
                given["rope_type"],
                None if apart is None else variant,
                apart,
                factor,
                len(frequencies),
                int((turns < 1).sum()),
                config.max_position_embeddings,
            )
        )
    if not found:
        raise UnsupportedModelError(
            f"{kind.__name__}: must hold its frequencies, and holds none"
        )
    return found


def _layout(kind: Callable[..., nn.Module]) -> str:
    """Return which channels make a pair, as the code beside the module has it."""
    turn = getattr(sys.modules[kind.__module__], "rotate_half", None)
    if turn is None:
        return "half"
    turned = turn(torch.arange(4.0)).tolist()
    return "adjacent" if turned == [-1, 0, -3, 2] else "half"


def _variant(given: dict[str, Any], config: Any, layout: str) -> Variant | None:
    """Return our scheme of some rope parameters, if there is one."""
    # Frequencies that are not rounded to whole pairs: the ramp of yarn here is.
    if given["rope_type"] not in RULES or given.get("truncate") is False:
        return None
    rule, names = RULES[given["rope_type"]]
    options = {"base": float(given["rope_theta"]), "layout": layout, "scaling": rule}
    fraction = given.get("partial_rotary_factor", 1.0)
    options |= {"fraction": float(fraction or 1.0)}
    options |= {o: given[n] for o, n in names.items() if given.get(n) is not None}
    kinds = {"factor": float, "alpha": float, "beta": float, "original": int}
    return Variant("rope", {o: kinds.get(o, _same)(v) for o, v in options.items()})


def _same(value: Any) -> Any:
    return value


def _apart(
    variant: Variant, factor: float, frequencies: Tensor, config: Any
) -> float | None:
    """Return the largest relative difference of a frequency from our own.

    None if the scheme has another factor of cosines, or another number of pairs.
    """
    scheme: Rotation = variant.build(geometry_of(config))
    own = scheme.angles(torch.ones(1))[0]
    same = math.isclose(scheme.attention_factor, factor, rel_tol=1e-6)
    if not same or own.shape != frequencies.shape:
        return None
    return float((frequencies.double() / own - 1).abs().max())
