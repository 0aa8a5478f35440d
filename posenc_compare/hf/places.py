"""Where in a Hugging Face model a scheme can act: its attention, layer by layer."""

import inspect
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import nn
from transformers import PreTrainedModel

from posenc_compare.errors import ConfigError

INTERFACE = "ALL_ATTENTION_FUNCTIONS"  # which attention looks up in its module
ROTARY = "position_embeddings"  # what attention is given: cosines and sines
INSIDE = ("get_base_model()", "module", "_orig_mod")  # of what wraps a model
WOULD_WORK = "Llama, Qwen, Mistral, Gemma, GPT-NeoX and OLMo would work"
CONVERTED = "posenc_compare_rope_layout"  # in config.json of a converted checkpoint


class UnsupportedModelError(ConfigError):
    """A model, or what it was called with, leaves a scheme no place to act."""


@dataclass(frozen=True)
class Place:
    """Attention of a layer, by number; the block that holds it, and its name there."""

    layer: int
    attention: nn.Module
    block: nn.Module
    name: str


def places_of(model: nn.Module) -> list[Place]:
    """Return attention of every layer of a causal model, in their order."""
    name = type(model).__name__
    if not isinstance(model, PreTrainedModel):
        inside = [one for one in INSIDE if hasattr(model, one.removesuffix("()"))]
        cure = f"; model.{inside[0]} would work" if inside else ""
        raise UnsupportedModelError(
            f"model must be a PreTrainedModel of transformers, got {name}{cure}"
        )
    crosses = model.config.is_encoder_decoder
    if not crosses and model.config.get_text_config() is not model.config:
        raise UnsupportedModelError(
            f"{name}: reads more than text; its language model alone would work, if "
            f"that is one of Llama, Qwen, Mistral, Gemma, GPT-NeoX or OLMo"
        )
    modules, found = dict(model.named_modules()), []
    others: dict[str, None] = {}  # which place tokens by themselves
    for path, module in modules.items():
        kind, layer = type(module), getattr(module, "layer_idx", None)
        called_so = any(one.__name__.endswith("Attention") for one in kind.__mro__)
        if not (isinstance(layer, int) and called_so):
            continue
        if ROTARY in inspect.signature(kind.forward).parameters:
            above, _, inside = path.rpartition(".")
            found.append(Place(layer, module, modules[above], inside))
        else:
            others[kind.__name__] = None
    fault = ""
    if crosses:
        fault = "has an encoder, and schemes act on causal attention alone"
    elif any(place.layer < 0 for place in found):
        fault = "shares attention between layers, and schemes act on layers with "
        fault += "attention of their own"
    elif any(not getattr(place.attention, "is_causal", True) for place in found):
        fault = "is an encoder, whose tokens look ahead, and schemes act on causal "
        fault += "attention alone"
    elif others or not found:
        fault = f"its {' and '.join(others) or 'attention'} takes no {ROTARY}, so it "
        fault += "places tokens by code of its own"
    elif not model._can_set_attn_implementation():
        fault = "does not call AttentionInterface, so no other attention can take its "
        fault += "place"
    if fault:
        raise UnsupportedModelError(f"{name}: {fault}; {WOULD_WORK}")
    return sorted(found, key=lambda place: place.layer)


def check_interface(model: nn.Module, places: Sequence[Place]) -> None:
    """Refuse layers whose attention is never asked for through the interface."""
    kinds = {place.layer: type(place.attention) for place in places}
    lacking = {
        number: kind
        for number, kind in kinds.items()
        if INTERFACE not in inspect.unwrap(kind.forward).__code__.co_names
    }
    if lacking:
        names = " and ".join(sorted({kind.__name__ for kind in lacking.values()}))
        others = [n for n in kinds if n not in lacking]
        cure = f"layers={others} would work" if others else WOULD_WORK
        raise UnsupportedModelError(
            f"{type(model).__name__}: {names} of layers {[*lacking]} does not call "
            f"AttentionInterface; {cure}"
        )


def device_of(attention: nn.Module) -> torch.device:
    """Return where attention is computed, though accelerate may offload its weights."""
    for part in attention.modules():
        hook = getattr(part, "_hf_hook", None)
        for one in getattr(hook, "hooks", [hook]):
            if getattr(one, "execution_device", None) is not None:
                return torch.device(one.execution_device)
    return next(attention.parameters()).device


def check_converted(config: Any) -> None:
    """Refuse a copy of `hf convert`, whose pairs are not those of transformers."""
    layout = getattr(config, CONVERTED, "")
    if layout:
        own = "adjacent" if layout == "half" else "half"
        raise UnsupportedModelError(
            f"model must have queries and keys for {own} pairs, as transformers "
            f"rotates them, got {layout} ones; `hf convert MODEL --layout {own}` "
            f"converts them back"
        )
