"""Train an encoder-decoder, with a scheme for each layer, to reverse digits."""

import sys

import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy, layer_norm, pad

from posenc_compare.attention import Mask, Session
from posenc_compare.schemes import create

WIDTH, HEADS, LENGTH, IDS, BEGIN = 32, 4, 6, torch.arange(6), 10


class Layer(nn.Module):
    """Attention of `x` to `text`, or, without one, to the text of the first pass."""

    def __init__(self, scheme: str) -> None:
        super().__init__()
        self.scheme = create(scheme, model_dim=WIDTH, heads=HEADS, length=LENGTH)
        self.q, self.kv = nn.Linear(WIDTH, WIDTH), nn.Linear(WIDTH, 2 * WIDTH)

    def forward(self, x: Tensor, text: Tensor | None, session: Session) -> Tensor:
        q, kv = self.q(x).unflatten(2, (HEADS, -1)).transpose(1, 2), (None, None)
        if text is not None:
            kv = self.kv(text).unflatten(2, (2 * HEADS, -1)).transpose(1, 2).chunk(2, 1)
        read = session.attend(0, q, *kv, x=x).transpose(1, 2).flatten(2)
        return layer_norm(x + read, (WIDTH,))


class Model(nn.Module):
    """A layer that reads the source, and two that write the target."""

    def __init__(self, encoder: str, own: str, between: str) -> None:
        super().__init__()
        self.encoder, self.own, self.between = map(Layer, (encoder, own, between))
        self.tokens, self.logits = nn.Embedding(11, WIDTH), nn.Linear(WIDTH, 10)

    def read(self, source: Tensor, fed: int | None = None):
        encoder = Session(self.encoder.scheme, IDS, mask=Mask(causal=False))
        x = encoder.embed(self.tokens(source))
        own = Session(self.own.scheme, IDS, fed=fed, cache=True)
        given = {"key_positions": IDS, "mask": encoder.mask, "fed": fed, "cache": True}
        between = Session(self.between.scheme, IDS, **given)
        return self.encoder(x, x, encoder), own, between

    def forward(self, target: Tensor, source: Tensor | None, *passes: Session):
        x = passes[0].embed(self.tokens(target))
        return self.logits(self.between(self.own(x, x, passes[0]), source, passes[1]))


def train(model: Model, steps: int) -> None:
    """Learn each digit of the reversed row from those before it."""
    optimiser = torch.optim.Adam(model.parameters(), lr=5e-3)
    for _ in range(steps):
        source = torch.randint(10, (64, LENGTH))
        target = pad(source.flip(1)[:, :-1], (1, 0), value=BEGIN)
        optimiser.zero_grad()
        cross_entropy(model(target, *model.read(source)).mT, source.flip(1)).backward()
        optimiser.step()


def reverse(model: Model, source: Tensor) -> Tensor:
    """Return the likeliest digits, one digit per token. The source is read once."""
    memory, *passes = model.read(source, fed=0)
    found = [torch.full((len(source), 1), BEGIN)]
    for step in range(LENGTH):
        for session in passes:
            session.extend()
        found.append(model(found[-1], None if step else memory, *passes).argmax(2))
    return torch.cat(found[1:], dim=1)


if __name__ == "__main__":
    model, source = Model(*sys.argv[1:] or ["learned"] * 3), torch.randint(10, (500, 6))
    train(model, steps=300)
    right = (reverse(model, source) == source.flip(1)).float().mean()
    print(f"{right:.2f} of the digits are right")
