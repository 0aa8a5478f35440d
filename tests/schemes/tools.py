"""What the tests of the schemes share: draws, slow loops and checks of attention.

Each scheme's own slow reference stays beside its tests.
"""

import math
import warnings
from collections.abc import Callable, Iterable, Sequence
from itertools import product
from typing import Any, Literal, TypeVar

import pytest
import torch
from torch import Tensor

from posenc_compare.attention import Mask, Path, attention, attention_logits
from posenc_compare.errors import ConfigError
from posenc_compare.schemes import Scheme
from posenc_compare.schemes.shared.rotation import rotation_angles

AnyScheme = TypeVar("AnyScheme", bound=Scheme)
Entry = Callable[[int, int, int, int], float]

# bfloat16 rounds the first two to the same number.
CLOSE_POSITIONS = torch.tensor([15_962, 15_966, 15_968])


# --- Draws ---------------------------------------------------------------------------


def seeded(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def normal(*shape: int, seed: int = 0) -> Tensor:
    """Draw float64 numbers from a normal distribution; they depend on the seed."""
    return torch.randn(*shape, generator=seeded(seed), dtype=torch.float64)


def vectors(*shape: int) -> tuple[Tensor, Tensor, Tensor]:
    """Draw queries, keys and values (batch, heads, length, head_dim)."""
    return normal(*shape), normal(*shape, seed=1), normal(*shape, seed=2)


def grid(rows: int, columns: int) -> Tensor:
    """Positions (rows * columns, 2) of the cells of a grid, row by row."""
    return torch.cartesian_prod(torch.arange(rows), torch.arange(columns))


# --- Schemes -------------------------------------------------------------------------


def perturbed(scheme: AnyScheme, noise: float) -> AnyScheme:
    """Add normal numbers times `noise` to every parameter."""
    with torch.no_grad():
        for number, parameter in enumerate(scheme.parameters()):
            parameter += noise * normal(*parameter.shape, seed=number)
    return scheme


def drawn(scheme: AnyScheme) -> AnyScheme:
    """Replace every parameter by normal numbers, and train none."""
    with torch.no_grad():
        for number, parameter in enumerate(scheme.parameters()):
            parameter.copy_(normal(*parameter.shape, seed=100 + number))
    return scheme.requires_grad_(False)


def drawn_codes(scheme: Scheme) -> Tensor:
    """Return the codes (2, 9, model_dim) of a scheme that draws ids, from a seed."""
    rows = torch.arange(9).expand(2, -1)
    zero = torch.zeros(2, 9, scheme.geometry.model_dim, dtype=torch.float64)
    ids = scheme.train().positions(rows, seeded())
    x = scheme.embed(zero, ids)
    q = normal(2, 2, 9, scheme.geometry.head_dim)
    return x + scheme.query(q, ids).transpose(1, 2).flatten(2)


def speeds(scheme: Scheme) -> Tensor:
    """Return the angles (pairs,) of the rotation at position 1."""
    angles = rotation_angles(scheme, torch.tensor([1]))
    assert angles is not None
    return angles[0]


# --- Slow references -----------------------------------------------------------------


def sinusoid(place: float, width: int, base: float = 1e4) -> list[float]:
    """PE(p, 2m) = sin(p / base**(2m / width)), PE(p, 2m + 1) = cos of the same."""
    code = []
    for pair in range(width // 2):
        angle = place / math.pow(base, 2 * pair / width)
        code += [math.sin(angle), math.cos(angle)]
    return code


def dot(a: Iterable[float], b: Iterable[float]) -> float:
    return math.fsum(x * y for x, y in zip(a, b, strict=True))


def pair_by_pair(like: Tensor, entry: Entry, causal: bool = False) -> Tensor:
    """Logits of `entry(batch, head, query, key)`; a causal mask writes -inf.

    Args:
        like: queries (batch, heads, length, head_dim); there are as many keys.
        entry: one number of the matrix.
        causal: whether later keys are masked.
    """
    batch, heads, length, _ = like.shape
    out = torch.full((batch, heads, length, length), -math.inf, dtype=torch.float64)
    for b, h, i, j in product(*map(range, out.shape)):
        if j <= i or not causal:
            out[b, h, i, j] = entry(b, h, i, j)
    return out


def channels_of_pair(pair: int, width: int, layout: str) -> list[int]:
    """Return the two channels that RoPE rotates together."""
    if layout == "adjacent":
        return [2 * pair, 2 * pair + 1]
    assert layout == "half"
    return [pair, pair + width // 2]


def rotation_by_complex(
    q: Tensor, k: Tensor, factors: Iterable[complex], layout: str
) -> float:
    """Logit of one query and one key (head_dim,): Re(q conj(k) factor) over pairs."""
    total, width = 0.0, len(q)
    for pair, factor in enumerate(factors):
        two = channels_of_pair(pair, width, layout)
        one, other = complex(*q[two].tolist()), complex(*k[two].tolist())
        total += (one * other.conjugate() * factor).real
    return total / math.sqrt(width)


# --- Checks --------------------------------------------------------------------------


def close(got: Tensor, expected: Tensor, atol: float = 1e-12) -> None:
    torch.testing.assert_close(got, expected, rtol=0, atol=atol)


def on_paths(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    *,
    paths: Sequence[Path | Literal["auto"]] = ("dense", "flex", "plain"),
    **call: Any,
) -> list[Tensor]:
    """Run attention on each path; FlexAttention may warn that it is not compiled."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="flex_attention called without")
        return [attention(q, k, v, path=path, **call) for path in paths]


def check_causal_mask_is_needed(scheme: Scheme, width: int) -> None:
    heads = scheme.geometry.heads
    x, ids = normal(1, heads, 3, width), torch.arange(3)
    message = f"^{scheme.name}: needs a causal mask"
    with pytest.raises(ConfigError, match=message):
        attention(x, x, x, scheme=scheme, positions=ids, mask=Mask(causal=False))
    with pytest.raises(ConfigError, match=message):
        attention_logits(x, x, scheme=scheme, positions=ids, mask=Mask(causal=False))


def check_float32_holds_over_a_long_text(
    scheme: Scheme, k: Tensor, x: Tensor | None = None, rtol: float = 2e-5
) -> None:
    """Compare the last of many queries in float32 and float64.

    Args:
        scheme: of one head.
        k: float32 keys (1, 1, length, head_dim); all queries are ones.
        x: float32 hidden states of a scheme with a token state.
        rtol: largest difference, relative to the outputs.
    """
    length, v = k.shape[2], torch.rand(k.shape, generator=seeded()) + 0.5
    v[:, :, : length - 128] = 0  # or sums of thousands would hide the rest
    found = []
    for dtype in (torch.float32, torch.float64):
        scheme = scheme.to(dtype)
        out = attention(
            torch.ones_like(k[:, :, -64:], dtype=dtype),
            k.to(dtype),
            v.to(dtype),
            scheme=scheme,
            positions=torch.arange(length - 64, length),
            key_positions=torch.arange(length),
            state=None if x is None else scheme.token_state(x.to(dtype)),
        )
        found.append(out.double())
    torch.testing.assert_close(*found, rtol=rtol, atol=0)
