"""Attacks on attention that succeed: each test states what should hold, and fails."""

import pytest
import torch
from torch import Tensor

from posenc_compare.attention import Mask, Session, attention
from posenc_compare.errors import PosencError
from posenc_compare.schemes import Call, Geometry, Scheme, create
from posenc_compare.schemes.shared.rotation import Rotation

LENGTH, HEADS, WIDTH = 6, 4, 8
IDS = torch.arange(LENGTH)
GEOMETRY = Geometry(model_dim=HEADS * WIDTH, heads=HEADS)


class HeadRope(Rotation):
    """A fixed frequency for each head: per_head, and no parameters."""

    per_head = True

    def __init__(self, geometry: Geometry) -> None:
        super().__init__(geometry, 1e4, "half")

    def angles(self, positions: Tensor) -> Tensor:
        number = torch.arange(1, self.geometry.heads + 1).double()[:, None, None]
        pair = torch.logspace(0, -2, self.geometry.head_dim // 2).double()
        return positions[..., None, :, None].double() * number * pair


class TurnsByNumber(Scheme):
    """The same, with the number of a head read off the shape."""

    def query(self, q: Tensor, positions: Tensor) -> Tensor:
        return self.turned(q, positions)

    def key(self, k: Tensor, positions: Tensor) -> Tensor:
        return self.turned(k, positions)

    def turned(self, x: Tensor, positions: Tensor) -> Tensor:
        number = torch.arange(1, x.shape[1] + 1).double()[:, None]
        angle = (positions[..., None, :].double() * number)[..., None]
        even, odd = x[..., 0::2], x[..., 1::2]
        cos, sin = angle.cos(), angle.sin()
        return torch.cat([even * cos - odd * sin, even * sin + odd * cos], dim=-1)


class ReadsKeys(Scheme):
    """A query door that reads `call.k`, `(batch, heads, key, head_dim)` of a Call."""

    def query(self, q: Tensor, positions: Tensor, call: Call | None = None) -> Tensor:
        return q if call is None else q * (1 + call.k.mean(dim=(2, 3), keepdim=True))


def normal(heads: int, seed: int) -> Tensor:
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(1, heads, LENGTH, WIDTH, generator=generator).double()


@pytest.mark.parametrize("kind", [HeadRope, TurnsByNumber, ReadsKeys])
def test_grouped_queries_equal_repeated_keys(kind: type[Scheme]) -> None:
    scheme, q, k, v = kind(GEOMETRY), normal(4, 0), normal(2, 1), normal(2, 2)
    whole = [x.repeat_interleave(2, dim=1) for x in (k, v)]
    expected = attention(q, *whole, scheme=scheme, positions=IDS)
    got = attention(q, k, v, scheme=scheme, positions=IDS)
    torch.testing.assert_close(got, expected)


@pytest.mark.parametrize("mask", [Mask(prefix=4), Mask(causal=False)], ids=repr)
def test_decoding_equals_one_pass_or_is_refused(mask: Mask) -> None:
    scheme = create("alibi", model_dim=32, heads=HEADS)
    q, k, v = normal(4, 0), normal(4, 1), normal(4, 2)
    full = Session(scheme, IDS, mask=mask).attend(0, q, k, v)
    try:
        session = Session(scheme, IDS, mask=mask, fed=2, cache=True)
        parts = [session.attend(0, *(x[:, :, :2] for x in (q, k, v)))]
        session.extend(4)
        parts.append(session.attend(0, *(x[:, :, 2:] for x in (q, k, v))))
    except PosencError:
        return  # refused in a line is as good
    torch.testing.assert_close(torch.cat(parts, dim=2), full)


class Scaled(Scheme):
    """A scale that is no finite number."""

    wrong: object = float("nan")

    def scale(self, head_dim: int) -> float:
        return self.wrong  # type: ignore[return-value]


@pytest.mark.parametrize("wrong", [None, float("nan"), float("inf")])
def test_a_scale_that_is_no_number_is_refused(wrong: object) -> None:
    scheme = Scaled(GEOMETRY)
    scheme.wrong = wrong
    q, k, v = normal(4, 0), normal(4, 1), normal(4, 2)
    with pytest.raises(PosencError):
        print(attention(q, k, v, scheme=scheme, positions=IDS)[0, 0, -1])


class Listed(Scheme):
    """Doors that return lists."""

    def __init__(self, geometry: Geometry, door: str) -> None:
        super().__init__(geometry)
        self.door = door

    def acts_at(self, door: str) -> bool:
        return door == self.door

    def draw(self, positions: Tensor, generator: torch.Generator | None) -> Tensor:
        return [1] if self.door == "draw" else None  # type: ignore[return-value]

    def token_state(self, x: Tensor, past: Tensor | None = None) -> Tensor:
        return [1] if self.door == "token_state" else None  # type: ignore[return-value]

    def positions(
        self, positions: Tensor, generator: torch.Generator | None = None
    ) -> Tensor:
        return positions.tolist() if self.door == "positions" else positions


@pytest.mark.parametrize("door", ["draw", "token_state", "positions"])
def test_the_result_of_every_door_is_checked(door: str) -> None:
    q, k, v = normal(4, 0), normal(4, 1), normal(4, 2)
    with pytest.raises(PosencError):
        session = Session(Listed(GEOMETRY, door), IDS)
        session.attend(0, q, k, v, x=torch.zeros(1, LENGTH, 32))
