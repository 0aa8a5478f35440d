"""The corpus: real bytes, split by document, drawn without state."""

import hashlib
import math
from collections import Counter, defaultdict
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from posenc_compare.errors import ConfigError, CorpusError
from posenc_compare.settings.training import Training
from posenc_compare.tasks.corpus import Corpus, load_corpus
from posenc_compare.tasks.language import Language
from posenc_compare.tasks.ngrams import CHUNK, NAMES, Ngrams

SHA256 = "9abcbb78f0e4941f9f83242fcd02d1ae45f51296b95f2ff65a517783b12df114"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for i in range(20):
        text = f"document {i}: " + "".join(chr(97 + (i * j) % 26) for j in range(900))
        (tmp_path / f"{i}.txt").write_text(text)
    return tmp_path


def test_split_and_hash_do_not_depend_on_file_names(folder: Path) -> None:
    before = load_corpus(str(folder))
    names = sorted(folder.iterdir())
    # Reversing the names reverses the order of reading.
    for i, path in enumerate(names):
        path.rename(folder / f"z{len(names) - i:02}.md")
    load_corpus.cache_clear()
    after = load_corpus(str(folder))
    assert set(before.validation) == set(after.validation)
    assert set(before.test) == set(after.test)


def test_a_text_to_test_on_leaves_the_rest_to_train_on(folder, tmp_path) -> None:
    apart = tmp_path.parent / f"{tmp_path.name}-apart"
    apart.mkdir()
    (apart / "last.txt").write_text("the last book")
    corpus = load_corpus(str(folder), str(apart))
    assert corpus.test == (b"the last book",)
    texts = {path.read_bytes() for path in folder.iterdir()}
    trained = set(corpus.train.tobytes().split(b"\0"))
    assert trained | set(corpus.validation) == texts
    assert not trained & set(corpus.validation)
    assert corpus.name == f"{folder.name}, tested on {apart.name}"
    hashes = {corpus.sha256, load_corpus(str(folder)).sha256}
    (apart / "last.txt").write_text("another book")
    load_corpus.cache_clear()
    assert len(hashes | {load_corpus(str(folder), str(apart)).sha256}) == 3


def test_texts_to_train_and_to_test_on_share_no_document(folder: Path) -> None:
    with pytest.raises(CorpusError, match=r"must share no document with .*, got 3.txt"):
        load_corpus(str(folder), str(folder / "3.txt"))


def test_of_one_file_the_end_is_for_choosing_where_the_test_is_another(
    tmp_path: Path,
) -> None:
    (tmp_path / "one").write_bytes(bytes(range(200)) * 10)
    (tmp_path / "two").write_bytes(b"other")
    corpus = load_corpus(str(tmp_path / "one"), str(tmp_path / "two"))
    parts = [corpus.train.tobytes(), *corpus.validation]
    assert b"".join(parts) == (tmp_path / "one").read_bytes()
    assert [len(part) for part in parts] == [1800, 200]


def test_batches_are_a_function_of_seed_and_step(folder: Path) -> None:
    corpus = load_corpus(str(folder))
    one = corpus.batch(4, 16, seed=3, step=7)
    assert np.array_equal(one, corpus.batch(4, 16, seed=3, step=7))
    assert not np.array_equal(one, corpus.batch(4, 16, seed=3, step=8))
    assert not np.array_equal(one, corpus.batch(4, 16, seed=4, step=7))
    trained = bytes(corpus.train.tolist())
    assert one.shape == (4, 17)
    assert all(bytes(row.tolist()) in trained for row in one)


def test_windows_share_out_a_document_to_its_last_byte() -> None:
    documents = (bytes(range(3 * 16 + 1)), bytes(range(100, 100 + 2 * 16 + 1)))
    corpus = Corpus("made", "0", np.zeros(1, np.uint8), (), documents)
    windows = corpus.windows("test", 16, 5 * 16)[0]
    starts = [0, 16, 32, 100, 116]
    wanted = [list(range(start, start + 17)) for start in starts]
    assert windows.tolist() == wanted
    with pytest.raises(ConfigError, match="must hold out 6 windows of 17 bytes"):
        corpus.windows("test", 16, 6 * 16)


@pytest.mark.parametrize("spare", [0, 1, 2])
def test_a_batch_may_begin_at_every_byte_that_has_a_whole_window(spare: int) -> None:
    corpus = Corpus("made", "0", np.arange(17 + spare, dtype=np.uint8), (), ())
    batch = corpus.batch(64, 16, seed=0, step=0)
    assert set(batch[:, 0].tolist()) == set(range(spare + 1))
    assert (batch == batch[:, :1] + np.arange(17)).all()


def test_copies_of_a_held_out_document_are_not_trained_on(folder: Path) -> None:
    whole = load_corpus(str(folder))
    for number, copied in enumerate((whole.test[-1], whole.validation[-1])):
        for i in range(2):  # so many that they do not all fit into the held-out tenth
            (folder / f"copy{number}{i}.txt").write_bytes(copied)
    load_corpus.cache_clear()
    corpus = load_corpus(str(folder))
    trained = bytes(corpus.train.tolist())
    assert not any(text in trained for text in corpus.validation + corpus.test)
    assert not set(corpus.validation) & set(corpus.test)


def test_settings_are_chosen_on_other_windows_than_those_of_tests(folder: Path) -> None:
    corpus = load_corpus(str(folder))
    found = [
        (corpus.test, corpus.windows("test", 64, 640)),
        (corpus.validation, corpus.windows("validation", 64, 640)),
    ]
    for documents, (windows, numbers) in found:
        assert len(set(numbers)) > 1
        for window, number in zip(windows, numbers, strict=True):
            assert bytes(window.tolist()) in documents[number]


def test_the_default_corpus_is_that_of_all_results() -> None:
    corpus = load_corpus("stdlib")
    assert corpus.sha256 == SHA256
    assert corpus.name == "Python 3.11.7 standard library"
    assert len(corpus.train) == 8_707_399


def test_an_error_names_the_corpus_that_is_at_fault(tmp_path: Path) -> None:
    (tmp_path / "book.txt").write_bytes(b"a text to train on")
    (tmp_path / "empty.txt").touch()
    with pytest.raises(CorpusError, match=r"^test corpus '.*empty.txt': must hold"):
        load_corpus(str(tmp_path / "book.txt"), str(tmp_path / "empty.txt"))
    with pytest.raises(CorpusError, match=r"^corpus '.*empty.txt': must hold"):
        load_corpus(str(tmp_path / "empty.txt"), str(tmp_path / "book.txt"))


def folder_of(path: Path, texts: list[bytes]) -> str:
    path.mkdir()
    for number, text in enumerate(texts):
        (path / f"{number:02}").write_bytes(text)
    return str(path)


def test_a_tenth_is_tested_on_and_the_tenth_before_it_is_for_choosing(
    tmp_path: Path,
) -> None:
    texts = [bytes([65 + number]) * 100 for number in range(10)]
    in_order = sorted(texts, key=lambda text: hashlib.sha256(text).digest())
    corpus = load_corpus(folder_of(tmp_path / "many", texts))
    assert corpus.train.tobytes() == b"\0".join(in_order[:8])
    assert (corpus.validation, corpus.test) == ((in_order[8],), (in_order[9],))
    whole = bytes(i * i % 251 for i in range(2000))
    corpus = load_corpus(folder_of(tmp_path / "one", [whole]))
    assert corpus.train.tobytes() == whole[:1600]
    assert (corpus.validation, corpus.test) == ((whole[1600:1800],), (whole[1800:],))


def test_a_hash_depends_on_where_documents_end(tmp_path: Path) -> None:
    one = load_corpus(folder_of(tmp_path / "one", [b"ab", b"c"]))
    other = load_corpus(folder_of(tmp_path / "other", [b"a", b"bc"]))
    assert one.sha256 != other.sha256


def test_facts_count_the_bytes_of_each_set() -> None:
    train = np.zeros(7, np.uint8)
    facts = Corpus("made", "0", train, (b"ab", b"cde"), (b"f",)).facts()
    counted = [facts[f"{part}_bytes"] for part in ("train", "validation", "test")]
    assert counted == [7, 5, 1]


def test_language_reads_its_split_and_its_floor_the_training_bytes(
    tmp_path: Path,
) -> None:
    draw = np.random.default_rng(0)
    texts = [bytes(draw.integers(97, 123, 2000).tolist()) for _ in range(3)]
    one = folder_of(tmp_path / "one", texts[:1])
    apart = folder_of(tmp_path / "apart", texts[1:])
    corpus = load_corpus(one, apart)
    setting = Training(length=8, longest=2, steps=4, batch=3, test_bytes=64, seed=5)
    setting = replace(setting, corpus=one, test_corpus=apart)
    setting = replace(setting, corpus_sha256=corpus.sha256)
    read = [corpus.batch(3, 8, setting.seed, step) for step in range(4)]
    for split in ("validation", "test"):
        task = Language(replace(setting, split=split))
        windows = corpus.windows(split, 16, 64)[0]
        assert task.windows.tolist() == windows.tolist()
        wanted = Ngrams(read).bits(windows)["2-gram"]
        assert task.floors(16)["2-gram"].tolist() == wanted.tolist()
    assert corpus.batch(3, 8, 0, 1).tolist() != corpus.batch(3, 8, 1, 0).tolist()


# --- n-grams, by the formula ------------------------------------------------------


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
