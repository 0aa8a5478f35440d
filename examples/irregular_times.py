"""Learn an average that fades to 1/e in a second, from events at irregular times."""

import torch
from torch import nn

from posenc_compare.attention import attention
from posenc_compare.schemes import create

WIDTH, HEADS, EVENTS = 16, 2, 48


def error(in_seconds: bool, steps: int = 150) -> float:
    """Return the share of the variance that a trained layer does not explain."""
    torch.manual_seed(0)
    scheme = create("rope:base=1000", model_dim=WIDTH, heads=HEADS)
    heads, last = nn.Linear(1, 3 * WIDTH), nn.Linear(WIDTH, 1)
    optimiser = torch.optim.Adam([*heads.parameters(), *last.parameters()], lr=3e-2)
    share = torch.zeros(())
    for _ in range(steps):
        gaps = 10 ** (3 * torch.rand(32, EVENTS).double() - 2.5)  # from 3 ms to 3 s
        times, values = gaps.cumsum(dim=1), torch.randn(32, EVENTS, 1)
        weights = torch.exp(times[:, None] - times[:, :, None]).tril()
        averages = weights @ values.double() / weights.sum(dim=-1, keepdim=True)
        positions = times if in_seconds else torch.arange(EVENTS)
        parts = heads(values).unflatten(2, (3 * HEADS, -1)).transpose(1, 2)
        read = attention(*parts.chunk(3, 1), scheme=scheme, positions=positions)
        wrong = last(read.transpose(1, 2).flatten(2)) - averages
        share = wrong.square().mean() / averages.square().mean()
        optimiser.zero_grad()
        share.backward()
        optimiser.step()
    return share.item()


if __name__ == "__main__":
    print(f"positions in seconds: {error(True):.1%} of the variance is left")
    print(f"positions in counts: {error(False):.1%} of the variance is left")
