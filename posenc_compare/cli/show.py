"""The command that prints the code of every position, at any size."""

import math
import shutil
import sys
from contextlib import suppress
from itertools import zip_longest
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from posenc_compare.cli.console import NUMBERS, show, tell
from posenc_compare.cli.options import Plugins
from posenc_compare.errors import (
    ConfigError,
    NoCodeError,
    NonFiniteError,
    PluginError,
    PosencError,
)
from posenc_compare.records.sanitize import one_line
from posenc_compare.registry import SCHEMES
from posenc_compare.settings.table import check_value, number
from posenc_compare.variants import labelled

if TYPE_CHECKING:
    from numpy import float64
    from numpy.typing import NDArray

    from posenc_compare.measures.codes import Code
    from posenc_compare.schemes import Scheme

HEADS = 4  # unless the width cannot be divided by so many
MOST = 1 << 24  # numbers, 128 MiB
SHADES = " .:-=+*#%@"  # from the lowest value to the highest


def show_(
    names: Annotated[
        list[str],
        typer.Argument(help="Schemes, or variants such as sinusoidal:base=100."),
    ],
    positions: Annotated[
        str,
        typer.Option(
            help="Number of positions from 0, by default 16. For a scheme of two or "
            "three axes, the sides of a grid, by default 4x4 or 4x4x4."
        ),
    ] = "",
    width: Annotated[int, typer.Option(help="Channels of a token vector.")] = 32,
    heads: Annotated[
        int,
        typer.Option(
            help="Attention heads; 0 = one head for rotary schemes, and for others the "
            "largest of 4, 2 and 1 that divides the width."
        ),
    ] = 0,
    length: Annotated[
        int, typer.Option(help="Training length; 0 = the number of positions.")
    ] = 0,
    format: Annotated[
        Literal["text", "table", "json", "csv", "md", "tex"],
        typer.Option(
            help="text draws a heat map in characters; the others print numbers."
        ),
    ] = "text",
    plugin: Plugins = None,
) -> None:
    """Print the encoding (code) of each position or distance.

    A scheme that adds to token embeddings has a code for each position: the vector that
    it adds. Most other schemes have a code for each distance. If the scheme transforms
    keys, the code is what it makes of a key whose channels are all 1. If it adds a
    bias, the code also holds the bias of each head. If you name several
    schemes and all are rotary, a table of the wavelengths of their pairs follows; csv
    and json then hold only this table.
    """
    from posenc_compare.schemes.shared.rotation import wavelengths

    found = [_code_of(name, positions, width, heads, length) for name in names]
    turns = {label: wavelengths(scheme) for label, scheme, _ in found}
    others = [label for label, own in turns.items() if not own]
    sizes = {scheme.geometry.head_dim for _, scheme, _ in found}
    if format not in NUMBERS or len(found) == 1:
        for label, scheme, code in found:
            learns = any(True for _ in scheme.parameters())
            _show(f"{label}, before training" if learns else label, code, format)
    elif others:
        raise ConfigError(
            f"format {format} must have one scheme, or rotations whose heads share "
            f"angles, got {', '.join(others)}"
        )
    elif len(sizes) > 1:
        raise ConfigError(
            f"format {format} must have heads of one size, got {min(sizes)} and "
            f"{max(sizes)} channels; `--heads 1` would work"
        )
    if len(found) > 1 and not others and len(sizes) == 1:
        _show_wavelengths(turns, format)


def _show_wavelengths(turns: dict[str, list[float | None]], format: str) -> None:
    """Print the wavelengths of several rotations side by side."""
    body: list[list[object]] = [
        [pair, *row] for pair, row in enumerate(zip_longest(*turns.values()))
    ]
    if format not in NUMBERS:
        body = [["" if n is None else f"{n:.4g}" for n in row] for row in body]
    shown = "table" if format == "text" else format
    show("wavelengths, in tokens per turn", ["pair", *turns], body, shown)


def _show(label: str, code: "Code", format: str) -> None:
    """Print the codes of a scheme."""
    on_grid = code.of == "distance" and len(code.sides) > 1
    of, columns = "offset" if on_grid else code.of, code.columns
    values = code.values.double().numpy() + 0.0  # no negative zeros
    places = code.ids.reshape(len(values), -1).tolist()
    if format == "text" and not values.any():
        tell(f"{label}: no code and no bias: all values are 0")
    elif format == "text":
        out_of = shutil.get_terminal_size().columns if sys.stdout.isatty() else 0
        names = [",".join(map(str, place)) for place in places]
        for line in text_map(label, of, columns, names, values, out_of or sys.maxsize):
            tell(line)
    else:
        axes = len(code.sides)
        head = [of] if axes == 1 else [f"{of} on axis {axis}" for axis in range(axes)]
        exact = format in NUMBERS
        body = [
            [*place, *(n if exact else f"{n:.4f}" for n in row)]
            for place, row in zip(places, values.tolist(), strict=True)
        ]
        head += map(str, range(values.shape[1]))
        show(f"{label}: code by {of} and {columns}", head, body, format)


def _code_of(
    name: str, positions: str, width: int, heads: int, length: int
) -> "tuple[str, Scheme, Code]":
    """Return the label of a scheme, the scheme, and its codes."""
    from posenc_compare.measures.codes import cell_codes, code_of
    from posenc_compare.measures.probe import Probe

    label = (variant := labelled(name)).label
    facts = SCHEMES.entry(variant.name).facts
    grid, count = _size(label, facts.get("axes", 1), positions)
    check_value("width", width)
    if count * width > MOST:
        fits = f"--positions {MOST // width}"
        if grid:
            fits = f"--width {1 << (MOST // count).bit_length() - 1}"
        raise ConfigError(
            f"positions times width must be at most {MOST}, got {count} times {width}; "
            f"`{fits}` would work"
        )
    if not heads and facts["family"] == "rotary":
        heads = 1  # all heads rotate alike, each by as many pairs as it has
    heads = heads or math.gcd(HEADS, width)
    probe = Probe(width=width, heads=heads, positions=count, grid=grid)
    try:
        scheme = probe.build(variant, length)
        code = (cell_codes if grid else code_of)(scheme, probe)
    except (NoCodeError, NonFiniteError) as error:
        raise type(error)(f"{label}: {error}") from error
    except PosencError:
        raise
    except Exception as error:  # of a plugin
        reason = f"{type(error).__name__}: {one_line(str(error))}"
        raise PluginError(f"{label}: must have codes, got {reason}") from error
    if not code.values.isfinite().all():
        raise NonFiniteError(f"{label}: codes must be finite, got NaN or inf")
    return label, scheme, code


def _size(label: str, axes: int, positions: str) -> tuple[str, int]:
    """Return the grid, empty for a scheme of one axis, and the number of positions."""
    from posenc_compare.settings.probe import CELLS, sides_of

    if axes == 1:
        count = number(positions, int) if positions else 16
        check_value("positions", count)
        return "", int(count)
    if axes > 3:
        raise ConfigError(f"{label}: must have at most three axes, got {axes}")
    default = "x".join("4" * axes)
    grid = positions or default
    sides: tuple[int, ...] = ()
    with suppress(ConfigError):
        sides = sides_of(grid)
    if len(sides) != axes:
        raise ConfigError(
            f"positions of {label} must be {axes} sides of at least 2, with at most "
            f"{CELLS} cells, got {grid[:40]}; `--positions {default}` would work"
        )
    return grid, math.prod(sides)


def text_map(
    label: str,
    of: str,
    columns: str,
    places: "list[str]",
    values: "NDArray[float64]",
    room: int,
) -> list[str]:
    """Return codes as lines of text, a shade for each value.

    `values` are `(row, column)`, and `places` name the rows; `room` is the most
    characters in a line. Where
    channels do not fit, every n-th is shown, with an odd n, so that sines and cosines
    both are.
    """
    across = max(map(len, places))
    channels = values.shape[1]
    step = math.ceil(channels / max(1, room - across - 2))
    step += 1 - step % 2
    low, high = float(values.min()), float(values.max())
    span = (high - low) or 1.0
    levels = ((values[:, ::step] - low) / span * (len(SHADES) - 1)).round().astype(int)
    every = "" if step == 1 else f", one of every {step} shown"
    lines = [f"{label}: {len(values)} {of}s by {channels} {columns}s{every}"]
    lines += [
        f"{place:>{across}} |{''.join(SHADES[level] for level in codes)}"
        for place, codes in zip(places, levels, strict=True)
    ]
    return [*lines, f"from {low:.4g} ({SHADES[0]!r}) to {high:.4g} ({SHADES[-1]!r})"]
