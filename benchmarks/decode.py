"""Time the step that decodes one token after 1900, in one layer of eight heads of 64.

The floor is plain torch: new keys and values are joined to those before, and torch's
kernel attends to all. A session keeps keys and values likewise.

    python -m benchmarks decode [scheme ...]
"""

from collections.abc import Iterator

import torch
import torch.nn.functional as F
from torch import Tensor

from benchmarks.rounds import FLOOR, Run, kept, timed
from posenc_compare.attention import Session
from posenc_compare.schemes import Geometry
from posenc_compare.variants import labelled

SCHEMES = ("nope", "rope", "rope:layout=half", "alibi", "t5_bias")
WIDTH, HEADS, BEFORE, ROUNDS = 512, 8, 1900, 60
TOKENS = BEFORE + ROUNDS + 1


def tokens() -> tuple[Tensor, ...]:
    """Return queries, keys and values of all tokens."""
    draw = torch.Generator().manual_seed(0)
    return torch.randn(3, 1, HEADS, TOKENS, WIDTH // HEADS, generator=draw).unbind()


def plain() -> Iterator[Tensor]:
    """Yield the output for each new token."""
    q, k, v = tokens()
    keys, values = k[:, :, :BEFORE].clone(), v[:, :, :BEFORE].clone()
    for new in range(BEFORE, TOKENS):
        keys = torch.cat([keys, k[:, :, new : new + 1]], dim=2)
        values = torch.cat([values, v[:, :, new : new + 1]], dim=2)
        yield F.scaled_dot_product_attention(q[:, :, new : new + 1], keys, values)


def decoded(label: str) -> Iterator[Tensor]:
    """Yield the output of a session for each new token."""
    parts, x = tokens(), torch.zeros(1, TOKENS, WIDTH)
    scheme = labelled(label).build(Geometry(model_dim=WIDTH, heads=HEADS, length=2048))
    session = Session(scheme, torch.arange(TOKENS), fed=BEFORE, cache=True)
    for _ in range(BEFORE, TOKENS + 1):
        new = slice(session.start, session.end)
        seen = session.embed(x[:, new])
        out = session.attend(0, *(part[:, :, new] for part in parts), x=seen)
        if session.start:
            yield out
        if session.end < TOKENS:
            session.extend()


def stepped(steps: Iterator[Tensor]) -> Run:
    """Return what decodes the next token."""
    return lambda: next(steps)


@torch.no_grad()
def main(words: list[str]) -> None:
    """Print and keep ratios to the floor."""
    torch.set_num_threads(1)
    torch.set_flush_denormal(True)
    cases = {FLOOR: stepped(plain())}
    cases |= {label: stepped(decoded(label)) for label in words or SCHEMES}
    column = f"one token after {BEFORE}"
    kept("decode", {column: timed(cases, ROUNDS, memory=False)}, rounds=ROUNDS)
