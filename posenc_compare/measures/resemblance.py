"""Resemblance: do the channels of a code look like the bits of the position?

Tutorials introduce sinusoids as a soft form of binary numbers: a bit alternates with a
period of 2, 4, 8, ... positions, and a sine of that period rises and falls with it. In
the best phase it has the correlation sqrt(8) / pi = 0.900 with a bit of a long period.
The fastest sine of Vaswani et al. 2017 has a period of 2 pi positions, so that the bits
of the periods 2 and 4 are beyond every channel. Nor has any sine exactly the period of
a bit: over many periods the two fall out of step, which the correlation shows.
"""

import torch
from torch import Tensor

from posenc_compare.errors import NoCodeError
from posenc_compare.measures.codes import position_codes
from posenc_compare.measures.measure import (
    Headline,
    Quantity,
    Result,
    Row,
    register_measure,
)
from posenc_compare.measures.probe import Probe
from posenc_compare.schemes import Variant
from posenc_compare.train.progress import Progress

BITS = Quantity(
    "bit_resemblance",
    unit="absolute correlation of a bit with its best channel",
    better="neither",
    zero="no channel moves with the bit; chance gives `bit_resemblance_by_chance`",
    x="period of the bit, in positions",
    title="bits in channels (correlation)",
)
CHANCE = Quantity(
    "bit_resemblance_by_chance",
    unit="absolute correlation of a bit with its best channel, positions shuffled",
    better="neither",
    zero="never, with as many channels to choose from",
    x="period of the bit, in positions",
    title="bits in shuffled channels (correlation)",
)


@register_measure(
    "resemblance",
    quantities=(BITS, CHANCE),
    views=(Headline(BITS, "mean"), Headline(CHANCE, "mean")),
)
def resemblance(variant: Variant, probe: Probe, progress: Progress) -> Result:
    """Correlation of each bit of the position with the channel most like it.

    Returns:
        `bit_resemblance` for each bit that the positions need, the fastest first, and
        its mean over bits (case `mean`); and the null, `bit_resemblance_by_chance`:
        the same for the same codes handed to the positions in random order.
    """
    if probe.grid:
        return _none("measured in a sequence only")
    try:
        codes = position_codes(probe.build(variant), probe)
    except NoCodeError as error:
        return _none(str(error))
    count = len(codes)
    order = torch.randperm(count, generator=probe.generator("shuffle")).to(codes.device)
    rows = []
    for quantity, given in ((BITS, codes), (CHANCE, codes[order])):
        best = best_correlations(bits_of(probe.arange(count)), given)
        rows.append(Row(quantity.name, float(best.mean()), case="mean"))
        for bit, value in enumerate(best.tolist()):
            rows.append(Row(quantity.name, value, 2 ** (bit + 1)))
    return Result(rows)


def _none(note: str) -> Result:
    """Return rows that say why there is no number."""
    return Result([Row(q.name, None, case="mean", note=note) for q in (BITS, CHANCE)])


def bits_of(positions: Tensor) -> Tensor:
    """Return the bits `(position, bit)` float64, as many as the largest needs."""
    count = int(positions.max()).bit_length()
    places = torch.arange(count, device=positions.device)
    return ((positions[:, None] >> places) & 1).double()


def best_correlations(bits: Tensor, codes: Tensor) -> Tensor:
    """Return the largest absolute correlation of each bit with any channel.

    Args:
        bits: `(position, bit)`.
        codes: `(position, channel)`; a channel that does not vary correlates with
            nothing.

    Returns:
        `(bit,)`.
    """
    bits, codes = (_standard(values) for values in (bits, codes))
    return (bits.mT @ codes).abs().amax(dim=1)


def _standard(values: Tensor) -> Tensor:
    """Return columns of mean 0 and length 1; zeros for what is constant."""
    centred = values - values.mean(dim=0)
    constant = values.amax(dim=0) == values.amin(dim=0)
    return torch.nn.functional.normalize(centred.masked_fill(constant, 0.0), dim=0)
