"""Portrait: what a scheme looks like, as arrays that plots draw.

Nothing is ranked here, so the measure has no rows. A scheme is asked at each of its
doors for what it makes of zeros or ones; what it leaves unchanged gives no array.

Definition of `similarity`: for an offset o, the mean over positions p of
`cos(code(p), code(p + o))`, with the code of a position as `embed` makes it of a zero
vector, or else as `key` makes it of a vector of ones.
"""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from posenc_compare.analysis.base import Progress, Result, register_measure
from posenc_compare.analysis.probe import Probe
from posenc_compare.attention import attention_logits
from posenc_compare.errors import (
    ConfigError,
    DoorError,
    PosencError,
    UndefinedPositionError,
)
from posenc_compare.schemes import Scheme, Variant
from posenc_compare.schemes.base import ask

CODE = (128, 512)  # positions, channels
SMALL_CODE = (16, 32)  # positions, channels
MAP = 48  # tokens along each side of a bias map
MAP_HEADS = 8  # heads kept, evenly spaced over all
ANGLES = 64  # positions
OFFSETS = 128  # offsets 0 ... 127, each a mean over as many positions
DIGITS = 4  # significant digits; a colour or a line shows fewer


@register_measure("portrait", quantities=(), once=True)
def portrait(variant: Variant, probe: Probe, progress: Progress) -> Result:
    """What the scheme looks like: the arrays that plots draw.

    Parameters are as the scheme starts with them, before any training.

    Args:
        variant: the scheme under test.
        probe: heads, seed and device; computed in float64.
        progress: called after each array.

    Returns:
        No rows. Arrays, each left out where the scheme has none of it: `code`
        `(128, 512)` and `code_small` `(16, 32)`, position by channel, what `embed`
        adds to a zero vector, built for that size; `bias_map` `(heads, 48, 48)`,
        query by key, logits of zero queries and keys, -inf where a query may not
        look, of the heads in `bias_heads`; `angles` `(64, pairs)` in radians;
        `similarity` at offsets 0 ... 127. A scheme that defines fewer positions
        gives that many.

    Raises:
        PosencError: if the scheme comes in none of these sizes.
    """
    probe = replace(probe, dtype="float64")
    arrays: dict[str, Any] = {}
    refused = None
    for name, draw in PARTS.items():
        try:
            values = draw(variant, probe)
        except DoorError:
            raise
        except PosencError as error:  # a size that this scheme does not come in
            refused = error
        else:
            if values is not None:
                arrays[name] = _nested(values)
        progress(1)
    if refused is not None and not arrays:
        raise refused
    if "bias_map" in arrays:
        arrays["bias_heads"] = _map_heads(probe.heads)
    return Result([], arrays)


def code(variant: Variant, probe: Probe, positions: int, width: int) -> Tensor | None:
    """Return what `embed` makes of zero vectors, `(position, channel)`, or None."""
    sized = replace(probe, width=width, heads=1)
    scheme = sized.build(variant, positions)
    if not scheme.acts_at("embed"):
        return None
    return _up_to_limit(lambda count: _embedded(scheme, sized, count), positions)


def bias_map(variant: Variant, probe: Probe) -> Tensor | None:
    """Return logits of zero queries and keys, `(head, query, key)`.

    None if they are 0 wherever a query may look.
    """
    scheme = probe.build(variant, max(MAP, probe.positions))
    geometry = probe.geometry

    def logits(count: int) -> Tensor:
        zeros = probe.zeros(1, geometry.heads, count, geometry.head_dim)
        return attention_logits(
            zeros,
            zeros,
            scheme=scheme,
            positions=scheme.positions(probe.arange(count)[None]),
            causal=scheme.causal_only,
            state=scheme.token_state(probe.zeros(1, count, geometry.model_dim)),
        )[0]

    found = _up_to_limit(logits, MAP)
    if not found[found.isfinite()].any():
        return None
    return found[_map_heads(geometry.heads)]


def angles(variant: Variant, probe: Probe) -> Tensor | None:
    """Return the angles by which a rotary scheme turns, `(position, pair)` radians."""
    scheme = probe.build(variant)
    if scheme.angles(probe.arange(1)) is None:
        return None

    def turned(count: int) -> Tensor:
        found = scheme.angles(probe.arange(count))
        assert found is not None
        return found

    return _up_to_limit(turned, ANGLES)


def similarity(variant: Variant, probe: Probe) -> Tensor | None:
    """Return the mean cosine of the codes of positions p and p + offset, or None.

    Positions whose code is the zero vector have no direction and do not count.
    """
    scheme = probe.build(variant, max(2 * OFFSETS, probe.positions))
    if scheme.acts_at("embed"):
        codes = _up_to_limit(lambda n: _embedded(scheme, probe, n)[None], 2 * OFFSETS)
    elif scheme.acts_at("key"):
        codes = _up_to_limit(lambda n: _turned(scheme, probe, n), 2 * OFFSETS)
    else:
        return None
    count = codes.shape[1]
    long = codes.norm(dim=-1) > 0  # (head, position)
    directions = F.normalize(codes, dim=-1)
    means = []
    for offset in range(min(OFFSETS, count)):
        pairs = min(OFFSETS, count - offset)
        near, far = slice(0, pairs), slice(offset, offset + pairs)
        both = long[:, near] & long[:, far]
        cosines = (directions[:, near] * directions[:, far]).sum(dim=-1)
        means.append(cosines[both].mean())
    return torch.stack(means)


PARTS: dict[str, Callable[[Variant, Probe], Tensor | None]] = {
    "code": lambda variant, probe: code(variant, probe, *CODE),
    "code_small": lambda variant, probe: code(variant, probe, *SMALL_CODE),
    "bias_map": bias_map,
    "angles": angles,
    "similarity": similarity,
}


def _embedded(scheme: Scheme, probe: Probe, count: int) -> Tensor:
    zeros = probe.zeros(1, count, probe.width)
    return ask(scheme, "embed", zeros, probe.arange(count)[None])[0]


def _turned(scheme: Scheme, probe: Probe, count: int) -> Tensor:
    geometry = probe.geometry
    ones = probe.zeros(1, geometry.heads, count, geometry.head_dim) + 1
    return ask(scheme, "key", ones, probe.arange(count)[None])[0]


def _up_to_limit(draw: Callable[[int], Tensor], count: int) -> Tensor:
    """Call `draw` for `count` positions, or for as many as the scheme defines."""
    try:
        return draw(count)
    except UndefinedPositionError as error:
        if not 0 < error.limit < count:
            raise ConfigError(f"{error}; no such code can be drawn") from error
        return draw(error.limit)


def _map_heads(heads: int) -> list[int]:
    """Return which heads a bias map keeps: all, or `MAP_HEADS` spread over them."""
    kept = min(heads, MAP_HEADS)
    return [round(i * (heads - 1) / max(1, kept - 1)) for i in range(kept)]


def _nested(values: Tensor) -> Any:
    """Return nested lists of numbers with few digits."""

    def short(item: Any) -> Any:
        if isinstance(item, list):
            return [short(part) for part in item]
        return float(f"{item:.{DIGITS}g}")

    return short(values.double().cpu().tolist())
