"""Tasks of images: what they hold, and that positions decide the answer."""

import itertools
import sys
from typing import Any

import pytest
import torch
from torch import Tensor

from posenc_compare.errors import ConfigError
from posenc_compare.registry import TASKS
from posenc_compare.settings.training import Training
from posenc_compare.tasks import digits
from posenc_compare.tasks.images import Images, sides_of
from posenc_compare.tasks.task import Batch

SIDE = 8
IMAGES = ("shapes", "digits")
EVERY = pytest.mark.parametrize("name", IMAGES)


def task_of(name: str, **more: Any) -> Images:
    if name == "digits":
        pytest.importorskip("sklearn", reason="scikit-learn is not installed")
    sizes = {"length": SIDE**2, "batch": 64, "test_bytes": 1 << 12}
    return TASKS.get(name)(Training(task=name, **{**sizes, **more}))


def images(batch: Batch) -> Tensor:
    """Return the tokens by image, row and column, as the positions have them."""
    assert batch.positions is not None
    rows, columns = (batch.positions.amax(dim=0) + 1).tolist()
    row, column = batch.positions.unbind(dim=1)
    return batch.tokens[:, (row * columns + column).argsort()].unflatten(
        1, (rows, columns)
    )


def test_every_classifier_is_tested_here() -> None:
    found = {
        name
        for name, entry in TASKS.entries().items()
        if entry.facts.get("network") == "classifier"
    }
    assert found == {*IMAGES}
    every = TASKS.select("all")  # leaves out what needs another package
    assert "shapes" in every
    assert "digits" not in every


@EVERY
def test_tokens_and_classes_are_in_range(name: str) -> None:
    task, facts = task_of(name), TASKS.entry(name).facts
    assert task.first_class + round(1 / facts["chance"]) == facts["vocabulary"]
    for batch in (task.batch(0, 0), task.test(16), task.test(256)):
        assert batch.weights is None
        assert batch.tokens.min() >= 0
        assert batch.tokens.max() < task.first_class
        assert batch.targets.equal(batch.targets[:, :1].expand(batch.tokens.shape))
    assert task.test(16).targets.unique().tolist() == [
        *range(task.first_class, facts["vocabulary"])
    ]


@EVERY
def test_each_split_and_each_seed_has_images_of_its_own(name: str) -> None:
    choices: list[dict[str, Any]] = [{}, {"split": "validation"}, {"seed": 1}]
    tests = [task_of(name, **more).test(64).tokens for more in choices]
    assert not any(a.equal(b) for a, b in itertools.combinations(tests, 2))


@EVERY
def test_test_images_are_the_same_at_every_size(name: str) -> None:
    task = task_of(name, test_bytes=1 << 14)
    every = [task.test(16), task.test(64), *task.variations(64).values()]
    every += [task.test(1024), *task.variations(1024).values()]
    for batch in every:
        few = batch.targets[:16, 0]
        assert few.equal(task.test(64).targets[:16, 0])


@EVERY
def test_grids_are_square_wide_and_high(name: str) -> None:
    task = task_of(name)
    assert task.setting.test_lengths == [16, 64, 256, 1024]
    shapes = {}
    for length in (16, 64, 256):
        tests = {"": task.test(length), **task.variations(length)}
        shapes[length] = {
            case: tuple(images(batch).shape[1:]) for case, batch in tests.items()
        }
    assert shapes == {
        16: {"": (4, 4)},
        64: {"": (8, 8), "wide": (4, 16), "high": (16, 4)},
        256: {"": (16, 16), "wide": (8, 32), "high": (32, 8)},
    }


@pytest.mark.parametrize(
    ("length", "sides"), [(1, (1, 1)), (7, (1, 7)), (12, (3, 4)), (512, (16, 32))]
)
def test_grids_of_other_lengths_are_as_square_as_they_can_be(
    length: int, sides: tuple[int, int]
) -> None:
    assert sides_of(length) == sides


def test_lengths_of_tests_go_up_to_the_longest() -> None:
    lengths = {
        longest: Training(task="shapes", length=64, longest=longest).test_lengths
        for longest in (1, 2, 4, 16)
    }
    assert lengths == {
        1: [16, 64],
        2: [16, 64],
        4: [16, 64, 256],
        16: [16, 64, 256, 1024],
    }
    assert Training(task="shapes", length=3).test_lengths[:2] == [1, 3]


@pytest.mark.parametrize("length", [16, 64, 1024])
def test_the_centres_of_two_shapes_answer(length: int) -> None:
    task = task_of("shapes", test_bytes=1 << 16)
    for batch in (task.test(length), *task.variations(length).values()):
        for image, target in zip(images(batch)[:64], batch.targets[:, 0], strict=False):
            (up, left), (down, right) = (
                (image == kind).nonzero().double().mean(dim=0).tolist()
                for kind in (1, 2)
            )
            answer = 2 * (up > down) + (left > right)
            assert int(target) == 4 + answer


def test_shapes_without_positions_say_nothing() -> None:
    """Counts of tokens are as good as chance, by a linear fit to the classes."""
    task = task_of("shapes", test_bytes=1 << 17)
    batch = task.test(64)
    counts = torch.stack([(batch.tokens == t).sum(dim=1) for t in range(4)], dim=1)
    classes = torch.nn.functional.one_hot(batch.targets[:, 0] - 4).double()
    half = len(counts) // 2
    fit = torch.linalg.lstsq(counts[:half].double(), classes[:half]).solution
    said = (counts[half:].double() @ fit).argmax(dim=1)
    # Four standard errors of so many draws.
    error = 4 * (0.25 * 0.75 / half) ** 0.5
    right = (said + 4 == batch.targets[half:, 0]).double().mean()
    assert float(right) == pytest.approx(0.25, abs=error)


def test_digits_are_split_by_seed() -> None:
    task: Any = task_of("digits", test_bytes=1 << 20)
    parts = {
        part: {*task._split(part).tolist()} for part in ("train", "validation", "test")
    }
    assert sorted(n for part in parts.values() for n in part) == [*range(1797)]
    assert [len(part) for part in parts.values()] == [1079, 359, 359]
    assert len(task.test(64).tokens) == 359


def test_digits_keep_their_pixels_and_shrink_smoothly() -> None:
    load_digits = pytest.importorskip("sklearn.datasets").load_digits

    task: Any = task_of("digits")
    whole = torch.from_numpy(load_digits().images)[task._split("test")[:8]]
    assert images(task.test(64))[:8].equal(whole.long())
    # Half the size, inside: a triangle over four pixels on each axis.
    near = torch.tensor([1, 3, 3, 1]).double() / 8
    windows = whole[:, 1:, 1:].unfold(1, 4, 2).unfold(2, 4, 2)
    middle = torch.einsum("nrcij,i,j->nrc", windows, near, near)
    shrunk = images(task.test(16))[:8].double()
    assert shrunk[:, 1:3, 1:3].sub(middle).abs().max() <= 0.5


def test_digits_without_scikit_learn_name_the_extra(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    digits._digits.cache_clear()
    monkeypatch.setitem(sys.modules, "sklearn.datasets", None)
    with pytest.raises(ConfigError, match=r"^digits: needs .*\[images\]"):
        TASKS.get("digits")(Training(task="digits", length=64)).test(64)
