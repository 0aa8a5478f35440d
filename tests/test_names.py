"""Names and seeds that users give: what is taken, and what is suggested."""

import string
import unicodedata
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from posenc_compare.errors import ConfigError
from posenc_compare.registry import MEASURES, SCHEMES, VALID_NAME
from posenc_compare.schemes.rope import Rope
from posenc_compare.settings.seeds import named_seeds, stream_seed
from posenc_compare.validate import hint, near

LETTERS = string.ascii_lowercase + string.digits + "_"


@pytest.mark.parametrize(
    ("typed", "meant", "registry"),
    [
        ("rpoe", "rope", SCHEMES),
        ("albi", "alibi", SCHEMES),
        ("sinusoidl_2b", "sinusoidal_2d", SCHEMES),
        ("smothnesss", "smoothness", MEASURES),
    ],
)
def test_slips_of_one_or_two_letters_are_understood(
    typed: str, meant: str, registry: Any
) -> None:
    found = near(typed, registry.entries())
    assert found[0] == meant
    assert len(found) <= 3
    with pytest.raises(ConfigError, match="unknown") as caught:
        registry.entry(typed)
    assert hint(typed, registry.entries()) in str(caught.value)


@pytest.mark.parametrize("word", ["xk7", "keyboard", "q_9zt04", "tokenizer"])
def test_another_word_suggests_nothing(word: str) -> None:
    assert hint(word, [*SCHEMES.entries(), *MEASURES.entries()]) == ""


def test_the_case_of_a_name_does_not_hide_it() -> None:
    assert near("ROPE", SCHEMES.entries())[0] == "rope"
    assert near("Uniqueness", MEASURES.entries()) == ["uniqueness"]


@example("..")
@example("CON")
@example("r\u03bfpe")
@example("rope\n")
@given(st.text(max_size=70) | st.text(LETTERS + "ABC.-é/\\\0\n", max_size=70))
@settings(max_examples=1000)
def test_names_are_plain_or_refused(name: str) -> None:
    plain = name.isascii() and name == name.lower() and 0 < len(name) <= 64
    plain = plain and set(name) <= set(LETTERS + ".-") and name[0] not in "_.-"
    assert bool(VALID_NAME.fullmatch(name)) == plain
    # No two names are one to a file system that folds case or composes marks.
    if plain:
        assert unicodedata.normalize("NFC", name) == name.casefold() == name
        return
    with pytest.raises(ConfigError, match="a name must be 1 to 64") as caught:
        SCHEMES.add(name, Rope, Rope, {})
    assert len(str(caught.value)) < 500


# --- seeds -------------------------------------------------------------------------


def test_streams_of_different_purposes_never_share_a_seed() -> None:
    seeds = {
        stream_seed(purpose, seed, step)
        for purpose in ("batch", "positions", "scheme", "weights")
        for seed in range(25)
        for step in range(1000)
    }
    assert len(seeds) == 100_000
    assert all(0 <= seed < 1 << 63 for seed in seeds)


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
    with pytest.raises(ConfigError, match=r"seeds must be a count.*100-109.*10000"):
        named_seeds(given)
