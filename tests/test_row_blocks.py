"""Attention in blocks of rows is attention of all rows, and needs less memory."""

from typing import Any

import pytest
import torch
from test_attention import LargestStorage
from torch import Tensor

from posenc_compare.attention import Mask, attention, request
from posenc_compare.attention.backends import plain
from posenc_compare.check.fresh_process import built_in
from posenc_compare.errors import ConfigError
from posenc_compare.schemes import Scheme, create

BATCH, HEADS, WIDTH, KEYS = 2, 2, 8, 40
PLACES = torch.arange(KEYS)
MASKS = {
    "causal": Mask(),
    "window": Mask(window=(9, None)),
    "segments": Mask(segments=torch.stack([PLACES // 9, PLACES // 23])),
    "prefix": Mask(prefix=torch.tensor([17, 3])),
    "both": Mask(causal=False),
    "both, window": Mask(causal=False, window=(9, None)),
}
DOORS = ("pair_bias", "scores", "weights", "values")


def make(name: str, heads: int = HEADS, length: int = 64) -> Scheme:
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(1)
        width = heads * WIDTH
        return create(name, model_dim=width, heads=heads, length=length).double()


def ids_for(scheme: Scheme, count: int) -> Tensor:
    ids = torch.arange(count) + 3
    axes = scheme.facts.axes
    if axes == 1:
        return ids
    return torch.stack([ids // 8, *[ids % 8] * (axes - 1)], dim=-1)


def attended(
    scheme: Scheme, mask: Mask, queries: int, path: Any
) -> tuple[Tensor, dict[str, Tensor]]:
    """Return what attention gives, and all gradients by name."""
    generator = torch.Generator().manual_seed(2)
    ids = ids_for(scheme, KEYS)
    sizes = {"q": queries, "k": KEYS, "v": KEYS}
    inputs = {
        part: torch.randn(
            BATCH, HEADS, size, WIDTH, generator=generator, dtype=torch.float64
        ).requires_grad_()
        for part, size in sizes.items()
    }
    x = torch.randn(BATCH, KEYS, HEADS * WIDTH, generator=generator).double()
    x.requires_grad_()
    out = attention(
        **inputs,
        scheme=scheme,
        positions=ids[KEYS - queries :],
        key_positions=ids,
        mask=mask,
        state=scheme.token_state(x),
        path=path,
    )
    scheme.zero_grad()
    (out * torch.arange(out.numel()).view_as(out).cos()).sum().backward()
    learned = {**inputs, "x": x, **dict(scheme.named_parameters())}
    found = {name: t.grad for name, t in learned.items() if t.grad is not None}
    return out.detach(), found


@pytest.mark.parametrize("name", sorted(built_in()))
def test_blocks_of_rows_give_what_all_rows_give(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    scheme, seen = make(name), 0
    for mask in MASKS.values():
        for queries, path in ((KEYS, "dense"), (KEYS, "plain"), (17, "plain")):
            try:
                monkeypatch.setattr(request, "ROWS", KEYS)
                whole, slopes = attended(scheme, mask, queries, path)
            except ConfigError:
                continue  # of the future, or by this path, the scheme says nothing
            monkeypatch.setattr(request, "ROWS", 12)
            blocks, others = attended(scheme, mask, queries, path)
            # Sums of up to 40 terms of about 1, in another order.
            near = {"rtol": 0, "atol": 1e-12}
            torch.testing.assert_close(blocks, whole, **near)
            torch.testing.assert_close(others, slopes, **near)
            seen += 1
    assert seen >= 3


ROWWISE = [n for n in sorted(built_in()) if any(map(make(n).acts_at, DOORS))]


@pytest.mark.parametrize("name", ROWWISE)
def test_nothing_grows_with_the_square_of_the_length(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    length = 2048
    monkeypatch.setattr(request, "ROWS", 8)
    scheme = make(name, heads=1, length=64).float()
    generator = torch.Generator().manual_seed(0)
    q, k, v = torch.randn(3, 1, 1, length, WIDTH, generator=generator)
    x = torch.randn(1, length, WIDTH, generator=generator)
    with LargestStorage() as largest, torch.no_grad():
        ids, state = ids_for(scheme, KEYS), scheme.token_state(x)
        ids = ids[torch.arange(length) % KEYS]
        attention(q, k, v, scheme=scheme, positions=ids, state=state)
    assert largest.bytes < length * length  # a byte for every pair


@pytest.mark.parametrize("name", ROWWISE)
def test_weights_of_few_rows_at_a_time_are_those_of_all(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    scheme, seen = make(name), 0
    q, k, v = torch.randn(
        3, BATCH, HEADS, KEYS, WIDTH, generator=torch.Generator().manual_seed(2)
    ).double()
    x = torch.randn(
        BATCH, KEYS, HEADS * WIDTH, generator=torch.Generator().manual_seed(3)
    ).double()
    for mask in MASKS.values():
        given: dict[str, Any] = {
            "scheme": scheme,
            "positions": ids_for(scheme, KEYS),
            "state": scheme.token_state(x),
            "mask": mask,
            "path": "plain",
        }
        monkeypatch.setattr(plain, "ROWS", 7)
        try:
            whole = attention(q, k, v, **given).detach()
        except ConfigError:
            continue  # of the future the scheme says nothing
        with torch.no_grad():
            blocks = attention(q, k, v, **given)
        torch.testing.assert_close(blocks, whole, rtol=0, atol=1e-12)
        seen += 1
    assert seen >= 3
