"""Uniqueness: does every position, or every distance, have a code of its own?

Nothing that follows can distinguish two positions with the same code. Codes that
differ in float64 may fall together in the dtype a network computes in. The code of a
position is added to tokens, which may be in bfloat16. Angles and biases, the codes of
distances, are computed in float32 or wider.

On CUDA, `strided` and `dense` round a finished bias to the dtype of queries. `flex` and
all paths on CPUs do not. This rounding is not measured here.
"""

import hashlib
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace

import torch
from torch import Tensor

from posenc_compare.errors import ConfigError, HookError, NoCodeError, ShapeError
from posenc_compare.measures.codes import Code, code_of
from posenc_compare.measures.measure import (
    Curve,
    Headline,
    Quantity,
    Result,
    Row,
    register_measure,
)
from posenc_compare.measures.probe import Probe
from posenc_compare.schemes import Scheme, Variant
from posenc_compare.train.progress import Progress

TILE = 512  # rows on each side of a block of distances, which stays in the cache
FEW_AXES = 32  # along which most pairs are seen to be far apart
LEFT_OUT = 64  # one pair of so many may be left by products in float32
COMPARED = 1 << 18  # codes at the most, of which all pairs are compared
PART = 4096  # codes that are made, or rounded, at once
DTYPES = ("float32", "bfloat16", "float16")  # of tokens; distances have the first alone

DISTINCT = Quantity(
    "distinct_share",
    unit="share of the n codes of the probe",
    better="neither",
    zero="never; 1 / n means that all codes are one",
)
POSITIONS = Quantity(
    "distinct_positions_in_bfloat16",
    unit="share of n codes, relative to that of position 0",
    better="neither",
    zero="never; 1 / n means that all codes are one",
    x="number n of positions",
    title="distinct codes of positions in bfloat16 (share of n)",
)
DISTANCES = Quantity(
    "distinct_distances_in_float32",
    unit="share of n codes, relative to that of distance 0",
    better="neither",
    zero="never; 1 / n means that all codes are one",
    x="number n of distances",
    title="distinct codes of distances in float32 (share of n)",
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
    quantities=(DISTINCT, POSITIONS, DISTANCES, NEAREST, RELATIVE, LENGTH),
    views=(Curve(POSITIONS), Curve(DISTANCES), Headline(RELATIVE)),
    version=5,
)
def uniqueness(variant: Variant, probe: Probe, progress: Progress) -> Result:
    """Distinct codes, the distance of the nearest two, and dependence on the length.

    Absolute schemes are measured over positions, relative ones over distances into
    the past, `0 ... positions - 1`; on a grid over those in all directions.

    Returns:
        `distinct_share` of codes relative to that of position or distance 0, since a
        number added to all codes tells none apart: of positions by dtype, of distances
        in float32. `distinct_positions_in_bfloat16` or `distinct_distances_in_float32`,
        also of two and four times as many codes, built for so many.
        `nearest_distance`, raw and relative, in the dtype of the probe;
        `depends_on_length` when more positions are asked for at once (case `call`)
        and when the scheme is built for twice the length (case `build`). Of more than
        262 144 codes no pairs are compared, and the nearest have a note instead.
    """
    scheme = probe.build(variant)
    try:
        code = code_of(scheme, probe)
    except NoCodeError as error:
        return Result(
            [
                Row(DISTINCT.name, None, note=str(error)),
                Row(DISTANCES.name, None, probe.positions, note=str(error)),
                Row(RELATIVE.name, None, note=str(error)),
            ]
        )
    note = f"over {code.of}s"
    rows = []
    for dtype in DTYPES[: None if code.of == "position" else 1]:
        share = _share_of(code, getattr(torch, dtype))
        rows.append(Row(DISTINCT.name, share, case=dtype, note=note))
    rows += _counted(variant, code, probe)
    codes = code.values.double()
    rows += _nearest(codes, note)
    rows.append(_length_row("call", codes, lambda: scheme, probe))
    longer = 2 * probe.positions
    rows.append(
        _length_row("build", codes, lambda: probe.build(variant, longer), probe)
    )
    return Result(rows)


def _nearest(codes: Tensor, note: str) -> list[Row]:
    """Return the distance of the nearest two, and its ratio to the typical one."""
    if len(codes) > COMPARED:
        note = f"pairs of more than {COMPARED} codes are not compared"
        return [Row(q.name, None, note=note) for q in (NEAREST, RELATIVE)]
    nearest, typical = nearest_distance(codes), typical_distance(codes)
    relative = nearest / typical if typical else 0.0
    return [
        Row(NEAREST.name, nearest, note=note),
        Row(RELATIVE.name, relative, note=note),
    ]


def _counted(variant: Variant, code: Code, probe: Probe) -> list[Row]:
    """Return a row for the codes, and in a sequence for twice and four times as many.

    Each is built for its own number of positions.
    """
    absolute, count = code.of == "position", len(code.values)
    name = POSITIONS.name if absolute else DISTANCES.name
    dtype = torch.bfloat16 if absolute else torch.float32
    found = [Row(name, _share_of(code, dtype), count)]
    for count in () if probe.grid else (2 * probe.positions, 4 * probe.positions):
        try:
            longer = replace(probe, positions=count)
            scheme = longer.build(variant)
            origin = code_of(scheme, longer, 1).values[0]
            share = distinct_share(parts_of(scheme, longer), origin, dtype)
        except HookError:
            raise
        except (ConfigError, ShapeError) as error:
            found.append(Row(name, None, count, note=str(error)))
        else:
            found.append(Row(name, share, count))
    return found


def parts_of(scheme: Scheme, probe: Probe) -> Iterator[Tensor]:
    """Yield the codes of a sequence, those of an absolute scheme in parts.

    Parts stay in the cache of a core. A scheme that maps all positions in one, as one
    that draws them, is asked at once.

    Yields:
        `(position or distance, channel)`, as `code_of` gives them.
    """
    if not scheme.acts_at("embed") or scheme.acts_at("positions"):
        yield code_of(scheme, probe).values
        return
    for ids in probe.arange(probe.positions).split(PART):
        session = probe.session(scheme, ids)
        yield session.embed(probe.zeros(1, len(ids), probe.width))[0]


def _length_row(
    case: str, codes: Tensor, build: Callable[[], Scheme], probe: Probe
) -> Row:
    """Compare the first half of the codes with those asked for alone."""
    half = (len(codes) + 1) // 2
    try:
        other = code_of(build(), probe, half).values.double()
    except HookError:
        raise
    except (ConfigError, ShapeError) as error:
        return Row(LENGTH.name, None, case=case, note=str(error))
    same = other.shape[1] == codes.shape[1] and torch.equal(other, codes[:half])
    return Row(LENGTH.name, float(not same), case=case)


def _share_of(code: Code, dtype: torch.dtype) -> float:
    return distinct_share(code.values.split(PART), code.values[code.origin], dtype)


def distinct_share(
    parts: Iterable[Tensor], origin: Tensor, dtype: torch.dtype
) -> float:
    """Return the share of codes that differ in a dtype, relative to that of 0.

    Args:
        parts: of the codes, each `(count, channel)`.
        origin: the code of position or distance 0, `(channel,)`.
        dtype: what the difference from it is rounded to.
    """
    return distinct_rows((part.double() - origin).to(dtype) for part in parts)


def distinct_rows(parts: Iterable[Tensor]) -> float:
    """Return the share of rows that differ, bit by bit; -0 equals 0.

    Args:
        parts: of the rows, each `(count, channel)`.
    """
    found: set[bytes] = set()
    count = 0
    for part in parts:
        rows = (part + 0.0).cpu().contiguous().view(torch.uint8).numpy()
        found |= {hashlib.blake2b(row, digest_size=16).digest() for row in rows}
        count += len(rows)
    return len(found) / count


def typical_distance(codes: Tensor) -> float:
    """Return the root-mean-square distance of two different rows."""
    count = codes.shape[0]
    spread = (codes - codes.mean(dim=0)).square().sum()
    return float((2 * spread / max(1, count - 1)).sqrt())


def nearest_distance(codes: Tensor) -> float:
    """Return the smallest distance of two different rows of `(count, channel)`.

    Pairs that are further apart than the nearest pair known so far are left out: first
    along the few axes on which the rows vary most, where no distance is longer than the
    whole one, then along all. Both are seen in float32, whose rounding is allowed for.
    Where too many are left, products in float64 find the nearest of each row. The
    distance of what is found is computed anew from the difference. Pairs that are
    nearer than rounding of the largest row are ties.
    """
    if len(codes) < 2:
        return 0.0
    best = float((codes[1:] - codes[:-1]).square().sum(dim=1).min())
    centred = codes - codes.mean(dim=0)
    sizes, axes = torch.linalg.eigh(centred.mT @ centred)
    points = (centred @ axes[:, sizes > sizes[-1] * 1e-15]).flip(1)
    largest = float(points.norm(dim=1).max())
    if not best or not largest:
        return best**0.5
    exact = _factors(points / largest)
    rough = [_factors((points[:, :n] / largest).float()) for n in (FEW_AXES, None)]
    for start, other in _tiles(len(codes)):
        first, second = slice(start, start + TILE), slice(other, other + TILE)
        for one, two in rough:
            # Squares of at most 1 each, and twice their product, are added up.
            rounding = 8 * one.shape[1] * torch.finfo(one.dtype).eps
            near = one[first] @ two[second].mT <= best / largest**2 + rounding
            if start == other:
                near.fill_diagonal_(False)
            if int(near.count_nonzero()) * LEFT_OUT <= near.numel():
                rows, columns = near.nonzero().unbind(dim=1)
                break
        else:
            squares = exact[0][first] @ exact[1][second].mT
            if start == other:
                squares.fill_diagonal_(torch.inf)
            rows = torch.arange(len(squares), device=codes.device)
            columns = squares.argmin(dim=1)
        if len(rows):
            gaps = codes[second][columns] - codes[first][rows]
            best = min(best, float(gaps.square().sum(dim=1).min()))
    return best**0.5


def _factors(points: Tensor) -> tuple[Tensor, Tensor]:
    """Return two tables; a product of their rows is the square of a distance."""
    squares = points.square().sum(dim=1, keepdim=True)
    ones = torch.ones_like(squares)
    return (
        torch.cat([points, squares, ones], dim=1),
        torch.cat([-2 * points, ones, squares], dim=1),
    )


def _tiles(count: int) -> Iterator[tuple[int, int]]:
    """Yield where blocks of rows, and of later rows to compare with them, begin."""
    for start in range(0, count, TILE):
        for other in range(start, count, TILE):
            yield start, other
