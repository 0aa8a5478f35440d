"""Time the execution paths of attention against the kernel without a bias.

The floor is `is_causal` and nothing added. All cases give what the definition gives in
float64 at 1100 positions, in several blocks, forward and in all gradients, or they are
not timed.

    python -m benchmarks attention [length ...]
"""

import importlib.util
from collections.abc import Callable

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
    ("sandwich", "strided"),
    ("fox", "dense"),
    ("fire", "dense"),
    ("transformer_xl", "dense"),
    ("deberta", "dense"),
    ("shaw", "plain"),
    ("cope", "plain"),
    ("dape", "plain"),
    ("path", "plain"),
]
Attend = Callable[[Tensor, Tensor, Tensor], Tensor]


def made(name: str, length: int) -> Scheme:
    """Return a scheme for a length, the same in every call."""
    torch.manual_seed(1)
    return create(
        name, model_dim=HEADS * HEAD_DIM, heads=HEADS, head_dim=HEAD_DIM, length=length
    )


def inputs(length: int) -> list[Tensor]:
    """Return queries, keys and values, and the tokens that a scheme may look at."""
    torch.manual_seed(0)
    parts = [*torch.randn(3, 1, HEADS, length, HEAD_DIM).unbind()]
    return [*parts, torch.randn(1, length, HEADS * HEAD_DIM)]


def attended(scheme: Scheme, parts: list[Tensor], path: Path) -> Tensor:
    """Return attention of what `inputs` gives, on a path."""
    q, k, v, x = parts
    positions, state = torch.arange(q.shape[-2]), scheme.token_state(x)
    return attention(
        q, k, v, scheme=scheme, positions=positions, state=state, path=path
    )


def results(scheme: Scheme, parts: list[Tensor], path: Path) -> dict[str, Tensor]:
    """Return the output on a path, and the gradients of its sum of squares.

    Those of all parameters are one vector: softmax takes some biases away, whose
    gradient is zero and has no size of its own to be off by.
    """
    given = [part.detach().requires_grad_() for part in parts]
    wanted = [*given, *scheme.parameters()]
    out = attended(scheme, given, path)
    found = torch.autograd.grad(
        out.square().sum(), wanted, allow_unused=True, materialize_grads=True
    )
    names = [f"gradient of {name}" for name in ("q", "k", "v", "tokens")]
    results = {"output": out.detach(), **dict(zip(names, found, strict=False))}
    own = [gradient.flatten() for gradient in found[len(given) :]]
    return results | {"gradient of parameters": torch.cat([out.new_zeros(1), *own])}


def check(name: str, path: Path, length: int = CHECKED) -> None:
    """Stop unless a path gives what the definition gives in float64.

    What is off counts in parts of the largest number of its kind, and may be that of
    adding as many numbers of float32 as there are keys.
    """
    parts, scheme = inputs(length), made(name, length)
    got = results(scheme, parts, path)
    exact = results(scheme.double(), [part.double() for part in parts], "plain")
    for what, one in got.items():
        error, size = (one - exact[what]).abs().max(), exact[what].abs().max()
        if error > length * 2**-24 * size:
            raise SystemExit(f"{name} on {path}: {what} off by {error / size:.1e}")


def gym(length: int) -> Attend:
    """Return ALiBi of attention-gym, on the compiled flex_attention that it is for."""
    from attn_gym.mods import generate_alibi_bias
    from torch.nn.attention.flex_attention import create_block_mask, flex_attention

    def causal(batch: Tensor, head: Tensor, query: Tensor, key: Tensor) -> Tensor:
        return query >= key

    mask = create_block_mask(causal, None, None, length, length, device="cpu")
    bias, flex = generate_alibi_bias(HEADS), torch.compile(flex_attention)
    return lambda q, k, v: flex(q, k, v, score_mod=bias, block_mask=mask)


def check_gym() -> None:
    """Stop unless attention-gym gives what `alibi` gives in float64."""
    parts = inputs(1024)
    exact = attended(made("alibi", 1024).double(), [p.double() for p in parts], "plain")
    off = (gym(1024)(*parts[:3]) - exact).abs().max() / exact.abs().max()
    if off > 1024 * 2**-24:
        raise SystemExit(f"attention-gym: output off by {off:.1e}")


def cases(length: int, backward: bool) -> dict[str, Run]:
    """Return what is timed at a length."""
    parts = [part.requires_grad_(backward) for part in inputs(length)]
    q, k, v, _ = parts

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
            return attended(scheme, parts, path)

        runs[f"{name}, {path}"] = run(case)
    if not backward and importlib.util.find_spec("attn_gym"):
        attend = gym(length)
        runs["attention-gym, ALiBi"] = lambda: attend(q, k, v)
    return runs


def main(words: list[str]) -> None:
    """Print and keep ratios to the floor."""
    torch.set_num_threads(1)
    torch.set_flush_denormal(True)
    for case in CASES:
        check(*case)
    if importlib.util.find_spec("attn_gym"):
        check_gym()
    lengths = [int(word) for word in words] or [512, 2048, 8192]
    columns = {}
    for backward in (False, True):
        for length in lengths:
            title = f"{length}, {'with gradient' if backward else 'forward'}"
            with torch.set_grad_enabled(backward):
                columns[title] = timed(cases(length, backward), ROUNDS)
    kept("attention", columns, heads=HEADS, head_dim=HEAD_DIM, rounds=ROUNDS)
