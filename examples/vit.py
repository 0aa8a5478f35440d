"""A vision transformer for images of several sizes, with a class token.

    python examples/vit.py learned_2d

Trains on 8 x 8 patches and reads larger images through a `Session`, which tells the
scheme the size of each image. Then the scheme is checked against a port of your own.
"""

import sys

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from posenc_compare.attention import Mask, Session
from posenc_compare.schemes import create

SIDE, WIDTH, HEADS, LAYERS = 8, 64, 4, 2  # SIDE: patches on a side in training


class Block(nn.Module):
    """A layer of the transformer."""

    def __init__(self) -> None:
        super().__init__()
        self.norms = nn.ModuleList(nn.LayerNorm(WIDTH) for _ in range(2))
        self.qkv, self.out = nn.Linear(WIDTH, 3 * WIDTH), nn.Linear(WIDTH, WIDTH)
        self.mlp = nn.Sequential(
            nn.Linear(WIDTH, 4 * WIDTH), nn.GELU(), nn.Linear(4 * WIDTH, WIDTH)
        )

    def forward(self, x: Tensor, session: Session, layer: int) -> Tensor:
        h = self.norms[0](x)
        q, k, v = self.qkv(h).unflatten(-1, (3, HEADS, -1)).permute(2, 0, 3, 1, 4)
        heads = session.attend(layer, q, k, v, x=h)
        x = x + self.out(heads.transpose(1, 2).flatten(2))
        return x + self.mlp(self.norms[1](x))


class VisionTransformer(nn.Module):
    """A classifier that reads its answer from a class token."""

    def __init__(self, name: str) -> None:
        super().__init__()
        # `length` is the number of patches in training; without it, tables hold 512.
        self.own = [
            create(
                name,
                model_dim=WIDTH,
                heads=HEADS,
                length=SIDE**2,
                layers=LAYERS,
                layer=layer,
            )
            for layer in range(LAYERS)
        ]
        self.schemes = nn.ModuleList(self.own)  # so that they are trained
        self.blocks = nn.ModuleList(Block() for _ in range(LAYERS))
        self.patches, self.head = nn.Linear(48, WIDTH), nn.Linear(WIDTH, 10)
        self.class_token = nn.Parameter(torch.randn(WIDTH))

    def forward(self, image: Tensor) -> Tensor:
        """Return logits `(batch, 10)` of images `(batch, rows, columns, 48)`."""
        rows, columns = image.shape[1:3]
        places = torch.cartesian_prod(torch.arange(rows), torch.arange(columns))
        ids = torch.cat([torch.zeros(1, 2).long(), places])  # the class token is first
        session = Session(
            self.own,
            ids,
            placed=torch.arange(len(ids)) >= 1,
            mask=Mask(causal=False),
        )
        x = self.patches(image).flatten(1, 2)
        x = torch.cat([self.class_token.expand(len(x), 1, -1), x], dim=1)
        x = session.embed(x)
        for layer, block in enumerate(self.blocks):
            x = block(x, session, layer)
        return self.head(x[:, 0])


def port(q: Tensor, k: Tensor, table: Tensor) -> Tensor:
    """Return the logits of `swin`, as you would write them for your own model."""
    places = torch.cartesian_prod(torch.arange(SIDE), torch.arange(SIDE))
    away = places[:, None] - places + SIDE - 1  # query minus key, from 0
    bias = table[away[..., 0] * (2 * SIDE - 1) + away[..., 1]]
    return q @ k.mT / q.shape[-1] ** 0.5 + bias.permute(2, 0, 1)


def difference_of_port() -> float:
    """Return the largest difference of logits, in float64 and with random tables."""
    scheme = create("swin", model_dim=WIDTH, heads=HEADS, length=SIDE**2).double()
    (table,) = scheme.parameters()
    nn.init.normal_(table)  # a table of zeros would hide most errors
    q, k = torch.randn(2, 1, HEADS, SIDE**2, WIDTH // HEADS).double()
    places = torch.cartesian_prod(torch.arange(SIDE), torch.arange(SIDE))
    session = Session(scheme, places, mask=Mask(causal=False))
    return (session.logits(0, q, k) - port(q, k, table)).abs().max().item()


if __name__ == "__main__":
    torch.manual_seed(0)
    model = VisionTransformer(sys.argv[1] if sys.argv[1:] else "learned_2d")
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    images, labels = torch.randn(16, SIDE, SIDE, 48), torch.arange(16) % 10
    for _ in range(3):
        loss = F.cross_entropy(model(images), labels)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    for sides in ((8, 8), (16, 16), (4, 32)):
        print(*sides, tuple(model(torch.randn(2, *sides, 48)).shape))
    print(f"largest difference of the port: {difference_of_port():.0e}")
