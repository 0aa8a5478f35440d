"""Where in a Hugging Face model a scheme can act: its attention, layer by layer."""

import inspect
from dataclasses import dataclass

from torch import nn
from transformers import PreTrainedModel

from posenc_compare.errors import ConfigError

ROTARY = "position_embeddings"  # what attention is given: cosines and sines
WOULD_WORK = "Llama, Qwen, Mistral, Gemma, GPT-NeoX and OLMo would work"


class UnsupportedModelError(ConfigError):
    """A model, or what it was called with, leaves a scheme no place to act."""


@dataclass(frozen=True)
class Place:
    """Attention of one layer.

    Attributes:
        layer: its number, from 0.
        attention: the module.
        block: the decoder layer that holds it.
    """

    layer: int
    attention: nn.Module
    block: nn.Module


def places_of(model: nn.Module) -> list[Place]:
    """Return attention of every layer of a causal model, in their order.

    Raises:
        UnsupportedModelError: if the model places tokens by code of its own, or keeps
            its attention from being replaced.
    """
    name = type(model).__name__
    if not isinstance(model, PreTrainedModel):
        raise UnsupportedModelError(
            f"model must be a PreTrainedModel of transformers, got {name}"
        )
    if model.config.is_encoder_decoder:
        raise UnsupportedModelError(
            f"{name}: has an encoder, and schemes act on causal attention alone; "
            f"{WOULD_WORK}"
        )
    if model.config.get_text_config() is not model.config:
        raise UnsupportedModelError(
            f"{name}: reads more than text; its language model alone would work, if "
            f"that is one of Llama, Qwen, Mistral, Gemma, GPT-NeoX or OLMo"
        )
    modules, found = dict(model.named_modules()), []
    placing: dict[str, None] = {}
    for path, module in modules.items():
        kind = type(module)
        layer = getattr(module, "layer_idx", None)
        if not isinstance(layer, int):
            continue
        if not kind.__name__.endswith("Attention"):
            continue
        if ROTARY not in inspect.signature(kind.forward).parameters:
            placing[kind.__name__] = None
            continue
        # A hook of accelerate keeps what was there, and calls it.
        hooked = "_old_forward" if hasattr(module, "_hf_hook") else "forward"
        own = getattr(module, hooked, module.forward)
        runs = getattr(own, "__func__", own)
        if kind.forward.__module__ != kind.__module__ or runs is not kind.forward:
            other = kind.forward if runs is kind.forward else runs
            raise UnsupportedModelError(
                f"{name}: {kind.__name__}.forward was replaced by "
                f"{getattr(other, '__module__', other)}, which may call no other "
                f"attention"
            )
        block = modules[path.rpartition(".")[0]]
        found.append(Place(layer, module, block))
    if placing or not found:
        kinds = " and ".join(placing) or "attention"
        raise UnsupportedModelError(
            f"{name}: its {kinds} takes no {ROTARY}, so it places tokens by code of "
            f"its own; {WOULD_WORK}"
        )
    if not model._can_set_attn_implementation():
        raise UnsupportedModelError(
            f"{name}: does not call AttentionInterface, so no other attention can "
            f"take its place; {WOULD_WORK}"
        )
    return sorted(found, key=lambda place: place.layer)
