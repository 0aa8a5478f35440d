"""Seeds as users name them."""

import pytest

from posenc_compare.errors import ConfigError
from posenc_compare.settings.seeds import named_seeds


@pytest.mark.parametrize(
    ("given", "seeds"),
    [
        (3, (0, 1, 2)),
        ("3", (0, 1, 2)),
        ("100-103", (100, 101, 102, 103)),
        ("7-7", (7,)),
        ("9, 5,7", (5, 7, 9)),
        ("5,5-6", (5, 6)),
    ],
)
def test_seeds_are_counted_or_named(given: object, seeds: tuple[int, ...]) -> None:
    assert named_seeds(given) == seeds


WRONG = [0, "0", "", "3-1", "a", "1,", True, 2.5, -1, "1-20000", 10_001, "1e3", None]


@pytest.mark.parametrize("given", WRONG)
def test_other_words_are_refused(given: object) -> None:
    with pytest.raises(ConfigError, match=r"seeds must be from 1 to 10000.*100-109"):
        named_seeds(given)
