"""What differs between a rotation of one's own, such as a port, and a scheme."""

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from posenc_compare.errors import ConfigError, ShapeError
from posenc_compare.schemes.scheme import Geometry, Scheme, check_axes
from posenc_compare.validate import check_whole
from posenc_compare.variants import labelled

LENGTH = 4096  # positions that are compared at least
HEADS = 2
EXACT = 1e-5  # of a factor or a frequency, relative
FIT = 1e-4  # of a frequency to a base, relative
ROUNDED = 1e-2  # of a frequency in bfloat16, relative
MOST = 1 << 24  # channels, and positions
SLACK = 1e-3  # radians of an angle; float32 adds one for 2**22 positions
HALF = 2**-5  # of a unit vector that is rotated in bfloat16, at most
NOISE = 2**-20  # radians of an angle in float32 below pi, and some more
NONE = torch.empty(0)
Rotate = Callable[[Tensor, Tensor], Tensor]


@dataclass(frozen=True)
class _Rotation:
    """What unit vectors become, as pairs of channels, the lower first, and angles."""

    images: Tensor  # (position, unit vector, channel) float64
    pairs: Sequence[tuple[int, int]] = ()
    angles: Tensor = NONE  # (position, pair) float64, radians
    factor: float = 1.0
    fault: str = ""  # why it is no rotation of pairs

    @property
    def frequencies(self) -> Tensor:
        """Return radians per position, from positions 0 and 1."""
        return _wrapped(self.angles[1] - self.angles[0])


def rotation_faults(
    rotate: Rotate, scheme: str | Scheme, *, head_dim: int, length: int | None = None
) -> list[str]:
    """Return how a rotation of queries or keys differs from a scheme, in words.

    Unit vectors are rotated in two heads at some 50 positions, in float32, and once
    more in bfloat16. Compared are the layout of pairs, the factor of
    the norm, the direction, the rotation of position 0, the frequencies, and the angles
    of far positions.

    Args:
        rotate: takes `(batch, heads, seq, head_dim)` in float32 or bfloat16 and
            positions `(seq,)` int64, and returns what it rotates in the same shape.
        scheme: a label such as `rope:base=500000;layout=half`, or a scheme that rotates
            pairs of channels.
        head_dim: channels of a head.
        length: some 50 positions up to `length - 1` are compared; None: 4096, or the
            length that the scheme is scaled for, if that is longer.

    Returns:
        A phrase for each fault, such as `rotates backwards`; empty if there is none.

    Raises:
        ShapeError: if `rotate` raises an error, or returns another shape.
        ConfigError: if the scheme does not rotate pairs of channels.

    Example:
        >>> from posenc_compare import create
        >>> port = create("rope:layout=half", heads=1, head_dim=8)
        >>> rotation_faults(port.query, "rope:layout=half", head_dim=8)
        []
    """
    check_whole("head_dim", head_dim, 2, MOST)
    sizes = Geometry(head_dim, heads=1, head_dim=head_dim, length=LENGTH)
    known = labelled(scheme).build(sizes) if isinstance(scheme, str) else scheme
    check_axes(known)
    if length is None:
        scaling = getattr(known, "scaling", None)
        scaled = scaling.factor * (scaling.original or LENGTH) if scaling else 0
        length = min(MOST, max(LENGTH, round(scaled)))
    check_whole("length", length, 2, MOST)
    spread = {round(length ** (i / 48)) for i in range(49)}
    places = sorted({0, 1, length - 1, *(p for p in spread if p < length)})
    positions = torch.tensor(places)
    with torch.no_grad():
        wanted = _measured(lambda x, p: known.query(x.double(), p), head_dim, positions)
        own = _measured(rotate, head_dim, positions)
    if wanted.fault or not wanted.pairs:
        raise ConfigError(
            f"scheme must rotate pairs of channels, got {known.name}; rope would work"
        )
    faults = [*_faults(own, wanted, positions)]
    return faults or [*_elsewhere(own, wanted, rotate, positions)]


def _elsewhere(
    own: _Rotation, wanted: _Rotation, rotate: Rotate, positions: Tensor
) -> Iterator[str]:
    """Yield how rotations of the same angles differ: in other channels, in bfloat16."""
    off = (own.images - wanted.images).abs() - positions[:, None, None] / 2**22
    for place, _, channel in (off > SLACK).nonzero()[:1].tolist():
        yield (
            f"changes channel {channel} differently from the scheme, first at position "
            f"{int(positions[place])}"
        )
        return
    with torch.no_grad():
        late = _measured(rotate, own.images.shape[-1], positions[1:])
    if float((late.images - own.images[1:]).abs().max()) > SLACK:
        yield "rotates positions differently if the first is not 0: does it count them?"
    try:
        with torch.no_grad():
            half = _measured(rotate, own.images.shape[-1], positions, torch.bfloat16)
    except ShapeError:  # it does not take bfloat16
        return
    off = (half.images - own.images).abs().amax(dim=(1, 2))
    for place in (off > HALF).nonzero()[:1, 0].tolist():
        yield (
            f"rotates bfloat16 inputs differently from float32, first at position "
            f"{int(positions[place])}: are angles computed in bfloat16?"
        )


def _measured(
    rotate: Rotate,
    head_dim: int,
    positions: Tensor,
    dtype: torch.dtype = torch.float32,
) -> _Rotation:
    """Return what a function does to unit vectors at some positions."""
    x = 2 * torch.eye(head_dim, dtype=dtype)[:, None, None]  # a norm would make it 1
    x = x.repeat(1, HEADS, len(positions), 1)
    try:
        got = rotate(x, positions)
    except Exception as error:
        raise ShapeError(
            f"rotate must take {tuple(x.shape)} and positions ({len(positions)},), and "
            f"raised {type(error).__name__}: {str(error)[:120]}; a smaller length "
            f"compares only earlier positions"
        ) from error
    if not isinstance(got, Tensor) or got.shape != x.shape:
        found = tuple(got.shape) if isinstance(got, Tensor) else type(got).__name__
        raise ShapeError(
            f"rotate must return {tuple(x.shape)}, got {found}: a batch of {head_dim} "
            f"unit vectors in {HEADS} heads, at {len(positions)} positions"
        )
    images, others = (one.transpose(0, 1) for one in (got.double() / 2).unbind(dim=1))
    for place in (~images.isfinite().all(dim=(1, 2))).nonzero()[:1, 0].tolist():
        fault = f"returns NaN or infinity at position {int(positions[place])}"
        return _Rotation(images, fault=fault)
    if not torch.equal(images, others):
        return _Rotation(images, fault="rotates the heads differently")
    most = images.abs().amax(dim=0)
    pairs = [(i, j) for i, j in (most + most.T).triu(1).nonzero().tolist()]
    channels = [channel for pair in pairs for channel in pair]
    if len({*channels}) < len(channels):
        fault = "mixes more than two channels, or returns them in another order"
        return _Rotation(images, fault=fault)
    i, j = torch.tensor(pairs, dtype=torch.long).reshape(-1, 2).T
    cosines, sines = images[:, i, i], images[:, i, j]
    factor = float(torch.hypot(cosines, sines).median()) if pairs else 1.0
    fault = ""
    off = (cosines - images[:, j, j]).abs() + (sines + images[:, j, i]).abs()
    for place, pair in (off > SLACK).nonzero()[:1].tolist():
        i, j = pairs[pair]
        plane = images[place][[i, j]][:, [i, j]].tolist()
        first, second = (f"({one:.3g}, {other:.3g})" for one, other in plane)
        fault = (
            f"does not rotate channels {_pair(pairs[pair])}: at position "
            f"{int(positions[place])}, unit vectors become {first} and {second}"
        )
    return _Rotation(images, pairs, torch.atan2(sines, cosines), factor, fault)


def _faults(own: _Rotation, wanted: _Rotation, positions: Tensor) -> Iterator[str]:
    """Yield how two measured rotations differ."""
    if own.fault:
        yield own.fault
        return
    if len(own.pairs) != len(wanted.pairs):
        yield (
            f"rotates {len(own.pairs)} pairs of channels, and the scheme "
            f"{len(wanted.pairs)}"
        )
        return
    if own.pairs != wanted.pairs:
        yield (
            f"pairs channels {_pair(own.pairs[0])}, {_pair(own.pairs[-1])}, and the "
            f"scheme {_pair(wanted.pairs[0])}, {_pair(wanted.pairs[-1])}"
        )
    if not math.isclose(own.factor, wanted.factor, rel_tol=SLACK):
        yield f"multiplies by {own.factor:.4g}, and the scheme by {wanted.factor:.4g}"
    angles, found, known = own.angles, own.frequencies, wanted.frequencies
    if float(found.abs().max()) < NOISE:
        yield "rotates positions 0 and 1 alike"
        return
    if (found[0] < 0) != (known[0] < 0):
        yield "rotates backwards: by minus the angle of the scheme"
        angles, found = -angles, -found
    start = angles[0] - wanted.angles[0]
    if float(start.abs().max()) > SLACK:
        by = f"by up to {start.abs().max():.2g} rad"
        steps = (start[-1] / found[-1]).nan_to_num().round()  # the slowest turns < once
        if float(_wrapped(start - steps * found).abs().max()) < SLACK:
            by = f"like position {int(steps)}"
        yield f"rotates position 0 {by}"
    noise = NOISE if float(angles[0].abs().max()) else 0.0
    if fault := _frequencies(found, known, own.pairs, noise):
        yield fault
        return
    off = _wrapped(angles - start - wanted.angles).abs().amax(dim=1)
    for place in (off > SLACK + positions / 2**22).nonzero()[:1, 0].tolist():
        yield (
            f"is off by {off[place]:.2g} rad at position {int(positions[place])}, and "
            f"by {off.max():.2g} at most: are positions or angles rounded, clamped or "
            f"stored in half precision?"
        )


def _frequencies(
    own: Tensor, wanted: Tensor, pairs: Sequence[tuple[int, int]], noise: float
) -> str:
    """Return how frequencies differ, or nothing."""
    ratio = own / wanted
    off = ((own - wanted).abs() - noise).clamp(0) / wanted.abs()
    if float(off.max()) < EXACT:
        return ""
    if float((ratio / ratio[0] - 1).abs().max()) < EXACT:
        return f"rotates with {ratio[0]:.4g} times the frequencies of the scheme"
    count = len(own)
    bases = [float(f[-1] / f[0]) ** (-count / (count - 1)) for f in (own, wanted)]
    powers = torch.arange(count) / count
    fits = [
        bool((f / f[0] * base**powers - 1).abs().max() < FIT)
        for f, base in zip((own, wanted), bases, strict=True)
    ]
    if fits[0]:
        other = f"{bases[1]:.6g}" if fits[1] else "no single base"
        return f"has frequencies of base {bases[0]:.6g}, and the scheme of {other}"
    if float(off.max()) < ROUNDED:
        return (
            f"rotates with frequencies that are off by up to {off.max():.1e}: are "
            f"they, or what it returns, in half precision?"
        )
    differing = (off > ROUNDED).nonzero()[:, 0].tolist()
    first = differing[0]
    return (
        f"rotates {len(differing)} of {count} pairs with other frequencies, first "
        f"channels {_pair(pairs[first])}: {own[first]:.4g} rad per position, and the "
        f"scheme {wanted[first]:.4g}"
    )


def _wrapped(angles: Tensor) -> Tensor:
    """Return angles from -pi to pi."""
    return torch.remainder(angles + math.pi, 2 * math.pi) - math.pi


def _pair(pair: tuple[int, int]) -> str:
    return f"({pair[0]}, {pair[1]})"
