"""Biases by position that a model adds to its logits, and schemes that have the same.

Products of queries and keys of equal tokens are all the same, so their logits differ by
the bias alone.
"""

import itertools
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from posenc_compare.errors import ConfigError
from posenc_compare.hf.described import Described
from posenc_compare.hf.measure import EXACT
from posenc_compare.schemes import Geometry, Scheme, Variant
from posenc_compare.schemes.shared.frequencies import position_angles

CONTENT = "a bias by distance that depends on the content of tokens"
BY_PLACE = "a bias that depends on more than the offset"
HIDDEN = -5e3  # logits below are masks


def above(names: Sequence[str]) -> str:
    """Return the module that contains all of these names; for one name, that module."""
    parts = zip(*(name.split(".") for name in names), strict=False)
    same = itertools.takewhile(lambda each: len({*each}) == 1, parts)
    return ".".join(each[0] for each in same)


def bias_of(logits: Tensor, hidden: float = HIDDEN) -> Tensor | None:
    """Return the bias of logits `(heads, query, key)` of equal tokens; None if 0.

    It is NaN where a query sees no key: where logits are below `hidden`.
    """
    own = logits.diagonal(dim1=-2, dim2=-1)[..., None]
    values = (logits - own).masked_fill(logits < hidden, torch.nan)
    return None if size_of(values) < EXACT else values


def size_of(values: Tensor) -> float:
    """Return the largest number in size, but for NaN."""
    return float(values.nan_to_num().abs().max())


def alike(one: Tensor, other: Tensor) -> bool:
    """Return whether two biases are the same, but for rounding."""
    atol = EXACT * size_of(one)
    return torch.allclose(one, other, rtol=0, atol=atol, equal_nan=True)


def described_bias(
    values: Tensor, config: Any, width: int, *, by_content: bool
) -> Described:
    """Return the description of a bias, with the scheme that has the same.

    `width` is that of the tokens.
    """
    past, future = values[:, -1].flip(-1), values[:, 0]  # (heads, distance)
    places = torch.arange(values.shape[-1])
    offsets = places - places[:, None]
    after, before = future[:, offsets.abs()], past[:, offsets.abs()]
    whole = torch.where(offsets > 0, after, before)
    same_mask = torch.equal(whole.isnan(), values.isnan())
    by_offset = same_mask and size_of(whole - values) < EXACT * size_of(values)
    if by_content and by_offset and _of_waves(past, future, width // 2):
        return Described("all", "bias", variant=Variant("transformer_xl"))
    if by_content:
        return Described("all", "bias", note=CONTENT)
    if not by_offset:
        return Described("all", "bias", note=BY_PLACE)
    off, times = _alibi(past)
    if off <= EXACT and abs(times - 1) <= EXACT:
        return Described("all", "bias", variant=Variant("alibi"), off=off)
    if off <= EXACT:
        why = f"the bias of alibi times {times:.4g}, which no scheme here has"
        return Described("all", "bias", {"times": times}, note=why)
    both = not bool(future[:, 1:].isnan().all())  # False under a causal mask
    sides = {-1: past, 1: future} if both else {-1: past}
    for variant in _buckets(config, both=both):
        if _same_in_buckets(variant, sides):
            return Described("all", "bias", variant.options, variant)
    return Described("all", "bias", note="a bias by distance that no scheme here has")


def _of_waves(past: Tensor, future: Tensor, pairs: int) -> bool:
    """Return whether biases `(heads, distance)` are weighted sums of sinusoids.

    The sinusoids are those of `transformer_xl`. Each of the two fastest frequencies
    must be needed: a rotation of narrower heads has the first, but not the second.
    There must be fewer sinusoids than offsets, for any bias is a sum of as many.
    """
    count = past.shape[-1]
    values = torch.cat([future.flip(-1), past[:, 1:]], dim=-1).mT  # (offset, heads)
    seen = ~values.isnan().any(dim=-1)
    values, offsets = values[seen], torch.arange(1 - count, count)[seen]
    if not pairs or len(offsets) < 4 * pairs:
        return False
    angle = position_angles(offsets, pairs, base=10_000.0)

    def fits(angle: Tensor) -> bool:
        waves = torch.cat([angle.sin(), angle.cos()], dim=-1)
        waves = F.pad(waves, (0, 1), value=1.0)  # biases are 0 at offset 0
        found = torch.linalg.lstsq(waves, values, driver="gelsd").solution
        return size_of(waves @ found - values) <= EXACT * size_of(values)

    others = (torch.cat([angle[:, :i], angle[:, i + 1 :]], dim=1) for i in range(2))
    return fits(angle) and not any(map(fits, others))


def _alibi(past: Tensor) -> tuple[float, float]:
    """Fit a multiple of the bias of `alibi` to a bias `(heads, distance)`.

    Returns:
        The largest difference from it, relative to the largest bias; the multiple.
    """
    heads, count = past.shape
    scheme: Scheme = Variant("alibi").build(Geometry(heads * 2, heads=heads))
    own = scheme.offset_bias(-torch.arange(count))
    assert own is not None
    times = float((past * own).sum() / own.square().sum())
    return float((past - times * own).abs().max() / past.abs().max()), times


def _buckets(config: Any, *, both: bool) -> Iterator[Variant]:
    """Yield `t5_bias` with the buckets that a configuration states."""
    stated = config.to_dict()
    numbers = {n: v for n, v in stated.items() if type(v) is int and v > 0}
    rows = [v for n, v in numbers.items() if "bucket" in n]
    ends = [v for n, v in numbers.items() if "distance" in n]
    for buckets in rows:
        for end in ends:
            options = {"buckets": buckets, "max_distance": end}
            yield Variant("t5_bias", {**options, "bidirectional": both})


def _same_in_buckets(variant: Variant, sides: Mapping[int, Tensor]) -> bool:
    """Return whether a bias is constant in each bucket, and changes at its ends.

    `sides` are biases `(heads, distance)` by the sign of the offset.
    """
    heads, count = sides[-1].shape
    try:
        scheme: Any = variant.build(Geometry(heads * 2, heads=heads))
    except ConfigError:
        return False
    for sign, values in sides.items():
        buckets = scheme.buckets(sign * torch.arange(count))
        steps = values.diff(dim=1).abs().amax(dim=0) > EXACT
        if not torch.equal(steps, buckets.diff() != 0):
            return False
    return True
