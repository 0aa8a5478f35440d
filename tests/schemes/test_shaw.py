"""Shaw's vectors against the paper's sums, one pair of tokens at a time."""

import math

import pytest
import torch
from schemes.tools import build, check_gradients, close, drawn, on_paths, vectors
from torch import Tensor

from posenc_compare.attention import Mask, attention, attention_logits
from posenc_compare.errors import ConfigError
from posenc_compare.schemes import create
from posenc_compare.schemes.shaw import Shaw

BATCH, HEADS, WIDTH, LENGTH = 2, 2, 6, 7
SHAPE = (BATCH, HEADS, LENGTH, WIDTH)
PLACES = [0, 2, 3, 9, 4, 4, 1]


def make(**options: int | bool) -> Shaw:
    return drawn(build(Shaw, options, model_dim=HEADS * WIDTH, heads=HEADS))


def entry(table: Tensor | None, head: int, offset: int, reach: int) -> list[float]:
    if table is None:
        return [0.0] * WIDTH
    rows = table[head] if table.dim() == 3 else table
    return rows[min(max(offset, -reach), reach) + reach].tolist()


def slow(scheme: Shaw, reach: int, causal: bool) -> tuple[Tensor, Tensor]:
    """Logits `q (k + a) / sqrt(d)` and outputs `sum of p (v + b)`, in loops."""
    q, k, v = vectors(*SHAPE)
    logits = torch.full((BATCH, HEADS, LENGTH, LENGTH), -math.inf).double()
    out = torch.zeros(BATCH, HEADS, LENGTH, WIDTH).double()
    for b in range(BATCH):
        for h in range(HEADS):
            for i in range(LENGTH):
                seen = range(i + 1 if causal else LENGTH)
                for j in seen:
                    a = entry(scheme.on_keys, h, PLACES[j] - PLACES[i], reach)
                    total = sum(
                        q[b, h, i, d].item() * (k[b, h, j, d].item() + a[d])
                        for d in range(WIDTH)
                    )
                    logits[b, h, i, j] = total / math.sqrt(WIDTH)
                powers = {j: math.exp(logits[b, h, i, j].item()) for j in seen}
                for j in seen:
                    a = entry(scheme.on_values, h, PLACES[j] - PLACES[i], reach)
                    share = powers[j] / sum(powers.values())
                    for d in range(WIDTH):
                        out[b, h, i, d] += share * (v[b, h, j, d].item() + a[d])
    return logits, out


@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("per_head", [False, True])
@pytest.mark.parametrize("values", [False, True])
@pytest.mark.parametrize("reach", [1, 3])
def test_equals_the_slow_reference(
    reach: int, values: bool, per_head: bool, causal: bool
) -> None:
    q, k, v = vectors(*SHAPE)
    scheme = make(reach=reach, values=values, per_head=per_head)
    positions = torch.tensor(PLACES)
    logits, out = slow(scheme, reach, causal)
    got = attention_logits(
        q, k, scheme=scheme, positions=positions, mask=Mask(causal=causal)
    )
    close(got, logits, 1e-13)
    paths = ("plain",) if values else ("auto", "dense", "flex", "plain")
    for read in on_paths(
        q,
        k,
        v,
        paths=paths,
        scheme=scheme,
        positions=positions,
        mask=Mask(causal=causal),
    ):
        close(read, out, 1e-13)


def test_sizes_and_initial_values() -> None:
    scheme = create("shaw", model_dim=64, heads=4)
    assert {n: tuple(p.shape) for n, p in scheme.named_parameters()} == {
        "on_keys": (33, 16),
        "on_values": (33, 16),
    }
    bound = (6 / (33 + 16)) ** 0.5
    table = scheme.get_parameter("on_keys")
    assert bound * 0.95 < table.abs().max() <= bound
    assert not torch.equal(table, scheme.get_parameter("on_values"))
    own = create("shaw", options={"per_head": True}, model_dim=64, heads=4)
    assert own.get_parameter("on_keys").shape == (4, 33, 16)


def test_empty_tables_are_no_encoding() -> None:
    q, k, v = vectors(*SHAPE)
    scheme, positions = make(), torch.tensor(PLACES)
    for parameter in scheme.parameters():
        parameter.zero_()
    got = attention(q, k, v, scheme=scheme, positions=positions)
    nope = attention(q, k, v, scheme=create("nope"), positions=positions)
    close(got, nope, 1e-14)


def test_both_tables_receive_a_gradient() -> None:
    q, k, v = (x[:1, :, :4] for x in vectors(*SHAPE))
    scheme = make(reach=2).requires_grad_()
    check_gradients(scheme, q, k, v, torch.arange(4))


def test_each_option_changes_the_output() -> None:
    q, k, v = vectors(*SHAPE)

    def read(**options: int | bool) -> Tensor:
        scheme, positions = make(**options), torch.arange(LENGTH)
        for parameter in scheme.parameters():  # the same rule fills every table
            sizes = torch.arange(parameter.numel()).view(parameter.shape)
            parameter.copy_((sizes % 7 - 3) * 0.2)
        return attention(q, k, v, scheme=scheme, positions=positions)

    for options in ({"reach": 2}, {"values": False}, {"per_head": True}):
        assert (read() - read(**options)).abs().max() > 1e-3


def test_bfloat16_keeps_close_positions_apart() -> None:
    scheme, places = make(reach=8).float(), [15962, 15966, 15968]
    one = torch.ones(1, 2, 3, WIDTH, dtype=torch.bfloat16)
    got = attention_logits(
        one,
        0 * one,
        scheme=scheme,
        positions=torch.tensor(places),
        mask=Mask(causal=False),
    )
    for i in range(3):
        for j in range(3):
            row = sum(entry(scheme.on_keys, 0, places[j] - places[i], 8))
            assert got[0, 0, i, j].item() == pytest.approx(row / WIDTH**0.5, abs=1e-5)


@pytest.mark.parametrize("reach", [0, -3])
def test_reach_out_of_range(reach: int) -> None:
    with pytest.raises(
        ConfigError, match=f"shaw: reach must be at least 1, got {reach}"
    ):
        make(reach=reach)
