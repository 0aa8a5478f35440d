"""Positional schemes, one file each, and how to make them.

`create` builds a scheme from its name; `Variant` is a scheme with its options, as
typed on the command line. To add a scheme, subclass `Scheme` and mark the class
with `@register`.
"""

from posenc_compare.registry import SCHEMES
from posenc_compare.schemes.base import (
    DOORS,
    Call,
    Geometry,
    Scheme,
    check_axes,
    register,
)
from posenc_compare.schemes.variants import Variant, create, parse_variants

__all__ = [
    "DOORS",
    "SCHEMES",
    "Call",
    "Geometry",
    "Scheme",
    "Variant",
    "check_axes",
    "create",
    "parse_variants",
    "register",
]
