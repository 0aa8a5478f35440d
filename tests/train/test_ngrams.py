"""N-gram models: by the formula, on the bytes that a network is trained on."""

import math
from collections import Counter, defaultdict

import numpy as np
import pytest

from posenc_compare.tasks.ngrams import CHUNK, NAMES, Ngrams


def slowly(train: np.ndarray, tests: np.ndarray, order: int) -> list[list[float]]:
    """Witten and Bell's mixture, one byte after the other, from dictionaries."""
    follow: dict[bytes, Counter[int]] = defaultdict(Counter)
    for window in train:
        for place in range(1, len(window)):
            for back in range(min(order, place + 1)):
                context = bytes(window[place - back : place].tolist())
                follow[context][int(window[place])] += 1

    def probability(byte: int, context: bytes) -> float:
        lower = probability(byte, context[1:]) if context else 1 / 256
        seen = follow.get(context)
        if seen is None:
            return lower
        return (seen[byte] + len(seen) * lower) / (seen.total() + len(seen))

    return [
        [
            -math.log2(
                probability(int(w[i]), bytes(w[max(0, i - order + 1) : i].tolist()))
            )
            for i in range(1, len(w))
        ]
        for w in tests
    ]


@pytest.mark.parametrize("order", NAMES)
def test_every_order_is_what_the_formula_gives(order: int) -> None:
    draw = np.random.default_rng(0)
    train = draw.integers(0, 5, (30, 13)).astype(np.int64) + 250  # bytes near 256
    tests = draw.integers(0, 6, (7, 11)).astype(np.int64) + 250  # 255 was never seen
    found = Ngrams([train[:10], train[10:]]).bits(tests)[NAMES[order]]
    assert found.shape == (7, 10)
    np.testing.assert_allclose(found, slowly(train, tests, order), rtol=1e-12)


def test_probabilities_of_all_bytes_sum_to_one() -> None:
    train = np.frombuffer(b"abracadabra" * 3, np.uint8)[None]
    tests = np.array([[*b"abra", byte] for byte in range(256)])
    for bits in Ngrams([train]).bits(tests).values():
        assert (2.0 ** -bits[:, -1]).sum() == pytest.approx(1, abs=1e-12)


@pytest.mark.parametrize("length", [1, 2, 3])
def test_windows_shorter_than_an_order_give_what_the_longest_context_does(
    length: int,
) -> None:
    train = np.frombuffer(b"to be or not to be", np.uint8)[None]
    tests = np.frombuffer(b"to b", np.uint8)[None, : length + 1]
    found = Ngrams([train]).bits(tests)
    assert found["5-gram"].tolist() == found[NAMES[length + 1]].tolist()
    short = Ngrams([train[:, : length + 1]]).bits(train)
    assert all(np.isfinite(bits).all() for bits in short.values())


def test_counts_do_not_depend_on_how_many_bytes_are_counted_at_once(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    draw = np.random.default_rng(1)
    windows = [draw.integers(0, 9, (2, 9)) for _ in range(20)]
    whole = Ngrams(windows).bits(windows[0])["4-gram"]
    assert CHUNK > sum(some.size for some in windows)
    monkeypatch.setattr("posenc_compare.tasks.ngrams.CHUNK", 30)
    assert (Ngrams(windows).bits(windows[0])["4-gram"] == whole).all()
