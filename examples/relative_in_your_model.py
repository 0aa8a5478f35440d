"""Let queries and keys of a model of your own know how far apart they are."""

import torch

from posenc_compare.attention import attention
from posenc_compare.schemes import create

torch.manual_seed(0)
positions = torch.arange(100)
q, k = torch.randn(2, 4, 8, 100, 64)  # batch 4, heads 8, 100 tokens, head_dim 64
v = positions.float()[:, None].expand(4, 8, 100, 64)  # every value is its position

for name in ("nope", "alibi"):
    scheme = create(name, heads=8, head_dim=64)
    read = attention(q, k, v, scheme=scheme, positions=positions)
    back = (v - read)[:, :, -1].mean().item()
    print(f"{name}: the last token looks {back:.1f} tokens back on average")
