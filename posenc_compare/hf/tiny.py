"""A small random model of a configuration, which rotates as the large one does.

Widths, experts, states and the vocabulary shrink. Layers, `head_dim` and all that
decides the rotation stay.
"""

import copy
import inspect
import math
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor
from transformers import MODEL_FOR_CAUSAL_LM_MAPPING as CAUSAL
from transformers import AutoModelForCausalLM, PreTrainedConfig

from posenc_compare.hf.places import WOULD_WORK, UnsupportedModelError

MOST = 1 << 26  # parameters of a model that is built
TOO_LARGE = "million parameters"
SPREAD = 1.2  # of a projection's output, for an input of spread 1
# Sizes that only make a model wide or slow, and what each may be at the most: the first
# row that has a part of the name holds. The rest of a name that is kept comes before.
KEPT = ("attention_chunk_size", "divisible", "head_dim_ratio")
LIMITS: tuple[tuple[tuple[str, ...], int], ...] = (
    (("num_experts_per_tok", "moe_k", "moe_topk", "top_k_experts", "moe_top_k"), 2),
    (("n_group", "topk_group", "num_expert_group", "mamba_n_groups"), 1),
    (("experts", "expert_num"), 4),
    (("intermediate_size", "ffn_hidden_size", "ffn_dim", "n_inner"), 32),
    (("vocab",), 512),
    (("lora_rank",), 256),
    (("index_n_heads", "indexer_n_heads"), 4),
    (("per_layer_input",), 16),
    (("linear_num_",), 2),
    (("linear_key_head", "linear_value_head", "linear_head_dim"), 16),
    (("state_size", "d_state"), 16),
    (("chunk_size",), 4),
)
FEW = 4  # ids of the first tokens stay: some count positions from the padding
DECODER = "decoder_input_ids"
SPEC = "_heterogeneity_spec"  # of sizes that differ by layer
OF_TOWERS = {"embed_dim", "depth"}  # whose hidden_size is that of their output
HEADS = ("num_attention_heads", "num_key_value_heads")
LATENT = ("qk_nope_head_dim", "qk_rope_head_dim")
# Heads and channels of a head of a state-space layer; their product is its width.
STATES = (
    ("mamba_n_heads", "mamba_d_head"),
    ("mamba_num_heads", "mamba_head_dim"),
    ("n_mamba_heads", "mamba_headdim"),
    ("num_heads", "head_dim"),
)
WIDTHS = (
    "attention_hidden_size",
    "embedding_dim",
    "lru_width",
    "hidden_size_global",
)  # in step with the width


def one_token(model: Any) -> dict[str, Any]:
    """Return a token as arguments of a model; raises ValueError if it reads others."""
    takes = inspect.signature(model.forward).parameters
    if model.main_input_name in takes and not takes.keys() & {"input_ids", DECODER}:
        raise ValueError(f"it reads {model.main_input_name}, not tokens")
    return given(model, torch.ones((1, 1), dtype=torch.long))


def tiny(
    config: PreTrainedConfig,
    kind: Any = AutoModelForCausalLM,
    inputs: Callable[[Any], dict[str, Any]] = one_token,
) -> Any:
    """Return a random model with the rotation of a configuration.

    It computes in float64, or in float32 if its code is for that alone. The state of
    random numbers stays as it is. `kind` is the class of the model, and `inputs` makes
    what a model of that class reads.
    """
    if kind is AutoModelForCausalLM and type(config) not in CAUSAL:
        raise UnsupportedModelError(
            f"{config.model_type}: must be a type of causal models that transformers "
            f"knows, and is none; {WOULD_WORK}"
        )
    why = ""
    with torch.random.fork_rng(devices=[]):
        for heads in (4, 2, 0):
            try:
                return _built(_small(config, heads), kind, inputs)
            except Exception as error:  # whatever a model makes of its configuration
                why = _words(error)
    of_text = inputs is one_token
    what = "one token, so that its rotation" if of_text else "an input, so that it"
    raise UnsupportedModelError(
        f"{config.model_type}: must make a small model that reads {what} can be "
        f"measured, and makes none: {why}" + f"; {WOULD_WORK}" * of_text
    )


def _built(
    small: PreTrainedConfig, kind: Any, inputs: Callable[[Any], dict[str, Any]]
) -> Any:
    """Return a model of a small configuration, after it has read an input."""
    make: Any = getattr(kind, "from_config", None) or kind._from_config
    with torch.device("meta"):
        shape = make(copy.deepcopy(small))
    if inputs is one_token:
        one_token(shape)
    size = sum(one.numel() for one in shape.parameters())
    if size > MOST:
        raise ValueError(f"it has {size / 1e6:.0f} {TOO_LARGE}")
    return in_double(make(small), lambda one: one(**inputs(one)))


def in_double(model: Any, read: Callable[[Any], object]) -> Any:
    """Return a model with random weights in float64, or in float32 if it needs that.

    `read` evaluates it, and tells which it needs.
    """
    if hasattr(model, "set_experts_implementation"):
        model.set_experts_implementation("eager")  # others have no float64
    for dtype in (torch.float64, torch.float32):  # some code is for float32 alone
        try:
            with torch.no_grad():
                read(drawn(model, dtype))
            break
        except RuntimeError:
            if dtype is torch.float32:
                raise
    return model


def given(model: Any, ids: Tensor) -> dict[str, Any]:
    """Return ids as arguments of a model, of its decoder too, without a cache."""
    takes = inspect.signature(model.forward).parameters
    names = ("input_ids", "decoder_input_ids") if DECODER in takes else ("input_ids",)
    books = getattr(model.config, "num_codebooks", None) or 1  # rows of one text
    found: dict[str, Any] = dict.fromkeys(names, ids.repeat(books, 1))
    return found | ({"use_cache": False} if "use_cache" in takes else {})


def _words(error: Exception) -> str:
    """Return what an error says, if that is of use to a reader."""
    text = str(error).strip().partition("\n")[0][:200]
    if isinstance(error, ValueError | RuntimeError | ImportError) and text:
        return text
    is_plain = text and "NoneType" not in text and "object" not in text
    return "its code fails on these sizes" + (f" ({text[:80]})" if is_plain else "")


def _small(config: PreTrainedConfig, heads: int) -> PreTrainedConfig:
    """Return a small copy of a configuration, with at most so many heads; 0: all."""
    small = copy.deepcopy(config)
    for part in (small, *parts_inside(small)):
        _fill(part)
        if heads:
            _narrow(part, heads)
        for name, value in [*vars(part).items()]:
            if (least := _shrunk(name, value)) is not value:
                setattr(part, name, least)
    return small


def parts_inside(config: PreTrainedConfig) -> list[PreTrainedConfig]:
    """Return the configurations inside one."""
    inner = [v for v in vars(config).values() if isinstance(v, PreTrainedConfig)]
    return [one for each in inner for one in (each, *parts_inside(each))]


def _shrunk(name: str, value: Any) -> Any:
    """Return what a value of a configuration is in a small model."""
    if isinstance(value, dict) and "rope" not in name:
        return {n: _shrunk(n, v) for n, v in value.items()}
    if isinstance(value, list) and all(type(one) is int for one in value):
        return [_shrunk(name, one) for one in value]
    if type(value) is not int or any(word in name for word in KEPT):
        return value
    if name.endswith("_token_id"):
        return value if value < FEW else 0
    for words, most in LIMITS:
        if any(word in name for word in words):
            return min(value, most)
    return value


def _own(config: PreTrainedConfig, name: str) -> Any:
    """Return a value of a configuration, also one that differs by layer."""
    return vars(config).get((config.attribute_map or {}).get(name, name))


def _fill(config: PreTrainedConfig) -> None:
    """State the sizes that a configuration leaves to others."""
    heads, width = (_own(config, n) for n in ("num_attention_heads", "hidden_size"))
    if not (isinstance(heads, int) and isinstance(width, int) and heads):
        return
    sizes = {"num_key_value_heads": heads, "head_dim": width // heads}
    sizes |= dict.fromkeys(LIMITS[0][0], LIMITS[0][1])  # experts of a token
    for name, value in sizes.items():
        if vars(config).get(name, value) is None:
            setattr(config, name, value)


def _narrow(config: PreTrainedConfig, most: int) -> None:
    """Give a configuration few heads, and states of their width."""
    wide_name = "embed_dim" if vars(config).keys() >= OF_TOWERS else "hidden_size"
    heads, width = (_own(config, n) for n in ("num_attention_heads", wide_name))
    if not isinstance(width, int):
        return
    spec = vars(config).get(SPEC)
    layers = [*spec.per_layer_overrides.values()] if spec else []

    def every(name: str) -> list[int]:
        own = [_own(config, name), *(one.get(name) for one in layers)]
        return [one for one in own if isinstance(one, int) and one > 0]

    if isinstance(heads, int) and heads:
        shared = min(every("num_key_value_heads"), default=heads)
        count = most if shared < heads else 2
        latent = sum(every(LATENT[0]) + every(LATENT[1]))
        wide = count * max([latent, *(every("head_dim") or [width // heads])])
    else:
        count, wide, shared = 0, 128, 0
    if count > (heads or 0) or wide > width:
        return
    few = min(shared, max(1, most // 2), count)
    own = {name: _own(config, name) for name in HEADS}
    for values in (own, *layers):
        each, among = (values.get(name, own[name]) for name in HEADS)
        if values is own or values.keys() & {*HEADS}:
            sizes = (count, count if among == each else few)
            values.update(zip(HEADS, sizes, strict=True))
    for name, size in own.items():
        for one in (name, f"swa_{name}"):  # of layers with a window
            if _own(config, one) is not None:
                setattr(config, one, size)
    setattr(config, wide_name, wide)
    for name in WIDTHS:
        if (value := vars(config).get(name)) and value % width == 0:
            setattr(config, name, value * wide // width)
    for number, size in STATES:
        n, d = _own(config, number), _own(config, size)
        if isinstance(n, int) and isinstance(d, int):
            inner = n * d * wide // width if n * d % width == 0 else min(n * d, wide)
            setattr(config, number, min(n, 2))
            setattr(config, size, inner // min(n, 2))
            if _own(config, "mamba_d_ssm"):
                config.mamba_d_ssm = inner


def drawn(model: Any, dtype: torch.dtype) -> Any:
    """Return a model with new weights, under which positions change the logits."""
    model = model.to(dtype).eval()
    draw = torch.Generator().manual_seed(0)
    with torch.no_grad():
        for weight in model.parameters():
            if weight.dim() > 1:
                spread = SPREAD / math.sqrt(weight.shape[-1])
                if weight.requires_grad:  # a table of sinusoids stays
                    weight.normal_(0, spread, generator=draw)
            else:  # a norm that takes the mean off leaves one direction out
                weight += torch.randn(weight.shape, generator=draw) / 4
    return model
