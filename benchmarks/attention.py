"""Time the execution paths of attention against the kernel without a bias.

Every round times all paths once, in turn, so that noise meets all alike. The table
gives the median over rounds as a ratio to the floor: `is_causal` and nothing added.

    python -m benchmarks attention [length ...]
"""

import statistics
import time
from collections.abc import Callable

import torch
import torch.nn.functional as F

from posenc_compare.attention import Path, attention
from posenc_compare.schemes import Scheme, create

HEADS, HEAD_DIM, ROUNDS = 8, 64, 9
DENSE_LIMIT = 4096  # longer dense biases take gigabytes
CASES: list[tuple[str, Path]] = [
    ("nope", "fused"),
    ("rope", "fused"),
    ("alibi", "strided"),
    ("alibi", "dense"),
    ("t5_bias", "strided"),
    ("t5_bias", "dense"),
]


def timed(run: Callable[[], torch.Tensor], backward: bool) -> float:
    """Return seconds of one forward pass, with the backward pass if asked for."""
    start = time.perf_counter()
    out = run()
    if backward:
        out.sum().backward()
    return time.perf_counter() - start


def ratios(length: int, backward: bool) -> dict[tuple[str, str], float]:
    """Return the median time of each case over the floor's."""
    torch.manual_seed(0)
    q, k, v = torch.randn(3, 1, HEADS, length, HEAD_DIM).unbind()
    for tensor in (q, k, v):
        tensor.requires_grad_(backward)
    positions = torch.arange(length)

    def floor() -> torch.Tensor:
        return F.scaled_dot_product_attention(q, k, v, is_causal=True)

    runs: dict[tuple[str, str], Callable[[], torch.Tensor]] = {("floor", ""): floor}
    for name, path in CASES:
        if path == "dense" and length > DENSE_LIMIT:
            continue
        scheme = create(name, heads=HEADS, head_dim=HEAD_DIM, length=length)
        scheme.requires_grad_(backward)

        def case(scheme: Scheme = scheme, path: Path = path) -> torch.Tensor:
            return attention(q, k, v, scheme=scheme, positions=positions, path=path)

        runs[name, path] = case
    times: dict[tuple[str, str], list[float]] = {key: [] for key in runs}
    for _ in range(ROUNDS + 1):
        for key, run in runs.items():
            times[key].append(timed(run, backward))
    medians = {key: statistics.median(taken[1:]) for key, taken in times.items()}
    return {key: taken / medians["floor", ""] for key, taken in medians.items()}


def main(words: list[str]) -> None:
    """Print a Markdown table of ratios."""
    torch.set_flush_denormal(True)
    lengths = [int(word) for word in words] or [512, 2048, 8192]
    columns = [(n, backward) for backward in (False, True) for n in lengths]
    found = {column: ratios(*column) for column in columns}
    print(f"torch {torch.__version__}, {torch.get_num_threads()} threads, ", end="")
    print(f"{HEADS} heads of {HEAD_DIM}, float32, median of {ROUNDS} rounds\n")
    heads = [f"{n} {'with gradient' if back else 'forward'}" for n, back in columns]
    print(f"| scheme | path | {' | '.join(heads)} |")
    print(f"|---|---|{'---:|' * len(heads)}")
    for case in CASES:
        cells = [f"{f[case]:.2f}" if case in f else "n/a" for f in found.values()]
        print(f"| {case[0]} | {case[1]} | {' | '.join(cells)} |")
