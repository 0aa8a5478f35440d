"""The rotary positions of a Hugging Face model, as a `rope` of this package.

A small random model of the same configuration is asked: what it does to queries and
keys is measured, the scheme that its configuration states is compared with that, and
then the logits under both.
"""

import itertools
import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from torch import nn
from transformers import MODEL_FOR_CAUSAL_LM_MAPPING as CAUSAL
from transformers import PreTrainedConfig

from posenc_compare.errors import ConfigError
from posenc_compare.hf.candidates import (
    candidates,
    config_length,
    length_limits,
    turning,
)
from posenc_compare.hf.described import Described
from posenc_compare.hf.measure import (
    EXACT,
    OTHERWISE,
    SCALED,
    UNMET,
    Rotation,
    alike,
    layers_of,
    rotations,
)
from posenc_compare.hf.places import WOULD_WORK, UnsupportedModelError, check_converted
from posenc_compare.hf.proof import PROVED, proof
from posenc_compare.hf.tiny import tiny
from posenc_compare.variants import Variant

WEIGHTED = "multiplies channels by weights after the rotation, and rope here does not"
DEEP = "rounding grows from layer to layer"
CHANNELS = "rotates other pairs of channels than any scheme here"
BACKWARDS = "rotates backwards: equals the scheme at negated positions"
SHORT = 1024  # positions in which queries are not scaled yet


def one_rope(config: Any) -> tuple[Variant, str, int]:
    """Return the scheme of a causal model that has one kind of rotary positions.

    Returns:
        The scheme; its type in transformers; the positions that the model is for.

    Raises:
        UnsupportedModelError: if the model has none or several, or cannot be measured.
    """
    check_converted(config)
    check_text(config)
    model = tiny(config)
    rows = rotary_in(model, config)
    if not any(row.kind == "rotary" for row in rows):
        faults = [row.note for row in rows if row.note not in ("", UNMET)]
        why = faults[0] if faults else "has no rotary positions"
        raise UnsupportedModelError(f"{type(model).__name__}: {why}; {WOULD_WORK}")
    turning = [row for row in rows if row.kind != "none"]
    first = turning[0]
    if len(turning) != 1 or first.variant is None or first.note:
        kinds = [(row.measured.get("type", "n/a"), row.layers) for row in turning]
        found = ", ".join(f"{kind} ({layers})" for kind, layers in kinds)
        why = next((f": {row.note}" for row in turning if row.note), "")
        raise UnsupportedModelError(
            f"model must have one kind of rotary positions, which `rope` has too, got "
            f"{found}{why}"
        )
    return first.variant, str(first.measured["type"]), config_length(config)


def check_text(config: Any) -> None:
    """Refuse a configuration that is of no causal model of text alone."""
    name, text = config.model_type, text_of(config)
    if getattr(config, "is_encoder_decoder", False):
        raise UnsupportedModelError(
            f"{name}: has an encoder; a causal model of text alone would work"
        )
    if text is not config:
        known = type(text) in CAUSAL
        alone = f"its language model alone ({text.model_type})" if known else "another"
        raise UnsupportedModelError(
            f"{name}: must be a causal model of text alone; {alone} would work"
        )


def text_of(config: Any) -> Any:
    """Return the configuration of the language model; None if there are several."""
    try:
        return config.get_text_config()
    except ValueError:
        return None


def rotary_in(model: Any, config: PreTrainedConfig) -> list[Described]:
    """Return what the layers of a small random model rotate.

    Returns:
        A row for all layers that rotate alike, and for each length from which they
        rotate otherwise. Rows of layers without rotation come last.
    """
    length = config_length(config)
    limits = length_limits(config)
    within = min([*limits, length])
    rows = rotary_rows(_measured(model, within), config, within, model)
    if limits and any(row.kind == "rotary" for row in rows):
        beyond = length if length > within else 2 * within
        last, later = (rotations(model, within, n - 1) for n in (beyond, 2 * beyond))
        where = f"above {within}"
        if not all(map(alike, last, later)):
            where = f"at {beyond}; it changes with the length of the text"
        rows += [
            replace(row, note=row.note or f"measured alone, {where}")
            for row in rotary_rows(last, config, beyond)
            if row.kind == "rotary"
        ]
    return sorted(rows, key=lambda row: row.kind != "rotary")


def _measured(model: Any, length: int) -> list[Rotation]:
    """Return the rotations of all layers, with a note of what else some do to queries.

    Weights after a rotation, and a scale that grows with the position, hide it: it is
    measured again without them.
    """
    found = rotations(model, length)
    notes = {one.layer: SCALED for one in found if one.fault == SCALED}
    if faulty := {one.layer for one in found if one.fault.endswith(OTHERWISE)}:
        _level(model)
        found = rotations(model, length)
        cured = [o.layer for o in found if o.layer in faulty and not o.fault]
        notes |= dict.fromkeys(cured, WEIGHTED)
    if SCALED in notes.values() and length > SHORT:
        short = {one.layer: one for one in rotations(model, SHORT)}
        found = [short[o.layer] if o.fault == SCALED else o for o in found]
    still = {"fault": "", "factor": 1.0}
    found = [replace(one, **still) if one.fault == SCALED else one for one in found]
    if getattr(model.config, "attn_temperature_tuning", False):  # as Llama 4 counts
        unturned = [o.layer for o in found if not o.pairs and not o.fault]
        notes |= dict.fromkeys(unturned, SCALED)
    return [replace(one, note=notes.get(one.layer, "")) for one in found]


def _level(model: nn.Module) -> None:
    """Give all channels the same weight after the projections of attention."""
    for attention in layers_of(model):
        for name, weight in attention.named_parameters():
            if weight.dim() == 1 and not name.endswith("bias"):
                weight.data.fill_(weight.data.mean())


def rotary_rows(
    measured: Sequence[Rotation], config: Any, length: int, model: Any = None
) -> list[Described]:
    """Return what was measured, a row for all layers that rotate alike.

    A model, if there is one, is compared with itself under the scheme of each row.
    """
    groups: list[list[Rotation]] = []
    for one in measured:
        group = next((group for group in groups if alike(group[0], one)), [])
        if not group:
            groups.append(group)
        group.append(one)
    rows = []
    for group in groups:
        one, numbers = group[0], tuple(each.layer for each in group)
        name = "all" if len(groups) == 1 else layers_text(numbers, config)
        if one.fault:
            row = Described(name, "other", note=one.fault)
        elif not one.pairs:
            row = Described(name, "none", variant=Variant("nope"), note=one.note)
        else:
            row = _proved(_matched(name, one, length, config), numbers, model)
            row = replace(row, note=row.note or one.note)
        rows.append(replace(row, numbers=numbers))
    return rows


def layers_text(numbers: tuple[int, ...], config: Any) -> str:
    """Return the kind of some layers by its name, or else their numbers as `0-2,4`."""
    kinds = getattr(config, "layer_types", None) or []
    for kind in dict.fromkeys(kinds):
        if tuple(i for i, one in enumerate(kinds) if one == kind) == numbers:
            return str(kind)
    runs = itertools.groupby(enumerate(numbers), lambda pair: pair[1] - pair[0])
    ends = [[number for _, number in run] for _, run in runs]
    return ",".join(f"{e[0]}-{e[-1]}" if len(e) > 1 else f"{e[0]}" for e in ends)


def _matched(name: str, one: Rotation, length: int, config: Any) -> Described:
    """Return a row with the nearest of the schemes that the configuration states."""
    turns = length * one.frequencies / (2 * math.pi)
    measured: dict[str, float | int | str | None] = {
        "type": "n/a",
        "length": length,
        "pairs": len(one.pairs),
        "slow pairs": int((turns < 1).sum()),
        "attention factor": one.factor,
        "softmax factor": one.scale,
    }
    frequencies = tuple(one.frequencies.tolist())
    row = Described(name, "rotary", measured, frequencies=frequencies)
    found, why = [], ""
    size = config_length(config)
    backwards = all(first > second for first, second in one.pairs)
    if backwards:
        one = replace(one, pairs=tuple((i, j) for j, i in one.pairs))
    for rule, variant in candidates(config, length, one):
        measured["type"] = rule
        try:
            own = turning(variant, one.width, size)
        except ConfigError as error:
            why = why or str(error)
            continue
        if own.pairs != one.pairs:
            why = why or CHANNELS
            continue
        noise = 2**-21 / length  # of angles in float32 at the last position
        off = (one.frequencies - own.frequencies).abs() - noise
        most = float((off.clamp(0) / own.frequencies).max())
        wanted = own.factor or 1.0
        factor = wanted if one.factor is None else one.factor
        if not math.isclose(factor, wanted, rel_tol=EXACT):
            why = why or (
                f"multiplies cosines and sines by {factor:.4g}, and {variant.label} by "
                f"{wanted:.4g}"
            )
            continue
        found.append((most, rule, variant))
    if not found:
        return replace(row, note=why or "states no rule that a scheme here has")
    most, measured["type"], variant = min(found, key=lambda each: each[0])
    base = variant.options.get("base", 10_000.0)
    measured["base"] = base if isinstance(base, float) else None
    if not most <= EXACT:
        why = f"the configuration states {variant.label}, off by {most:.1e}"
        return replace(row, off=most, note=why)
    return replace(row, variant=variant, off=most, note=BACKWARDS if backwards else "")


def _proved(row: Described, numbers: tuple[int, ...], model: Any) -> Described:
    """Return a row with what its scheme does to the logits of a model."""
    if row.variant is None or row.note or model is None:
        return row
    try:
        found = proof(model, row.variant, numbers)
        off = max(found.values())
        without = proof(model, "nope", numbers, alone=False)["all"]
    except Exception as error:  # whatever a model makes of a scheme it cannot take
        known = isinstance(error, ConfigError)
        why = str(error) if known else "hf.apply fails on this model"
        return replace(row, note=f"logits not compared: {why}")
    if not off <= PROVED and found[max(numbers)] <= PROVED:
        why = f"logits compared only with the scheme in the last layer: {DEEP}"
        return replace(row, logits_off=found[max(numbers)], note=why)
    if not off <= PROVED:
        why = f"{row.variant.label} moves the logits by {off:.1e} of the largest"
        return replace(row, variant=None, off=None, logits_off=off, note=why)
    if not without > PROVED:
        row = replace(row, note="the logits hardly depend on positions")
    return replace(row, logits_off=off)
