"""Put a positional scheme into a Hugging Face causal model, checked by its logits.

Before a model gets a scheme, a small random model of its class and configuration must
have the same logits through this attention as by itself. Each configuration is tried
once.
"""

import copy
import warnings
from collections.abc import Iterable
from typing import Any

import torch
from transformers import PreTrainedModel

from posenc_compare.hf.applied import Applied
from posenc_compare.hf.candidates import (
    config_length,
    geometry_of,
    length_limits,
    turning,
)
from posenc_compare.hf.described import Described
from posenc_compare.hf.measure import alike, meet, rotations
from posenc_compare.hf.places import CONVERTED, WOULD_WORK, UnsupportedModelError
from posenc_compare.hf.proof import PROVED, logits_of, moved, random_tokens
from posenc_compare.hf.rotary import rotary_rows
from posenc_compare.hf.tiny import tiny
from posenc_compare.schemes import Scheme, Variant
from posenc_compare.schemes.shared.rotation import Rotation
from posenc_compare.schemes.shared.scaling import DEFAULTS
from posenc_compare.variants import labelled, option_types

SINES = "must give its layers cosines before sines, and gives sines first"
PLAIN = ("eager", "sdpa")  # attention that a model on the CPU can have

_OWN: dict[str, list[Described]] = {}  # rotations, by configuration
_KNOWN: dict[tuple[Any, ...], str] = {}  # what is wrong, by class and configuration


def apply(
    model: PreTrainedModel,
    scheme: str | Variant | Scheme,
    *,
    layers: Iterable[int] | None = None,
    keep_rotary: bool = False,
    length: int | None = None,
    generator: torch.Generator | None = None,
) -> Applied:
    """Replace the rotary positions of a model by a scheme.

    The weights stay as they are; parameters of the scheme become parameters of the
    model. `save_pretrained` writes them, or a marker tensor if there are none. Loading
    reports either as an unexpected key: apply the scheme again, and then call
    `load_state_dict`.

    Args:
        model: a causal model whose attention goes through `AttentionInterface`, fresh
            or pretrained.
        scheme: a label such as `alibi` or `rope:base=500000`, a variant, or a scheme
            that was built for the model's sizes. Options that are left out have the
            defaults of the scheme, but a scaling counts from the length that the
            configuration states as trained. A warning names omitted options in which
            the model's own rotation differs.
        layers: numbers of the layers that get the scheme; None: those that rotate
            queries and keys, or all if none does or `keep_rotary`. The others stay as
            they are.
        keep_rotary: leave the rotary positions in those layers too.
        length: positions that a scheme of fixed size must cover; None: the maximum in
            the configuration.
        generator: CPU generator of a scheme's random numbers while the model trains.

    Raises:
        UnsupportedModelError: if the model leaves a scheme no place to act; if it was
            written by `hf convert` and would be rotated in its former layout; or if a
            small model of its class gives other logits with this attention than with
            its own.
        ConfigError: if the scheme, an option or a layer cannot be used.
    """
    made = Applied(model, scheme, layers, keep_rotary, length, generator)
    if layout := getattr(model.config, CONVERTED, ""):
        parts = [part for one in made.schemes for part in one.modules()]
        former = "half" if layout == "adjacent" else "adjacent"
        served, count = made.report()["layers"], model.config.num_hidden_layers
        got = {
            "some layers": layers is not None and {*served} != {*range(count)},
            "keep_rotary": keep_rotary,
            former: any(getattr(part, "layout", "") == former for part in parts),
        }
        if wrong := [name for name, given in got.items() if given]:
            made.remove()
            raise UnsupportedModelError(
                f"model was written by `hf convert`: a scheme must replace the "
                f"rotation of every layer, and any rotation must have "
                f"layout={layout}, got {wrong[0]}"
            )
    chosen = None if layers is None else tuple(made.report()["layers"])
    if fault := _fault(model, chosen, made.before, keep_rotary):
        made.remove()
        raise UnsupportedModelError(f"{type(model).__name__}: {fault}; {WOULD_WORK}")
    by_label = not isinstance(scheme, Scheme)
    if by_label and not keep_rotary and isinstance(made.schemes[0], Rotation):
        try:
            _warn(model, scheme, made.label, chosen)
        except Warning:
            made.remove()
            raise
    return made


def _warn(
    model: Any, given: str | Variant, label: str, layers: tuple[int, ...] | None
) -> None:
    """Warn if a rotation leaves out options that the model's own rotation has.

    Numbers of a scaling are among them only if both have the same one.
    """
    if isinstance(given, str):  # which may state defaults
        written = given.partition(":")[2].split(";")
        stated = {part.partition("=")[0].strip() for part in written}
    else:
        stated = {*given.options}
    known = labelled(label)
    defaults = option_types(known.name)
    own = [
        row.variant
        for row in _own_rotations(model.config)
        if row.variant and row.variant.name == known.name
        if layers is None or not {*layers}.isdisjoint(row.numbers)
    ]
    left = {
        option
        for one in own
        for option in one.options.keys() - stated - _numbers(model.config, known, one)
        if one.options[option] != known.options.get(option, defaults[option][1])
    }
    if getattr(model.config, CONVERTED, ""):  # whose layout is checked before
        left.discard("layout")
    labels = [*dict.fromkeys(one.label for one in own)]
    if left or len(labels) > 1:
        what = f"leaves out {' and '.join(sorted(left))}" if left else "is one rotation"
        warnings.warn(
            f"{label} {what}; the model rotates by {' and '.join(labels)}; "
            f"`hf describe` prints its layers",
            stacklevel=3,
        )


def _numbers(config: Any, given: Variant, own: Variant) -> set[str]:
    """Return the numbers of a scaling, unless both have it and rotate differently."""
    if given.options.get("scaling") != own.options.get("scaling"):
        return {*DEFAULTS}
    sizes = geometry_of(config.get_text_config())
    made = [turning(one, sizes.head_dim, sizes.length) for one in (given, own)]
    return {*DEFAULTS} if alike(*made) else set()


def _own_rotations(config: Any) -> list[Described]:
    """Return the rotations of a configuration, measured once."""
    plain = copy.deepcopy(config)
    plain._attn_implementation = None
    key = plain.to_json_string(use_diff=False)
    if key not in _OWN:
        try:
            length = min([*length_limits(plain), config_length(plain)])
            _OWN[key] = rotary_rows(rotations(tiny(plain), length), plain, length)
        except Exception:  # of a model that cannot be described
            _OWN[key] = []
    return _OWN[key]


def _fault(
    model: PreTrainedModel, layers: tuple[int, ...] | None, before: str, keep: bool
) -> str:
    """Return why our attention changes the logits of models of this class.

    Nothing is returned where no small model can be built or compared.
    """
    config = copy.deepcopy(model.config)
    # A class of `from_scratch` would apply its scheme to the small model, too.
    plain = getattr(model, "plain_class", type(model))
    key = plain, config.to_json_string(use_diff=False), before, layers, keep
    if key not in _KNOWN:
        config._attn_implementation = before if before in PLAIN else None
        try:
            with torch.device("cpu"):
                _KNOWN[key] = _difference(tiny(config, plain), layers, keep)
        except Exception:  # what cannot be compared is refused in a call, if at all
            _KNOWN[key] = ""
    return _KNOWN[key]


@torch.inference_mode()
def _difference(small: Any, layers: tuple[int, ...] | None, keep: bool) -> str:
    """Return why `nope` changes the logits of a small model; empty if it does not.

    With its rotary positions kept they are the same. In their place they are those of
    the model by itself, where all tokens are at position 0.
    """
    ids = random_tokens(small)
    seen = {"attention_mask": torch.ones_like(ids)}
    own = logits_of(small, ids, **seen)
    with Applied(small, "nope", layers, keep_rotary=True):
        off = moved(logits_of(small, ids, **seen), own)
    if not off <= PROVED:
        return (
            f"must have the same logits through this attention as by itself, got a "
            f"small one of its class that is off by {off:.0e} of the largest"
        )
    tables = [] if keep else meet(small, ids[:1, :1], 0).tables
    if any(not cos.any() and sin.any() for cos, sin in tables):
        return SINES
    neutral = all((cos == 1).all() and (sin == 0).all() for cos, sin in tables)
    if keep or layers is not None or not neutral:
        return ""
    own = logits_of(small, ids, position_ids=torch.zeros_like(ids), **seen)
    with Applied(small, "nope", layers):
        off = moved(logits_of(small, ids, **seen), own)
    if not off <= PROVED:
        return (
            f"must take positions from its rotary tables alone, got a small one of its "
            f"class whose logits still depend on them, by {off:.0e} of the largest"
        )
    return ""
