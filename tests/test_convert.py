"""Conversions of weights, beside timm, transformers, pillow and slow formulas."""

import importlib
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image
from torch import Tensor

from posenc_compare import resize_bias, resize_positions, rope_layout
from posenc_compare.errors import ConfigError, ShapeError

convert: Any = rope_layout  # for arguments that type checkers refuse
resize: Any = resize_positions


def normal(*shape: int, dtype: torch.dtype = torch.float32) -> Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(0)).to(dtype)


def modelling(name: str) -> Any:
    """Return the modelling code of a network in transformers."""
    pytest.importorskip("transformers", reason="oracle transformers is not installed")
    return importlib.import_module(f"transformers.models.{name}.modeling_{name}")


# --- layouts of rotary pairs ------------------------------------------------------


@pytest.mark.parametrize("heads", [1, 3])
@pytest.mark.parametrize(("width", "rotated"), [(8, None), (8, 6), (10, 4), (6, 0)])
@pytest.mark.parametrize("more", [(), (5,)], ids=["bias", "weight"])
def test_each_pair_of_channels_is_moved(
    heads: int, width: int, rotated: int | None, more: tuple[int, ...]
) -> None:
    weight = normal(heads * width, *more)
    found = rope_layout(weight, heads, to="adjacent", rotated=rotated)
    pairs = (width if rotated is None else rotated) // 2
    for head in range(heads):
        row = head * width
        for i in range(width):
            half = i // 2 + (i % 2) * pairs if i < 2 * pairs else i
            assert torch.equal(found[row + i], weight[row + half])
    assert torch.equal(rope_layout(found, heads, to="half", rotated=rotated), weight)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.int8])
def test_types_stay_and_the_input_is_not_changed(dtype: torch.dtype) -> None:
    weight = torch.arange(12).to(dtype)
    found = rope_layout(weight, 2, to="half", rotated=4)
    assert found.tolist() == [0, 2, 1, 3, 4, 5, 6, 8, 7, 9, 10, 11]
    assert found.dtype == dtype
    found[0] = 9
    assert weight.tolist() == [*range(12)]


# --- tables of positions ----------------------------------------------------------


@pytest.mark.parametrize(("old", "new"), [(7, 19), (5, 5), (1, 3)])
def test_a_table_that_grows_is_linear_between_centres(old: int, new: int) -> None:
    table = normal(2 + old, 3)
    found = resize_positions(table, new, prefix=2)
    centres = (np.arange(new) + 0.5) * old / new - 0.5
    for channel in range(3):
        made = np.interp(centres, np.arange(old), table[2:, channel].numpy())
        np.testing.assert_allclose(found[2:, channel], made, atol=1e-6)
    assert torch.equal(found[:2], table[:2])


@pytest.mark.parametrize("antialias", [True, False])
def test_a_table_that_shrinks_averages_or_takes_the_nearest_two(
    antialias: bool,
) -> None:
    found = resize_positions(torch.arange(9.0)[:, None] ** 2, 3, antialias=antialias)
    centre = [1 + 2 * sum(1 - d / 3 for d in (1, 2)), 0.0]
    centre[1] = 16 + 2 * sum((1 - d / 3) * d**2 for d in (1, 2)) / centre[0]
    assert found[1].item() == pytest.approx(centre[1] if antialias else 16)


@pytest.mark.parametrize("new", [(9, 5), (3, 4), (2, 11), (4, 1), (1, 5)])
def test_grids_are_those_of_pillow(new: tuple[int, int]) -> None:
    table = normal(6 * 8, 2)
    found = resize_positions(table, new, old=(6, 8))
    for channel in range(2):
        image = Image.fromarray(table[:, channel].reshape(6, 8).numpy())
        made = image.resize((new[1], new[0]), Image.Resampling.BICUBIC)
        np.testing.assert_allclose(
            found[:, channel].reshape(new), np.asarray(made), atol=1e-5
        )


@pytest.mark.parametrize("new", [(7, 7), (4, 4), (3, 8)])
@pytest.mark.parametrize("prefix", [0, 1, 5])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_grids_are_those_of_timm(
    timm: Any, new: tuple[int, int], prefix: int, dtype: torch.dtype
) -> None:
    table = normal(prefix + 36, 3, dtype=dtype)
    timm_resize = timm("pos_embed").resample_abs_pos_embed
    own = timm_resize(table[None], [*new], num_prefix_tokens=prefix)
    assert torch.equal(resize_positions(table, new, prefix=prefix), own[0])


@pytest.mark.parametrize("name", ["vit", "dinov2"])
def test_grids_without_antialias_are_those_of_transformers(name: str) -> None:
    code = modelling(name)
    kind = {"vit": "ViT", "dinov2": "Dinov2"}[name]
    config = getattr(importlib.import_module("transformers"), f"{kind}Config")
    sizes = {"hidden_size": 8, "num_attention_heads": 2, "image_size": 20}
    embeddings = getattr(code, f"{kind}Embeddings")(config(**sizes, patch_size=4))
    table = normal(26, 8)
    with torch.no_grad():
        embeddings.position_embeddings.copy_(table[None])
        own = embeddings.interpolate_pos_encoding(torch.zeros(1, 29, 8), 16, 28)[0]
    found = resize_positions(table, (4, 7), prefix=1, antialias=False)
    torch.testing.assert_close(found, own, rtol=0, atol=1e-6)


# --- biases of windows ------------------------------------------------------------


@pytest.mark.parametrize(
    ("old", "new"), [((7, 7), (12, 12)), ((4, 4), (3, 5)), ((8, 8), (7, 7))]
)
def test_biases_are_those_of_timm(
    timm: Any, old: tuple[int, int], new: tuple[int, int]
) -> None:
    rows, after = ((2 * h - 1) * (2 * w - 1) for h, w in (old, new))
    table = normal(rows, 3)
    timm_resize = timm("pos_embed_rel").resize_rel_pos_bias_table_simple
    own = timm_resize(table, new, (after, 3))
    torch.testing.assert_close(resize_bias(table, new), own, rtol=0, atol=1e-6)


def cubic(x: float) -> float:
    """Return the weight of a cell at a distance, with the slope -3/4 of torch."""
    x, a = abs(x), -0.75
    if x >= 2:
        return 0.0
    near = ((a + 2) * x - (a + 3)) * x * x + 1
    return near if x < 1 else a * (((x - 5) * x + 8) * x - 4)


def test_biases_are_those_of_a_slow_formula() -> None:
    (height, width), (rows, columns) = (4, 3), (6, 5)
    old, new = (2 * height - 1, 2 * width - 1), (2 * rows - 1, 2 * columns - 1)
    table = normal(old[0] * old[1], 2)
    grid = table.reshape(*old, 2)
    found = resize_bias(table, (rows, columns), old=(height, width)).reshape(*new, 2)
    torch.testing.assert_close(
        found[rows - 1, columns - 1], grid[height - 1, width - 1]
    )
    for row in range(new[0]):
        for column in range(new[1]):
            y, x = (
                (i + 0.5) * m / n - 0.5
                for i, m, n in zip((row, column), old, new, strict=True)
            )
            made = torch.zeros(2)
            for i in range(-3, old[0] + 3):
                for j in range(-3, old[1] + 3):
                    cell = grid[min(max(i, 0), old[0] - 1), min(max(j, 0), old[1] - 1)]
                    made += cubic(y - i) * cubic(x - j) * cell
            torch.testing.assert_close(found[row, column], made, rtol=0, atol=1e-5)


@pytest.mark.parametrize("dtype", [torch.float64, torch.bfloat16])
def test_tables_keep_their_type_and_equal_sizes_their_values(
    dtype: torch.dtype,
) -> None:
    table = normal(25, 2, dtype=dtype)
    for found in (
        resize_positions(table, 25),
        resize_positions(table, (5, 5)),
        resize_bias(table, (3, 3)),
    ):
        assert torch.equal(found, table)
        assert found.data_ptr() != table.data_ptr()
    assert resize_positions(table, (2, 9)).dtype == dtype
    assert resize_bias(table, (2, 9)).dtype == dtype


# --- errors -----------------------------------------------------------------------


# By error and by what its line says.
WRONG: dict[type[Exception], dict[str, Callable[[], Any]]] = {
    ConfigError: {
        "to must be": lambda: convert(normal(8), 2, to="halves"),
        "heads must be": lambda: convert(normal(8), 0, to="half"),
        "rotated must be even, got 3; 2 would work": (
            lambda: convert(normal(6), 2, to="half")
        ),
        "rotated must be a whole number from 0 to 4, got 6": (
            lambda: convert(normal(8), 2, to="half", rotated=6)
        ),
        "size must be a": lambda: resize(normal(5, 2), 0),
        "size must be (rows, c": lambda: resize(normal(5, 2), (2, 2, 2)),
        "prefix must be": lambda: resize(normal(5, 2), 3, prefix=5),
        "window must be": lambda: resize_bias(normal(9, 2), (0, 2)),
    },
    ShapeError: {
        "with 3 heads, got (8,": lambda: convert(normal(8), 3, to="half"),
        "two axes of floating": lambda: resize(normal(5), 3),
        "torch.int32": lambda: resize(torch.ones(5, 2).int(), 3),
        "must be a square grid, got 5 cells": lambda: resize(normal(5, 2), (2, 2)),
        "table must be a grid of (2, 4), got 6 cells": (
            lambda: resize(normal(7, 2), (2, 2), prefix=1, old=(2, 4))
        ),
        "table must be a grid of (3, 5), got 9 cells": (
            lambda: resize_bias(normal(9, 2), (2, 2), old=(2, 3))
        ),
    },
}


@pytest.mark.parametrize(
    ("error", "said"), [(error, said) for error in WRONG for said in WRONG[error]]
)
def test_what_is_wrong_is_one_line(error: type[Exception], said: str) -> None:
    with pytest.raises(error) as caught:
        WRONG[error][said]()
    assert said in str(caught.value)
    assert "\n" not in str(caught.value)
