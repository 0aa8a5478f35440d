"""Planted faults in a rotation that was written from its formula."""

from dataclasses import dataclass
from typing import Any

import pytest
import torch
from torch import Tensor

from posenc_compare.check import rotation_faults
from posenc_compare.errors import ConfigError, ShapeError

WIDTH = 64
SCHEME = "rope:layout=half"


@dataclass
class Port:
    """Rotate pairs (i, i + d/2) as GPT-NeoX does, with one fault."""

    base: float = 10_000.0
    half: bool = True
    direction: int = 1
    start: int = 0
    last: int = 1 << 20
    fraction: float = 1.0
    factor: float = 1.0
    step: float = 1.0
    mirrored: bool = False
    rest: float = 1.0
    positions: torch.dtype = torch.float64
    frequencies: torch.dtype = torch.float64
    tables: torch.dtype = torch.float64

    def __call__(self, x: Tensor, positions: Tensor) -> Tensor:
        count = int(WIDTH * self.fraction)
        powers = torch.arange(0, count, 2).double() / count
        frequencies = (self.base**-powers).to(self.frequencies).double()
        ids = (positions.clamp(max=self.last) + self.start).to(self.positions)
        angles = self.direction * self.step * ids.double()[:, None] * frequencies
        cos, sin = (f(angles).to(self.tables) for f in (torch.cos, torch.sin))
        turned, rest = x[..., :count], x[..., count:]
        if self.half:
            a, b = turned.chunk(2, dim=-1)
        else:
            a, b = turned[..., ::2], turned[..., 1::2]
        second = b * cos - a * sin if self.mirrored else b * cos + a * sin
        pair = self.factor * (a * cos - b * sin), self.factor * second
        merged = torch.cat(pair, -1) if self.half else torch.stack(pair, -1).flatten(-2)
        return torch.cat([merged, self.rest * rest], dim=-1)


def test_a_right_port_has_no_fault() -> None:
    assert rotation_faults(Port(), SCHEME, head_dim=WIDTH, length=1 << 17) == []
    part = f"{SCHEME};fraction=0.5"
    assert rotation_faults(Port(fraction=0.5), part, head_dim=WIDTH) == []


@pytest.mark.parametrize(
    ("port", "fault"),
    [
        (Port(half=False), "pairs channels (0, 1), (62, 63), and the scheme (0, 32)"),
        (Port(base=5e5), "has frequencies of base 500000, and the scheme of 10000"),
        (Port(direction=-1), "rotates backwards"),
        (Port(start=1), "rotates position 0 like position 1"),
        (lambda *x: Port(start=100)(*x), "rotates position 0 like position 100"),
        (Port(last=1023), "is off by 1 rad at position 1024"),
        (Port(fraction=0.5), "rotates 16 pairs of channels, and the scheme 32"),
        (Port(factor=1.2), "multiplies by 1.2, and the scheme by 1"),
        (Port(step=0.5), "rotates with 0.5 times the frequencies of the scheme"),
        (Port(mirrored=True), "does not rotate channels (0, 32): at position 1"),
        (Port(positions=torch.bfloat16), "are positions or angles rounded"),
        (Port(frequencies=torch.bfloat16), "frequencies that are off by up to 3."),
        (Port(tables=torch.bfloat16), "half precision"),
        (Port(base=10_100), "has frequencies of base 10100, and the scheme of 10000"),
        (
            lambda x, positions: Port()(x, 0 * positions + 3),
            "rotates positions 0 and 1 alike",
        ),
        (
            lambda x, positions: torch.cat([Port()(x[:, :1], positions), x[:, 1:]], 1),
            "rotates the heads differently",
        ),
        (lambda x, positions: Port()(x / x.norm(dim=-1, keepdim=True), positions), ""),
        (
            lambda x, positions: Port(positions=x.dtype, frequencies=x.dtype)(
                x, positions
            ),
            "rotates bfloat16 inputs differently from float32, first at",
        ),
        (
            lambda x, positions: Port()(x, positions - positions.min()),
            "rotates positions differently if the first is not 0",
        ),
        (lambda x, positions: x, "rotates 0 pairs of channels, and the scheme 32"),
        (
            lambda x, positions: x.roll(1, -1) + x,
            "mixes more than two channels, or returns them",
        ),
        (lambda x, positions: x / (positions != 2)[:, None], "NaN or infinity at pos"),
    ],
)
def test_a_planted_fault_is_named(port: Port, fault: str) -> None:
    (found,) = rotation_faults(port, SCHEME, head_dim=WIDTH)
    assert fault in found


def test_faults_beside_each_other_are_all_named() -> None:
    port = Port(base=5e5, half=False, direction=-1, start=1)
    assert len(rotation_faults(port, SCHEME, head_dim=WIDTH)) == 4


@pytest.mark.parametrize(
    ("scheme", "port", "fault"),
    [
        (
            "rope:layout=half;fraction=0.5",
            Port(fraction=0.5, rest=0),
            "changes channel ",
        ),
        (
            f"{SCHEME};scaling=llama3;factor=8",
            Port(),
            "and the scheme of no single base",
        ),
        (SCHEME, Port(base=1e4, step=1.001), "rotates with 1.001 times the freq"),
    ],
)
def test_faults_against_other_schemes(scheme: str, port: Port, fault: str) -> None:
    (found,) = rotation_faults(port, scheme, head_dim=WIDTH)
    assert fault in found


def test_frequencies_without_a_base_are_compared_pair_by_pair() -> None:
    def port(x: Tensor, positions: Tensor) -> Tensor:
        bands = [Port(base=base)(x, positions) for base in (1e4, 1e6)]
        near = torch.arange(WIDTH) % (WIDTH // 2) < 8
        return torch.where(near, *bands)

    (found,) = rotation_faults(port, SCHEME, head_dim=WIDTH)
    assert (
        "rotates 24 of 32 pairs with other frequencies, first channels (8, 40)" in found
    )


@pytest.mark.parametrize(
    ("scheme", "message"),
    [
        ("alibi", "must rotate pairs of channels, got alibi"),
        ("rope_2d", "needs positions of 2 axes, got 1"),
    ],
)
def test_other_schemes_are_refused(scheme: str, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        rotation_faults(Port(), scheme, head_dim=WIDTH)


@pytest.mark.parametrize(
    ("port", "message"),
    [
        (lambda x, positions: x[0], r"rotate must return \(64, 2, .*, got \(2, "),
        (lambda x, positions: None, r"rotate must return \(64, 2, .*, got NoneType"),
        (lambda x, positions: x @ x[0, 0], "must take .* and raised RuntimeError: "),
    ],
)
def test_what_a_port_must_take_and_return(port: Any, message: str) -> None:
    with pytest.raises(ShapeError, match=message):
        rotation_faults(port, SCHEME, head_dim=WIDTH)
