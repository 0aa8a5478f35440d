"""Checks of models as they are: planted bugs are found, stock models pass."""

import copy
import functools
import inspect
import json
import sys
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from types import ModuleType
from typing import Any
from unittest import mock

import pandas as pd
import pytest
import torch
from torch import Tensor, nn

transformers = pytest.importorskip("transformers", minversion="5.24")

from support.checkpoints import restate  # noqa: E402
from support.language_models import WIDER  # noqa: E402
from support.shown import refusal  # noqa: E402
from transformers.integrations.sdpa_attention import (  # noqa: E402
    sdpa_attention_forward,
)
from transformers.modeling_utils import ALL_ATTENTION_FUNCTIONS  # noqa: E402
from transformers.models.gpt_neox import modeling_gpt_neox as neox  # noqa: E402
from transformers.models.llama import modeling_llama as llama  # noqa: E402
from transformers.models.mistral import modeling_mistral as mistral  # noqa: E402
from transformers.models.roberta import modeling_roberta as roberta  # noqa: E402

from posenc_compare import hf  # noqa: E402
from posenc_compare.errors import ConfigError  # noqa: E402
from posenc_compare.hf import stated  # noqa: E402
from posenc_compare.hf.tiny import drawn, tiny  # noqa: E402

TINY_T5 = {"d_model": 16, "d_kv": 4, "d_ff": 16, "num_layers": 1, "vocab_size": 32}
EAGER = {"attn_implementation": "eager"}
LLAMA, GPT2, BERT = "LlamaForCausalLM", "GPT2LMHeadModel", "BertForMaskedLM"
Change = Callable[[Any, dict[str, Any]], None]


def model_of(kind: str, **more: Any) -> Any:
    """Return a small random model of a class of transformers."""
    made: Any = getattr(transformers, kind)
    eager = {n: more.pop(n) for n in EAGER if n in more}
    config = made.config_class(**{**WIDER, **more})
    return drawn(made._from_config(config, **eager), torch.float32)


def planted(
    model: Any, owner: Any = None, change: Change | None = None, **wrong: Any
) -> Any:
    """Return a model with names of a module replaced while it computes.

    Args:
        model: that gets the bug.
        owner: module or class that has the names.
        change: of its arguments, by name.
        wrong: what stands in the place of each name.
    """
    kind = type(model)

    class Planted(kind):  # type: ignore[misc, valid-type]
        @functools.wraps(kind.forward)
        def forward(self, input_ids: Any = None, **given: Any) -> Any:
            if change:
                given["input_ids"] = input_ids
                change(self, given)
                input_ids = given.pop("input_ids")
            with ExitStack() as stack:
                for name, value in wrong.items():
                    stack.enter_context(mock.patch.object(owner, name, value))
                return kind.forward(self, input_ids, **given)

    model.__class__ = Planted
    return model


def states(model: Any) -> dict[str, str]:
    return {one.check: one.state for one in hf.check(model)}


# Rotation.


def rotated(module: ModuleType, wrong: Callable[..., Any]) -> Callable[[], Any]:
    """Return a maker of a Llama or GPT-NeoX with another rotation."""
    kind = "LlamaForCausalLM" if module is llama else "GPTNeoXForCausalLM"
    return lambda: planted(model_of(kind), module, apply_rotary_pos_emb=wrong)


RIGHT = llama.apply_rotary_pos_emb
RIGHT_NEOX = neox.apply_rotary_pos_emb


def interleaved(q: Tensor, k: Tensor, cos: Tensor, sin: Tensor) -> tuple[Any, ...]:
    half = q.shape[-1] // 2
    order = torch.arange(2 * half).view(2, half).T.flatten()
    back = order.argsort()
    made = RIGHT(q[..., back], k[..., back], cos, sin)
    return tuple(one[..., order] for one in made)


def last_channels(q: Tensor, k: Tensor, cos: Tensor, sin: Tensor) -> tuple[Any, ...]:
    made = RIGHT_NEOX(q.flip(-1), k.flip(-1), cos, sin)
    return tuple(one.flip(-1) for one in made)


def linear_twice() -> Any:
    model = model_of("LlamaForCausalLM", **scaled("linear", 4.0))
    model.model.rotary_emb.inv_freq /= 4
    return model


def scaled(rope_type: str, factor: float) -> dict[str, Any]:
    return {
        "rope_parameters": {
            "rope_type": rope_type,
            "factor": factor,
            "rope_theta": 10_000.0,
            "original_max_position_embeddings": 32,
        }
    }


def factor_twice() -> Any:
    model = model_of("LlamaForCausalLM", **scaled("yarn", 4.0))
    model.model.rotary_emb.attention_scaling **= 2
    return model


def scale_of_width(**more: Any) -> Any:
    model = model_of("LlamaForCausalLM", **more)
    for layer in model.model.layers:
        layer.self_attn.scaling /= 4
    return model


def bases_exchanged() -> Any:
    model = model_of("Gemma3ForCausalLM", num_hidden_layers=6, head_dim=16)
    rotary = model.model.rotary_emb
    names = [f"{kind}_attention_inv_freq" for kind in ("full", "sliding")]
    first, second = (getattr(rotary, name) for name in names)
    setattr(rotary, names[0], second)
    setattr(rotary, names[1], first)
    return model


def of_images(*sections: int) -> Any:
    """Return a Qwen2-VL whose rotation has these pairs of channels for each axis."""
    pairs = {"rope_type": "default", "rope_theta": 1e4, "mrope_section": [2, 3, 3]}
    config = transformers.Qwen2VLConfig(
        text_config={**WIDER, "rope_parameters": pairs},
        vision_config={"depth": 1, "embed_dim": 32, "num_heads": 2, "hidden_size": 64},
    )
    made = transformers.Qwen2VLForConditionalGeneration._from_config(config)
    made.model.language_model.rotary_emb.mrope_section = list(sections)
    return drawn(made, torch.float32)


def tables(change: Callable[..., Any], **more: Any) -> Callable[[], Any]:
    """Return a maker of a Llama whose tables come from changed angles."""

    def forward(self: Any, x: Tensor, position_ids: Tensor) -> tuple[Tensor, Tensor]:
        angles = change(position_ids[..., None], self.inv_freq, x.dtype)
        both = torch.cat([angles, angles], dim=-1)
        return both.cos().to(x.dtype), both.sin().to(x.dtype)

    kind = llama.LlamaRotaryEmbedding
    return lambda: planted(model_of("LlamaForCausalLM", **more), kind, forward=forward)


def rotates_the_other() -> Any:
    """Return a SmolLM3 of which the first layer alone should rotate."""
    model = model_of("SmolLM3ForCausalLM", no_rope_layers=[1, 0])
    for layer, rotate in zip(model.model.layers, (False, True), strict=True):
        layer.self_attn.use_rope = rotate
    return model


# Position ids, caches and masks.


def past_of(given: dict[str, Any]) -> int:
    cache = given.get("cache")
    return 0 if cache is None else int(cache.get_seq_length())


def restarted(_: Any, given: dict[str, Any]) -> None:
    if "position_ids" not in given:
        given["position_ids"] = torch.arange(given["input_ids"].shape[1])[None]


def counted(_: Any, given: dict[str, Any]) -> None:
    given.pop("position_ids", None)


def of_the_first(_: Any, given: dict[str, Any]) -> None:
    if given.get("position_ids") is not None:
        given["position_ids"] = given["position_ids"][:1]


def of_the_first_in_a_cache(model: Any, given: dict[str, Any]) -> None:
    if past_of(given):
        of_the_first(model, given)


def counted_in_a_cache(_: Any, given: dict[str, Any]) -> None:
    if past_of(given):
        given.pop("position_ids", None)


def from_the_room(_: Any, given: dict[str, Any]) -> None:
    cache: Any = given.get("cache")
    if isinstance(cache, transformers.StaticCache):
        count, room = given["input_ids"].shape[1], cache.get_max_cache_shape()
        given["position_ids"] = torch.arange(room - count, room)[None]


def all_real(_: Any, given: dict[str, Any]) -> None:
    mask = given.get("attention_mask")
    if mask is not None and mask.dim() == 2:
        given["attention_mask"] = torch.ones_like(mask)


def without_blocks(_: Any, given: dict[str, Any]) -> None:
    mask = given.get("attention_mask")
    if mask is not None and mask.dim() == 4:
        given["attention_mask"] = torch.ones_like(given["input_ids"])


def count_of(given: dict[str, Any]) -> int:
    texts = given.get("inputs_embeds")
    return (given["input_ids"] if texts is None else texts).shape[1]


def restarted_of_embeddings(model: Any, given: dict[str, Any]) -> None:
    if given.get("inputs_embeds") is not None:
        given["position_ids"] = torch.arange(count_of(given))[None]


def shifted_for_good(model: Any, given: dict[str, Any]) -> None:
    """Count from the padding of the last text that had a mask."""
    mask, past = given.get("attention_mask"), past_of(given)
    if mask is not None and mask.dim() == 2 and not past:
        model.shift = (mask == 0).sum(dim=1, keepdim=True)
    if past and given.get("position_ids") is None and hasattr(model, "shift"):
        counted = past + torch.arange(count_of(given)) - model.shift
        given["position_ids"] = counted.clamp(min=0)


def counted_by_the_model(model: Any, given: dict[str, Any]) -> None:
    """Count tokens in the model, and begin again where a text begins."""
    before = model.seen if past_of(given) else 0
    model.seen = before + count_of(given)
    if given.get("position_ids") is None:
        given["position_ids"] = before + torch.arange(count_of(given))[None]


def without_padding_tokens(model: Any, given: dict[str, Any]) -> None:
    """Take each padding token for padding, whatever the mask says of it."""
    ids, mask = given["input_ids"], given.get("attention_mask")
    if ids is not None and mask is not None and mask.shape == ids.shape:
        given["attention_mask"] = mask * (ids != model.config.pad_token_id)


def without_end_tokens(model: Any, given: dict[str, Any]) -> None:
    """Take each end token for padding, if no mask is given."""
    ids, mask = given["input_ids"], given.get("attention_mask")
    if ids is not None and mask is None and not past_of(given):
        given["attention_mask"] = (ids != model.config.eos_token_id).long()


def counted_without_ids(_: Any, given: dict[str, Any]) -> None:
    if given.get("position_ids") is None:
        given["position_ids"] = past_of(given) + torch.arange(count_of(given))[None]


def alone_at_one(_: Any, given: dict[str, Any]) -> None:
    if count_of(given) == 1 and not past_of(given):
        given["position_ids"] = torch.ones((1, 1), dtype=torch.long)


def all_real_in_the_room(model: Any, given: dict[str, Any]) -> None:
    if isinstance(given.get("cache"), transformers.StaticCache):
        all_real(model, given)


def shifted_rows(_: Any, given: dict[str, Any]) -> None:
    if (ids := given.get("position_ids")) is not None:
        given["position_ids"] = torch.where(ids >= 512, ids - 256, ids)


def padding_first(_: Any, given: dict[str, Any]) -> None:
    if past_of(given) and given.get("attention_mask") is not None:
        given["attention_mask"] = given["attention_mask"].sort(dim=1).values


class Counts(transformers.GPT2LMHeadModel):
    """A model that counts padding while it generates."""

    def prepare_inputs_for_generation(self, *args: Any, **kwargs: Any) -> Any:
        made = super().prepare_inputs_for_generation(*args, **kwargs)
        made["position_ids"] = past_of(made) + torch.arange(count_of(made))[None]
        return made


def changed(kind: str, change: Change, **more: Any) -> Callable[[], Any]:
    return lambda: planted(model_of(kind, **more), change=change)


def packed_by(change: Callable[[Tensor], Any]) -> Callable[[], Any]:
    """Return a maker of a Llama whose mask is made of other position ids."""
    right: Any = vars(llama)["create_causal_mask"]

    def masked(**given: Any) -> Any:
        ids = given["position_ids"]
        return right(**{**given, "position_ids": None if ids is None else change(ids)})

    return lambda: planted(model_of(LLAMA), llama, create_causal_mask=masked)


def narrower(*, in_a_cache: bool) -> Callable[[], Any]:
    """Return a maker of a Mistral whose window is narrower by one."""
    right: Any = vars(mistral)["create_sliding_window_causal_mask"]

    def masked(**given: Any) -> Any:
        if past_of(given) or not in_a_cache:
            sizes = {**WIDER, "sliding_window": 7}
            given["config"] = transformers.MistralConfig(**sizes)
            given["config"]._attn_implementation = "sdpa"
        return right(**given)

    return lambda: planted(
        model_of("MistralForCausalLM", sliding_window=8),
        mistral,
        create_sliding_window_causal_mask=masked,
    )


def sees_the_next() -> Any:
    right = llama.eager_attention_forward

    def attend(
        module: Any, q: Tensor, k: Tensor, v: Tensor, mask: Any, *args: Any, **m: Any
    ) -> Any:
        keys = k.shape[2]
        if q.shape[2] == keys:
            mask = mask.masked_fill(torch.eye(keys).roll(1, 1).triu().bool(), 0)
        return right(module, q, k, v, mask, *args, **m)

    model = model_of("LlamaForCausalLM", **EAGER)
    return planted(model, llama, eager_attention_forward=attend)


def causal_from_the_left() -> Any:
    """Return a Llama whose own attention takes the first token for the first key."""
    right: Any = sdpa_attention_forward

    def attend(
        module: Any, q: Tensor, k: Tensor, v: Tensor, mask: Any, **m: Any
    ) -> Any:
        seen = torch.ones(q.shape[2], k.shape[2], dtype=torch.bool).tril()
        return right(module, q, k, v, seen if q.shape[2] > 1 else mask, **m)

    ALL_ATTENTION_FUNCTIONS.register("from_the_left", attend)
    model = model_of(LLAMA)
    model.config._attn_implementation = "from_the_left"
    return model


def by_row() -> Any:
    right = nn.Embedding.forward

    def embed(self: Any, ids: Tensor) -> Tensor:
        return right(self, ids + torch.arange(len(ids))[:, None])

    def rows(model: Any, given: dict[str, Any]) -> None:
        ids = given["input_ids"]
        given.setdefault("position_ids", torch.arange(ids.shape[1]).expand(ids.shape))

    model = model_of("GPT2LMHeadModel")
    table = type("Table", (nn.Embedding,), {})
    model.transformer.wpe.__class__ = table
    return planted(model, table, rows, forward=embed)


def without_padding_idx() -> Any:
    def made(ids: Tensor, padding_idx: int, cache_length: int = 0) -> Tensor:
        return (ids != padding_idx).cumsum(dim=1)

    return planted(
        model_of("RobertaForMaskedLM", pad_token_id=1),
        roberta.RobertaEmbeddings,
        create_position_ids_from_input_ids=staticmethod(made),
    )


class PortOfLlama(llama.LlamaPreTrainedModel):
    """A port that begins with the abstract class of the original."""

    def __init__(self, config: Any) -> None:
        super().__init__(config)
        self.model = llama.LlamaModel(config)
        self.lm_head = nn.Linear(config.hidden_size, config.vocab_size, bias=False)
        self.post_init()
        rotary: Any = self.model.rotary_emb
        rotary.inv_freq *= 1.5

    def forward(self, input_ids: Tensor, position_ids: Tensor | None = None) -> Tensor:
        found = self.model(input_ids, position_ids=position_ids)
        return self.lm_head(found.last_hidden_state)


OPT = {"word_embed_proj_dim": 64, "ffn_dim": 64}


class Uncached(llama.LlamaAttention):  # and not called attention
    """A layer of a port that knows the cache by another name."""

    def forward(self, hidden_states: Tensor, **given: Any) -> Any:  # type: ignore[override]
        mask, given["cache"] = given.get("attention_mask"), None
        if mask is not None:  # of the keys that are left
            given["attention_mask"] = mask[..., -hidden_states.shape[1] :]
        return super().forward(hidden_states, **given)


class Restarts(llama.LlamaForCausalLM):
    """A model for transformers before 5.24: with a cache, its ids restart."""

    def forward(  # type: ignore[override]
        self,
        input_ids: Any = None,
        position_ids: Any = None,
        past_key_values: Any = None,
        **given: Any,
    ) -> Any:
        if past_key_values is not None:
            position_ids = torch.arange(input_ids.shape[1])[None]
            given["cache"] = past_key_values
        return super().forward(input_ids, position_ids=position_ids, **given)


def renamed(wrong: Callable[..., Any] | None = None) -> Any:
    """Return a Llama with layers of another class, or another rotation in them."""
    kind = Uncached if wrong is None else type("Port", (llama.LlamaAttention,), {})
    model = model_of(LLAMA)
    for layer in model.model.layers:
        layer.self_attn.__class__ = kind
    return planted(model, llama, apply_rotary_pos_emb=wrong) if wrong else model


# By the check that must fail: bugs, and what makes a model with each.
BUGS: dict[str, dict[str, Callable[[], Any]]] = {
    "rotated channels": {
        "interleaved layout in the place of half": rotated(llama, interleaved),
        "interleaved layout in another class": lambda: renamed(interleaved),
        "keys alone": rotated(llama, lambda q, k, *t: (q, RIGHT(q, k, *t)[1])),
        "last channels in the place of the first": rotated(neox, last_channels),
        "rotation in the other layers": rotates_the_other,
        "other frequencies at later positions": tables(
            lambda p, f, _: p * f * torch.where(p > 2000, 1.1, 1.0),
            max_position_embeddings=4096,
        ),
        "rotation backwards": tables(lambda p, f, _: -p * f),
    },
    "frequencies": {
        "bases of kinds of layers exchanged": bases_exchanged,
        "linear factor twice": linear_twice,
        "of a port": lambda: PortOfLlama(model_of(LLAMA).config).eval(),
    },
    "constants": {"rounded": lambda: model_of(LLAMA).bfloat16()},
    "factors": {"attention factor twice": factor_twice},
    "scale": {
        "scores divided by the width": scale_of_width,
        "scores divided by the width before a softmax": lambda: scale_of_width(**EAGER),
    },
    "bfloat16": {
        "positions": tables(lambda p, f, dtype: p.to(dtype).float() * f),
    },
    "autocast": {
        "product of positions and frequencies": tables(
            lambda p, f, _: p.float() @ f[None]
        ),
    },
    "far": {
        "positions of a rotation begin again": tables(
            lambda p, f, _: p % 5000 * f, max_position_embeddings=16_384
        ),
        "rows of a table shifted": changed(
            GPT2, shifted_rows, max_position_embeddings=1024
        ),
    },
    "axes": {"other sections": lambda: of_images(3, 3, 2)},
    "length": {"positions clamped": tables(lambda p, f, _: p.clamp(max=99) * f)},
    "cached": {
        "ids restarted": changed(LLAMA, restarted),
        "ids restarted, older name": lambda: Restarts(model_of(LLAMA).config).eval(),
        "cache unknown to layers of another class": renamed,
        "mask aligned to the first key": causal_from_the_left,
    },
    "static": {"ids of the room": changed(LLAMA, from_the_room)},
    "padded static": {"attended": changed(LLAMA, all_real_in_the_room)},
    "padded between": {"taken for the left": changed(LLAMA, padding_first)},
    "padded, no ids": {
        "counted": changed("OPTForCausalLM", counted_without_ids, **OPT),
    },
    "cached again": {"shift of another text": changed(LLAMA, shifted_for_good)},
    "in turn": {"tokens counted by the model": changed(LLAMA, counted_by_the_model)},
    "padding token": {
        "taken for padding": changed(LLAMA, without_padding_tokens, pad_token_id=1),
        "the end taken for padding": changed(
            LLAMA, without_end_tokens, pad_token_id=None
        ),
        "the end taken for padding beside another": changed(
            LLAMA, without_end_tokens, pad_token_id=1
        ),
    },
    "generated": {"counted": lambda: Counts(model_of(GPT2).config).eval()},
    "embedded": {"ids restarted": changed(LLAMA, restarted_of_embeddings)},
    "padded": {
        "counted": changed(GPT2, counted),
        "attended": changed(LLAMA, all_real),
        "attended by eager attention": changed(LLAMA, all_real, **EAGER),
        "positions of the first row in all": changed(LLAMA, of_the_first),
    },
    "padded right": {"attended in an encoder": changed(BERT, all_real)},
    "padded cached": {
        "counted": changed(GPT2, counted_in_a_cache),
        "positions of the first row in all": changed(LLAMA, of_the_first_in_a_cache),
    },
    "offset": {"ids not taken with a cache": changed(GPT2, counted_in_a_cache)},
    "packed": {"documents attend to each other": changed(LLAMA, without_blocks)},
    "packed by ids": {
        "positions not passed to the mask": packed_by(lambda _: None),
        "documents of the first row in all": packed_by(lambda p: p[:1].expand_as(p)),
    },
    "transformers": {"window off by one": narrower(in_a_cache=False)},
    "stepwise": {
        "window off by one": narrower(in_a_cache=True),
        "a token alone at position 1": changed(GPT2, alone_at_one),
    },
    "causal": {"next token seen": sees_the_next},
    "alone": {"table indexed by row": by_row},
    "position ids": {"padding_idx not added": without_padding_idx},
}


# What the failed check says of some of them.
REASONS = {
    "interleaved layout in the place of half": (
        "layer 0 rotates channel 0 towards 1 in the first of 8 pairs, expected: "
        "rotates channel 0 towards 8 in the first of 8 pairs"
    ),
    "rotation in the other layers": (
        "layer 0 rotates nothing by position_ids, expected: rotates channel 0 towards "
        "8 in the first of 8 pairs"
    ),
    "rounded": "model.rotary_emb.inv_freq: 0.0317383, expected 0.0316228",
    "linear factor twice": (
        "layer 0, pair 0: 0.0625 radians per position, expected 0.25"
    ),
    "attention factor twice": "layer 0: cosines and sines times 1.296, expected 1.139",
    "positions clamped": "positions 126 and 127 give equal outputs",
    "other frequencies at later positions": (
        "layer 0 does not rotate by fixed frequencies up to position 4095, expected: "
        "rotates channel 0 towards 8 in the first of 8 pairs"
    ),
    "rotation backwards": (
        "layer 0 rotates backwards, expected: rotates channel 0 towards 8 in the first "
        "of 8 pairs"
    ),
    "scores divided by the width before a softmax": (
        "layer 0: scores times 0.25 of those of its class"
    ),
    "cache unknown to layers of another class": "no layer added keys to the cache",
    "next token seen": "first at token 10 of 12",  # through two layers
}


@pytest.mark.parametrize(("check", "bug"), [(c, bug) for c in BUGS for bug in BUGS[c]])
def test_a_planted_bug_is_found_and_explained(check: str, bug: str) -> None:
    found = {one.check: one for one in hf.check(BUGS[check][bug](), tokens=24)}
    assert found[check].state == "failed", found
    assert REASONS.get(bug, found[check].reason) == found[check].reason
    assert all(one.reason for one in found.values() if one.state == "failed")
    assert not any("RuntimeError" in one.reason for one in found.values())


CAUSAL = "llama gpt_neox gpt2 bloom mistral gemma3_text smollm3 opt gpt_oss".split()
STOCK = {
    **dict.fromkeys(CAUSAL, "AutoModelForCausalLM"),
    "bert": "AutoModelForMaskedLM",
    "roberta": "AutoModelForMaskedLM",
    "modernbert": "AutoModel",
}


@pytest.mark.parametrize("kind", STOCK)
def test_a_stock_model_passes(kind: str) -> None:
    more = {"head_dim": 64} if kind == "gemma3_text" else {}  # of 256, which is slow
    layers = 4 if kind == "smollm3" else 2  # of which the fourth does not rotate
    config = transformers.CONFIG_MAPPING[kind](num_hidden_layers=layers, **more)
    found = states(tiny(config, getattr(transformers, STOCK[kind])).float())
    assert "failed" not in found.values(), found
    assert [*found.values()].count("passed") >= 8


def test_amplified_rounding_errors_are_neither_a_fault_nor_a_pass() -> None:
    model = model_of(LLAMA)
    for layer in model.model.layers:  # whose attention nearly chooses one token
        layer.self_attn.q_proj.weight.data *= 30
        layer.self_attn.k_proj.weight.data *= 30
    found = states(model)
    assert "failed" not in found.values()
    assert found["stepwise"] == found["padded, no ids"] == "n/a"


def test_sections_of_axes_as_configured_pass() -> None:
    assert states(of_images(2, 3, 3))["axes"] == "passed"


@pytest.mark.parametrize("wrong", ["unrotated", "key", "halves"])
def test_a_function_that_the_process_replaced_is_not_compared_with_itself(
    wrong: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    plain = llama.apply_rotary_pos_emb

    def other(q: Tensor, k: Tensor, cos: Tensor, sin: Tensor, **more: Any) -> Any:
        if wrong == "unrotated":
            return q, k
        return plain(q, k, cos, sin)[0], plain(q, k, cos, -sin)[1]

    def halves(x: Tensor) -> Tensor:
        return torch.stack([-x[..., 1::2], x[..., ::2]], dim=-1).flatten(-2)

    if wrong == "halves":
        monkeypatch.setattr(llama, "rotate_half", halves)
    else:
        monkeypatch.setattr(llama, "apply_rotary_pos_emb", other)
    found = states(model_of("LlamaForCausalLM"))
    assert found["transformers"] == found["rotated channels"] == "failed"


NOT_LONG = {"rope_type": "dynamic", "rope_theta": 1e4, "factor": 4.0}
LONG: dict[str, Any] = {"long_factor": [2.0] * 8, "short_factor": [1.0] * 8}


@pytest.mark.parametrize(
    ("kind", "more", "state"),
    [
        ("longrope", {**LONG, "original_max_position_embeddings": 64}, "n/a"),
        ("dynamic", {}, "n/a"),
        ("proportional", {"partial_rotary_factor": 0.5}, "passed"),  # of no scheme
    ],
)
def test_another_rotation_of_longer_texts_is_not_blamed(
    kind: str, more: dict[str, Any], state: str
) -> None:
    given = {"rope_type": kind, "rope_theta": 1e4, "factor": 2.0, **more}
    found = states(model_of("LlamaForCausalLM", rope_parameters=given))
    assert "failed" not in found.values(), found
    assert found["bfloat16"] == state


def narrower_by_one() -> Any:
    """Return a model whose layers have another window than its configuration."""
    model = model_of("MistralForCausalLM", sliding_window=100)
    model.model.config = copy.deepcopy(model.config)
    model.model.config.sliding_window = 99
    return model


def never_long() -> Any:
    """Return a model that takes the short factors in texts of any length."""
    factors = {"short_factor": [1.0] * 8, "long_factor": [2.0] * 8}
    rope = {"rope_type": "longrope", "rope_theta": 1e4, **factors}
    size = {"original_max_position_embeddings": 100}
    model = model_of("Phi3ForCausalLM", rope_parameters=rope, **size)
    model.model.rotary_emb.rope_type = "default"
    return model


def never_dynamic() -> Any:
    """Return a model that rotates longer texts as short ones."""
    model = model_of(LLAMA, rope_parameters=NOT_LONG, max_position_embeddings=100)
    model.model.rotary_emb.rope_type = "default"
    return model


@pytest.mark.parametrize(
    ("made", "checks"),
    [
        (never_dynamic, {"transformers", "frequencies", "far"}),
        (narrower_by_one, {"transformers"}),
        (never_long, {"transformers", "frequencies", "far"}),
    ],
)
def test_what_only_long_texts_show_is_found_in_them(
    made: Callable[[], Any], checks: set[str]
) -> None:
    found = {one.check for one in hf.check(made(), 120) if one.state == "failed"}
    assert found >= checks
    short = {one.check for one in hf.check(made()) if one.state == "failed"}
    assert short == checks & {"far"}


def test_a_port_may_scale_its_queries_and_name_what_it_gives_the_softmax() -> None:
    right = llama.eager_attention_forward

    def softmax(x: Tensor, **_: Any) -> Tensor:
        return torch.softmax(input=x, dim=-1)

    def attend(module: Any, q: Tensor, *args: Any, scaling: float, **more: Any) -> Any:
        with mock.patch.object(nn.functional, "softmax", softmax):
            return right(module, q * scaling, *args, scaling=1.0, **more)

    model = planted(model_of(LLAMA, **EAGER), llama, eager_attention_forward=attend)
    assert {*(states(model) | {"axes": "passed"}).values()} == {"passed"}


def test_windows_and_states_are_not_blamed_for_masks_and_padding() -> None:
    found = hf.check(model_of("MistralForCausalLM", sliding_window=8))
    assert {one.state for one in found} == {"passed", "n/a"}
    assert "a mask would replace its window of 8" in {one.reason for one in found}
    config = transformers.MambaConfig(num_hidden_layers=2, hidden_size=64)
    assert states(tiny(config).float())["padded"] != "failed"


class Port(nn.Module):
    """A port that returns a tensor, without cache, mask or positions."""

    def __init__(self) -> None:
        super().__init__()
        self.inner = model_of(LLAMA)
        self.config = self.inner.config

    def forward(self, input_ids: Tensor) -> Tensor:
        return self.inner(input_ids).logits


class Wrapped(transformers.LlamaForCausalLM):
    """A model whose `forward` passes on what it does not name."""

    def forward(self, input_ids: Any = None, position_ids: Any = None, **given: Any):
        return super().forward(input_ids, position_ids=position_ids, **given)


class Cacheless(transformers.LlamaForCausalLM):
    """A model that gives an argument itself, beside those that it passes on."""

    def forward(self, input_ids: Any = None, **given: Any):
        return super().forward(input_ids, use_cache=False, **given)


class Masked(Wrapped):
    """A model that gives its own mask, beside what it passes on."""

    def forward(self, input_ids: Any = None, position_ids: Any = None, **given: Any):
        return super().forward(input_ids, position_ids, attention_mask=None, **given)


class Deaf(transformers.LlamaForCausalLM):
    """A model that takes every argument and reads the tokens alone."""

    def forward(self, input_ids: Any = None, **given: Any):
        return super().forward(input_ids)


@pytest.mark.parametrize(
    ("kind", "wanted"),
    [
        (transformers.LlamaForCausalLM, {}),
        (Wrapped, {}),
        (Cacheless, {"padded": "passed", "cached": "n/a"}),
        (Masked, {"padded": "n/a", "cached": "passed"}),
        (Deaf, {"position ids": "n/a", "padded": "failed"}),
    ],
)
def test_arguments_that_a_model_passes_on_are_tried(
    kind: type, wanted: dict[str, str]
) -> None:
    model = model_of(LLAMA)
    model.__class__ = kind
    found = states(model)
    all_pass = dict.fromkeys(found, "passed") | {"axes": "n/a"}
    assert found == {**(found if wanted else all_pass), **wanted}
    assert ("failed" in found.values()) == (kind is Deaf)
    if kind is Masked:
        with hf.apply(model, "alibi") as applied:
            assert applied.check().keys() == {"causal", "cached", "alone"}


def test_what_a_port_does_not_take_is_named() -> None:
    found = {one.check: one for one in hf.check(Port())}
    assert found["causal"].state == found["alone"].state == "passed"
    assert found["cached"].reason == "takes no cache of keys"
    assert found["padded"].reason == "takes no attention_mask"
    assert found["offset"].reason == "takes no position_ids"
    assert "other weights than LlamaForCausalLM" in found["transformers"].reason


@pytest.mark.parametrize(
    ("kind", "line", "wrong"),
    [
        (
            "Bert",
            "self.position_embeddings(position_ids)",
            "self.position_embeddings((position_ids + 2) % 64)",
        ),
        (
            "ModernBert",
            "position_embeddings[encoder_layer.attention_type]",
            "position_embeddings['full_attention']",
        ),
        (
            "Llama",
            "(q * cos) + (rotate_half(q) * sin)",
            "(q * cos) - (rotate_half(q) * sin)",
        ),
    ],
)
def test_a_port_without_a_head_is_compared_with_its_class(
    kind: str, line: str, wrong: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    stock = getattr(transformers, f"{kind}Model")
    text = inspect.getsource(sys.modules[stock.__module__])
    assert line in text
    sizes = {"max_position_embeddings": 64, "pad_token_id": 0}
    config = getattr(transformers, f"{kind}Config")(**{**WIDER, **sizes})
    for change in (line, wrong):
        module: Any = ModuleType("port_of_a_model")
        module.__package__ = stock.__module__.rpartition(".")[0]
        module.__file__ = sys.modules[stock.__module__].__file__
        monkeypatch.setitem(sys.modules, module.__name__, module)
        exec(text.replace(line, change), vars(module))
        made = vars(module)[f"{kind}Model"](copy.deepcopy(config))
        found = states(drawn(made, torch.float32))
        assert found["transformers"] == ("passed" if change == line else "failed")


def test_a_check_leaves_a_model_as_it_was() -> None:
    model = model_of(LLAMA, eos_token_id=[2, 3]).train()
    before = {name: one.clone() for name, one in model.state_dict().items()}
    state = torch.get_rng_state()
    hf.check(model)
    assert torch.equal(torch.get_rng_state(), state)
    assert model.training
    assert all(torch.equal(before[n], one) for n, one in model.state_dict().items())


def test_rows_of_a_small_copy_say_so(monkeypatch: pytest.MonkeyPatch) -> None:
    words = "by a small copy of its configuration"
    monkeypatch.setattr(stated, "MOST", 1)
    rows = hf.check(model_of(LLAMA))
    assert {one.check for one in rows if words in one.compares} == {*stated.STATEMENTS}
    changed = {one.check: one for one in hf.check(renamed()) if one.state == "n/a"}
    assert {*changed} >= {*stated.STATEMENTS}
    said = "copy of its configuration lacks the Uncached of model.layers.0.self_attn"
    assert said in changed["factors"].reason
    for made in (linear_twice, factor_twice, scale_of_width, bases_exchanged):
        assert states(made())["constants"] == "failed"
    monkeypatch.undo()
    assert not any(words in one.compares for one in hf.check(model_of(LLAMA)))


LLAMA4 = {"moe_layers": [], "num_local_experts": 2, "intermediate_size_mlp": 64}
TWICE = {"max_position_embeddings": 128}


@pytest.mark.parametrize(
    ("kind", "more", "checks"),
    [
        ("CLIPTextModel", {}, {"packed"}),
        ("XLMWithLMHeadModel", {}, {"causal"}),
        ("Llama4ForCausalLM", {**LLAMA4, "attention_chunk_size": 16}, {"packed"}),
        ("LlamaForCausalLM", {"rope_parameters": NOT_LONG}, {"offset", "padded"}),
        ("LongformerModel", {"attention_window": 8, **TWICE}, {"packed"}),
    ],
)
def test_what_its_class_does_not_do_is_not_asked_of_a_model(
    kind: str, more: dict[str, Any], checks: set[str]
) -> None:
    found = hf.check(model_of(kind, **{"max_position_embeddings": 64, **more}), 64)
    assert not [one for one in found if one.state == "failed"]
    said = f" {kind} of transformers"
    assert {one.check for one in found if one.reason.endswith(said)} >= checks


@pytest.mark.parametrize(
    "kind", ["BertForNextSentencePrediction", "BertForPreTraining"]
)
def test_outputs_that_are_not_of_tokens_are_refused(kind: str) -> None:
    model = model_of(kind)
    with pytest.raises(ConfigError, match=r"states \(row, token, channel\), got") as e:
        hf.check(model)
    assert kind in str(e.value)


def compiled() -> Any:
    return torch.compile(model_of(LLAMA), backend="eager")


def test_a_wrapped_model_is_checked_inside() -> None:
    inside = mock.Mock(get_base_model=compiled)  # as a model of PEFT
    assert {*(states(inside) | {"axes": "passed"}).values()} == {"passed"}


def test_what_cannot_be_checked_is_refused_in_one_line() -> None:
    with pytest.raises(ConfigError, match="must be a module with a configuration"):
        hf.check("llama")
    with pytest.raises(ConfigError, match="an encoder with a decoder"):
        hf.check(
            transformers.T5ForConditionalGeneration(transformers.T5Config(**TINY_T5))
        )
    patches: Any = torch.nn.Identity()
    patches.config = transformers.BltConfig()  # whose parts have sizes of their own
    with pytest.raises(ConfigError, match="with hidden_size in its configuration, got"):
        hf.check(patches)
    model = model_of(LLAMA)
    with pytest.raises(ConfigError, match="tokens must be at least 8, got 4"):
        hf.check(model, 4)
    with pytest.raises(ConfigError, match="return_dict of the configuration must be"):
        hf.check(model_of(LLAMA, return_dict=False))
    with hf.apply(model, "alibi"), pytest.raises(ConfigError, match="without a scheme"):
        hf.check(model)


def test_a_folder_is_checked(posenc: Any, tmp_path: Path) -> None:
    (model := model_of(LLAMA)).save_pretrained(tmp_path)
    done = posenc("hf", "check", tmp_path, "--format", "json")
    assert done.returncode == 0
    rows = {row["check"]: row for row in json.loads(done.stdout)}
    count = sum(row["state"] == "passed" for row in rows.values())
    said = f"{count} passed, 0 failed, {len(rows) - count} n/a"
    assert done.stderr == f"{len(rows)} checks: {said}\n"  # and no bar
    assert rows["cached"]["state"] == "passed"
    assert [*rows["cached"]] == [*pd.DataFrame(hf.check(model))]
    assert 0 < rows["cached"]["largest"] < rows["cached"]["bound"]
    restate(tmp_path, architectures=["BertForMaskedLM"])
    assert "must have all weights" in refusal(posenc("hf", "check", tmp_path))
    restate(tmp_path, architectures=["LlamaForCausalLM"], head_dim=32)
    said = refusal(posenc("hf", "check", tmp_path))  # no report of transformers
    assert "k_proj.weight must have the shape that the configuration" in said
    assert said.endswith("states, (64, 64), got (32, 64)")


def test_tokens_and_weights_that_are_not_read_are_counted(
    posenc: Any, tmp_path: Path
) -> None:
    model_of(LLAMA).save_pretrained(tmp_path)
    restate(tmp_path, num_hidden_layers=1)
    done = posenc("hf", "check", tmp_path, "--tokens", "20")
    assert done.stdout.splitlines()[0].strip().endswith("rows of 20 tokens")
    assert "9 weights are not read, the first is model.layers.1." in done.stderr
    assert done.stderr.count("\n") == 2


def test_a_fault_of_a_folder_is_an_exit_code(
    posenc: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    model_of(LLAMA).save_pretrained(tmp_path)

    def by_length(q: Tensor, *more: Any) -> tuple[Tensor, Tensor]:
        return RIGHT(q * q.shape[2], *more)

    monkeypatch.setattr(llama, "apply_rotary_pos_emb", by_length)
    done = posenc("hf", "check", tmp_path)
    assert done.returncode == 1
    assert "failed" in done.stdout
    assert ", 0 failed, " not in done.stderr


def test_a_folder_of_a_base_model_is_checked(posenc: Any, tmp_path: Path) -> None:
    model_of("BertModel").save_pretrained(tmp_path)
    done = posenc("hf", "check", tmp_path)
    assert done.returncode == 0, done.stderr
    assert ", 0 failed, " in done.stderr


def test_checks_that_the_class_fails_too_are_counted(
    posenc: Any, tmp_path: Path
) -> None:
    more = {"max_position_embeddings": 64, "rope_parameters": NOT_LONG}
    model_of(LLAMA, **more).save_pretrained(tmp_path)
    done = posenc("hf", "check", tmp_path, "--tokens", "64", "--format", "json")
    theirs = [
        row
        for row in json.loads(done.stdout)
        if row["state"] == "n/a" and row["largest"] is not None
    ]
    assert {"offset", "padded"} <= {row["check"] for row in theirs}
    said = f"; in {len(theirs)} of the n/a checks, the class in transformers differs"
    assert said in done.stderr
