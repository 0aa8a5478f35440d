"""The rotary positions of a Hugging Face model, as a `rope` of this package.

A small random model of the same configuration is asked: what it does to queries and
keys is measured, the scheme that its configuration states is compared with that, and
then the logits under both.
"""

import inspect
import itertools
import math
from collections.abc import Container, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch
from transformers import MODEL_FOR_CAUSAL_LM_MAPPING as CAUSAL
from transformers import PreTrainedConfig

from posenc_compare.errors import ConfigError
from posenc_compare.hf.measure import EXACT, UNMET, Rotation, rotations
from posenc_compare.hf.places import WOULD_WORK, UnsupportedModelError
from posenc_compare.hf.proof import proof
from posenc_compare.hf.served import PROVED
from posenc_compare.hf.tiny import tiny
from posenc_compare.schemes import Geometry
from posenc_compare.schemes.rope import Rope
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
    "dynamic": ("ntk", {"factor": "factor"}),
    "longrope": (
        "longrope",
        {"factor": "factor", "original": "original_max_position_embeddings"},
    ),
}
SHARED = "shared_kv_states"  # keys and values of another model, which is drafted for
BY_LENGTH = ("dynamic", "longrope")  # types that turn otherwise in longer texts


@dataclass(frozen=True)
class Rotary:
    """The rotary positions of layers that rotate alike.

    Attributes:
        layers: all, the kind that the configuration names, or numbers as `0-2,4-6`.
        numbers: of these layers.
        rope_type: of transformers; none for layers that do not rotate.
        variant: the scheme of this package that the configuration states; None if
            there is none.
        apart: largest relative difference of a frequency, as measured, from that of
            the variant; None without one.
        attention_factor: of cosines and sines, as measured; None if it cannot be.
        pairs: of channels that are rotated.
        slow: pairs that do not finish a turn within the length the row is for.
        length: positions that the row is for.
        off: largest difference of a logit under the variant, in parts of the largest,
            with all these layers and with each alone; None if it was not compared.
        reason: why the variant is none, or is not proved; empty if it is proved.
        scale: of scores before the softmax, in parts of 1/sqrt(head_dim), as measured;
            None if it cannot be.
    """

    layers: str
    numbers: tuple[int, ...]
    rope_type: str
    variant: Variant | None
    apart: float | None
    attention_factor: float | None
    pairs: int
    slow: int
    length: int
    off: float | None = None
    reason: str = ""
    scale: float | None = None

    @property
    def label(self) -> str:
        """Return the label of the scheme that the layers have; n/a if unknown."""
        if self.rope_type == "none":
            return "nope"
        built = self.variant is not None and (self.apart or 0.0) <= EXACT
        return self.variant.label if built and self.variant else "n/a"


def rotary_of(config: PreTrainedConfig) -> list[Rotary]:
    """Return the rotary positions that a model with this configuration has.

    A small random model is built; no weights are read.

    Returns:
        One for all layers that rotate alike, and for each length from which they
        rotate otherwise; at the end one for the layers that do not rotate, if any.

    Raises:
        UnsupportedModelError: if the model has none, or cannot be asked.
    """
    _check_kind(config)
    model = tiny(config)
    length = getattr(config, "max_position_embeddings", None)
    length = length if isinstance(length, int) and length > 1 else 1024
    limits = length_limits(config)
    within = min([*limits, length])
    first = rotations(model, within)
    if not any(one.pairs for one in first):
        faults = [one.fault for one in first if one.fault not in ("", UNMET)]
        why = faults[0] if faults else "has no rotary positions"
        raise UnsupportedModelError(f"{type(model).__name__}: {why}; {WOULD_WORK}")
    rows = rotary_rows(first, config, within, model)
    if limits:
        beyond = length if length > within else 2 * within
        last = rotations(model, within, beyond - 1)
        rows += [
            replace(one, reason=one.reason or f"measured alone, above {within}")
            for one in rotary_rows(last, config, beyond)
            if one.pairs
        ]
    turning = [one for one in rows if one.pairs]
    return [*turning, *(one for one in rows if not one.pairs)]


def _check_kind(config: Any) -> None:
    """Refuse a model that is no causal model of text alone."""
    name = config.model_type
    if getattr(config, "is_encoder_decoder", False):
        raise UnsupportedModelError(
            f"{name}: has an encoder, and causal models alone can be described"
        )
    try:
        text = config.get_text_config()
    except ValueError as error:  # several texts
        raise UnsupportedModelError(
            f"{name}: reads several texts; one of its language models alone would work"
        ) from error
    if type(config) in CAUSAL and SHARED in _arguments(CAUSAL[type(config)]):
        raise UnsupportedModelError(
            f"{name}: drafts for another model, whose states and keys it reads; the "
            f"configuration of that model would work"
        )
    if text is not config:
        alone = (
            f"the configuration of its language model alone ({text.model_type})"
            if type(text) in CAUSAL
            else "the configuration of a causal model of text alone"
        )
        raise UnsupportedModelError(f"{name}: reads more than text; {alone} would work")


def _arguments(kind: Any) -> Container[str]:
    """Return the arguments of the forward pass of a class of models."""
    return inspect.signature(kind.forward).parameters


def _stated(config: Any) -> list[dict[str, Any]]:
    """Return the rope parameters that a configuration states, one for each kind."""
    given = getattr(config, "rope_parameters", None) or {}
    kinds = [one for one in given.values() if isinstance(one, dict)]
    return kinds or ([given] if given else [])


def length_limits(config: Any) -> list[int]:
    """Return the lengths above which a model rotates otherwise, in their order."""
    return sorted({limit for one in _stated(config) if (limit := _limit(one, config))})


def _limit(given: dict[str, Any], config: Any) -> int:
    """Return the length above which a type rotates otherwise; 0 if there is none."""
    if given.get("rope_type") not in BY_LENGTH:
        return 0
    own = given.get("original_max_position_embeddings")
    is_long = given["rope_type"] == "longrope"
    return (own if is_long else 0) or config.max_position_embeddings


def rotary_rows(
    measured: Sequence[Rotation], config: Any, length: int, model: Any = None
) -> list[Rotary]:
    """Return what was measured, a row for all layers that rotate alike.

    Args:
        measured: by layer.
        config: of the model.
        length: that the rows are for.
        model: that is compared with the scheme; None for no comparison.
    """
    groups: list[list[Rotation]] = []
    for one in measured:
        for group in groups:
            if _alike(group[0], one):
                group.append(one)
                break
        else:
            groups.append([one])
    rows = []
    for group in groups:
        one, numbers = group[0], tuple(each.layer for each in group)
        name = "all" if len(groups) == 1 else _named(numbers, config)
        if one.frequencies is None:
            why = one.fault
            kind = "n/a" if why else "none"
            rows.append(
                Rotary(name, numbers, kind, None, None, None, 0, 0, length, reason=why)
            )
            continue
        turns = length * one.frequencies / (2 * math.pi)
        slow = int((turns < 1).sum())
        row = Rotary(
            name, numbers, "n/a", None, None, one.factor, len(one.pairs), slow, length
        )
        row = replace(row, scale=one.scale)
        rows.append(_proved(_matched(row, one, config), model))
    return rows


def _alike(one: Rotation, other: Rotation) -> bool:
    """Return whether two layers do the same."""
    same = (one.pairs, one.fault, one.width) == (other.pairs, other.fault, other.width)
    if not same or one.frequencies is None or other.frequencies is None:
        return same
    factors = [each.factor or 0.0 for each in (one, other)]
    return math.isclose(*factors, rel_tol=EXACT) and torch.allclose(
        one.frequencies, other.frequencies, rtol=EXACT, atol=1e-8
    )


def _named(numbers: tuple[int, ...], config: Any) -> str:
    """Return the name of the kind of some layers, or else their numbers."""
    kinds = getattr(config, "layer_types", None) or []
    for kind in dict.fromkeys(kinds):
        if tuple(i for i, one in enumerate(kinds) if one == kind) == numbers:
            return str(kind)
    runs = itertools.groupby(enumerate(numbers), lambda pair: pair[1] - pair[0])
    ends = [[number for _, number in run] for _, run in runs]
    return ",".join(f"{e[0]}-{e[-1]}" if len(e) > 1 else f"{e[0]}" for e in ends)


def _layout(one: Rotation) -> str:
    """Return the layout of the pairs; a reason why it is none of ours, with a colon."""
    count = len(one.pairs)
    channels = sorted(itertools.chain(*one.pairs))
    if channels != list(range(2 * count)):
        return (
            f"reason: rotates {2 * count} channels from {channels[0]} to {channels[-1]}"
            f" of {one.width}, and rope here the first"
        )
    if one.pairs == tuple((i, i + count) for i in range(count)):
        return "half"
    if one.pairs == tuple((2 * i, 2 * i + 1) for i in range(count)):
        return "adjacent"
    if any(i > j for i, j in one.pairs):
        return "reason: turns pairs of channels from the second to the first"
    return (
        f"reason: pairs channels {one.pairs[0]} and {one.pairs[-1]}, in another order"
    )


def _matched(row: Rotary, one: Rotation, config: Any) -> Rotary:
    """Return a row with the scheme that the configuration states and comes nearest."""
    layout = _layout(one)
    if layout.startswith("reason: "):
        kinds = {given.get("rope_type", "default") for given in _stated(config)}
        kind = kinds.pop() if len(kinds) == 1 else "n/a"
        return replace(row, rope_type=kind, reason=layout.removeprefix("reason: "))
    found, faults = [], []
    fraction = 2 * len(one.pairs) / one.width
    for rule, options in _candidates(config, row.length, one):
        variant = Variant("rope", {**options, "layout": layout, "fraction": fraction})
        length = config_length(config)
        geometry = Geometry(one.width, heads=1, head_dim=one.width, length=length)
        try:
            scheme: Rope = variant.build(geometry)
        except ConfigError as error:
            faults.append(str(error))
            continue
        own, factor = scheme.angles(torch.ones(1))[0], scheme.attention_factor
        assert one.frequencies is not None
        noise = 2**-21 / row.length  # of angles in float32 at the last position
        apart = float((((one.frequencies - own).abs() - noise).clamp(0) / own).max())
        known = one.factor is not None
        if known and not math.isclose(factor, one.factor or 0.0, rel_tol=EXACT):
            faults.append(
                f"multiplies cosines and sines by {one.factor:.4g}, and rope here with "
                f"the same {options['scaling']} by {factor:.4g}"
            )
            row = replace(row, rope_type=rule)
            continue
        found.append((apart, rule, variant))
    if not found:
        whole = any(given.get("truncate") is False for given in _stated(config))
        why = "states truncate=False, and yarn of rope here rounds to whole pairs"
        why = why if whole else "states no rule that rope here has"
        why = faults[0] if faults else why
        return replace(row, reason=why)
    apart, rule, variant = min(found, key=lambda each: each[0])
    why = ""
    if not apart <= EXACT:
        why = f"the configuration states {variant.label}, off by {apart:.1e}"
    return replace(row, rope_type=rule, variant=variant, apart=apart, reason=why)


def config_length(config: Any) -> int:
    """Return the positions that a model is for; 1024 if it does not state them."""
    return getattr(config, "max_position_embeddings", None) or 1024


def _candidates(
    config: Any, length: int, one: Rotation
) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield types of transformers, and options of `rope` that could be them."""
    for given in _stated(config):
        kind = given.get("rope_type", "default")
        base, limit = given.get("rope_theta"), _limit(given, config)
        if base is None or given.get("truncate") is False:  # ours is rounded to pairs
            continue
        rule, names = RULES.get(kind, ("none", {}))
        options: dict[str, Any] = {"base": float(base), "scaling": rule}
        options |= {o: given[n] for o, n in names.items() if given.get(n) is not None}
        if kind == "dynamic" and length > limit:  # ntk of this length
            factor = float(options.get("factor", 1))
            options["factor"] = factor * (length / limit - 1) + 1
        elif kind == "dynamic":
            options = {"base": float(base), "scaling": "none"}
        if kind == "longrope":
            which = "long_factor" if length > limit else "short_factor"
            options["factors"] = "/".join(map(str, given.get(which) or []))
            whole = config.max_position_embeddings / limit
            options = {"factor": whole, **options, "original": limit}
        kinds = {"factor": float, "alpha": float, "beta": float, "original": int}
        yield kind, {o: kinds.get(o, lambda same: same)(v) for o, v in options.items()}
    # A base that stands elsewhere, for some layers alone.
    assert one.frequencies is not None
    fastest, slowest = (float(one.frequencies[i]) for i in (0, -1))
    count = len(one.pairs)
    if count > 1 and math.isclose(fastest, 1, rel_tol=EXACT) and slowest < 1:
        fitted = slowest ** (-count / (count - 1))
        for number in (*_numbers(config.to_dict()), 10_000.0):  # and the usual one
            if math.isclose(number, fitted, rel_tol=1e-4):
                yield "default", {"base": float(number), "scaling": "none"}
                break


def _numbers(given: Any) -> Iterator[float]:
    """Yield all numbers that stand in a configuration."""
    if isinstance(given, dict):
        given = [*given.values()]
    if isinstance(given, list | tuple):
        for one in given:
            yield from _numbers(one)
    elif isinstance(given, int | float) and not isinstance(given, bool):
        yield float(given)


def _proved(row: Rotary, model: Any) -> Rotary:
    """Return a row with what its scheme does to the logits of a model."""
    if row.variant is None or row.reason or model is None:
        return row
    try:
        off = max(proof(model, row.variant, row.numbers).values())
        without = proof(model, "nope", row.numbers, alone=False)["all"]
    except Exception as error:  # whatever a model makes of a scheme it cannot take
        known = isinstance(error, ConfigError)
        why = str(error) if known else "hf.apply fails on this model"
        return replace(row, variant=None, apart=None, reason=f"not compared: {why}")
    if not off <= PROVED:
        why = f"{row.variant.label} moves the logits by {off:.1e} of the largest"
        return replace(row, variant=None, apart=None, off=off, reason=why)
    if not without > PROVED:
        return replace(row, off=off, reason="the logits hardly depend on positions")
    return replace(row, off=off)
