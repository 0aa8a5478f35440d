"""Masked: predict masked bytes of real text from both sides.

A share of 15 % of the bytes is masked, as in BERT (Devlin et al. 2018,
arXiv:1810.04805, section 3.1). Here each of them becomes the mask token; BERT leaves a
tenth of them as they are and replaces another tenth by random tokens. Every test length
predicts the same bytes.
"""

import numpy as np
import torch
from torch import Tensor

from posenc_compare.settings.seeds import stream_seed
from posenc_compare.settings.training import Training
from posenc_compare.tasks.language import Language
from posenc_compare.tasks.task import Batch, Task, register_task

MASK = 256  # the token behind the bytes
SHARE = 0.15


@register_task(
    "masked",
    vocabulary=257,
    score="bits_per_byte",
    chance=8.0,
    corpus=True,
    network="encoder",
)
class Masked(Language):
    """Predict masked bytes of a corpus, in documents that are held out.

    Raises:
        CorpusError: if the corpus has changed since the setting was planned, or is too
            small.
    """

    sliding = Task.sliding  # bytes beyond a window are read from both sides here
    floors = Task.floors  # n-gram models read one side

    def __init__(self, setting: Training) -> None:
        super().__init__(setting)
        self.documents = ()  # masked bytes are too few for a mean of each

    def batch(self, step: int, seed: int) -> Batch:
        text = super().batch(step, seed).tokens
        return _masked(text, stream_seed("masked", "train", seed, step))

    def test(self, length: int) -> Batch:
        whole = _masked(self.windows[:, :-1], stream_seed("masked", self.setting.split))
        assert whole.weights is not None
        parts = whole.tokens, whole.targets, whole.weights
        return Batch(*(part.reshape(-1, length) for part in parts))


def _masked(text: Tensor, seed: int) -> Batch:
    """Return the batch in which drawn bytes of a text are masked, one at the least."""
    rng = np.random.default_rng(seed)
    chosen = torch.from_numpy(rng.random(text.shape) < SHARE)
    chosen[0, 0] |= not chosen.any()
    return Batch(text.masked_fill(chosen, MASK), text, chosen.float())
