"""Time the execution paths of attention against the kernel without a bias.

The floor is `is_causal` and nothing added. All cases give what the definition gives in
float64 at 1100 positions, in several blocks, or they are not timed.

    python -m benchmarks attention [length ...]
"""

import torch
import torch.nn.functional as F
from torch import Tensor

from benchmarks.rounds import FLOOR, Run, kept, timed
from posenc_compare.attention import Path, attention
from posenc_compare.schemes import Scheme, create

HEADS, HEAD_DIM, ROUNDS, CHECKED = 8, 64, 9, 1100
DENSE_LIMIT = 4096  # longer dense biases take gigabytes
CASES: list[tuple[str, Path]] = [
    ("nope", "fused"),
    ("rope", "fused"),
    ("pope", "fused"),
    ("alibi", "strided"),
    ("alibi", "dense"),
    ("t5_bias", "strided"),
    ("t5_bias", "dense"),
    ("kerple_log", "strided"),
    ("fire", "dense"),
    ("transformer_xl", "dense"),
    ("deberta", "dense"),
    ("shaw", "plain"),
    ("cope", "plain"),
    ("dape", "plain"),
]


def made(name: str, length: int) -> Scheme:
    """Return a scheme for a length, the same in every call."""
    torch.manual_seed(1)
    return create(
        name, model_dim=HEADS * HEAD_DIM, heads=HEADS, head_dim=HEAD_DIM, length=length
    )


def inputs(length: int) -> tuple[Tensor, Tensor, Tensor]:
    """Return queries, keys and values."""
    torch.manual_seed(0)
    q, k, v = torch.randn(3, 1, HEADS, length, HEAD_DIM).unbind()
    return q, k, v


def check(name: str, path: Path) -> None:
    """Stop unless a path gives what the definition gives in float64."""
    q, k, v = inputs(CHECKED)
    positions, scheme = torch.arange(CHECKED), made(name, CHECKED)
    with torch.no_grad():
        got = attention(q, k, v, scheme=scheme, positions=positions, path=path)
        wide = (x.double() for x in (q, k, v))
        exact = attention(
            *wide, scheme=scheme.double(), positions=positions, path="plain"
        )
    if (error := (got - exact).abs().max().item()) > 1e-4:  # float32
        raise SystemExit(f"{name} on {path}: off by {error:.1e}")


def cases(length: int, backward: bool) -> dict[str, Run]:
    """Return what is timed at a length."""
    q, k, v = (x.requires_grad_(backward) for x in inputs(length))
    positions = torch.arange(length)

    def floor() -> Tensor:
        return F.scaled_dot_product_attention(q, k, v, is_causal=True)

    def run(forward: Run) -> Run:
        def both() -> None:
            out = forward()
            if backward and isinstance(out, Tensor):
                out.sum().backward()

        return both

    runs: dict[str, Run] = {FLOOR: run(floor)}
    for name, path in CASES:
        if path in ("dense", "plain") and length > DENSE_LIMIT:
            continue
        scheme = made(name, length).requires_grad_(backward)

        def case(scheme: Scheme = scheme, path: Path = path) -> Tensor:
            return attention(q, k, v, scheme=scheme, positions=positions, path=path)

        runs[f"{name}, {path}"] = run(case)
    return runs


def main(words: list[str]) -> None:
    """Print and keep ratios to the floor."""
    torch.set_num_threads(1)
    torch.set_flush_denormal(True)
    for case in CASES:
        check(*case)
    lengths = [int(word) for word in words] or [512, 2048, 8192]
    columns = {}
    for backward in (False, True):
        for length in lengths:
            title = f"{length}, {'with gradient' if backward else 'forward'}"
            with torch.set_grad_enabled(backward):
                columns[title] = timed(cases(length, backward), ROUNDS)
    kept("attention", columns, heads=HEADS, head_dim=HEAD_DIM, rounds=ROUNDS)
