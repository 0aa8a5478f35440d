"""Checks of single values, with one form of message."""

from typing import Any

from posenc_compare.errors import ConfigError
from posenc_compare.inputs import LONGEST, hint


def check_whole(name: str, value: Any, low: int, high: int) -> None:
    """Raise `ConfigError` unless `value` is a whole number from `low` to `high`."""
    whole = isinstance(value, int) and not isinstance(value, bool)
    if not whole or not low <= value <= high:
        raise ConfigError(
            f"{name} must be a whole number from {low} to {high}, got {_short(value)}"
        )


def check_number(name: str, value: Any, low: float, high: float) -> None:
    """Raise `ConfigError` unless `value` is a finite number from `low` to `high`."""
    number = isinstance(value, int | float) and not isinstance(value, bool)
    if not number or not low <= value <= high:
        raise ConfigError(
            f"{name} must be a number from {low:g} to {high:g}, got {_short(value)}"
        )


def check_choice(name: str, value: Any, choices: tuple[Any, ...]) -> None:
    """Raise `ConfigError` unless `value` is one of `choices`."""
    if not any(type(value) is type(c) and value == c for c in choices):
        wanted = " or ".join(str(choice).lower() for choice in choices)
        meant = hint(str(value), map(str, choices))
        raise ConfigError(f"{name} must be {wanted}, got {_short(value)}{meant}")


def check_heads(width: int, heads: int) -> None:
    """Raise `ConfigError` unless `heads` divides `width`."""
    if width % heads:
        raise ConfigError(
            f"width must be a multiple of heads, got width {width} and heads {heads}; "
            f"width {width - width % heads or heads} would work"
        )


def _short(value: Any) -> str:
    return repr(value)[:LONGEST]
