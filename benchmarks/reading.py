"""Time models that read eight texts of 2048 bytes, as `quick` is tested.

The floor is `nope`. The models are those of `benchmarks models`, each right there or
not timed.

    python -m benchmarks reading [scheme ...]
"""

import torch

from benchmarks.models import check, made, text
from benchmarks.rounds import FLOOR, Run, kept, timed

SCHEMES = ("rope", "fire", "shaw", "cope", "deberta", "path", "dape")
LENGTH, TEXTS, ROUNDS = 2048, 8, 5


def reading(name: str) -> Run:
    """Return what reads the texts by a scheme, in one batch."""
    model, positions = made(name, LENGTH), torch.arange(LENGTH)
    tokens = torch.cat([text(LENGTH).roll(place) for place in range(TEXTS)])
    return lambda: model(tokens, positions)


@torch.no_grad()
def main(words: list[str]) -> None:
    """Print and keep ratios to the floor."""
    torch.set_num_threads(1)
    torch.set_flush_denormal(True)
    schemes = words or SCHEMES
    for name in ("nope", *schemes):
        check(name)
    cases = {FLOOR: reading("nope")} | {name: reading(name) for name in schemes}
    column = f"eight texts of {LENGTH}"
    kept("reading", {column: timed(cases, ROUNDS)}, texts=TEXTS, rounds=ROUNDS)
