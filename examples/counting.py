"""To count, must attention know how many tokens it sees? Two plugins for the test.

posenc-compare run --plugin examples/counting.py --preset survey --seeds 100-107 \
    --measures extrapolation --tasks counting \
    --schemes alibi,sink:scheme=alibi,nope,sinusoidal

A softmax averages over tokens, so it gives shares of symbols, not counts. It can count
if it knows the number of tokens: from the share of a sink or a first token, or from
their positions.
"""

from dataclasses import replace

import numpy as np
from torch import Tensor

from posenc_compare import Geometry, Variant, create, register, register_task
from posenc_compare.schemes.wrapper import Wrapper
from posenc_compare.tasks.counting import MODULUS, SYMBOLS, Counting
from posenc_compare.tasks.random_task import Sequence

ALIBI = Variant("alibi")


@register("with_sinusoids", family="absolute", source="own example")
class WithSinusoids(Wrapper):
    """Add sinusoids to the tokens, beside what the scheme inside does.

    Args:
        geometry: passed on.
        scheme: the scheme inside.
    """

    def __init__(self, geometry: Geometry, *, scheme: Variant = ALIBI) -> None:
        super().__init__(geometry, scheme.build(geometry))
        self.facts = replace(self.facts, relative=False)

    def embed(self, x: Tensor, positions: Tensor) -> Tensor:
        codes = create("sinusoidal", model_dim=x.shape[-1])
        return self.inner.embed(codes.embed(x, positions), positions)


@register_task(
    "counting_first",
    vocabulary=13,
    score="accuracy",
    chance=0.125,
    length=33,
    steps=1500,
    batch=32,
    learning_rate=2e-3,
)
class CountingFirst(Counting):
    """Count as `counting` does, after a first token that stands for no symbol."""

    def sequence(
        self, length: int, rng: np.random.Generator, *, largest: bool
    ) -> Sequence:
        rest = super().sequence(length - 1, rng, largest=largest)
        return Sequence(
            np.append(SYMBOLS + MODULUS, rest.tokens),
            np.append(0, rest.targets),
            np.append(0.0, rest.counts),
        )
