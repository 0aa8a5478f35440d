"""Test a trained decoder: the score of every token, and figures made of them."""

import math

import torch
import torch.nn.functional as F
from torch import Tensor

from posenc_compare.tasks.task import Batch
from posenc_compare.train.decoder import Decoder, ids_of
from posenc_compare.transfer import to_device

TEST_TOKENS = 8192  # in one forward pass of a test, which has one draw of random ids
LEAST_ROWS = 8  # at least, in a product: of fewer, torch may round the sums otherwise


@torch.no_grad()
def evaluate(
    model: Decoder, batch: Batch, autocast: bool, score: str = "bits_per_byte"
) -> Tensor:
    """Return the score of every token.

    Args:
        model: the decoder.
        batch: sequences of one length.
        autocast: run the network in bfloat16 where torch's autocast does.
        score: bits_per_byte, or accuracy, 1 for a token that is predicted and else 0.

    Returns:
        `(sequence, length)` float32, on the CPU; 0 at places before the first that
        counts in any sequence, so far as they are not read. It is NaN where a logit is.
    """
    model.eval()
    device = model.embedding.weight.device
    count, length = batch.tokens.shape
    positions = batch.positions_for(model.axes)
    size = max(1, TEST_TOKENS // length)
    fewest = count % size or size  # sequences in a pass
    first = min(_first_counted(batch), max(0, length - math.ceil(LEAST_ROWS / fewest)))
    found: list[Tensor] = []
    for start in range(0, count, size):
        part = slice(start, start + size)
        both = batch.tokens, batch.targets
        some, wanted = (to_device(t[part], device) for t in both)
        with torch.autocast(device.type, torch.bfloat16, enabled=autocast):
            ids = ids_of(start, "test")
            logits = model(some, positions, ids, first, batch.sides)
        # As many places as ever: for a few, torch would round the losses otherwise.
        logits = F.pad(logits, (0, 0, first, 0))
        if score == "accuracy":
            right = (logits.argmax(dim=-1) == wanted).float()
            scores = right.masked_fill(~logits.isfinite().all(dim=-1), torch.nan)
        else:
            losses = F.cross_entropy(logits.float().mT, wanted, reduction="none")
            scores = losses / math.log(2)
        scores[:, :first] = 0
        found.append(scores.cpu())
    return torch.cat(found)


def _first_counted(batch: Batch) -> int:
    """Return the first place that counts in any sequence, or 0 if none does."""
    return 0 if batch.weights is None else int(batch.weights.any(dim=0).int().argmax())


def by_place(scores: Tensor, batch: Batch) -> Tensor:
    """Return the score at every place, `(length,)` float64, averaged over sequences.

    Its mean is the figure for all sequences, each token by its weight.
    """
    if batch.weights is None:
        return scores.double().mean(dim=0)
    weights = batch.weights.double()
    return (scores * weights).sum(dim=0) * scores.shape[1] / weights.sum()


def scores_that_count(scores: Tensor, batch: Batch) -> Tensor:
    """Return the scores of the tokens that count, in the order of their sequences."""
    return scores if batch.weights is None else scores[batch.weights > 0]


def exact_match(scores: Tensor, batch: Batch) -> float:
    """Return the share of sequences of which every token that counts is right.

    Sequences in which no token counts are left out.
    """
    right = scores > 0
    if batch.weights is not None:
        counts = batch.weights > 0
        right = (right | ~counts)[counts.any(dim=1)]
    return float(right.all(dim=1).double().mean())
