"""The choice between the paths of attention, narrow dtypes, and the strided path.

`test_mask.py` compares all paths with the definition, under every mask.
"""

import math
from typing import Any

import pytest
import torch
import torch.nn.attention.flex_attention as flex
from schemes.tools import normal
from support.attention import LargestStorage, ids_for, serving
from support.attention import make as build
from torch import Tensor

from posenc_compare.attention import Mask, attention, attention_logits, explain, request
from posenc_compare.attention.backends import strided
from posenc_compare.check import built_in
from posenc_compare.errors import ShapeError
from posenc_compare.schemes import Call, Geometry, Scheme

BATCH, HEADS, WIDTH = 2, 3, 8
LATER = {"buckets": 8, "max_distance": 12, "bidirectional": True}


@pytest.fixture(autouse=True)
def small_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(strided, "QUERIES", 16)  # 40 rows: two blocks and a half
    monkeypatch.setattr(strided, "BACKWARD_BLOCK", 12)  # three and a third


def make(name: str, heads: int = HEADS, **options: Any) -> Scheme:
    return build(name, heads=heads, width=WIDTH, **options)


@pytest.mark.parametrize("causal", [True, False])
def test_flex_skips_the_blocks_that_no_query_of_a_sequence_sees(
    causal: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """On the CPU flex skips none: the blocks are looked at, not the numbers."""
    block, asked = 128, {}
    monkeypatch.setattr(
        flex, "flex_attention", lambda q, k, v, _, **how: asked.update(how)
    )
    segments = torch.tensor([[0, 0, 1, 1], [0, 1, 1, 2]]).repeat_interleave(
        block, dim=1
    )
    scheme, places = make("alibi"), torch.arange(4 * block)
    q, k, v = normal(3, BATCH, HEADS, 4 * block, WIDTH)
    attention(
        q, k, v, scheme=scheme, positions=places, path="flex",
        mask=Mask(causal, segments=segments),
    )  # fmt: skip
    seen = segments[:, None, :, None] == segments[:, None, None, :]
    seen = seen & (places[:, None] >= places) if causal else seen
    parts = seen.unflatten(3, (4, block)).unflatten(2, (4, block))
    mask = asked["block_mask"]
    assert mask.shape == (BATCH, 1, 4 * block, 4 * block)
    assert torch.equal(mask.to_dense().bool(), parts.any(dim=5).any(dim=3))


NARROW: list[tuple[str, dict[str, Any]]] = [
    *((name, {}) for name in ("nope", "rope", "alibi", "t5_bias")),
    ("rope", {"layout": "half", "fraction": 0.5}),
    ("t5_bias", LATER),
]


# Several times the largest differences that were seen.
@pytest.mark.parametrize(
    ("dtype", "atol"), [(torch.float32, 2e-5), (torch.bfloat16, 0.06)]
)
@pytest.mark.parametrize("causal", [True, False])
@pytest.mark.parametrize("queries", [1, 7, 40])
@pytest.mark.parametrize(("name", "options"), NARROW, ids=str)
def test_narrow_dtypes_are_close_to_float64(
    name: str,
    options: dict[str, Any],
    queries: int,
    causal: bool,
    dtype: torch.dtype,
    atol: float,
) -> None:
    scheme, ids = make(name, **options).float(), torch.arange(40) + 3
    twin = make(name, **options)
    given: dict[str, Any] = {"mask": Mask(causal), "key_positions": ids}
    given["positions"] = ids[-queries:]
    k_v = normal(2, BATCH, HEADS, 40, WIDTH, seed=1)
    parts = [normal(BATCH, HEADS, queries, WIDTH), *k_v]
    narrow = [part.to(dtype).requires_grad_() for part in parts]
    wide = [part.detach().double().requires_grad_() for part in narrow]

    def gradients(out: Tensor, inputs: list[Tensor], own: Scheme) -> list[Tensor]:
        loss = (out * torch.arange(out.numel()).cos().view_as(out)).sum()
        return list(torch.autograd.grad(loss, [*inputs, *own.parameters()]))

    exact = attention(*wide, scheme=twin, **given, path="plain")
    wanted = [exact, *gradients(exact, wide, twin)]
    q, k, v = narrow
    for path in serving(q=q, k=k, v=v, scheme=scheme, **given):
        out = attention(q, k, v, scheme=scheme, **given, path=path)
        found = [out, *gradients(out, narrow, scheme)]
        assert [x.dtype for x in found[:4]] == [dtype] * 4
        for one, other in zip(found, wanted, strict=True):
            size = max(1.0, other.abs().max().item() / 4)
            assert (one.double() - other).abs().max().item() <= atol * size, path


# --- the strided path -------------------------------------------------------------


@pytest.mark.parametrize(
    ("q_ids", "k_ids"),
    [
        ([[2, 3, 4, 5, 6]] * 2, [[0, 1, 2, 3, 4, 5], [3, 4, 5, 6, 7, 8]]),
        ([[0, 1, 2, 3, 4], [2, 3, 4, 5, 6]], [[0, 1, 2, 3, 4, 5]] * 2),
        ([[1, 4]] * 2, [[0, 1, 2, 3, 4, 5]] * 2),  # queries with a gap
        ([[3, 4]] * 2, [[0, 1, 2, 3, 5, 6]] * 2),  # keys with a gap
    ],
)
@pytest.mark.parametrize("name", ["alibi", "t5_bias"])
def test_ids_out_of_step_leave_the_strided_path(
    name: str, q_ids: list[list[int]], k_ids: list[list[int]]
) -> None:
    options = {"bidirectional": True} if name == "t5_bias" else {}
    q = normal(BATCH, HEADS, len(q_ids[0]), WIDTH)
    k, v = normal(2, BATCH, HEADS, 6, WIDTH, seed=1)
    one_row = len(set(map(tuple, q_ids))) == 1  # then without a batch axis
    given: dict[str, Any] = {
        "scheme": make(name, **options),
        "positions": torch.tensor(q_ids[0] if one_row else q_ids),
        "key_positions": torch.tensor(k_ids),
        "mask": Mask(causal=False),
    }
    assert explain(q, k, v, **given).path == "dense"
    got = attention(q, k, v, **given)
    # The definition shares what writes a bias out for all pairs: so by hand.
    offsets = torch.tensor(k_ids)[:, None] - torch.tensor(q_ids)[:, :, None]
    logits = q @ k.mT * given["scheme"].scale(WIDTH)
    for b, pairs in enumerate(offsets):
        logits[b] += (
            given["scheme"].offset_bias(pairs.flatten()).unflatten(1, pairs.shape)
        )
    torch.testing.assert_close(got, logits.softmax(-1) @ v, rtol=0, atol=1e-10)


@pytest.mark.parametrize("span", [2**24, 8])
def test_an_offset_bias_has_a_largest_span(
    span: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    q, k, v = normal(3, 1, HEADS, 2, WIDTH)
    scheme, apart = make("alibi"), span // 2  # offsets go to either side
    if span == 8:  # the edge, where it costs no memory
        monkeypatch.setattr(request, "SPAN", span)
        ids = torch.tensor([0, apart - 1])
        assert attention(q, k, v, scheme=scheme, positions=ids).isfinite().all()
    with pytest.raises(
        ShapeError,
        match=rf"^alibi: offsets must lie within {span - 1} of each other for an "
        rf"offset bias, got those from {-apart} to {apart}$",
    ):
        attention(q, k, v, scheme=scheme, positions=torch.tensor([0, apart]))


BIASED = ("offset_bias", "pair_bias", "scores", "weights", "values")


@pytest.mark.parametrize(
    "name", [n for n in sorted(built_in()) if any(map(make(n).acts_at, BIASED))]
)
def test_nothing_grows_with_the_square_of_the_length(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(request, "QUERIES", 8)
    scheme = make(name, heads=1).float()
    length = 1152 if name in ("fire", "dape") else 576  # 32 numbers for each pair
    q, k, v = normal(3, 1, 1, length, WIDTH).float()
    with LargestStorage() as largest, torch.no_grad():
        state = scheme.token_state(normal(1, length, WIDTH, seed=1).float())
        ids = ids_for(scheme, 40, columns=8)[torch.arange(length) % 40]
        attention(q, k, v, scheme=scheme, positions=ids, state=state)
    assert largest.bytes < length * length  # a byte for every pair


@pytest.mark.parametrize("causal", [True, False])
def test_a_trained_bias_never_takes_a_tensor_of_all_pairs(
    causal: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(strided, "QUERIES", 256)
    monkeypatch.setattr(strided, "BACKWARD_BLOCK", 256)
    scheme, length = make("t5_bias", heads=1).float(), 4096
    q, k, v = (x.float().requires_grad_() for x in normal(3, 1, 1, length, WIDTH))
    given: dict[str, Any] = {"scheme": scheme, "positions": torch.arange(length)}
    with LargestStorage() as largest:
        out = attention(q, k, v, **given, mask=Mask(causal=causal))
    assert largest.bytes < 16 * WIDTH * length  # vectors and the bias of each offset
    with LargestStorage() as largest:
        out.sum().backward()
    # A block of rows in float32, padded by its height: no more.
    assert largest.bytes <= 256 * (length + 256) * 4
    monkeypatch.setattr(request, "QUERIES", length)
    with LargestStorage() as largest, torch.no_grad():
        attention(q, k, v, **given, path="dense")
    assert largest.bytes >= length * length * 4  # this watch can see one


# --- the choice of a path ---------------------------------------------------------


class Rowwise(Scheme):
    """Changes whole rows of logits."""

    def scores(self, logits: Tensor, call: Call) -> Tensor:
        return logits * 2


class Adding(Scheme):
    """Adds to the values."""

    def values(self, weights: Tensor, call: Call) -> Tensor:
        return weights.new_zeros(())


class Silent(Scheme):
    """Has a bias, which is none."""

    def offset_bias(self, offsets: Tensor) -> None:
        return None

    def pair_bias(self, call: Call) -> None:
        return None


class Pairwise(Scheme):
    """Adds a bias to each pair."""

    def pair_bias(self, call: Call) -> Any:
        return lambda b, h, i, j: 0.1 * (i - j + 0 * (b + h)).double()


RUN = torch.arange(16)
SHUFFLED = torch.tensor([3, 1, 0, 2, 11, 5, 4, 9, 15, 8, 6, 13, 7, 10, 12, 14])
SEGMENTS = {"segments": torch.tensor([[0] * 5 + [1] * 11] * BATCH)}
GEOMETRY = Geometry(model_dim=HEADS * WIDTH, heads=HEADS)
NAMED = ["nope", "rope", "sinusoidal", "learned", "integer", "binary"]


@pytest.mark.parametrize(
    ("scheme", "positions", "limits", "path"),
    [
        *((name, RUN, {}, "fused") for name in NAMED),
        *((name, SHUFFLED, {}, "fused") for name in NAMED),
        *((name, RUN, SEGMENTS, "dense") for name in NAMED),
        ("nope", RUN, {"window": 3}, "dense"),
        ("nope", RUN, {"window": 16}, "fused"),  # of all
        ("rope", RUN, {"prefix": 4}, "dense"),
        ("alibi", RUN, {}, "strided"),
        ("alibi", RUN, {"window": 3}, "strided"),
        ("t5_bias", RUN, {}, "strided"),
        ("t5_bias", RUN + 1000, {}, "strided"),
        ("alibi", RUN.expand(BATCH, -1), {}, "strided"),
        ("t5_bias", RUN + torch.tensor([[0], [7]]), {}, "strided"),
        ("alibi", SHUFFLED, {}, "dense"),
        ("t5_bias", SHUFFLED, {}, "dense"),
        ("alibi", 2 * RUN, {}, "dense"),
        ("t5_bias", RUN.flip(0), {}, "dense"),
        ("alibi", torch.stack([RUN, SHUFFLED]), {}, "dense"),
        ("alibi", RUN, {"prefix": 4}, "dense"),
        ("alibi", RUN, SEGMENTS, "dense"),
        ("t5_bias", RUN, SEGMENTS, "dense"),
        ("transformer_xl", RUN, {}, "dense"),
        ("swin", torch.stack([RUN // 4, RUN % 4], -1), {}, "dense"),
        ("shaw", RUN, {"window": 3}, "plain"),
        (Silent(GEOMETRY), RUN, {}, "fused"),
        (Pairwise(GEOMETRY), RUN, SEGMENTS, "dense"),
        (Rowwise(GEOMETRY), RUN, {}, "plain"),
        (Adding(GEOMETRY), RUN, SEGMENTS, "plain"),
    ],
)
def test_path_choice(
    scheme: str | Scheme, positions: Tensor, limits: dict[str, Any], path: str
) -> None:
    built = make(scheme) if isinstance(scheme, str) else scheme
    q, k, v = normal(3, BATCH, HEADS, 16, WIDTH)
    for causal in (True, False):
        given: dict[str, Any] = {"scheme": built, "positions": positions}
        given["mask"] = Mask(causal=causal, **limits)
        assert explain(q, k, v, **given).path == path
        got = attention(q, k, v, **given)
        expected = attention(q, k, v, **given, path="plain")
        torch.testing.assert_close(got, expected, rtol=0, atol=1e-10)


class NotANumber(Scheme):
    """Makes queries that are no numbers."""

    def query(self, q: Tensor, positions: Tensor) -> Tensor:
        return q * math.nan


@pytest.mark.parametrize("kind", [torch.float32, torch.bfloat16, torch.float64])
@pytest.mark.parametrize("causal", [True, False])
def test_queries_that_are_no_numbers_show_at_every_length(
    causal: bool, kind: torch.dtype
) -> None:
    scheme, mask = NotANumber(GEOMETRY), Mask(causal=causal)
    for keys in (1, 2, 7, 8, 15, 16, 17, 33):
        q, k, v = normal(3, BATCH, HEADS, keys, WIDTH).to(kind)
        ids = torch.arange(keys)
        for first in (0, keys - 1):
            places: dict[str, Any] = {"positions": ids[first:], "key_positions": ids}
            got = attention(q[:, :, first:], k, v, scheme=scheme, **places, mask=mask)
            assert got.isnan().all()


def test_autocast_does_not_reach_the_logits() -> None:
    q, k, v = normal(3, BATCH, HEADS, 16, WIDTH).float()
    for name in ("rope", "alibi"):
        scheme = make(name)
        outside = attention(q, k, v, scheme=scheme, positions=RUN)
        seen = attention_logits(q, k, scheme=scheme, positions=RUN)
        with torch.autocast("cpu", torch.bfloat16):
            inside = attention(q, k, v, scheme=scheme, positions=RUN)
            logits = attention_logits(q, k, scheme=scheme, positions=RUN)
        assert torch.equal(inside, outside)
        assert torch.equal(logits, seen)
