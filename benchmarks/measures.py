"""Time measures of very many positions, as ratios to a product of two matrices.

The floor is a product of 2048 x 2048 numbers of float64. Codes are those of
`sinusoidal` at width 512, but for the longest, which have 128.

    python -m benchmarks measures [positions ...]
"""

import torch

from benchmarks.rounds import FLOOR, Run, kept, timed
from posenc_compare.measures.probe import Probe
from posenc_compare.measures.shift_linearity import shift_linearity
from posenc_compare.measures.uniqueness import uniqueness
from posenc_compare.schemes import Variant
from posenc_compare.train.progress import Progress

SCHEME, ROUNDS, SIDE = "sinusoidal", 3, 2048
WIDTHS = {32_768: 512, 131_072: 512, 1_000_000: 128}  # by the number of positions
MEASURES = (uniqueness, shift_linearity)


def cases(positions: int) -> dict[str, Run]:
    """Return what is timed at a number of positions; of a million codes are counted."""
    variant = Variant(SCHEME)
    probe = Probe(positions=positions, width=WIDTHS.get(positions, 512), heads=8)
    matrix = torch.randn(SIDE, SIDE, dtype=torch.float64)
    runs: dict[str, Run] = {FLOOR: lambda: matrix @ matrix}
    for measure in MEASURES[: 1 if positions > 1 << 17 else 2]:
        runs[measure.__name__] = lambda measure=measure: measure(
            variant, probe, Progress()
        )
    return runs


@torch.no_grad()
def main(words: list[str]) -> None:
    """Print and keep ratios to the floor."""
    torch.set_num_threads(1)
    torch.set_flush_denormal(True)
    counts = [int(word) for word in words] or list(WIDTHS)
    columns = {str(n): timed(cases(n), ROUNDS, memory=False) for n in counts}
    kept("measures", columns, scheme=SCHEME, widths=WIDTHS, rounds=ROUNDS)
