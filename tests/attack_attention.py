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


def normal(heads: int, seed: int) -> Tensor:
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(1, heads, LENGTH, WIDTH, generator=generator).double()


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
