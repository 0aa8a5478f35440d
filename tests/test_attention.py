"""The choice between the paths of attention, narrow dtypes, and the strided path.

`test_mask.py` compares all paths with the definition, under every mask.
"""

import math
from typing import Any

import pytest
import torch
import torch.nn.attention.flex_attention as flex
from support.attention import LargestStorage
from support.attention import make as build
from torch import Tensor
from torch.utils.checkpoint import checkpoint

from posenc_compare.attention import Mask, Path, attention, attention_logits, request
from posenc_compare.attention.backends import BACKENDS, strided
from posenc_compare.errors import ConfigError, ShapeError
from posenc_compare.schemes import Call, Geometry, Scheme, create
from posenc_compare.schemes.scheme import PairBias, picked

BATCH, HEADS, WIDTH = 2, 3, 8
PATHS: list[Path] = ["fused", "strided", "flex", "dense", "plain"]
LATER = {"buckets": 8, "max_distance": 12, "bidirectional": True}


@pytest.fixture(autouse=True)
def small_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(strided, "BLOCK", 16)  # 40 rows: two blocks and a half
    monkeypatch.setattr(strided, "BACKWARD_BLOCK", 12)  # three and a third


DRAW = torch.Generator()


@pytest.fixture(autouse=True)
def same_numbers() -> None:
    DRAW.manual_seed(0)


def normal(*shape: int) -> Tensor:
    return torch.randn(*shape, generator=DRAW, dtype=torch.float64)


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


NARROW: list[tuple[str, dict[str, Any], list[Path]]] = [
    ("nope", {}, ["fused", "dense"]),
    ("rope", {}, ["fused", "dense"]),
    ("rope", {"layout": "half", "fraction": 0.5}, ["fused", "dense"]),
    ("alibi", {}, ["strided", "dense"]),
    ("t5_bias", {}, ["strided", "dense"]),
    ("t5_bias", LATER, ["strided", "dense"]),
]


# Several times the largest differences that were seen.
@pytest.mark.parametrize(
    ("dtype", "atol"), [(torch.float32, 2e-5), (torch.bfloat16, 0.06)]
)
@pytest.mark.parametrize("causal", [True, False])
@pytest.mark.parametrize("queries", [1, 7, 40])
@pytest.mark.parametrize(("name", "options", "paths"), NARROW, ids=str)
def test_narrow_dtypes_are_close_to_float64(
    name: str,
    options: dict[str, Any],
    paths: list[Path],
    queries: int,
    causal: bool,
    dtype: torch.dtype,
    atol: float,
) -> None:
    scheme, ids = make(name, **options).float(), torch.arange(40) + 3
    twin = make(name, **options)
    given: dict[str, Any] = {"mask": Mask(causal), "key_positions": ids}
    given["positions"] = ids[-queries:]
    parts = [normal(BATCH, HEADS, n, WIDTH) for n in (queries, 40, 40)]
    narrow = [part.to(dtype).requires_grad_() for part in parts]
    wide = [part.detach().double().requires_grad_() for part in narrow]

    def gradients(out: Tensor, inputs: list[Tensor], own: Scheme) -> list[Tensor]:
        loss = (out * torch.arange(out.numel()).cos().view_as(out)).sum()
        return list(torch.autograd.grad(loss, [*inputs, *own.parameters()]))

    exact = attention(*wide, scheme=twin, **given, path="plain")
    wanted = [exact, *gradients(exact, wide, twin)]
    if causal and queries == 7:
        paths = paths[1:] if paths[0] == "fused" else paths
    for path in (*paths, "plain"):
        out = attention(*narrow, scheme=scheme, **given, path=path)
        found = [out, *gradients(out, narrow, scheme)]
        assert [x.dtype for x in found[:4]] == [dtype] * 4
        for one, other in zip(found, wanted, strict=True):
            size = max(1.0, other.abs().max().item() / 4)
            assert (one.double() - other).abs().max().item() <= atol * size, path


@pytest.mark.parametrize("path", ["dense", "plain"])
def test_places_of_all_sequences_may_be_the_same(path: Path) -> None:
    class Looks(Scheme):
        name = "looks"

        def pair_bias(self, call: Call) -> PairBias:
            distance = call.q_positions[:, :, None] - call.k_positions[:, None, :]
            return picked(call.q[..., :5], distance.clamp(0, 4))

    q, k, v = normal(3, 2, HEADS, 20, WIDTH)
    geometry = Geometry(heads=HEADS, head_dim=WIDTH)
    given: dict[str, Any] = {"scheme": Looks(geometry), "path": path}
    given["positions"] = torch.arange(20)
    got = attention(q, k, v, **given)
    alone = [
        attention(q[b : b + 1], k[b : b + 1], v[b : b + 1], **given) for b in (0, 1)
    ]
    torch.testing.assert_close(got, torch.cat(alone), rtol=0, atol=1e-12)


# --- the strided path -------------------------------------------------------------


@pytest.mark.parametrize("reentrant", [False, True])
@pytest.mark.parametrize("name", ["t5_bias", "kerple_log", "mlp_bias", "fire", "shaw"])
def test_gradients_are_those_without_a_checkpoint(name: str, reentrant: bool) -> None:
    scheme = make(name)
    leaves = [t.requires_grad_() for t in normal(3, 1, HEADS, 40, WIDTH)]

    def run(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        return attention(q, k, v, scheme=scheme, positions=torch.arange(40))

    inputs = [*leaves, *scheme.parameters()]
    wanted = torch.autograd.grad(run(*leaves).sum(), inputs)
    checkpoint(run, *leaves, use_reentrant=reentrant).sum().backward()
    for one, other in zip(inputs, wanted, strict=True):
        assert one.grad is not None
        assert torch.equal(one.grad, other)


@pytest.mark.parametrize("block", [2, 8])
@pytest.mark.parametrize("causal", [True, False])
def test_strided_gradients_are_those_of_finite_differences(
    block: int, causal: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(strided, "BLOCK", block)
    monkeypatch.setattr(strided, "BACKWARD_BLOCK", block)
    options = {"buckets": 4, "max_distance": 4, "bidirectional": True}
    scheme = make("t5_bias", heads=1, **options)
    q = normal(2, 1, 3, 2).requires_grad_()
    k, v = (normal(2, 1, 4, 2).requires_grad_() for _ in range(2))
    table = scheme.get_parameter("table")

    def run(q: Tensor, k: Tensor, v: Tensor, _: Tensor) -> Tensor:
        return attention(
            q,
            k,
            v,
            scheme=scheme,
            positions=torch.arange(1, 4),
            key_positions=torch.arange(4),
            mask=Mask(causal=causal),
            path="strided",
        )

    assert torch.autograd.gradcheck(run, (q, k, v, table))


STARTS: list[tuple[Tensor, Tensor | None]] = [  # ids of queries, and of other keys
    *((torch.arange(length), None) for length in (1, 15, 16, 17, 32, 33)),
    (torch.arange(20) + torch.tensor([[0], [7]]), None),
    *((torch.arange(20), torch.arange(20) + start) for start in (-30, 4, 100)),
]


@pytest.mark.parametrize("causal", [True, False])
@pytest.mark.parametrize(("ids", "key_ids"), STARTS)
@pytest.mark.parametrize(("name", "options"), [("alibi", {}), ("t5_bias", LATER)])
def test_strided_around_a_block_and_wherever_ids_start(
    name: str,
    options: dict[str, Any],
    ids: Tensor,
    key_ids: Tensor | None,
    causal: bool,
) -> None:
    q, k, v = normal(3, BATCH, HEADS, ids.shape[-1], WIDTH)
    given: dict[str, Any] = {"positions": ids, "key_positions": key_ids}
    given |= {"scheme": make(name, **options)}
    given["mask"] = Mask(causal and key_ids is None)
    got, expected = (
        attention(q, k, v, **given, path=path) for path in ("strided", "plain")
    )
    torch.testing.assert_close(got, expected, rtol=0, atol=1e-10)


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
    name: str, q_ids: list[list[int]], k_ids: list[list[int]], taken: list[str]
) -> None:
    options = {"bidirectional": True} if name == "t5_bias" else {}
    q = normal(BATCH, HEADS, len(q_ids[0]), WIDTH)
    k, v = normal(2, BATCH, HEADS, 6, WIDTH)
    one_row = len(set(map(tuple, q_ids))) == 1  # then without a batch axis
    given: dict[str, Any] = {
        "scheme": make(name, **options),
        "positions": torch.tensor(q_ids[0] if one_row else q_ids),
        "key_positions": torch.tensor(k_ids),
        "mask": Mask(causal=False),
    }
    got = attention(q, k, v, **given)
    expected = attention(q, k, v, **given, path="plain")
    assert taken == ["dense", "plain"]
    torch.testing.assert_close(got, expected, rtol=0, atol=1e-10)
    # The definition shares what writes a bias out for all pairs: so by hand, too.
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


@pytest.mark.parametrize("name", ["alibi", "t5_bias"])
@pytest.mark.parametrize("causal", [True, False])
def test_strided_never_allocates_a_tensor_of_all_pairs(
    name: str, causal: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(strided, "BLOCK", 256)
    length = 4096
    scheme = make(name, heads=1).float()
    generator = torch.Generator().manual_seed(0)
    q, k, v = (
        torch.randn(1, 1, length, WIDTH, generator=generator).requires_grad_()
        for _ in range(3)
    )
    positions = torch.arange(length)
    with LargestStorage() as largest:
        out = attention(
            q, k, v, scheme=scheme, positions=positions, mask=Mask(causal=causal)
        )
    forward = largest.bytes
    assert forward < 16 * WIDTH * length  # the vectors and the bias of every offset
    if name == "t5_bias":
        with LargestStorage() as largest:
            out.sum().backward()
        # A block of rows in float32, padded by its height: no more.
        assert largest.bytes <= 256 * (length + 256) * 4
        assert largest.bytes < length * length  # a byte for every pair
    monkeypatch.setattr(request, "ROWS", length)
    with LargestStorage() as largest, torch.no_grad():
        attention(q, k, v, scheme=scheme, positions=positions, path="dense")
    assert largest.bytes >= length * length * 4  # this watch can see one


# --- the choice of a path ---------------------------------------------------------


@pytest.fixture
def taken(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Record the paths that run."""
    record: list[str] = []

    def watch(path: Path) -> None:
        method = BACKENDS[path].run

        def run(asked: request.Request) -> Tensor:
            record.append(path)
            return method(asked)

        monkeypatch.setattr(BACKENDS[path], "run", run)

    for path in PATHS:
        watch(path)
    return record


class Rowwise(Scheme):
    """Changes whole rows of logits."""

    def scores(self, logits: Tensor, call: Call) -> Tensor:
        return logits * 2


class Adding(Scheme):
    """Adds to the values."""

    def values(self, weights: Tensor, call: Call) -> Tensor:
        return weights.new_zeros(())


class Pairwise(Scheme):
    """Adds a bias to each pair."""

    def pair_bias(self, call: Call) -> Any:
        return lambda b, h, i, j: 0.1 * (i - j + 0 * (b + h)).double()


RUN = torch.arange(16)
SHUFFLED = torch.tensor([3, 1, 0, 2, 11, 5, 4, 9, 15, 8, 6, 13, 7, 10, 12, 14])
SEGMENTS = torch.tensor([[0] * 5 + [1] * 11] * BATCH)
GEOMETRY = Geometry(model_dim=HEADS * WIDTH, heads=HEADS)
NAMED = ["nope", "rope", "sinusoidal", "learned", "integer", "binary"]


@pytest.mark.parametrize(
    ("scheme", "positions", "segments", "path"),
    [
        *((name, RUN, None, "fused") for name in NAMED),
        *((name, SHUFFLED, None, "fused") for name in NAMED),
        *((name, RUN, SEGMENTS, "dense") for name in NAMED),
        ("alibi", RUN, None, "strided"),
        ("t5_bias", RUN, None, "strided"),
        ("t5_bias", RUN + 1000, None, "strided"),
        ("alibi", RUN.expand(BATCH, -1), None, "strided"),
        ("alibi", SHUFFLED, None, "dense"),
        ("t5_bias", SHUFFLED, None, "dense"),
        ("alibi", 2 * RUN, None, "dense"),
        ("t5_bias", RUN.flip(0), None, "dense"),
        ("alibi", torch.stack([RUN, SHUFFLED]), None, "dense"),
        ("alibi", RUN, SEGMENTS, "dense"),
        ("t5_bias", RUN, SEGMENTS, "dense"),
        ("transformer_xl", RUN, None, "dense"),
        ("swin", torch.stack([RUN // 4, RUN % 4], -1), None, "dense"),
        ("shaw", RUN, None, "plain"),
        (Pairwise(GEOMETRY), RUN, None, "dense"),
        (Pairwise(GEOMETRY), RUN, SEGMENTS, "dense"),
        (Rowwise(GEOMETRY), RUN, None, "plain"),
        (Adding(GEOMETRY), RUN, None, "plain"),
        (Adding(GEOMETRY), RUN, SEGMENTS, "plain"),
    ],
)
def test_path_choice(
    scheme: str | Scheme,
    positions: Tensor,
    segments: Tensor | None,
    path: str,
    taken: list[str],
) -> None:
    built = make(scheme) if isinstance(scheme, str) else scheme
    q, k, v = normal(3, BATCH, HEADS, 16, WIDTH)
    for causal in (True, False):
        mask = Mask(causal=causal, segments=segments)
        given: dict[str, Any] = {"scheme": built, "positions": positions, "mask": mask}
        got = attention(q, k, v, **given)
        assert taken == [path]
        expected = attention(q, k, v, **given, path="plain")
        taken.clear()
        torch.testing.assert_close(got, expected, rtol=0, atol=1e-10)


@pytest.mark.parametrize(
    ("queries", "causal", "path"),
    [(1, True, "fused"), (3, True, "dense"), (3, False, "fused"), (16, True, "fused")],
)
def test_path_while_decoding(
    queries: int, causal: bool, path: str, taken: list[str]
) -> None:
    q = normal(BATCH, HEADS, queries, WIDTH)
    k, v = normal(2, BATCH, HEADS, 16, WIDTH)
    ids: dict[str, Any] = {"positions": RUN[16 - queries :], "key_positions": RUN}
    attention(q, k, v, scheme=make("rope"), **ids, mask=Mask(causal=causal))
    assert taken == [path]


class NotANumber(Scheme):
    """Makes queries that are no numbers."""

    def query(self, q: Tensor, positions: Tensor) -> Tensor:
        return q * math.nan


@pytest.mark.parametrize("kind", [torch.float32, torch.bfloat16, torch.float64])
@pytest.mark.parametrize("causal", [True, False])
@pytest.mark.parametrize("keys", [1, 2, 7, 8, 15, 16, 17, 33])
@pytest.mark.parametrize("alone", [True, False])
def test_queries_that_are_no_numbers_show_at_every_length(
    alone: bool, keys: int, causal: bool, kind: torch.dtype
) -> None:
    q, k, v = normal(3, BATCH, HEADS, keys, WIDTH).to(kind)
    ids, first = torch.arange(keys), keys - 1 if alone else 0
    scheme, mask = NotANumber(GEOMETRY), Mask(causal=causal)
    places: dict[str, Any] = {"positions": ids[first:], "key_positions": ids}
    got = attention(q[:, :, first:], k, v, scheme=scheme, **places, mask=mask)
    assert got.isnan().all()


def test_two_biases_add_up_and_leave_the_strided_path(taken: list[str]) -> None:
    class Both(Pairwise):
        def offset_bias(self, offsets: Tensor) -> Tensor:
            return offsets.double().abs().expand(HEADS, -1) * -0.3

    q, k, v = normal(3, BATCH, HEADS, 16, WIDTH)
    got = attention(q, k, v, scheme=Both(GEOMETRY), positions=RUN)
    assert taken == ["dense"]
    past = (RUN[:, None] - RUN).double()
    logits = q @ k.mT / math.sqrt(WIDTH) - 0.3 * past.abs() + 0.1 * past
    expected = logits.masked_fill(past < 0, -math.inf).softmax(-1) @ v
    torch.testing.assert_close(got, expected, rtol=0, atol=1e-12)


def test_a_scheme_may_add_nothing(taken: list[str]) -> None:
    class Silent(Scheme):
        def offset_bias(self, offsets: Tensor) -> None:
            return None

        def pair_bias(self, call: Call) -> None:
            return None

    q, k, v = normal(3, BATCH, HEADS, 16, WIDTH)
    got = attention(q, k, v, scheme=Silent(GEOMETRY), positions=RUN)
    assert taken == ["fused"]
    nope = attention(q, k, v, scheme=make("nope"), positions=RUN)
    assert torch.equal(got, nope)


def test_flex_is_not_offered_where_it_cannot_train() -> None:
    q, k, v = normal(3, BATCH, HEADS, 16, WIDTH)
    q.requires_grad_()
    with pytest.raises(
        ConfigError,
        match=r"attention: path 'flex' cannot serve alibi here; "
        r"strided or dense or plain can",
    ):
        attention(q, k, v, scheme=make("alibi"), positions=RUN, path="flex")


def test_masks_go_by_index_not_by_position() -> None:
    q, k, v = normal(3, BATCH, HEADS, 16, WIDTH)
    other_k, other_v = k.clone(), v.clone()
    other_k[:, :, 6:] += 1
    other_v[:, :, 6:] += 1
    for name in ("rope", "alibi", "t5_bias"):
        scheme = make(name)
        before = attention(q, k, v, scheme=scheme, positions=RUN.flip(0))
        after = attention(q, other_k, other_v, scheme=scheme, positions=RUN.flip(0))
        assert torch.equal(before[:, :, :6], after[:, :, :6])


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


# --- errors -----------------------------------------------------------------------


def whole(*shape: int) -> Tensor:
    return torch.zeros(*shape, dtype=torch.int64)


ones = torch.ones
SHAPES: list[tuple[dict[str, Any], str]] = [
    ({"k": ones(1, 3, 6, 8)}, r"k must be \(2, 3, key, 8\) .*, got \(1, 3, 6"),
    ({"k": ones(2, 3, 6, 4)}, r"attention: k must .*\(2, 3, 6, 4\)"),
    ({"k": ones(2, 3, 5, 8)}, r"without key_positions must be \(5,\) or .*, got \(6"),
    ({"v": ones(2, 3, 5, 8)}, r"v must have the batch, heads .*6\), got \(2, 3, 5\)"),
    ({"q": ones(3, 6, 8)}, r"attention: q must .*\(3, 6, 8\)"),
    ({"positions": torch.arange(6.0).half()}, "float32 or float64, got torch.float16"),
    ({"positions": whole(5)}, r"positions must be \(6,\) or \(2, 6\), got \(5,\)"),
    ({"positions": whole(3, 6)}, r"must be \(6,\) or \(2, 6\), got \(3, 6\)"),
    ({"positions": whole(2, 6, 3)}, r"must be \(6,\) or \(2, 6\), got \(2, 6, 3\)"),
    ({"positions": torch.tensor(3)}, r"must be \(6,\) or \(2, 6\), got \(\)"),
    ({"key_positions": whole(7)}, r"key_positions must be \(6,\) or .* got \(7,\)"),
    ({"key_positions": torch.arange(6.0)}, "and key_positions must both be whole num"),
    ({"mask": Mask(segments=whole(2, 5))}, r"segments must be \(2, 6\), .*\(2, 5\)"),
    ({"state": ones(2, 12, 1)}, r"state must be \(2, 6, ...\), .*, got \(2, 12, 1\)"),
    ({"scheme": create("alibi", heads=2)}, "alibi: q must have the heads .*, 2, got 3"),
]
OTHERS: list[tuple[dict[str, Any], str]] = [
    (
        {
            "scheme": create("alibi:direction=causal", heads=3),
            "mask": Mask(causal=False),
        },
        "alibi: needs a causal mask, got causal=False",
    ),
    (
        {"path": "quick"},
        "path 'quick' cannot serve alibi here; strided or dense or plain or flex can",
    ),
    ({"path": "logits"}, "attention: path 'logits' cannot serve alibi here"),
    ({"scheme": "alibi"}, "what `create` returns, got 'alibi'"),
]


@pytest.mark.parametrize(
    ("change", "error", "message"),
    [
        *((change, ShapeError, message) for change, message in SHAPES),
        *((change, ConfigError, message) for change, message in OTHERS),
    ],
)
def test_errors(change: dict[str, Any], error: type[Exception], message: str) -> None:
    given: dict[str, Any] = {part: torch.ones(2, 3, 6, 8) for part in "qkv"}
    given |= {"scheme": create("alibi", heads=3, model_dim=24)}
    given["positions"] = torch.arange(6)
    attention(**given)  # nothing else is wrong
    with pytest.raises(error, match=message):
        attention(**{**given, **change})
