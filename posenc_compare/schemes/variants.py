"""A scheme with its options: one row of the comparison.

The command line writes a variant as `name` or `name:key=value;key=value`. Options
are the keyword-only parameters of the scheme's constructor; their annotations say
what may be given.
"""

import inspect
import math
from dataclasses import dataclass, field
from difflib import get_close_matches
from typing import Any, Literal, get_args, get_origin, get_type_hints

from posenc_compare.errors import ConfigError
from posenc_compare.registry import SCHEMES
from posenc_compare.schemes.base import Geometry, Scheme

WORDS = {"true": True, "yes": True, "1": True, "false": False, "no": False, "0": False}


def create(name: str, *, options: dict[str, Any] | None = None, **sizes: int) -> Scheme:
    """Build a scheme.

    Args:
        name: registry name.
        options: constructor options, such as `{"base": 500000.0}`.
        **sizes: of the `Geometry`: model_dim, heads, head_dim, length.

    Raises:
        ConfigError: if the name, an option or a size is unknown or out of range.

    Example:
        >>> create("rope", options={"base": 500_000.0}, head_dim=64).base
        500000.0
    """
    try:
        geometry = Geometry(**sizes)
    except TypeError as error:
        raise ConfigError(
            f"create: sizes must be among model_dim, heads, head_dim and length, "
            f"got {', '.join(sizes)}"
        ) from error
    return Variant(name, options or {}).build(geometry)


@dataclass(frozen=True)
class Variant:
    """A scheme by name, with the options that differ from its defaults."""

    name: str
    options: dict[str, Any] = field(default_factory=dict)

    @property
    def label(self) -> str:
        """Return how the command line writes this variant."""
        written = ";".join(f"{k}={_write(v)}" for k, v in self.options.items())
        return f"{self.name}:{written}" if written else self.name

    @property
    def family(self) -> str:
        """Return the scheme's family, without importing it."""
        return SCHEMES.entry(self.name).facts.get("family", "none")

    def build(self, geometry: Geometry) -> Scheme:
        """Return a new scheme; its parameters come from torch's global generator."""
        scheme = SCHEMES.get(self.name)
        known = option_types(scheme)
        for key, value in self.options.items():
            _check(self.name, key, value, known)
        return scheme(geometry, **self.options)


def option_types(scheme: type[Scheme]) -> dict[str, tuple[Any, Any]]:
    """Return type and default of every option of a scheme's constructor."""
    hints = get_type_hints(scheme.__init__)
    return {
        name: (hints.get(name, str), parameter.default)
        for name, parameter in inspect.signature(scheme.__init__).parameters.items()
        if parameter.kind is inspect.Parameter.KEYWORD_ONLY
    }


def parse_variants(text: str) -> list[Variant]:
    """Read a comma-separated list of variants, families, globs or `all`.

    Raises:
        ConfigError: if a name or an option is unknown, or a value has the wrong type.

    Example:
        >>> [v.label for v in parse_variants("alibi,rope:base=500000")]
        ['alibi', 'rope:base=500000.0']
    """
    variants: list[Variant] = []
    for part in filter(None, (part.strip() for part in text.split(","))):
        pattern, _, written = part.partition(":")
        for name in SCHEMES.select(pattern):
            options = _read_options(name, written) if written else {}
            variants.append(Variant(name, options))
    if not variants:
        raise ConfigError("no scheme named; try `--schemes all`")
    return list({variant.label: variant for variant in variants}.values())


def _read_options(name: str, written: str) -> dict[str, Any]:
    known = option_types(SCHEMES.get(name))
    options: dict[str, Any] = {}
    for assignment in filter(None, written.split(";")):
        key, equals, text = (part.strip() for part in assignment.partition("="))
        if not equals:
            raise ConfigError(
                f"{name}: an option must read key=value, got {assignment[:80]!r}"
            )
        if key in options:
            raise ConfigError(
                f"{name}: option {key[:80]!r} must be given once, not twice"
            )
        value = _read(text, known[key][0]) if key in known else text
        _check(name, key, value, known)
        options[key] = value
    changed = {k: v for k, v in options.items() if v != known[k][1]}
    return dict(sorted(changed.items()))


def _read(text: str, kind: Any) -> Any:
    """Turn text into a value of `kind`, or leave the text for `_check` to refuse."""
    if get_origin(kind) is Literal:
        return next((value for value in get_args(kind) if str(value) == text), text)
    try:
        if kind is bool:
            return WORDS.get(text.lower(), text)
        if kind in (int, float):
            return kind(text)
    except ValueError:
        pass
    return text


def _check(name: str, key: str, value: Any, known: dict[str, tuple[Any, Any]]) -> None:
    if key not in known:
        near = get_close_matches(key, known, n=3) or sorted(known)
        hint = f"; it takes {', '.join(near)}" if near else "; it takes none"
        raise ConfigError(f"{name}: no option {key[:80]!r}{hint}")
    kind = known[key][0]
    if get_origin(kind) is Literal:
        fits, wanted = value in get_args(kind), " or ".join(map(str, get_args(kind)))
    elif kind is float:
        fits = isinstance(value, int | float) and not isinstance(value, bool)
        fits, wanted = fits and math.isfinite(value), "a finite number"
    elif kind is bool:
        fits, wanted = isinstance(value, bool), "true or false"
    elif kind is int:
        fits = isinstance(value, int) and not isinstance(value, bool)
        wanted = "a whole number"
    elif kind is str:
        fits, wanted = isinstance(value, str), "text"
    else:
        raise ConfigError(
            f"{name}: option {key} must be annotated as int, float, bool, str or "
            f"Literal, got {kind}"
        )
    if not fits:
        raise ConfigError(f"{name}: {key} must be {wanted}, got {str(value)[:80]!r}")


def _write(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)
