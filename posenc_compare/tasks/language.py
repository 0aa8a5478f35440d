"""Language: predict the next byte of real text.

Every test length predicts the same held-out bytes: windows have the longest length,
and for a shorter one each is cut into pieces.
"""

import functools

import torch
from torch import Tensor

from posenc_compare.errors import CorpusError
from posenc_compare.settings.training import Training
from posenc_compare.tasks.corpus import load_corpus
from posenc_compare.tasks.ngrams import Ngrams
from posenc_compare.tasks.task import Batch, Task, register_task


def next_bytes(text: Tensor, length: int) -> Batch:
    """Return `(window, ... + 1)` bytes in pieces, each byte with the one behind it."""
    tokens, targets = text[:, :-1], text[:, 1:]
    return Batch(tokens.reshape(-1, length), targets.reshape(-1, length))


@register_task(
    "language", vocabulary=256, score="bits_per_byte", chance=8.0, corpus=True
)
class Language(Task):
    """Predict the next byte of a corpus, in documents that are held out.

    Raises:
        CorpusError: if the corpus has changed since the setting was planned, or is too
            small.
    """

    def __init__(self, setting: Training) -> None:
        super().__init__(setting)
        self.corpus = load_corpus(*setting.places)
        if self.corpus.sha256 != setting.corpus_sha256:
            raise CorpusError(
                f"corpus {self.corpus.name}: sha256 must be {setting.corpus_sha256}, "
                f"got {self.corpus.sha256}; it has changed since this run was planned"
            )
        windows, self.documents = self.corpus.windows(
            setting.split, setting.test_lengths[-1], setting.test_bytes
        )
        self.windows = torch.from_numpy(windows)

    def batch(self, step: int, seed: int) -> Batch:
        setting = self.setting
        text = self.corpus.batch(setting.batch, setting.length, seed, step)
        return next_bytes(torch.from_numpy(text), setting.length)

    def test(self, length: int) -> Batch:
        return next_bytes(self.windows, length)

    def sliding(self, context: int, stride: int) -> Batch | None:
        first = self.setting.length + stride - context
        cuts = self.windows[:, first:].unfold(1, context + 1, stride)
        batch = next_bytes(cuts.reshape(-1, context + 1), context)
        weights = torch.zeros(context)
        weights[-stride:] = 1
        return Batch(batch.tokens, batch.targets, weights.expand(batch.tokens.shape))

    def floors(self, length: int) -> dict[str, Tensor]:
        setting = self.setting
        models = _ngrams(
            setting.places,
            setting.corpus_sha256,
            setting.batch,
            setting.length,
            setting.steps,
            setting.seed,
        )
        batch = self.test(length)
        whole = torch.cat([batch.tokens, batch.targets[:, -1:]], dim=1)
        found = models.bits(whole.numpy())
        return {name: torch.from_numpy(bits) for name, bits in found.items()}


@functools.lru_cache(maxsize=1)
def _ngrams(
    places: tuple[str, str],
    sha256: str,
    batch: int,
    length: int,
    steps: int,
    seed: int,
) -> Ngrams:
    """Return n-gram models of the bytes that a network is trained on."""
    corpus = load_corpus(*places)
    return Ngrams(corpus.batch(batch, length, seed, step) for step in range(steps))
