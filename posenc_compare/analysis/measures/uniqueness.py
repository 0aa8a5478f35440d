"""Uniqueness: does every position, or every distance, have a code of its own?

Two positions with one code cannot be told apart by anything that follows. Codes that
differ in float64 may fall together in the dtype a network computes in.
"""

import hashlib
from collections.abc import Callable
from dataclasses import replace

import torch
from torch import Tensor

from posenc_compare.analysis.core.progress import Progress
from posenc_compare.analysis.measures.codes import Code, code_of
from posenc_compare.analysis.measures.measure import (
    Curve,
    Headline,
    Quantity,
    Result,
    Row,
    register_measure,
)
from posenc_compare.analysis.measures.probe import Probe
from posenc_compare.errors import ConfigError, DoorError, NoCodeError, ShapeError
from posenc_compare.schemes import Scheme, Variant

BLOCK_ENTRIES = 1 << 26  # distances held at once

DISTINCT = Quantity(
    "distinct_share",
    unit="share of the n codes of the probe",
    better="neither",
    zero="never; 1 / n means that all codes are one",
)
COUNTED = Quantity(
    "distinct_share_in_bfloat16",
    unit="share of n codes, relative to that of 0",
    better="neither",
    zero="never; 1 / n means that all codes are one",
    x="number n of codes",
    title="distinct codes in bfloat16 (share of n)",
)
NEAREST = Quantity(
    "nearest_distance",
    unit="length of the code vector",
    better="neither",
    zero="two positions share one code",
)
RELATIVE = Quantity(
    "nearest_distance_relative",
    unit="ratio to the root-mean-square distance",
    better="neither",
    zero="two positions share one code",
    title="nearest two codes (ratio)",
)
LENGTH = Quantity(
    "depends_on_length",
    unit="0 or 1",
    better="neither",
    zero="a position's code is the same whatever the length",
)


@register_measure(
    "uniqueness",
    quantities=(DISTINCT, COUNTED, NEAREST, RELATIVE, LENGTH),
    views=(Curve(COUNTED), Headline(RELATIVE)),
    version=2,
)
def uniqueness(variant: Variant, probe: Probe, progress: Progress) -> Result:
    """Distinct codes, the distance of the nearest two, and dependence on the length.

    Absolute schemes are measured over positions, relative ones over distances into
    the past, `0 ... positions - 1`; on a grid over those in all directions.

    Returns:
        `distinct_share` by dtype, of codes relative to that of position or distance 0:
        a number added to all codes tells none apart; in bfloat16 also of two and four
        times as many, built for so many. `nearest_distance`, raw and relative;
        `depends_on_length` when more positions are asked for at once (case `call`)
        and when the scheme is built for twice the length (case `build`).
    """
    scheme = probe.build(variant)
    try:
        code = code_of(scheme, probe)
    except NoCodeError as error:
        return Result(
            [
                Row(DISTINCT.name, None, note=str(error)),
                Row(COUNTED.name, None, probe.positions, note=str(error)),
                Row(RELATIVE.name, None, note=str(error)),
            ]
        )
    note = f"over {code.of}s"
    rows = []
    for dtype in ("float32", "bfloat16", "float16"):
        share = distinct_share(code, getattr(torch, dtype))
        rows.append(Row(DISTINCT.name, share, case=dtype, note=note))
    rows += _counted(variant, code, probe)
    codes = code.values.double()
    nearest, typical = nearest_distance(codes), typical_distance(codes)
    rows.append(Row(NEAREST.name, nearest, note=note))
    relative = nearest / typical if typical else 0.0
    rows.append(Row(RELATIVE.name, relative, note=note))
    rows.append(_length_row("call", codes, lambda: scheme, probe))
    longer = 2 * probe.positions
    rows.append(
        _length_row("build", codes, lambda: probe.build(variant, longer), probe)
    )
    return Result(rows)


def _counted(variant: Variant, code: Code, probe: Probe) -> list[Row]:
    """Return a row for the codes, and in a sequence for twice and four times as many.

    Each is built for its own number of positions.
    """
    found = [Row(COUNTED.name, distinct_share(code, torch.bfloat16), len(code.values))]
    for count in () if probe.grid else (2 * probe.positions, 4 * probe.positions):
        longer = replace(probe, positions=count)
        try:
            share = distinct_share(
                code_of(longer.build(variant), longer), torch.bfloat16
            )
        except DoorError:
            raise
        except (ConfigError, ShapeError) as error:
            found.append(Row(COUNTED.name, None, count, note=str(error)))
        else:
            found.append(Row(COUNTED.name, share, count))
    return found


def _length_row(
    case: str, codes: Tensor, build: Callable[[], Scheme], probe: Probe
) -> Row:
    """Compare the first half of the codes with those asked for alone."""
    half = (len(codes) + 1) // 2
    try:
        other = code_of(build(), probe, half).values.double()
    except DoorError:
        raise
    except (ConfigError, ShapeError) as error:
        return Row(LENGTH.name, None, case=case, note=str(error))
    same = other.shape[1] == codes.shape[1] and torch.equal(other, codes[:half])
    return Row(LENGTH.name, float(not same), case=case)


def distinct_share(code: Code, dtype: torch.dtype) -> float:
    """Return the share of codes that differ in a dtype, relative to the code of 0."""
    codes = code.values.double()
    return distinct_rows((codes - codes[code.origin]).to(dtype)) / len(codes)


def distinct_rows(codes: Tensor) -> int:
    """Return how many rows of `(count, channel)` differ, bit by bit; -0 equals 0."""
    rows = (codes + 0.0).cpu().contiguous().view(torch.uint8).numpy()
    return len(
        {hashlib.blake2b(row.tobytes(), digest_size=16).digest() for row in rows}
    )


def typical_distance(codes: Tensor) -> float:
    """Return the root-mean-square distance of two different rows."""
    count = codes.shape[0]
    spread = (codes - codes.mean(dim=0)).square().sum()
    return float((2 * spread / max(1, count - 1)).sqrt())


def nearest_distance(codes: Tensor) -> float:
    """Return the smallest distance of two different rows of `(count, channel)`.

    Products of blocks, in float64, find the nearest later row of every row; that
    distance is then computed anew from the difference. Axes along which the rows do
    not vary are dropped first, which keeps all distances.
    """
    count = codes.shape[0]
    if count < 2:
        return 0.0
    centred = codes - codes.mean(dim=0)
    sizes, axes = torch.linalg.eigh(centred.mT @ centred)
    centred = centred @ axes[:, sizes > sizes[-1] * 1e-15]
    squares = centred.square().sum(dim=1)
    rows = max(1, BLOCK_ENTRIES // count)
    best = torch.inf
    for start in range(0, count - 1, rows):
        stop = min(start + rows, count - 1)
        block = torch.addmm(
            squares[start:], centred[start:stop], centred[start:].mT, alpha=-2
        )
        block += squares[start:stop, None]
        here = torch.arange(stop - start, device=codes.device)
        later = torch.arange(count - start, device=codes.device) > here[:, None]
        nearest = block.masked_fill_(~later, torch.inf).argmin(dim=1)
        gaps = codes[start + nearest] - codes[start:stop]
        best = min(best, float(gaps.square().sum(dim=1).min()) ** 0.5)
    return best
