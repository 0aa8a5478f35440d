"""Train a decoder at one length and test it at several.

Batches, initial weights and the learning rate of every step are pure functions of
the recipe and the seed, so every scheme sees the same bytes in the same order.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from posenc_compare.analysis.streams import stream_seed
from posenc_compare.analysis.training.corpus import Corpus
from posenc_compare.analysis.training.decoder import VOCABULARY, Decoder
from posenc_compare.errors import DivergedError

TEST_TOKENS = 16_384  # bytes in one forward pass of a test
CHECK = 50  # steps between two looks at whether the loss is finite


@dataclass(frozen=True)
class Recipe:
    """How a decoder is trained.

    Attributes:
        steps: optimiser steps.
        batch: sequences per step.
        length: bytes per sequence.
        learning_rate: peak of AdamW's rate; warmed up linearly over a tenth of the
            steps, then lowered along a cosine to a tenth.
        weight_decay: of matrices; vectors and scheme parameters are not decayed.
        autocast: run the network in bfloat16 where torch's autocast does.
        compiled: compile the network with `torch.compile`.
    """

    steps: int
    batch: int
    length: int
    learning_rate: float
    weight_decay: float
    autocast: bool
    compiled: bool


def train(
    model: Decoder,
    corpus: Corpus,
    recipe: Recipe,
    seed: int,
    progress: Callable[[int], None] = lambda steps: None,
) -> list[float]:
    """Train in place.

    Args:
        model: the decoder, on its device.
        corpus: where batches come from.
        recipe: how to train.
        seed: of the batches.
        progress: called with 1 after every step.

    Returns:
        The training loss of every step, in bits per byte.

    Raises:
        DivergedError: if the loss is no longer a finite number.
    """
    device = model.embedding.weight.device
    optimiser = torch.optim.AdamW(
        _groups(model, recipe.weight_decay), lr=recipe.learning_rate, betas=(0.9, 0.95)
    )
    positions = torch.arange(recipe.length, device=device)
    run = torch.compile(model) if recipe.compiled else model
    losses = []
    model.train()
    for step in range(recipe.steps):
        rate = recipe.learning_rate * _schedule(step, recipe.steps)
        for group in optimiser.param_groups:
            group["lr"] = rate * group["rate"]
        tokens = corpus.batch(recipe.batch, recipe.length, seed, step).to(device)
        with torch.autocast(device.type, torch.bfloat16, enabled=recipe.autocast):
            ids = generator(seed, step)
            logits = run(tokens[:, :-1], positions, ids)
        loss = F.cross_entropy(
            logits.float().reshape(-1, VOCABULARY), tokens[:, 1:].reshape(-1)
        )
        optimiser.zero_grad(set_to_none=True)
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimiser.step()
        losses.append(loss.detach())
        if step % CHECK == CHECK - 1:
            _check_finite(losses[-CHECK:], step + 1 - CHECK)
        progress(1)
    _check_finite(losses, 0)
    return (torch.stack(losses) / math.log(2)).tolist()


def _check_finite(losses: list[Tensor], first: int) -> None:
    for step, loss in enumerate(torch.stack(losses).tolist(), start=first):
        if not math.isfinite(loss):
            raise DivergedError(f"training loss became {loss} at step {step}")


@torch.no_grad()
def evaluate(model: Decoder, windows: Tensor, length: int, autocast: bool) -> Tensor:
    """Return bits per byte at every position, averaged over windows.

    Args:
        model: the decoder.
        windows: `(window, longest + 1)` bytes; each is cut into pieces of `length`,
            so that every length predicts the same bytes.
        length: bytes of context at most.
        autocast: as in `Recipe`.

    Returns:
        `(length,)` float64, bits. Its mean is the figure for the whole text.
    """
    model.eval()
    device = model.embedding.weight.device
    inputs = windows[:, :-1].reshape(-1, length).long()
    targets = windows[:, 1:].reshape(-1, length).long()
    positions = torch.arange(length, device=device)
    size = max(1, TEST_TOKENS // length)
    total = torch.zeros(length, dtype=torch.float64)
    for start in range(0, len(inputs), size):
        some, wanted = (t[start : start + size].to(device) for t in (inputs, targets))
        with torch.autocast(device.type, torch.bfloat16, enabled=autocast):
            logits = model(some, positions, generator(start, "test"))
        loss = F.cross_entropy(logits.float().mT, wanted, reduction="none")
        total += loss.double().sum(dim=0).cpu()
    return total / len(inputs) / math.log(2)


def generator(*purpose: str | int) -> torch.Generator:
    """Return the generator of random position ids for one forward pass."""
    return torch.Generator().manual_seed(stream_seed("positions", *purpose))


def _groups(model: Decoder, weight_decay: float) -> list[dict[str, Any]]:
    """Split parameters by what AdamW does with them.

    A token vector is the embedding's row times sqrt(width), so a step of the
    optimiser moves it sqrt(width) times the rate. The parameters of a scheme, which
    reach the network unscaled, get the rate times sqrt(width), to move as fast.
    """
    of_scheme = {id(p): p for scheme in model.schemes for p in scheme.parameters()}
    network = [p for p in model.parameters() if id(p) not in of_scheme]
    return [
        {
            "params": [p for p in network if p.dim() > 1],
            "weight_decay": weight_decay,
            "rate": 1.0,
        },
        {
            "params": [p for p in network if p.dim() < 2],
            "weight_decay": 0.0,
            "rate": 1.0,
        },
        {
            "params": list(of_scheme.values()),
            "weight_decay": 0.0,
            "rate": model.embedding.embedding_dim**0.5,
        },
    ]


def _schedule(step: int, steps: int) -> float:
    """Return the share of the peak rate: linear warm-up, then a cosine to 0.1."""
    warm = max(1, steps // 10)
    if step < warm:
        return (step + 1) / warm
    done = (step - warm) / max(1, steps - warm)
    return 0.55 + 0.45 * math.cos(math.pi * done)
