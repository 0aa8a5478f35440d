"""Positional schemes, one file each, and how to make them.

`create` builds a scheme from its name; `Variant` is a scheme with its options, as
typed on the command line. To add a scheme, subclass `Scheme` and mark the class
with `@register`.
"""

from dataclasses import fields
from typing import Any

from posenc_compare.errors import ConfigError
from posenc_compare.registry import SCHEMES
from posenc_compare.schemes.scheme import (
    HOOKS,
    Call,
    Facts,
    Geometry,
    Lengths,
    Published,
    Scheme,
    check_axes,
    register,
)
from posenc_compare.variants import Variant, labelled, parse_variants

__all__ = [
    "HOOKS",
    "SCHEMES",
    "Call",
    "Facts",
    "Geometry",
    "Lengths",
    "Published",
    "Scheme",
    "Variant",
    "check_axes",
    "create",
    "parse_variants",
    "register",
]


def create(
    name: str,
    *,
    options: dict[str, Any] | None = None,
    lengths: Lengths = "scaled",
    **sizes: int,
) -> Scheme:
    """Build a scheme.

    Args:
        name: registry name, or a label such as `rope:layout=half`.
        options: constructor options, such as `{"base": 500000.0}`.
        lengths: scaled or published; which of the two a default has that is a number
            of positions.
        **sizes: of the `Geometry`: model_dim (heads * head_dim if head_dim is given),
            heads (8 unless given), head_dim, the training length (512 unless given,
            also for what a scaling or a table takes from it), and layer and layers of a
            scheme that differs by layer, such as `mix`.

    Raises:
        ConfigError: if the name, an option or a size is unknown or out of range.

    Example:
        >>> create("rope", options={"base": 500_000.0}, head_dim=64).base
        500000.0
        >>> create("t5_bias", lengths="published", length=64).max_distance
        128
    """
    heads, head_dim = sizes.get("heads", Geometry.heads), sizes.get("head_dim", 0)
    if all(type(size) is int and size > 0 for size in (heads, head_dim)):
        sizes.setdefault("model_dim", heads * head_dim)
    try:
        geometry = Geometry(lengths=lengths, **sizes)
    except TypeError as error:
        unknown = sizes.keys() - {field.name for field in fields(Geometry)}
        raise ConfigError(
            f"create: sizes must be among model_dim, heads, head_dim, length, layer "
            f"and layers, got {', '.join(sorted(unknown))}; options of a scheme stand "
            f"in its label, as in rope:base=500000, or in `options={{}}`"
        ) from error
    variant = labelled(name)
    return Variant(variant.name, {**variant.options, **(options or {})}).build(geometry)
