"""Time the rotation of queries, beside those of other packages that are installed.

The floor is a copy into memory that is there, or four copies with gradient. All cases
give what complex numbers of float64 give, or they are not timed.

    python -m benchmarks rotation [length]
"""

import importlib
from collections.abc import Callable

import torch
from torch import Tensor

from benchmarks.rounds import FLOOR, Run, kept, timed
from posenc_compare.schemes.shared.rotation import Layout, rotate, rotation_table

HEADS, HEAD_DIM, BASE, ROUNDS = 8, 64, 10_000.0, 11
Rotate = Callable[[Tensor], Tensor]


def angles(length: int) -> Tensor:
    """Return the angle of every pair, `(length, pair)` float64."""
    steps = torch.arange(0, HEAD_DIM, 2, dtype=torch.float64) / HEAD_DIM
    return torch.arange(length, dtype=torch.float64)[:, None] * BASE**-steps


def ours(
    length: int, dtype: torch.dtype, layout: Layout, device: str = "cpu"
) -> Rotate:
    """Return the rotation of this package, with its table made before."""
    angle = angles(length).to(device)
    phasors = torch.polar(torch.ones_like(angle), angle)[None, None]
    table = rotation_table(phasors, dtype, layout)
    return lambda x: rotate(x, table, layout)


def transformers(length: int, dtype: torch.dtype) -> Rotate:
    """Return that of Hugging Face's Llama; it rotates queries and keys in one call."""
    from transformers.models.llama.modeling_llama import apply_rotary_pos_emb

    angle = torch.cat([angles(length)] * 2, dim=-1)[None]
    cos, sin = angle.cos().to(dtype), angle.sin().to(dtype)
    return lambda x: apply_rotary_pos_emb(x, x[:, :0], cos, sin)[0]


def x_transformers(length: int, dtype: torch.dtype) -> Rotate:
    """Return that of x-transformers, whose pairs are adjacent."""
    from x_transformers.x_transformers import apply_rotary_pos_emb

    freqs = angles(length).float().repeat_interleave(2, dim=-1)[None]
    return lambda x: apply_rotary_pos_emb(x, freqs)


def torchtune(length: int, dtype: torch.dtype) -> Rotate:
    """Return that of torchtune, which takes heads after positions."""
    modules = importlib.import_module("torchtune.modules")
    rope = modules.RotaryPositionalEmbeddings(HEAD_DIM, length, int(BASE))
    return lambda x: rope(x.transpose(1, 2)).transpose(1, 2)


def torchembed(length: int, dtype: torch.dtype) -> Rotate:
    """Return that of torchembed; it rotates queries and keys in one call."""
    positional = importlib.import_module("torchembed.positional")
    rope = positional.RotaryEmbedding(HEAD_DIM, length, int(BASE)).to(dtype)
    return lambda x: rope(x, x[:, :0])[0]


PEERS: dict[str, tuple[Callable[[int, torch.dtype], Rotate], Layout]] = {
    "transformers, half": (transformers, "half"),
    "x-transformers, adjacent": (x_transformers, "adjacent"),
    "torchtune, adjacent": (torchtune, "adjacent"),
    "torchembed, half": (torchembed, "half"),
}


def exact(x: Tensor, layout: Layout) -> Tensor:
    """Return what float64 gives."""
    angle = angles(x.shape[-2])
    form = (-1, 2) if layout == "adjacent" else (2, -1)
    axis = -1 if layout == "adjacent" else -2
    a, b = x.double().unflatten(-1, form).unbind(axis)
    turned = torch.stack(
        [a * angle.cos() - b * angle.sin(), a * angle.sin() + b * angle.cos()], axis
    )
    return turned.flatten(-2)


def rotations(length: int, dtype: torch.dtype) -> dict[str, tuple[Rotate, Layout]]:
    """Return all that can be timed here, each with its layout."""
    found: dict[str, tuple[Rotate, Layout]] = {
        "adjacent": (ours(length, dtype, "adjacent"), "adjacent"),
        "half": (ours(length, dtype, "half"), "half"),
    }
    for name, (make, layout) in PEERS.items():
        try:
            found[name] = make(length, dtype), layout
        except ImportError:
            print(f"{name}: not installed")
    return found


def cases(length: int, dtype: torch.dtype, backward: bool) -> dict[str, Run]:
    """Return what is timed, checked against float64."""
    torch.manual_seed(0)
    x, grad = torch.randn(2, 1, HEADS, length, HEAD_DIM).to(dtype).unbind()
    room, copies = torch.empty_like(x), 4 if backward else 1

    def floor() -> None:
        for _ in range(copies):
            room.copy_(x)

    runs: dict[str, Run] = {FLOOR: floor}
    for name, (turn, layout) in rotations(length, dtype).items():
        error = (turn(x).double() - exact(x, layout)).abs().max().item()
        allowed = 16 * torch.finfo(dtype).eps  # of numbers up to 6, rounded a few times
        if name in PEERS:  # angles in float32 are off by position times its precision
            allowed += 4 * length * torch.finfo(torch.float32).eps
        if error > allowed:
            raise SystemExit(f"{name}: off by {error:.1e}, allowed are {allowed:.1e}")
        given = x.clone().requires_grad_(backward)

        def run(turn: Rotate = turn, given: Tensor = given) -> None:
            out = turn(given)
            if backward:
                given.grad = None
                out.backward(grad)

        runs[name] = run
    return runs


def main(words: list[str]) -> None:
    """Print and keep ratios to the floor."""
    torch.set_num_threads(1)
    length = int(words[0]) if words else 16_384
    columns = {
        f"{name}, {'with gradient' if backward else 'forward'}": timed(
            cases(length, dtype, backward), ROUNDS
        )
        for name, dtype in (("float32", torch.float32), ("bfloat16", torch.bfloat16))
        for backward in (False, True)
    }
    kept("rotation", columns, shape=[1, HEADS, length, HEAD_DIM], rounds=ROUNDS)
