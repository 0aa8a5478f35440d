"""A small random model of a configuration, which rotates as the large one does.

Widths, experts and the vocabulary shrink. Layers, `head_dim` and all that decides the
rotation stay.
"""

import copy
import math
from typing import Any

import torch
from torch import nn
from transformers import AutoModelForCausalLM, PreTrainedConfig

from posenc_compare.hf.places import WOULD_WORK, UnsupportedModelError

VOCABULARY = 512
MOST = 1 << 26  # parameters of a model that is built
SPREAD = 1.2  # of a projection's output, for an input of spread 1
# Sizes that only make a model wide, and what each may be at the most.
NARROW = {
    "intermediate_size": 32,
    "moe_intermediate_size": 32,
    "intermediate_size_mlp": 32,
    "dense_intermediate_size": 32,
    "shared_expert_intermediate_size": 32,
    "shared_intermediate_size": 32,
    "moe_shared_expert_intermediate_size": 32,
    "ffn_hidden_size": 32,
    "expert_ffn_hidden_size": 32,
    "ffn_dim": 32,
    "decoder_ffn_dim": 32,
    "vocab_size": VOCABULARY,
    "vocab_size_per_layer_input": VOCABULARY,
    "hidden_size_per_layer_input": 16,
}
EXPERTS = ("num_local_experts", "num_experts", "n_routed_experts", "moe_num_experts")
CHOSEN = ("num_experts_per_tok", "moe_k", "moe_topk", "num_experts_per_token")
PARTS = ("nope", "rope")
GROUPS = {"n_group": 1, "topk_group": 1, "num_expert_group": 1}


def tiny(config: PreTrainedConfig) -> Any:
    """Return a random model with the rotation of a configuration, in float64.

    Args:
        config: of a causal model of text.

    Raises:
        UnsupportedModelError: if no such model can be built.
    """
    why = ""
    for narrow in (True, False):
        try:
            small = _small(config, narrow)
            with torch.device("meta"):
                shape: nn.Module = AutoModelForCausalLM.from_config(small)
            size = sum(one.numel() for one in shape.parameters())
            if size > MOST:
                why = why or f"it has {size / 1e6:.0f} million parameters"
                continue
            model: Any = AutoModelForCausalLM.from_config(small)
            if hasattr(model, "set_experts_implementation"):
                model.set_experts_implementation("eager")  # others have no float64
            with torch.no_grad():
                one = torch.ones((1, 1), dtype=torch.long)
                _drawn(model)(input_ids=one, use_cache=False)
            return model
        except Exception as error:  # whatever a model makes of its configuration
            why = why or _words(error)
    raise UnsupportedModelError(
        f"{config.model_type}: must make a small model that reads one token, so that "
        f"its rotation can be measured, and makes none: {why}; {WOULD_WORK}"
    )


def _words(error: Exception) -> str:
    """Return what an error says, if that is of use to a reader."""
    text = str(error).strip().partition("\n")[0][:200]
    if isinstance(error, ValueError | RuntimeError | ImportError) and text:
        return text
    return (
        f"its code fails on these sizes ({text[:80]})"
        if _plain(text)
        else ("its code fails on these sizes")
    )


def _plain(text: str) -> bool:
    return bool(text) and "NoneType" not in text and "object" not in text


def _small(config: PreTrainedConfig, narrow: bool) -> PreTrainedConfig:
    """Return a small copy of a configuration.

    Args:
        config: of a causal model of text.
        narrow: whether it has fewer heads too, and states of their width.
    """
    small = copy.deepcopy(config)

    def shrink(name: str, most: int) -> None:
        value = getattr(small, name, None)
        if isinstance(value, int) and not isinstance(value, bool) and value > most:
            setattr(small, name, most)

    heads = getattr(small, "num_attention_heads", None)
    width = getattr(small, "hidden_size", None)
    if isinstance(heads, int) and isinstance(width, int) and narrow:
        shared = getattr(small, "num_key_value_heads", None) or heads
        count = 4 if shared < heads else 2
        latent = [getattr(small, f"qk_{part}_head_dim", 0) for part in PARTS]
        head_dim = getattr(small, "head_dim", None) or width // heads
        wide = count * max(head_dim, sum(filter(None, latent)))
        if count <= heads and wide <= width:
            small.num_attention_heads = count
            small.hidden_size = wide
            if getattr(small, "num_key_value_heads", None):
                small.num_key_value_heads = min(shared, 2)
    for name, most in NARROW.items():
        shrink(name, most)
    for name in EXPERTS:
        shrink(name, 4)
    for name in CHOSEN:
        shrink(name, 2)
        if getattr(small, name, 2) is None:
            setattr(small, name, 2)
    for name, value in GROUPS.items():
        if getattr(small, name, None):
            setattr(small, name, value)
    for name in vars(small):
        if name.endswith("_token_id"):
            shrink(name, 0)
    return small


def _drawn(model: Any) -> Any:
    """Return a model with random weights under which positions change the logits."""
    model = model.double().eval()
    draw = torch.Generator().manual_seed(0)
    with torch.no_grad():
        for weight in model.parameters():
            if weight.dim() > 1:
                spread = SPREAD / math.sqrt(weight.shape[-1])
                weight.normal_(0, spread, generator=draw)
            else:  # a norm that takes the mean off leaves one direction out
                weight += torch.randn(weight.shape, generator=draw) / 4
    return model
