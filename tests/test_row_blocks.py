"""Attention in blocks of rows is attention of all rows, and needs less memory."""

from typing import Any

import pytest
import torch
from schemes.tools import normal
from support.attention import LargestStorage, ids_for, make
from torch import Tensor

from posenc_compare.attention import Mask, attention, request
from posenc_compare.attention.backends import plain
from posenc_compare.check.fresh_process import built_in
from posenc_compare.errors import ConfigError
from posenc_compare.schemes import Scheme

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
HOOKS = ("pair_bias", "scores", "weights", "values")


def arguments(scheme: Scheme, mask: Mask, queries: int) -> dict[str, Any]:
    """Return what attention takes, and the input of the layer as `x`."""
    ids = ids_for(scheme, KEYS, 3, 8)
    sizes = {"q": queries, "k": KEYS, "v": KEYS}
    given = {
        part: normal(BATCH, HEADS, size, WIDTH, seed=seed).requires_grad_()
        for seed, (part, size) in enumerate(sizes.items())
    }
    x = normal(BATCH, KEYS, HEADS * WIDTH, seed=3).requires_grad_()
    places = {"positions": ids[KEYS - queries :], "key_positions": ids}
    return {**given, "scheme": scheme, "mask": mask, "x": x, **places}


def attended(x: Tensor, **given: Any) -> tuple[Tensor, dict[str, Tensor | None]]:
    """Return what attention gives, and all gradients by name."""
    scheme = given["scheme"]
    out = attention(**given, state=scheme.token_state(x))
    learned = {**{part: given[part] for part in "qkv"}, "x": x}
    learned |= {n: p for n, p in scheme.named_parameters() if p.requires_grad}
    loss = (out * torch.arange(out.numel()).view_as(out).cos()).sum()
    slopes = torch.autograd.grad(loss, [*learned.values()], allow_unused=True)
    return out.detach(), dict(zip(learned, slopes, strict=True))


@pytest.mark.parametrize("name", sorted(built_in()))
def test_blocks_of_rows_give_what_all_rows_give(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    scheme, seen = make(name), 0
    # Sums of up to 40 terms of about 1, in another order.
    near = {"rtol": 0, "atol": 1e-12}
    for mask in MASKS.values():
        for queries, path in ((KEYS, "dense"), (KEYS, "plain"), (17, "plain")):
            given = {**arguments(scheme, mask, queries), "path": path}
            try:
                monkeypatch.setattr(request, "ROWS", KEYS)
                whole, slopes = attended(**given)
            except ConfigError:
                continue  # of the future, or by this path, the scheme says nothing
            monkeypatch.setattr(request, "ROWS", 12)
            blocks, others = attended(**given)
            torch.testing.assert_close(blocks, whole, **near)
            torch.testing.assert_close(others, slopes, **near)
            seen += 1
            # Where nothing learns, weights are made of fewer rows at a time.
            monkeypatch.setattr(request, "ROWS", KEYS)
            monkeypatch.setattr(plain, "ROWS", 7)
            with torch.no_grad():
                state = scheme.token_state(given.pop("x"))
                few = attention(**given, state=state)
            torch.testing.assert_close(few, whole, **near)
    assert seen >= 3


ROWWISE = [n for n in sorted(built_in()) if any(map(make(n).acts_at, HOOKS))]


@pytest.mark.parametrize("name", ROWWISE)
def test_nothing_grows_with_the_square_of_the_length(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    length = 2048
    monkeypatch.setattr(request, "ROWS", 8)
    scheme = make(name, heads=1).float()
    generator = torch.Generator().manual_seed(0)
    q, k, v = torch.randn(3, 1, 1, length, WIDTH, generator=generator)
    x = torch.randn(1, length, WIDTH, generator=generator)
    with LargestStorage() as largest, torch.no_grad():
        ids, state = ids_for(scheme, KEYS, 3, 8), scheme.token_state(x)
        ids = ids[torch.arange(length) % KEYS]
        attention(q, k, v, scheme=scheme, positions=ids, state=state)
    assert largest.bytes < length * length  # a byte for every pair
