"""PoSE: the ids it draws, and what training and testing see."""

from typing import Any

import pytest
import torch
from schemes.reference import SchemeTests
from schemes.tools import drawn_codes, seeded
from torch import Tensor

from posenc_compare.errors import ConfigError
from posenc_compare.schemes import Scheme, create

ROWS = torch.arange(7).expand(400, -1)


def make(**options: Any) -> Scheme:
    return create("pose", options=options, model_dim=16, heads=2, length=64)


def cuts(ids: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """Return where each row is cut and how far the rest moved."""
    moved = ids - torch.arange(ids.shape[1])
    assert (moved.diff(dim=1) >= 0).all()
    assert ((moved == 0) | (moved == moved[:, -1:])).all()
    return (moved == 0).sum(dim=1), moved[:, -1]


def test_ids_skip_once_and_stay_below_the_target() -> None:
    ids = make(target=20).positions(ROWS, seeded())
    first, skip = cuts(ids)
    seen = skip > 0
    assert set(skip.tolist()) == set(range(14))  # 20 - 7 and less
    assert set(first[seen].tolist()) == {1, 2, 3, 4}  # (7 + 1) / 2 and less
    assert ids.max() == 19


def test_draws_are_uniform() -> None:
    rows = torch.arange(7).expand(6000, -1)
    first, skip = cuts(make(target=20).positions(rows, seeded(1)))
    moved = first[skip > 0]
    for drawn, kinds in ((skip, range(14)), (moved, range(1, 5))):
        counts = torch.tensor([(drawn == kind).sum() for kind in kinds])
        expected = len(drawn) / len(kinds)
        # Five standard deviations of a count.
        assert (counts - expected).abs().max() < 5 * expected**0.5


def test_a_text_as_long_as_the_target_stays() -> None:
    for target in (7, 3):
        assert torch.equal(make(target=target).positions(ROWS, seeded()), ROWS)


@pytest.mark.parametrize("count", [0, 1])
def test_short_sequences(count: int) -> None:
    ids = make().positions(torch.arange(count), seeded())
    assert ids.shape == (count,)
    assert not ids.any()


def test_tests_and_no_generator_leave_the_ids() -> None:
    scheme = make()
    assert torch.equal(scheme.positions(ROWS), ROWS)
    scheme.eval()
    assert torch.equal(scheme.positions(ROWS, seeded()), ROWS)


def test_target_is_eight_times_the_training_length_as_published() -> None:
    assert make().positions(torch.arange(64).expand(400, -1), seeded()).max() > 480
    assert getattr(make(), "target") == 512  # noqa: B009
    with pytest.raises(ConfigError, match="pose: target must be at least 1, got -1"):
        make(target=-1)


class TestPose(SchemeTests):
    name = "pose"
    sizes = {"model_dim": 16, "heads": 2, "length": 64}
    published = {"target": (16_384, 2048, (512, 1024, 4096))}
    changes = [{"target": 20}, {"scheme": "nope"}]
    errors = [({"target": -1}, "target must be at least 1, got -1")]

    def output(self, scheme: Scheme) -> Tensor:
        return drawn_codes(scheme)
