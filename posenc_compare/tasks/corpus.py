"""Real text for training, validation and testing, as bytes, split by document.

The default corpus is the source of the standard library of Python 3.11.7, eleven
megabytes that are part of this package. Any other file or folder can be used.
"""

import functools
import hashlib
import os
import zipfile
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from posenc_compare.errors import CorpusError
from posenc_compare.settings.seeds import stream_seed
from posenc_compare.settings.setting import STDLIB, Split
from posenc_compare.validate import read_regular

APART = b"\xff" * 8  # longer than any document: what follows is another corpus
HELD_OUT = 0.1  # least fraction of all bytes in each of the sets held out
LIBRARY = Path(__file__).with_name("stdlib.zip")  # tests and idlelib left out
STDLIB_NAME = "Python 3.11.7 standard library"


@dataclass(frozen=True)
class Corpus:
    """Documents as bytes, divided into three sets that share no document.

    Attributes:
        name: name of the file or folder, or the standard library with its version.
        sha256: hash of all documents, in order, each with its length.
        train: training documents joined by one zero byte, `(byte,)` uint8.
        validation: documents by which settings are chosen.
        test: documents for the figures that are told.
    """

    name: str
    sha256: str
    train: NDArray[np.uint8]
    validation: tuple[bytes, ...]
    test: tuple[bytes, ...]

    def facts(self) -> dict[str, str | int]:
        """Return the facts about the corpus for a record."""
        return {
            "name": self.name,
            "sha256": self.sha256,
            "train_bytes": len(self.train),
            "validation_bytes": sum(map(len, self.validation)),
            "test_bytes": sum(map(len, self.test)),
        }

    def batch(self, size: int, length: int, seed: int, step: int) -> NDArray[np.int64]:
        """Return bytes `(size, length + 1)` int64; seed and step alone decide them."""
        last = len(self.train) - length - 1
        if last < 0:
            raise CorpusError(
                f"corpus {self.name}: must hold at least {length + 1} bytes to train "
                f"on, got {len(self.train)}"
            )
        draw = np.random.default_rng(stream_seed("batch", seed, step))
        starts = draw.integers(0, last + 1, size)
        return self.train[starts[:, None] + np.arange(length + 1)].astype(np.int64)

    def windows(
        self, split: Split, length: int, total: int
    ) -> tuple[NDArray[np.int64], list[int]]:
        """Return held-out windows, each from one document.

        Args:
            split: test or validation.
            length: input bytes of a window; one more byte is only predicted.
            total: predicted bytes of all windows together.

        Returns:
            Bytes `(window, length + 1)` int64, spread evenly over the documents, and
            the number of the document that each is from.
        """
        documents = self.test if split == "test" else self.validation
        window = length + 1
        places = [
            (number, start)
            for number, document in enumerate(documents)
            for start in range(0, len(document) - window + 1, length)
        ]
        wanted = max(1, total // length)
        if len(places) < wanted:
            raise CorpusError(
                f"corpus {self.name}: must hold out {wanted} windows of {window} bytes "
                f"for {split}, got {len(places)}; use a larger corpus, a smaller "
                f"length or fewer test_bytes"
            )
        spread = np.linspace(0, len(places) - 1, wanted).round().astype(int)
        chosen = [places[i] for i in spread]
        rows = [documents[number][start:][:window] for number, start in chosen]
        stacked = np.stack([np.frombuffer(row, np.uint8) for row in rows])
        return stacked.astype(np.int64), [number for number, _ in chosen]


@functools.lru_cache(maxsize=2)
def load_corpus(source: str, test: str = "") -> Corpus:
    """Read a corpus and split it by document.

    Args:
        source: a file, a folder (each file below it is a document), or `stdlib`.
        test: where the documents to test on are; empty for some of the source.
    """
    name, documents = _documents("corpus", source)
    own = list(documents.values())
    whole = hashlib.sha256()
    _add(whole, own)
    if test:
        test_name, apart = _documents("test corpus", test)
        known = set(own)
        shared = [other for other, text in apart.items() if text in known]
        if shared:
            raise CorpusError(
                f"test corpus {test!r}: must share no document with {source!r}, got "
                f"{shared[0]}"
            )
        name = f"{name}, tested on {test_name}"
        train, validation = _split(own, 1)
        tested = list(apart.values())
        whole.update(APART)
        _add(whole, tested)
    else:
        train, validation, tested = _split(own, 2)
    joined = np.frombuffer(b"\0".join(train), np.uint8)
    return Corpus(name, whole.hexdigest(), joined, tuple(validation), tuple(tested))


def _add(whole: "hashlib._Hash", documents: list[bytes]) -> None:
    """Add documents to a hash, each behind its length."""
    for text in documents:
        whole.update(len(text).to_bytes(8, "little") + text)


def _documents(which: str, source: str) -> tuple[str, dict[str, bytes]]:
    """Return the name of a source, and its documents that are not empty by name.

    Args:
        which: corpus it is, for errors.
        source: as `load_corpus` takes it.
    """
    try:
        name, named = _read(which, source)
    except (OSError, ValueError, RuntimeError) as error:
        raise CorpusError(
            f"{which} {source!r}: every file must be readable, got {error}"
        ) from error
    documents = {name: text for name, text in sorted(named.items()) if text}
    if not documents:
        raise CorpusError(f"{which} {source!r}: must hold at least one byte, got none")
    return name, documents


def _read(which: str, source: str) -> tuple[str, dict[str, bytes]]:
    """Return the name of a corpus, and its documents by name.

    Two copies of the documents must fit in memory, because they are joined.
    """
    if source == STDLIB:
        with zipfile.ZipFile(LIBRARY) as library:
            return STDLIB_NAME, {
                file: library.read(file) for file in library.namelist()
            }
    if not source:
        raise CorpusError(f"{which} must be a file or a folder, got an empty name")
    folder = Path(source)
    name = folder.resolve().name
    if folder.is_file():
        paths = [folder]
        folder = folder.parent
    elif folder.is_dir():
        paths = [path for path in folder.rglob("*") if path.is_file()]
    else:
        raise CorpusError(
            f"{which} {source!r}: must be a file or a folder, but does not exist"
        )
    size = sum(path.stat().st_size for path in paths)
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    if 2 * size > memory:
        raise CorpusError(
            f"{which} {source!r}: must fit twice in {memory / 2**30:.1f} GiB of "
            f"memory, got {size / 2**30:.1f} GiB"
        )
    return name, {
        path.relative_to(folder).as_posix(): read_regular(path, size) for path in paths
    }


def _split(documents: list[bytes], sets: int) -> list[list[bytes]]:
    """Return documents to train on, to choose by and, of two sets, to test on.

    Whole documents are held out, chosen by a hash of their bytes, equal ones together.
    Of a single document the end is for testing, and what precedes it for choosing.
    """
    if len(documents) == 1:
        (text,) = documents
        cuts = [round(len(text) * (1 - n * HELD_OUT)) for n in range(sets, -1, -1)]
        return [[text[: cuts[0]]], *([text[a:b]] for a, b in pairwise(cuts))]
    shuffled = sorted(documents, key=lambda text: hashlib.sha256(text).digest())
    least = HELD_OUT * sum(map(len, documents))
    held_out: list[list[bytes]] = [[] for _ in range(sets)]
    for some in held_out:
        while sum(map(len, some)) < least and len(shuffled) > 1:
            some.append(shuffled.pop())
            while shuffled and shuffled[-1] == some[-1]:
                some.append(shuffled.pop())
    return [shuffled, *reversed(held_out)]
