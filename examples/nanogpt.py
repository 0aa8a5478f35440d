"""Train a small GPT with any scheme: grouped queries, packing, autocast, a cache.

python examples/nanogpt.py rope
"""

import math
import sys
import tokenize
from pathlib import Path

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from posenc_compare.attention import Mask, Session
from posenc_compare.schemes import Geometry
from posenc_compare.variants import labelled

LAYERS, WIDTH, HEADS, KEY_HEADS, DIM, LENGTH = 2, 64, 4, 2, 16, 128


class Block(nn.Module):
    """Attention in which two query heads share keys, and a perceptron."""

    def __init__(self) -> None:
        super().__init__()
        self.norms = nn.ModuleList(nn.LayerNorm(WIDTH) for _ in range(2))
        self.queries = nn.Linear(WIDTH, HEADS * DIM, bias=False)
        self.keys_values = nn.Linear(WIDTH, 2 * KEY_HEADS * DIM, bias=False)
        self.out = nn.Linear(HEADS * DIM, WIDTH, bias=False)
        self.up, self.down = nn.Linear(WIDTH, 4 * WIDTH), nn.Linear(4 * WIDTH, WIDTH)

    def forward(self, x: Tensor, session: Session, layer: int) -> Tensor:
        seen = self.norms[0](x)
        q = self.queries(seen).unflatten(-1, (HEADS, DIM)).transpose(1, 2)
        both = self.keys_values(seen).unflatten(-1, (2 * KEY_HEADS, DIM))
        k, v = both.transpose(1, 2).chunk(2, dim=1)
        read = session.attend(layer, q, k, v, x=seen)
        x = x + self.out(read.transpose(1, 2).flatten(2))
        return x + self.down(F.gelu(self.up(self.norms[1](x))))


class GPT(nn.Module):
    """Tokens, blocks, and a scheme that has what it trains in every layer."""

    def __init__(self, scheme: str) -> None:
        super().__init__()
        layers = (Geometry(WIDTH, HEADS, DIM, LENGTH, i, LAYERS) for i in range(LAYERS))
        self.own = [labelled(scheme).build(layer) for layer in layers]
        self.schemes = nn.ModuleList(self.own)  # so that they are trained
        self.tokens = nn.Embedding(256, WIDTH)
        nn.init.normal_(self.tokens.weight, std=WIDTH**-0.5)
        self.blocks = nn.ModuleList(Block() for _ in range(LAYERS))
        self.norm = nn.LayerNorm(WIDTH)

    def forward(self, tokens: Tensor, session: Session) -> Tensor:
        x = session.embed(self.tokens(tokens) * WIDTH**0.5)
        for layer, block in enumerate(self.blocks):
            x = block(x, session, layer)
        return F.linear(self.norm(x), self.tokens.weight)


def train(model: GPT, text: Tensor, steps: int) -> float:
    """Return the bits per byte of the last step; rows pack two documents each."""
    half, loss = LENGTH // 2, torch.zeros(())
    optimiser = torch.optim.AdamW(model.parameters(), lr=3e-3)
    positions = torch.arange(half).repeat(2)
    mask = Mask(segments=torch.arange(2).repeat_interleave(half).expand(8, -1))
    for _ in range(steps):
        rows = text[torch.randint(len(text) - half, (16, 1)) + torch.arange(half + 1)]
        session = Session(model.own, positions, mask=mask)
        with torch.autocast("cpu", torch.bfloat16):
            logits = model(rows[:, :-1].reshape(8, LENGTH), session)
        loss = F.cross_entropy(logits.float().flatten(0, 1), rows[:, 1:].flatten())
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
    return loss.item() / math.log(2)


@torch.no_grad()
def generate(model: GPT, tokens: Tensor, count: int) -> Tensor:
    """Return the likeliest bytes that follow, read one by one with a cache."""
    positions, given = torch.arange(tokens.shape[1] + count), tokens
    session = Session(model.own, positions, fed=tokens.shape[1], cache=True)
    for _ in range(count):
        given = model(given, session)[:, -1:].argmax(dim=-1)
        tokens = torch.cat([tokens, given], dim=1)
        session.extend()
    return tokens


if __name__ == "__main__":
    torch.manual_seed(0)
    text = torch.tensor(list(Path(tokenize.__file__).read_bytes()))
    model = GPT(sys.argv[1] if sys.argv[1:] else "rope")
    print(f"{train(model, text, steps=60):.2f} bits per byte")
    print(bytes(generate(model, text[None, :100], 40)[0].tolist()).decode())
