"""Time a step of training by scheme, and of models of other packages of that size.

The floor is a step without a scheme. Two layers of width 128 and four heads read eight
texts of 256 bytes. Other packages have layers of other making, so their figures say
what a user of theirs waits for, and no more. The miniature is the network of `quick`;
there the floor is the same network in plain torch, or `nope`.

    python -m benchmarks steps [scheme ...]
"""

from itertools import count

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from benchmarks.peers import BYTES, Logits, installed
from benchmarks.rounds import FLOOR, Run, Timing, kept, timed
from posenc_compare.schemes import Variant
from posenc_compare.settings.presets import PRESETS
from posenc_compare.settings.training import Training
from posenc_compare.tasks.corpus import load_corpus
from posenc_compare.train.trainer import trainer_of

SETTING = Training(length=256, batch=8, steps=10_000)
SCHEMES = ("rope", "alibi", "t5_bias", "fox", "shaw", "path")
ROUNDS = 21
SMALL = PRESETS["quick"].training
SMALL_ROUNDS = 201


class Plain(nn.Module):
    """The network of a run without positions, as one writes it in plain torch."""

    def __init__(self, width: int, heads: int, layers: int) -> None:
        super().__init__()
        self.embedding = nn.Embedding(BYTES, width)
        self.layers = nn.ModuleList(PlainLayer(width, heads) for _ in range(layers))
        self.norm = nn.LayerNorm(width)

    def forward(self, tokens: Tensor) -> Tensor:
        """Return logits `(batch, seq, BYTES)` of tokens `(batch, seq)`."""
        x = self.embedding(tokens)
        for layer in self.layers:
            x = layer(x)
        return F.linear(self.norm(x), self.embedding.weight)


class PlainLayer(nn.Module):
    """Causal attention and a two-layer perceptron, each after a norm."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.attention_norm = nn.LayerNorm(width)
        self.query = nn.Linear(width, width, bias=False)
        self.key = nn.Linear(width, width, bias=False)
        self.value = nn.Linear(width, width, bias=False)
        self.out = nn.Linear(width, width, bias=False)
        self.mlp_norm = nn.LayerNorm(width)
        self.up = nn.Linear(width, 4 * width)
        self.down = nn.Linear(4 * width, width)

    def forward(self, x: Tensor) -> Tensor:
        """Return `(batch, seq, width)`, as is given."""
        seen = self.attention_norm(x)
        q, k, v = (
            project(seen).unflatten(-1, (self.heads, -1)).transpose(1, 2)
            for project in (self.query, self.key, self.value)
        )
        read = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.out(read.transpose(1, 2).flatten(2))
        return x + self.down(F.gelu(self.up(self.mlp_norm(x))))


def trained(name: str, setting: Training) -> Run:
    """Return what takes the next step of training a scheme."""
    trainer, steps = trainer_of(Variant(name), setting), count()
    return lambda: trainer.step(next(steps))


def stepped(
    model: nn.Module,
    logits: Logits,
    setting: Training = SETTING,
    *,
    fused: bool = False,
) -> Run:
    """Return what takes a step with a model that is not of this package."""
    tokens = torch.randint(BYTES, (setting.batch, setting.length + 1))
    parameters, rate = model.parameters(), setting.learning_rate
    optimiser = torch.optim.AdamW(parameters, lr=rate, fused=fused)

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
    columns = {"step": timed(cases, ROUNDS, memory=False), **miniature()}
    kept("steps", columns, setting=str(SETTING), rounds=ROUNDS)


def miniature() -> dict[str, list[Timing]]:
    """Return steps of the miniature, as ratios to plain torch and to `nope`."""
    setting = SMALL.resolve(load_corpus)
    network = Plain(setting.width, setting.heads, setting.layers)
    plain = {
        FLOOR: stepped(network, network, setting, fused=True),
        "nope": trained("nope", setting),
    }
    wall = {FLOOR: trained("nope", setting), "wall": trained("wall", setting)}
    return {
        "miniature": timed(plain, SMALL_ROUNDS, memory=False),
        "miniature, to nope": timed(wall, SMALL_ROUNDS, memory=False),
    }
