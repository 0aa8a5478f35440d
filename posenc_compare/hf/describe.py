"""Describe how a Hugging Face model places tokens.

A small random model of the same configuration is read. Each reader looks for one kind
of positions; the first that finds any describes the model.
"""

import copy
from dataclasses import replace
from typing import Any

import torch
from transformers import MODEL_FOR_CAUSAL_LM_MAPPING as CAUSAL
from transformers import MODEL_MAPPING as MODELS
from transformers import AutoModel, AutoModelForCausalLM, PreTrainedConfig

from posenc_compare.hf.axes import by_axis
from posenc_compare.hf.biases import biases_in
from posenc_compare.hf.described import Described
from posenc_compare.hf.measure import SCALED, UNMET, layers_of
from posenc_compare.hf.places import CONVERTED, NoAttentionError, UnsupportedModelError
from posenc_compare.hf.profiles import profiles_in
from posenc_compare.hf.readings import apart, mixes, outputs
from posenc_compare.hf.rotary import Rotary, drafts, rotary_in, text_of
from posenc_compare.hf.tables import tables_in
from posenc_compare.hf.tiny import books, given, tiny
from posenc_compare.variants import Variant

COUNTS = (160, 16)  # tokens of a text; the first that a model reads
TOKEN = 5  # of a text of equal tokens
SAME = 1e-6  # of outputs, in parts of the largest
ORDERED = "has layers other than attention, which see the order of tokens"
WITHOUT = "has no attention; its layers see the order of tokens"
UNKNOWN = "places tokens in a way that no reader here finds"


def describe(config: PreTrainedConfig) -> list[Described]:
    """Return how a model with this configuration places tokens.

    Small random models are built; no weights are read. A model of several parts, such
    as text and vision, is described part by part.

    Returns:
        A row for all layers, or a table, that place tokens alike.

    Raises:
        UnsupportedModelError: if no small model can be built.
    """
    with torch.random.fork_rng(devices=[]):  # models are drawn
        return _rows(config)


def _rows(config: PreTrainedConfig) -> list[Described]:
    rows: list[Described] = []
    for part, own, kind in _parts(config):
        try:
            found = _described(tiny(own, kind), own)
        except NoAttentionError:
            found = [_nope(WITHOUT)]
        except UnsupportedModelError as error:
            if not part:
                raise
            found = [Described("all", "other", note=str(error).partition("; ")[0])]
        rows += [replace(one, part=part) for one in found]
    if layout := getattr(config, CONVERTED, ""):
        note = f"weights are for {layout} pairs, converted by `hf convert`"
        rows = [replace(one, note=f"{note}; {one.note}".strip("; ")) for one in rows]
    return rows


def _parts(config: Any) -> list[tuple[str, Any, Any]]:
    """Return the parts of a model: name, configuration and class."""
    causal: Any = CAUSAL[type(config)] if type(config) in CAUSAL else None
    if drafts(config):
        return [("text", _unshared(config.get_text_config()), AutoModelForCausalLM)]
    whole = ("", _unshared(config), _class_of(config))
    if causal and causal.config_class is type(config) and text_of(config) is config:
        return [whole]
    found = []
    for name, one in vars(config).items():
        kind: Any = None
        if type(one) in MODELS:
            kind = _class_of(one)
        elif causal and type(one) is causal.config_class:
            kind = causal
        if kind is not None:
            found.append((name.removesuffix("_config"), _unshared(one), kind))
    return found or [whole]


def _unshared(config: Any) -> Any:
    """Return a configuration whose layers have keys of their own."""
    if getattr(config, "num_kv_shared_layers", 0):
        config = copy.deepcopy(config)
        config.num_kv_shared_layers = 0
    return config


def _class_of(config: Any) -> Any:
    """Return the class that builds a model; with its encoder if that reads text."""
    if type(config) not in CAUSAL:
        return AutoModel
    whole: Any = MODELS[type(config)] if type(config) in MODELS else None
    crosses = getattr(config, "is_encoder_decoder", False)
    if crosses and getattr(whole, "main_input_name", "") == "input_ids":
        return AutoModel
    return AutoModelForCausalLM


def _described(model: Any, config: Any) -> list[Described]:
    """Return the description of a model, by the first reader that finds positions."""
    try:
        crosses = getattr(model.config, "is_encoder_decoder", False)
        rotary = [] if crosses else rotary_in(model, config)
    except (UnsupportedModelError, AttributeError):  # no queries and keys, or ids
        rotary = []
    rows = [by_axis(_rotating(one), one, model) for one in rotary]
    if any(one.kind == "rotary" for one in rows):
        return rows
    text, count = _text(model)
    if found := tables_in(model, text, count):
        return found
    notes = {number: one.reason for one in rotary for number in one.numbers}
    if found := profiles_in(model, notes):
        return found
    if any(note not in ("", UNMET) for note in notes.values()):
        return rows
    if found := biases_in(model, text, count):
        return found
    return [_unplaced(model, text)]


def _text(model: Any) -> tuple[dict[str, Any], int]:
    """Return a text of equal tokens, as long as the model reads, and its length."""
    known = getattr(model.get_input_embeddings(), "num_embeddings", TOKEN + 1)
    one = torch.tensor([[min(TOKEN, known - 1)]])
    for count in COUNTS:
        text = given(model, one.expand(books(model.config), count))
        try:
            with torch.no_grad():
                model(**text)
        except Exception:  # a table that is too short
            continue
        return text, count
    raise UnsupportedModelError(
        f"{type(model).__name__}: must read {COUNTS[-1]} tokens, and does not"
    )


def _rotating(one: Rotary) -> Described:
    """Return the description of layers whose rotation was measured."""
    if not one.pairs:
        nope = not one.reason or one.reason == SCALED
        kind, variant = ("none", Variant("nope")) if nope else ("other", None)
        return Described(one.layers, kind, variant=variant, note=one.reason)
    measured = {
        "type": one.rope_type,
        "length": one.length,
        "pairs": one.pairs,
        "slow pairs": one.slow,
        "attention factor": one.attention_factor,
        "softmax factor": one.scale,
    }
    variant = None if one.label == "n/a" else one.variant
    row = Described(one.layers, "rotary", measured, variant)
    return replace(row, off=one.apart, logits_off=one.off, note=one.reason)


def _unplaced(model: Any, text: dict[str, Any]) -> Described:
    """Return the description of a model without positions that a reader finds."""
    with torch.no_grad():
        out = outputs(model(**text))[0]
    if apart(out, out[:1].expand_as(out)) < SAME * out.abs().max():
        return _nope()
    if not layers_of(model):
        return _nope(WITHOUT)
    if mixes(model):
        return _nope(ORDERED)
    return Described("all", "other", note=UNKNOWN)


def _nope(note: str = "") -> Described:
    return Described("all", "none", variant=Variant("nope"), note=note)
