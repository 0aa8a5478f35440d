"""The rotary positions of a Hugging Face model, as a `rope` of this package.

A small random model of the same configuration is asked: what it does to queries and
keys is measured, the scheme that its configuration states is compared with that, and
then the logits under both.
"""

import inspect
import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor, nn
from transformers import MODEL_FOR_CAUSAL_LM_MAPPING as CAUSAL
from transformers import PreTrainedConfig

from posenc_compare.errors import ConfigError
from posenc_compare.hf.apply import PROVED, proof
from posenc_compare.hf.candidates import candidates, length_limits, turning
from posenc_compare.hf.measure import (
    EXACT,
    SCALED,
    UNMET,
    WEIGHTED,
    Rotation,
    layers_of,
    rotations,
)
from posenc_compare.hf.places import WOULD_WORK, UnsupportedModelError, check_converted
from posenc_compare.hf.sizes import config_length, geometry_of
from posenc_compare.hf.tiny import tiny
from posenc_compare.schemes import Call, Scheme
from posenc_compare.schemes.wrapper import Wrapper
from posenc_compare.variants import Variant

SHARED = "shared_kv_states"
DEEP = "rounding grows from layer to layer"
BACKWARDS = "rotates backwards: equals the scheme at negated positions"
SHORT = 1024  # positions in which queries are not scaled yet


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
        reason: why the variant is none, or is not proved, or acts otherwise; empty if
            it is proved.
        scale: of scores before the softmax, in parts of 1/sqrt(head_dim), as measured;
            None if it cannot be.
    """

    layers: str
    numbers: tuple[int, ...]
    rope_type: str
    variant: Variant | None = None
    apart: float | None = None
    attention_factor: float | None = None
    pairs: int = 0
    slow: int = 0
    length: int = 0
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
    rows = rotary_in(model, config)
    if not any(one.pairs for one in rows):
        faults = [one.reason for one in rows if one.reason not in ("", UNMET)]
        why = faults[0] if faults else "has no rotary positions"
        raise UnsupportedModelError(f"{type(model).__name__}: {why}; {WOULD_WORK}")
    return rows


def rotary_in(model: Any, config: PreTrainedConfig) -> list[Rotary]:
    """Return what the layers of a small random model rotate, as `rotary_of`.

    Rows of layers without rotation come last.
    """
    length = config_length(config)
    limits = length_limits(config)
    within = min([*limits, length])
    rows = rotary_rows(_measured(model, within), config, within, model)
    if limits and any(one.pairs for one in rows):
        beyond = length if length > within else 2 * within
        last = rotations(model, within, beyond - 1)
        rows += [
            replace(one, reason=one.reason or f"measured alone, above {within}")
            for one in rotary_rows(last, config, beyond)
            if one.pairs
        ]
    rotating = [one for one in rows if one.pairs]
    return [*rotating, *(one for one in rows if not one.pairs)]


def _measured(model: Any, length: int) -> list[Rotation]:
    """Return the rotations of all layers, with a note of what else some do to queries.

    Weights after a rotation, and a scale that grows with the position, hide it: it is
    measured again without them.
    """
    found = rotations(model, length)
    notes = {one.layer: one.fault for one in found if one.fault in (WEIGHTED, SCALED)}
    if WEIGHTED in notes.values():
        for module in layers_of(model):
            _level(module)
        found = rotations(model, length)
    if SCALED in notes.values() and length > SHORT:
        short = {one.layer: one for one in rotations(model, SHORT)}
        found = [short[o.layer] if o.fault == SCALED else o for o in found]
    still = {"fault": "", "factor": 1.0}
    found = [replace(one, **still) if one.fault == SCALED else one for one in found]
    return [replace(one, note=notes.get(one.layer, "")) for one in found]


def _level(attention: nn.Module) -> None:
    """Give all channels the same weight after the projections of an attention."""
    for name, weight in attention.named_parameters():
        if weight.dim() == 1 and not name.endswith("bias"):
            weight.data.fill_(weight.data.mean())


def one_rope(config: Any) -> tuple[Rotary, Variant]:
    """Return the rotary positions of a model that has one kind, and their scheme."""
    check_converted(config)
    turning = [one for one in rotary_of(config) if one.rope_type != "none"]
    first = turning[0]
    if len(turning) == 1 and first.apart is not None and first.apart > EXACT:
        raise UnsupportedModelError(
            f"model must build the frequencies that its configuration states, got "
            f"some that are off by {first.apart:.1e}; `hf describe` shows them"
        )
    if len(turning) != 1 or first.variant is None or first.reason:
        found = ", ".join(f"{one.rope_type} ({one.layers})" for one in turning)
        why = next((f": {one.reason}" for one in turning if one.reason), "")
        raise UnsupportedModelError(
            f"model must have one kind of rotary positions, which `rope` has too, got "
            f"{found}{why}"
        )
    return first, first.variant


def _check_kind(config: Any) -> None:
    """Refuse a model that is no causal model of text alone."""
    name = config.model_type
    if getattr(config, "is_encoder_decoder", False):
        raise UnsupportedModelError(
            f"{name}: has an encoder, and causal models alone can be described"
        )
    text = text_of(config)
    if text is None:
        raise UnsupportedModelError(
            f"{name}: reads several texts; one of its language models alone would work"
        )
    if drafts(config):
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


def text_of(config: Any) -> Any:
    """Return the configuration of the language model; None if there are several."""
    try:
        return config.get_text_config()
    except ValueError:
        return None


def drafts(config: Any) -> bool:
    """Return whether a model takes keys and values of the one that it drafts for."""
    kind: Any = CAUSAL[type(config)] if type(config) in CAUSAL else None
    return kind is not None and SHARED in inspect.signature(kind.forward).parameters


def rotary_rows(
    measured: Sequence[Rotation], config: Any, length: int, model: Any = None
) -> list[Rotary]:
    """Return what was measured, a row for all layers that rotate alike.

    A model, if there is one, is compared with itself under the scheme of each row.
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
        name = "all" if len(groups) == 1 else layers_text(numbers, config)
        kind = "n/a" if one.fault or one.pairs else "none"
        row = Rotary(name, numbers, kind, length=length, reason=one.fault)
        if one.frequencies is not None:
            turns = length * one.frequencies / (2 * math.pi)
            row = replace(
                row,
                attention_factor=one.factor,
                pairs=len(one.pairs),
                slow=int((turns < 1).sum()),
                scale=one.scale,
            )
            row = _proved(_matched(row, one, config), model)
        rows.append(replace(row, reason=row.reason or one.note))
    return rows


def _alike(one: Rotation, other: Rotation) -> bool:
    """Return whether two layers do the same."""
    first, second = ((r.pairs, r.width, r.fault, r.note) for r in (one, other))
    same = first == second
    if not same or one.frequencies is None or other.frequencies is None:
        return same
    factors = [each.factor or 0.0 for each in (one, other)]
    return math.isclose(*factors, rel_tol=EXACT) and torch.allclose(
        one.frequencies, other.frequencies, rtol=EXACT, atol=1e-8
    )


def layers_text(numbers: tuple[int, ...], config: Any) -> str:
    """Return the kind of some layers by its name, or else their numbers as `0-2,4`."""
    kinds = getattr(config, "layer_types", None) or []
    for kind in dict.fromkeys(kinds):
        if tuple(i for i, one in enumerate(kinds) if one == kind) == numbers:
            return str(kind)
    runs = itertools.groupby(enumerate(numbers), lambda pair: pair[1] - pair[0])
    ends = [[number for _, number in run] for _, run in runs]
    return ",".join(f"{e[0]}-{e[-1]}" if len(e) > 1 else f"{e[0]}" for e in ends)


class _Backwards(Wrapper):
    """A scheme at negated positions."""

    def query(self, q: Tensor, positions: Tensor, call: Call | None = None) -> Tensor:
        return super().query(q, -positions, call)

    def key(self, k: Tensor, positions: Tensor, call: Call | None = None) -> Tensor:
        return super().key(k, -positions, call)


def _matched(row: Rotary, one: Rotation, config: Any) -> Rotary:
    """Return a row with the nearest of the schemes that the configuration states."""
    found, faults = [], []
    size = config_length(config)
    backwards = all(first > second for first, second in one.pairs)
    if backwards:
        one = replace(one, pairs=tuple((i, j) for j, i in one.pairs))
    for rule, variant in candidates(config, row.length, one):
        row = replace(row, rope_type=rule)
        try:
            own = turning(variant, one.width, size)
        except ConfigError as error:
            faults.append(str(error))
            continue
        if own.pairs != one.pairs:
            faults.append(_channels(one))
            continue
        assert one.frequencies is not None
        noise = 2**-21 / row.length  # of angles in float32 at the last position
        off = (one.frequencies - own.frequencies).abs() - noise
        apart = float((off.clamp(0) / own.frequencies).max())
        factor = own.factor if one.factor is None else one.factor
        if not math.isclose(factor, own.factor, rel_tol=EXACT):
            faults.append(
                f"multiplies cosines and sines by {factor:.4g}, and {variant.label} by "
                f"{own.factor:.4g}"
            )
            continue
        found.append((apart, rule, variant))
    if not found:
        why = faults[0] if faults else "states no rule that a scheme here has"
        return replace(row, reason=why)
    apart, rule, variant = min(found, key=lambda each: each[0])
    why = BACKWARDS if backwards else ""
    if not apart <= EXACT:
        why = f"the configuration states {variant.label}, off by {apart:.1e}"
    return replace(row, rope_type=rule, variant=variant, apart=apart, reason=why)


def _channels(one: Rotation) -> str:
    """Return which channels are rotated, if no scheme here rotates the same."""
    channels = sorted(itertools.chain(*one.pairs))
    return (
        f"rotates {len(channels)} channels from {channels[0]} to {channels[-1]} of "
        f"{one.width}, the first with {one.pairs[0][1]}, as no scheme here does"
    )


def _proved(row: Rotary, model: Any) -> Rotary:
    """Return a row with what its scheme does to the logits of a model."""
    if row.variant is None or row.reason not in ("", BACKWARDS) or model is None:
        return row
    scheme: Variant | Scheme = row.variant
    try:
        if row.reason == BACKWARDS:
            geometry = geometry_of(model.config)
            scheme = _Backwards(geometry, scheme.build(geometry))
        found = proof(model, scheme, row.numbers)
        off = max(found.values())
        without = proof(model, "nope", row.numbers, alone=False)["all"]
    except Exception as error:  # whatever a model makes of a scheme it cannot take
        known = isinstance(error, ConfigError)
        why = str(error) if known else "hf.apply fails on this model"
        return replace(row, reason=row.reason or f"logits not compared: {why}")
    if not off <= PROVED and found[max(row.numbers)] <= PROVED:
        why = f"logits not compared but under the last layer: {DEEP}"
        return replace(row, off=found[max(row.numbers)], reason=why)
    if not off <= PROVED:
        why = f"{row.variant.label} moves the logits by {off:.1e} of the largest"
        return replace(row, variant=None, apart=None, off=off, reason=why)
    if not without > PROVED:
        return replace(row, off=off, reason="the logits hardly depend on positions")
    return replace(row, off=off)
