"""Ids of several axes, by which M-RoPE rotates, measured.

Models of images and video take an id of time, of height and of width for each token.
Ids that move along one axis alone must rotate the pairs of that axis and no others.
"""

import math
from dataclasses import replace
from typing import Any

import torch

from posenc_compare.errors import ConfigError
from posenc_compare.hf.described import Described
from posenc_compare.hf.measure import EXACT, Rotation, rotations
from posenc_compare.schemes import Geometry, Variant

SECTIONS = "mrope_section"  # of modules that take ids of several axes
ORDERS = ("sections", "interleaved", "time_last")  # of `m_rope`
OTHERWISE = "rotates by ids of several axes, but not as m_rope does"


def by_axis(row: Described, model: Any) -> Described:
    """Return the description of layers that rotate, with the axes of their ids.

    The scheme is `m_rope` if it rotates the same pairs by the same axes. Else it stays
    that of ids of one axis, and a note says so.
    """
    stated = [getattr(module, SECTIONS, None) for module in model.modules()]
    sections = next(filter(None, stated), None)
    if not sections or row.variant is None or row.kind != "rotary":
        return row
    if isinstance(sections, dict):  # by the kind of layer
        sections = next(iter(sections.values()))
    axes = axes_of(model, row, len(sections))
    variant = _scheme(row.variant, axes)
    measured = {**row.measured, "axes of pairs": "".join(map(str, axes)) or None}
    if variant is not None:
        return replace(row, measured=measured, variant=variant)
    return replace(row, measured=measured, note=OTHERWISE).with_note(row.note)


def axes_of(model: Any, row: Described, count: int) -> list[int]:
    """Return the axis of ids, of `count`, that each pair of a row's layers rotates by.

    The first layer is measured. Axes count from 0; there are none if ids along one axis
    alone do not rotate a pair as ids along all axes do.
    """
    layer, length = row.numbers[0], row.measured["length"]
    assert isinstance(length, int)
    whole = _turns(rotations(model, length), layer)
    found: dict[tuple[int, int], int] = {}
    for axis, along in enumerate(torch.eye(count, dtype=torch.long)):
        alone = _turns(rotations(model, length, along=along), layer)
        for pair, frequency in alone.items():
            same = math.isclose(frequency, whole.get(pair, 0.0), rel_tol=EXACT)
            if pair in found or not same:
                return []
            found[pair] = axis
    return [found[pair] for pair in whole] if found.keys() == whole.keys() else []


def _turns(layers: list[Rotation], number: int) -> dict[tuple[int, int], float]:
    """Return the frequencies of one layer by pair."""
    one = next(each for each in layers if each.layer == number)
    return dict(zip(one.pairs, one.frequencies.tolist(), strict=True))


def _scheme(variant: Variant, axes: list[int]) -> Variant | None:
    """Return `m_rope` with the frequencies of `rope` and these axes, if it can be."""
    known = {"base", "layout"}
    if variant.name != "rope" or not variant.options.keys() <= known:
        return None
    counts = "/".join(str(axes.count(axis)) for axis in range(3))
    for order in ORDERS:
        options = {"layout": "adjacent", **variant.options, "order": order}
        found = Variant("m_rope", {**options, "sections": counts})
        try:
            built: Any = found.build(Geometry(2 * len(axes), heads=1))
        except ConfigError:  # counts that this order does not reach
            continue
        if built.axes_of == axes:
            return found
    return None
