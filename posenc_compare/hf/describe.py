"""Describe how a Hugging Face model places tokens.

A small random model of the same configuration is read. Each reader looks for one kind
of positions; the first that finds any describes a language model. Models of images and
sound, alone or inside a model of text, are described by all that is found.
"""

import copy
import inspect
from dataclasses import replace
from typing import Any

import torch
from transformers import MODEL_FOR_CAUSAL_LM_MAPPING as CAUSAL
from transformers import MODEL_MAPPING as MODELS
from transformers import AutoModel, AutoModelForCausalLM, PreTrainedConfig

from posenc_compare.errors import ConfigError
from posenc_compare.hf.axes import by_axis
from posenc_compare.hf.candidates import unscaled_length
from posenc_compare.hf.codes import codes_in
from posenc_compare.hf.described import Described
from posenc_compare.hf.equal import attends, biases_in, convolutions_in, placed_in
from posenc_compare.hf.measure import SCALED, UNMET, layers_of
from posenc_compare.hf.places import CONVERTED, UnsupportedModelError
from posenc_compare.hf.profiles import profiles_in
from posenc_compare.hf.readings import apart, mixes, outputs
from posenc_compare.hf.rotary import rotary_in, text_of
from posenc_compare.hf.senses import is_blind, parts_of, readable, small
from posenc_compare.hf.tables import level, tables_in
from posenc_compare.hf.tiny import given, tiny
from posenc_compare.variants import Variant, option_types

COUNTS = (160, 16)  # tokens of a text; the first that a model reads
TOKEN = 5  # of a text of equal tokens
SAME = 1e-6  # of outputs, in parts of the largest
ORDERED = "has layers other than attention, which see the order of tokens"
WITHOUT = "has no attention; its layers see the order of tokens"
INSIDE = "no class of transformers reads its images or sound alone"
UNKNOWN = "encodes positions in a way that this command does not find"


def describe(config: PreTrainedConfig) -> list[Described]:
    """Return how a model with this configuration places tokens.

    A small random model is built; no weights are read.

    Returns:
        A row for each group of layers that place tokens alike, or for each table.

    Raises:
        ConfigError: if `config` is not a configuration of transformers.
        UnsupportedModelError: if no small model can be built.
    """
    if not isinstance(config, PreTrainedConfig):
        own = isinstance(getattr(config, "config", None), PreTrainedConfig)
        cure = "; its .config would work" if own else ""
        raise ConfigError(
            f"config must be a configuration of transformers, got "
            f"{type(config).__name__}{cure}"
        )
    with torch.random.fork_rng(devices=[]):  # models are drawn
        rows = _of_all_parts(config)
    if note := unscaled_length(config):
        rows = [r.with_note(note) if r.kind == "rotary" else r for r in rows]
    if layout := getattr(config, CONVERTED, ""):
        note = f"weights are for layout={layout}, converted by `hf convert`"
        rows = [replace(one, note=note).with_note(one.note) for one in rows]
        rows = [_of_layout(one, layout) for one in rows]
    return rows


def _of_layout(row: Described, layout: str) -> Described:
    """Return a row whose scheme rotates pairs of a layout, if it rotates any."""
    own = row.variant
    if own is None or row.kind != "rotary" or "layout" not in option_types(own.name):
        return row
    return replace(row, variant=Variant(own.name, {**own.options, "layout": layout}))


def _of_all_parts(config: Any) -> list[Described]:
    """Return the rows of the language model, then of parts for images and sound.

    A model that reads images or sound alone is described as a whole. Parts that cannot
    be described have a row with the reason, if others can.
    """
    parts = [*parts_of(config)]
    if parts and not parts[0][0]:
        path, own, kind = parts.pop(0)
        takes = inspect.signature(kind.forward).parameters
        if text_of(own) is own and "input_ids" not in takes:
            return _sensed(path, own, kind)
    rows: list[Described] = []
    faults: dict[str, UnsupportedModelError] = {}
    for path, own, kind in [("language", *_language_model(config)), *parts]:
        try:
            if path == "language":
                rows += _described(tiny(own, kind), own)
            else:
                rows += _sensed(path, own, kind)
        except UnsupportedModelError as error:
            faults[path] = error
    if not rows:
        raise next(iter(faults.values()))
    return rows + [
        Described(f"{path}: all", "other", note=str(error).partition("; ")[0])
        for path, error in faults.items()
    ]


def _sensed(path: str, config: Any, kind: Any) -> list[Described]:
    """Return the rows of a model that reads images or sound; `path` is its place."""
    if kind is None:
        raise UnsupportedModelError(f"{config.model_type}: {INSIDE}")
    model, short = small(config, kind)
    rows = _senses(model) if attends(model) else [_nope(WITHOUT)]
    return [
        replace(one, layers=f"{path}: {one.layers}".strip(": ")).with_note(short)
        for one in rows
    ]


def _senses(model: Any) -> list[Described]:
    """Return the rows of a model with attention that reads images or sound."""
    given = readable(model)
    rows = [*codes_in(model, given), *placed_in(model, given)]
    rows += convolutions_in(model, given)
    if not rows and is_blind(model, given):
        return [_nope()]
    return rows or [Described("all", "other", note=UNKNOWN)]


def _language_model(config: Any) -> tuple[Any, Any]:
    """Return the configuration of the language model, and the class that builds it."""
    text, kind = text_of(config), None
    if text is None:  # several: as the encoder of text and the decoder of MusicGen
        text = config.get_text_config(decoder=True)
    if type(config) in CAUSAL and type(text) not in MODELS:  # as the text of Emu 3
        kind = CAUSAL[type(config)]
    elif type(text) not in MODELS:  # as the text of Ernie 4.5-VL, built in the whole
        text = config
    if getattr(text, "num_kv_shared_layers", 0):  # layers need keys of their own
        text = copy.deepcopy(text)
        text.num_kv_shared_layers = 0
    return text, kind or _class_of(text)


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
        rows = [] if crosses else rotary_in(model, config)
    except (UnsupportedModelError, AttributeError, NotImplementedError):
        # No queries and keys, no ids, or no single table of tokens.
        rows = []
    if any(one.kind == "rotary" for one in rows):
        return [by_axis(one, model) for one in rows]
    text = _text(model)
    if tables := tables_in(model, text):
        return [*tables, *_biases_beside(tables, model, text)]
    notes = {number: one.note for one in rows for number in one.numbers}
    if found := profiles_in(model, notes):
        return found
    if any(one.kind == "other" and one.note != UNMET for one in rows):
        return rows
    if found := biases_in(model, text):
        return found
    if any(one.note == SCALED for one in rows):
        return rows
    return [_unplaced(model, text)]


def _biases_beside(
    tables: list[Described], model: Any, text: dict[str, Any]
) -> list[Described]:
    """Return the biases of a model whose tables no longer distinguish positions."""
    level(model, {one.layers for one in tables})
    try:
        return biases_in(model, text)
    except Exception:  # whatever a model makes of plain attention
        return []


def _text(model: Any) -> dict[str, Any]:
    """Return a text of equal tokens, as long as the model reads."""
    try:
        known = getattr(model.get_input_embeddings(), "num_embeddings", TOKEN + 1)
    except NotImplementedError as error:
        raise UnsupportedModelError(
            f"{type(model).__name__}: must have one table of tokens, and has none"
        ) from error
    one = torch.tensor([[min(TOKEN, known - 1)]])
    for count in COUNTS:
        text = given(model, one.expand(1, count))
        try:
            with torch.no_grad():
                out = outputs(model(**text))
        except Exception:  # a table that is too short
            continue
        if out.numel():
            return text
    raise UnsupportedModelError(
        f"{type(model).__name__}: must read {COUNTS[-1]} tokens, and does not"
    )


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
