"""Milliseconds of a rotation and of a copy, by dtype and by how channels are paired."""

from typing import Any, get_args

import torch

from benchmarks.gpu.common import Options, median_ms, shown
from benchmarks.rotation import ours
from posenc_compare.schemes.shared.rotation import Layout

SHAPE, SMALL = (8, 8, 8192, 64), (1, 2, 64, 64)


def run(options: Options) -> None:
    """Time both in turn, with tables that are made before."""
    rows: list[dict[str, Any]] = []
    shape = SMALL if options.small else SHAPE
    for dtype in (torch.float32, torch.bfloat16):
        x = torch.randn(shape, device=options.device).to(dtype)
        copy = median_ms(x.clone, options.device)
        for layout in get_args(Layout):
            turn = ours(shape[2], dtype, layout, options.device)
            ms = median_ms(lambda turn=turn, x=x: turn(x), options.device)
            row: dict[str, Any] = {"dtype": str(dtype)[6:], "layout": layout}
            row |= {"copy_ms": copy, "rotation_ms": ms, "ratio": ms / copy}
            rows.append(row)
            options.keep("rotation", rows)
            print(shown(row), flush=True)
