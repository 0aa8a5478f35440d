"""Conversions of weights that depend on positions.

`rope_layout` reorders query and key channels for the other layout of rotary pairs.
`resize_positions` and `resize_bias` interpolate trained tables to other sizes.
"""

import math

import torch
import torch.nn.functional as F
from einops import rearrange
from torch import Tensor

from posenc_compare.errors import ConfigError, ShapeError
from posenc_compare.schemes.shared.rotation import PAIRS, Layout
from posenc_compare.validate import check_choice, check_whole

LARGEST = 1 << 16  # positions along an axis


def rope_layout(
    weight: Tensor,
    heads: int,
    *,
    to: Layout,
    rotated: int | None = None,
) -> Tensor:
    """Reorder the channels of a query or key projection for another rotary layout.

    `half` rotates channel i with channel i + rotated / 2, as Llama in transformers.
    `adjacent` rotates the channels (0, 1), (2, 3), ..., as Cohere, GLM and GPT-J.
    Query and key must both be converted, and then all logits are the same.

    Source: `permute` in convert_llama_weights_to_hf.py of transformers, for `half`.

    Args:
        weight: `(heads * head_dim, ...)` in the other layout: the weight of a linear
            layer, its bias, or the weight of a norm.
        heads: of queries or of keys; 1 for the norm of one head.
        to: the layout of the result.
        rotated: channels that are rotated, the first of each head; None: all.

    Returns:
        A new tensor with the shape and dtype of `weight`.

    Raises:
        ConfigError: if `to` is unknown, or `rotated` is odd or above head_dim.
        ShapeError: if `heads` does not divide the first axis.

    Example:
        >>> import torch
        >>> from posenc_compare import rope_layout
        >>> rope_layout(torch.arange(8), heads=2, to="adjacent").tolist()
        [0, 2, 1, 3, 4, 6, 5, 7]
    """
    check_choice("to", to, (*PAIRS,))
    rows = weight.shape[0] if weight.dim() else 0
    check_whole("heads", heads, 1, LARGEST)
    if not rows or rows % heads:
        raise ShapeError(
            f"rope_layout: weight must be (heads * head_dim, ...) with {heads} heads, "
            f"got {tuple(weight.shape)}"
        )
    width = rows // heads
    rotated = width if rotated is None else rotated
    check_whole("rotated", rotated, 0, width)
    if rotated % 2:
        raise ConfigError(
            f"rope_layout: rotated must be even, got {rotated}; {rotated - 1} would "
            f"work"
        )
    before, after = PAIRS["half" if to == "adjacent" else "adjacent"], PAIRS[to]
    by_head = rearrange(weight, "(heads channel) ... -> heads channel ...", heads=heads)
    turned, still = by_head.split([rotated, width - rotated], dim=1)
    turned = rearrange(turned, f"head {before} ... -> head {after} ...", two=2)
    return torch.cat([turned, still], dim=1).flatten(0, 1)


def resize_positions(
    table: Tensor,
    size: int | tuple[int, int],
    *,
    prefix: int = 0,
    old: tuple[int, int] | None = None,
    antialias: bool = True,
) -> Tensor:
    """Interpolate a trained table of positions to another number of positions.

    A table of one axis is interpolated linearly, a grid by cubic polynomials. Cells
    keep their centres, so the middle of the table stays the middle.

    Source: `resample_abs_pos_embed` of timm. ViT and DINOv2 in transformers do the same
    to grids with `antialias=False`.

    Args:
        table: `(position, channel)`; a grid row by row, after the prefix.
        size: positions, or (rows, columns) of a grid, of the result.
        prefix: rows of class and register tokens in front, which stay as they are.
        old: (rows, columns) of `table` if it is a grid; None: a square.
        antialias: average over more positions where the table shrinks.

    Returns:
        `(prefix + positions, channel)` in the dtype of `table`; computed in float32 or
        wider. The values are those of `table` if no size changes.

    Raises:
        ConfigError: if a size is below 1.
        ShapeError: if `table` is not a table, or no grid of size `old`.

    Example:
        >>> import torch
        >>> from posenc_compare import resize_positions
        >>> resize_positions(torch.tensor([[0.0], [4.0]]), 4).flatten().tolist()
        [0.0, 1.0, 3.0, 4.0]
    """
    who = "resize_positions"
    rows = _rows_of(who, table)
    check_whole("prefix", prefix, 0, rows - 1)
    first, rest = table[:prefix], table[prefix:]
    if isinstance(size, tuple):
        new, before = _sides("size", size), _grid(who, len(rest), old)
        resized = _resize(rest, before, new, "bicubic", antialias=antialias)
    else:
        check_whole("size", size, 1, LARGEST)
        before, new = (1, len(rest)), (1, size)
        resized = _resize(rest, before, new, "bilinear", antialias=antialias)
    return torch.cat([first, resized])


def resize_bias(
    table: Tensor, window: tuple[int, int], *, old: tuple[int, int] | None = None
) -> Tensor:
    """Interpolate a relative position bias of Swin to another window.

    The table is stretched by cubic polynomials: an offset has the bias of the offset
    that was the same share of the window. The bias of offset (0, 0) stays.

    Source: `load_pretrained` in utils.py of microsoft/Swin-Transformer;
    `resize_rel_pos_bias_table_simple` of timm is the same. Swin of timm itself is
    loaded by another method, which keeps the bias of near offsets.

    Args:
        table: `((2 height - 1) * (2 width - 1), heads)`, as in the scheme `swin`.
        window: (height, width) of the result, in cells.
        old: (height, width) of the window of `table`; None: a square.

    Returns:
        A table for `window` in the dtype of `table`; computed in float32 or wider.

    Raises:
        ConfigError: if a size is below 1.
        ShapeError: if `table` is not a table of a window of size `old`.
    """
    who = "resize_bias"
    rows = _rows_of(who, table)
    new = _sides("window", window)
    if old is not None:
        height, width = _sides("old", old)
        old = (2 * height - 1, 2 * width - 1)
    before = _grid(who, rows, old)
    after = (2 * new[0] - 1, 2 * new[1] - 1)
    return _resize(table, before, after, "bicubic", antialias=False)


def _rows_of(who: str, table: Tensor) -> int:
    """Return the rows of a table of numbers."""
    if table.dim() != 2 or not table.is_floating_point() or not len(table):
        raise ShapeError(
            f"{who}: table must have two axes of floating numbers, got "
            f"{tuple(table.shape)} {table.dtype}; table.flatten(0, -2) may work"
        )
    return len(table)


def _sides(name: str, size: tuple[int, int]) -> tuple[int, int]:
    """Return the sides of a grid, if they are two whole numbers from 1."""
    if len(size) != 2:
        raise ConfigError(f"{name} must be (rows, columns), got {size}", field=name)
    for side in size:
        check_whole(name, side, 1, LARGEST)
    return size


def _grid(who: str, cells: int, sides: tuple[int, int] | None) -> tuple[int, int]:
    """Return the sides of a grid of so many cells; a square if they are not known."""
    root = math.isqrt(cells)
    found = (root, root) if sides is None else _sides("old", sides)
    if found[0] * found[1] != cells:
        wanted = "a square grid" if sides is None else f"a grid of {found}"
        raise ShapeError(
            f"{who}: table must be {wanted}, got {cells} cells; `old=(rows, columns)` "
            f"and `prefix=1` for a class token may work"
        )
    return found


def _resize(
    cells: Tensor,
    before: tuple[int, int],
    after: tuple[int, int],
    mode: str,
    *,
    antialias: bool,
) -> Tensor:
    """Return cells `(row * column, channel)` of a grid of another size."""
    if before == after:
        return cells.clone()
    wide = cells.to(torch.promote_types(cells.dtype, torch.float32))
    # torch 2.13 repeats the first row where one column is left and antialias is on.
    swap = after[1] == 1
    axes, size = ("column row", after[::-1]) if swap else ("row column", after)
    grid = rearrange(wide, f"(row column) c -> 1 c {axes}", row=before[0])
    made = F.interpolate(grid, size=size, mode=mode, antialias=antialias)
    return rearrange(made, f"1 c {axes} -> (row column) c").to(cells.dtype)
