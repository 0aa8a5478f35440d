"""Sizes that a configuration of transformers states, and schemes that it may state.

Each candidate is compared with what was measured, so this file may guess.
"""

import math
from collections.abc import Iterator
from typing import Any

import torch

from posenc_compare.hf.measure import EXACT, Rotation
from posenc_compare.schemes import Geometry, Variant
from posenc_compare.schemes.shared.rotation import Rotation as Rotating
from posenc_compare.schemes.shared.scaling import OPTIONS

# By type in transformers: the options of our rule, and the parameters that fill them.
FACTOR = {"factor": "factor"}
TRAINED = {**FACTOR, "original": "original_max_position_embeddings"}
RULES: dict[str, tuple[str, dict[str, str]]] = {
    "default": ("none", {}),
    "linear": ("pi", FACTOR),
    "llama3": (
        "llama3",
        {**TRAINED, "alpha": "low_freq_factor", "beta": "high_freq_factor"},
    ),
    "yarn": ("yarn", {**TRAINED, "alpha": "beta_slow", "beta": "beta_fast"}),
    "dynamic": ("ntk", FACTOR),
    "longrope": ("longrope", TRAINED),
    "proportional": ("none", {}),
}
BY_LENGTH = ("dynamic", "longrope")  # types that rotate otherwise in longer texts
KINDS = {"factor": float, "alpha": float, "beta": float, "original": int}
BASE = 10_000.0  # the usual one


def geometry_of(config: Any, length: int | None = None) -> Geometry:
    """Return the sizes that a configuration of a language model states."""
    width, heads = config.hidden_size, config.num_attention_heads
    parts = [getattr(config, f"qk_{part}_head_dim", 0) for part in ("nope", "rope")]
    head_dim = sum(parts) if all(parts) else getattr(config, "head_dim", 0)
    return Geometry(
        model_dim=width,
        heads=heads,
        head_dim=head_dim or width // heads,
        length=length or config.max_position_embeddings,
        layers=config.num_hidden_layers,
    )


def config_length(config: Any) -> int:
    """Return the positions that a model is for; 1024 if it does not state them."""
    stated = getattr(config, "max_position_embeddings", None)
    return stated if isinstance(stated, int) and stated > 1 else 1024


def stated(config: Any) -> list[dict[str, Any]]:
    """Return the rope parameters that a configuration states, one for each kind."""
    given = getattr(config, "rope_parameters", None) or {}
    kinds = [one for one in given.values() if isinstance(one, dict)]
    return kinds or ([given] if given else [])


def unscaled_length(config: Any) -> str:
    """Return that a scaling counts from the maximum of a model, or nothing.

    transformers takes the maximum for a trained length that is not stated.
    """
    text = getattr(config, "text_config", config)
    most = getattr(text, "max_position_embeddings", None)
    for given in stated(text):
        _, names = RULES.get(given.get("rope_type", ""), ("", {}))
        name = names.get("original", "")
        if most and given.get(name) == most and given.get("factor", 1) != 1:
            return f"its scaling counts from max_position_embeddings, {most}"
    return ""


def with_original(variant: Variant, config: Any) -> Variant:
    """Return a variant whose scaling counts from the length that was trained.

    A configuration may state that beside its maximum, which is then longer.
    """
    rule = str(variant.options.get("scaling"))
    if "original" in variant.options or "original" not in OPTIONS.get(rule, ()):
        return variant
    lengths = [one.get("original_max_position_embeddings") for one in stated(config)]
    known = {length for length in lengths if length}
    if len(known) != 1:
        return variant
    return Variant(variant.name, {**variant.options, "original": int(known.pop())})


def limit_of(given: dict[str, Any], config: Any) -> int:
    """Return the length above which a type rotates otherwise; 0 if there is none."""
    if given.get("rope_type") not in BY_LENGTH:
        return 0
    own = given.get("original_max_position_embeddings")
    is_long = given["rope_type"] == "longrope"
    return (own if is_long else 0) or config.max_position_embeddings


def length_limits(config: Any) -> list[int]:
    """Return the lengths above which a model rotates otherwise, in their order."""
    return sorted({limit for one in stated(config) if (limit := limit_of(one, config))})


def turning(variant: Variant, width: int, length: int) -> Rotation:
    """Return how a scheme rotates a head of `width` channels, as of layer 0."""
    geometry = Geometry(width, heads=1, head_dim=width, length=length)
    scheme: Rotating = variant.build(geometry)
    ones = torch.ones(width, dtype=torch.long)
    turned = scheme.query(torch.eye(width).double()[None, None], ones)[0, 0]
    sines = turned.triu(1) - turned.tril(-1).T
    first, second = sines.nonzero().T
    cosines = turned[first, first]
    angles = torch.atan2(turned[first, second], cosines)
    pairs = tuple(zip(first.tolist(), second.tolist(), strict=True))
    return Rotation(0, width, pairs, angles, scheme.attention_factor)


def candidates(
    config: Any, length: int, one: Rotation
) -> Iterator[tuple[str, Variant]]:
    """Yield types of transformers, and schemes that could be them.

    `length` is the one that is described, `one` the rotation that was measured.
    """
    for given in stated(config):
        kind = given.get("rope_type", "default")
        # No scheme divides the frequencies of `p_rope`.
        divided = kind == "proportional" and given.get("factor") not in (None, 1)
        if given.get("rope_theta") is not None and not divided:
            yield kind, _placed(_options(given, kind, config, length), given, one)
    # A base that stands elsewhere, for some layers alone.
    fastest, slowest = (float(one.frequencies[i]) for i in (0, -1))
    count = len(one.pairs)
    if count > 1 and math.isclose(fastest, 1, rel_tol=EXACT) and slowest < 1:
        fitted = slowest ** (-count / (count - 1))
        for number in (*numbers_of(config.to_dict()), BASE):
            if math.isclose(number, fitted, rel_tol=1e-4):
                options = {"base": float(number), "scaling": "none"}
                yield "default", _placed(options, {}, one)
                break


def _options(
    given: dict[str, Any], kind: str, config: Any, length: int
) -> dict[str, Any]:
    """Return the options of `rope` that rope parameters state, for a length."""
    limit, base = limit_of(given, config), float(given["rope_theta"])
    rule, names = RULES.get(kind, ("none", {}))
    options: dict[str, Any] = {"base": base, "scaling": rule}
    options |= {o: given[n] for o, n in names.items() if given.get(n) is not None}
    if kind == "dynamic" and length > limit:  # ntk of this length
        factor = float(options.get("factor", 1))
        options["factor"] = factor * (length / limit - 1) + 1
    elif kind == "dynamic":
        options = {"base": base, "scaling": "none"}
    if kind == "longrope":
        which = "long_factor" if length > limit else "short_factor"
        options["factors"] = "/".join(map(str, given.get(which) or []))
        whole = config.max_position_embeddings / limit
        options = {"factor": whole, **options, "original": limit}
    return {o: KINDS.get(o, lambda same: same)(v) for o, v in options.items()}


def _placed(options: dict[str, Any], given: dict[str, Any], one: Rotation) -> Variant:
    """Return a scheme with these options that rotates the channels of a rotation."""
    first, second = one.pairs[0]
    layout = "adjacent" if second == first + 1 and len(one.pairs) > 1 else "half"
    options = {**options, "layout": layout}
    if given.get("rope_type") == "proportional":
        del options["scaling"]
        fraction = float(given.get("partial_rotary_factor", 1.0))
        return Variant("p_rope", {**options, "fraction": fraction})
    options["fraction"] = 2 * len(one.pairs) / one.width
    if (attention := _attention(given)) is not None:
        options["attention"] = attention
    if options["scaling"] == "yarn" and given.get("truncate") is False:
        options["truncate"] = False
    return Variant("rope_latent" if first > 0 else "rope", options)


def _attention(given: dict[str, Any]) -> float | None:
    """Return the factor of cosines and sines that is stated; None for the usual one."""
    if given.get("rope_type") != "yarn":
        return None
    found = given.get("attention_factor")
    own, every = given.get("mscale"), given.get("mscale_all_dim")
    grown = 0.1 * math.log(given["factor"])
    if found is None and own and every:
        found = (own * grown + 1) / (every * grown + 1)
    if found is None or math.isclose(found, grown + 1, rel_tol=EXACT):
        return None
    return float(found)


def numbers_of(given: Any) -> Iterator[float]:
    """Yield all numbers that stand in a configuration."""
    if isinstance(given, dict):
        given = [*given.values()]
    if isinstance(given, list | tuple):
        for one in given:
            yield from numbers_of(one)
    elif isinstance(given, int | float) and not isinstance(given, bool):
        yield float(given)
