"""Time a step of training by scheme, and of models of other packages of that size.

The floor is a step without a scheme. Two layers of width 128 and four heads read eight
texts of 256 bytes. Other packages have layers of other making, so their figures say
what a user of theirs waits for, and no more.

    python -m benchmarks steps [scheme ...]
"""

from itertools import count

import torch
import torch.nn.functional as F
from torch import nn

from benchmarks.peers import BYTES, Logits, installed
from benchmarks.rounds import FLOOR, Run, kept, timed
from posenc_compare.schemes import Variant
from posenc_compare.settings.training import Training
from posenc_compare.tasks.corpus import load_corpus
from posenc_compare.train.trainer import trainer_of

SETTING = Training(length=256, batch=8, steps=10_000)
SCHEMES = ("rope", "alibi", "t5_bias", "fox", "shaw", "path")
ROUNDS = 21


def trained(name: str, setting: Training) -> Run:
    """Return what takes the next step of training a scheme."""
    trainer, steps = trainer_of(Variant(name), setting), count()
    return lambda: trainer.step(next(steps))


def stepped(model: nn.Module, logits: Logits) -> Run:
    """Return what takes a step with another package's model."""
    tokens = torch.randint(BYTES, (SETTING.batch, SETTING.length + 1))
    optimiser = torch.optim.AdamW(model.parameters(), lr=SETTING.learning_rate)

    def run() -> None:
        found = logits(tokens[:, :-1])
        loss = F.cross_entropy(found.flatten(0, 1), tokens[:, 1:].flatten())
        optimiser.zero_grad(set_to_none=True)
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimiser.step()

    return run


def main(words: list[str]) -> None:
    """Print and keep ratios to the floor."""
    torch.set_num_threads(1)
    torch.set_flush_denormal(True)
    setting = SETTING.resolve(load_corpus)
    cases = {FLOOR: trained("nope", setting)}
    cases |= {name: trained(name, setting) for name in words or SCHEMES}
    cases |= {name: stepped(*peer) for name, peer in installed(setting)}
    found = timed(cases, ROUNDS, memory=False)
    kept("steps", {"step": found}, setting=str(SETTING), rounds=ROUNDS)
