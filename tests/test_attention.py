"""Every path of attention against the definition, and the choice between them."""

import math
import warnings
from itertools import product
from typing import Any

import pytest
import torch
import torch.nn.attention.flex_attention as flex
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils.checkpoint import checkpoint

from posenc_compare.attention import Mask, Path, attention, attention_logits, request
from posenc_compare.attention.backends import BACKENDS, strided
from posenc_compare.errors import ConfigError, ShapeError
from posenc_compare.schemes import Call, Geometry, Scheme, create
from posenc_compare.schemes.scheme import PairBias, picked

BATCH, HEADS, WIDTH = 2, 3, 8
SIZES = [(40, 40), (7, 40), (1, 40), (1, 1)]
PATHS: list[Path] = ["fused", "strided", "flex", "dense", "plain"]

# A scheme or two for every door, and options that bring other code or more than one
# bucket. All other schemes go through attention in their conformance checks.
SIMPLE: list[tuple[str, dict[str, Any]]] = [
    *((name, {}) for name in ("binary", "integer", "learned", "nope", "sinusoidal")),
    ("rope", {}),
    ("rope", {"layout": "half", "fraction": 0.5}),
    ("alibi", {}),
    ("alibi", {"direction": "causal"}),
    ("t5_bias", {}),
    ("t5_bias", {"buckets": 8, "max_distance": 12, "bidirectional": True}),
]
CASES: list[tuple[str, dict[str, Any]]] = [
    *SIMPLE,
    ("xpos", {}),
    ("transformer_xl", {}),
    ("fire", {"threshold": 20.0}),
    ("fox", {}),
    ("cope", {}),
    ("shaw", {}),
]
OFFSETS = {"alibi", "t5_bias"}  # add a bias of the offset alone
PAIRS = {"transformer_xl", "fire", "fox"}  # add a bias to each pair
ROWS = {"cope", "shaw"}  # change rows of logits, or values
CAUSAL = {"xpos", "fire", "fox", "cope"}  # have no meaning for the future


def grid(cases: list[tuple[str, dict[str, Any]]]) -> pytest.MarkDecorator:
    """Run a test for every case with every mask and size."""
    found = [
        pytest.param(
            name,
            options,
            causal,
            sizes,
            segmented,
            id="-".join(
                [
                    name,
                    *map(str, options.values()),
                    "causal" if causal else "both",
                    "x".join(map(str, sizes)),
                    *(["segments"] if segmented else []),
                ]
            ),
        )
        for (name, options), causal, sizes, segmented in product(
            cases, [True, False], SIZES, [False, True]
        )
        if causal or (options.get("direction") != "causal" and name not in CAUSAL)
    ]
    given = ("name", "options", "causal", "sizes", "segmented")
    return pytest.mark.parametrize(given, found)


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


def make(name: str, options: dict[str, Any], heads: int = HEADS) -> Scheme:
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(1)
        scheme = create(
            name, options=options, model_dim=heads * WIDTH, heads=heads, length=64
        ).double()
    with torch.no_grad():
        for parameter in scheme.parameters():
            parameter.mul_(4)  # so that a wrong row of a table is seen
    return scheme


def arguments(
    scheme: Scheme, causal: bool, sizes: tuple[int, int], segmented: bool
) -> dict[str, Any]:
    queries, keys = sizes
    key_positions = torch.arange(keys) + 3
    generator = torch.Generator().manual_seed(2)
    x = torch.randn(BATCH, keys, HEADS * WIDTH, generator=generator).double()
    segments = None
    if segmented:
        places = torch.arange(keys)
        segments = torch.stack([places // 9, places // 23])
    return {
        "scheme": scheme,
        "positions": key_positions[keys - queries :],
        "key_positions": key_positions,
        "mask": Mask(causal, segments=segments),
        "state": scheme.token_state(x),
    }


def applicable(
    name: str, causal: bool, sizes: tuple[int, int], segmented: bool
) -> list[Path]:
    """Return the paths that the table in the module's docstring promises."""
    if name in ROWS:
        return ["plain"]
    queries, keys = sizes
    paths: list[Path] = ["flex", "plain"]
    if name != "xpos":  # what it makes of keys in the future may be infinite
        paths.append("dense")
    if name in OFFSETS and not segmented:
        paths.append("strided")
    biased = name in OFFSETS | PAIRS
    square = not causal or queries in (1, keys)
    if not biased and not segmented and square and keys >= 16:
        paths.append("fused")
    return paths


def gradients(
    out: Tensor, leaves: list[Tensor], weights: Tensor
) -> list[tuple[int, Tensor]]:
    """Return the gradients that exist, numbered by leaf."""
    loss = (out * weights.to(out.dtype)).sum()
    # What the state was made of is asked again, by the next path.
    found = torch.autograd.grad(loss, leaves, allow_unused=True, retain_graph=True)
    return [(i, g) for i, g in enumerate(found) if g is not None]


@grid(CASES)
def test_paths_agree_in_float64(
    name: str,
    options: dict[str, Any],
    causal: bool,
    sizes: tuple[int, int],
    segmented: bool,
) -> None:
    scheme = make(name, options)
    given = arguments(scheme, causal, sizes, segmented)
    parameters = list(scheme.parameters())
    q = normal(BATCH, HEADS, sizes[0], WIDTH)
    k, v = normal(2, BATCH, HEADS, sizes[1], WIDTH)
    weights = normal(BATCH, HEADS, sizes[0], WIDTH)
    leaves = [q, k, v, *parameters]
    for leaf in leaves:
        leaf.requires_grad_()
    expected = attention(q, k, v, **given, path="plain")
    expected_grads = gradients(expected, leaves, weights)
    trained = 0 if name == "learned" else len(parameters)  # adds before attention
    assert [i for i, _ in expected_grads] == list(range(3 + trained))
    paths = applicable(name, causal, sizes, segmented)
    for path in PATHS:
        if path == "flex":  # cannot train on the CPU
            continue
        if path not in paths:
            with pytest.raises(ConfigError, match=f"path '{path}' cannot serve {name}"):
                attention(q, k, v, **given, path=path)
            continue
        got = attention(q, k, v, **given, path=path)
        torch.testing.assert_close(got, expected, rtol=0, atol=1e-10, msg=path)
        got_grads = gradients(got, leaves, weights)
        assert [i for i, _ in got_grads] == [i for i, _ in expected_grads]
        for (_, got_grad), (_, grad) in zip(got_grads, expected_grads, strict=True):
            torch.testing.assert_close(got_grad, grad, rtol=0, atol=1e-10, msg=path)


@pytest.mark.parametrize("segmented", [False, True])
@pytest.mark.parametrize(
    ("name", "causal", "sizes"),
    [
        ("nope", True, (7, 40)),
        ("rope", True, (40, 40)),
        ("alibi", False, (7, 40)),
        ("t5_bias", True, (40, 40)),
        ("t5_bias", True, (1, 40)),
        ("t5_bias", False, (7, 40)),
        ("transformer_xl", True, (7, 40)),
        ("transformer_xl", False, (7, 40)),
        ("fire", True, (40, 40)),
        ("fox", True, (7, 40)),
    ],
)
def test_flex_agrees_without_gradients(
    name: str, causal: bool, sizes: tuple[int, int], segmented: bool
) -> None:
    scheme = make(name, {}).requires_grad_(False)
    given = arguments(scheme, causal, sizes, segmented)
    q = normal(BATCH, HEADS, sizes[0], WIDTH)
    k, v = normal(2, BATCH, HEADS, sizes[1], WIDTH)
    expected = attention(q, k, v, **given, path="plain")
    with warnings.catch_warnings():
        warnings.filterwarnings(
            "ignore", message=r"flex_attention called without torch\.compile"
        )
        got = attention(q, k, v, **given, path="flex")
    torch.testing.assert_close(got, expected, rtol=0, atol=1e-10)


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
    scheme, places = make("alibi", {}), torch.arange(4 * block)
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


# Bounds in float32, u = 2**-24 the rounding of one operation. With n keys, m queries,
# d channels, and Q, K, V, G the largest norms of a query, key, value and of the
# gradient that arrives at an output row:
#
# S     = scale * Q * K + max |bias|: no logit, nor the sum of the absolute values of
#         its terms, is larger.
# delta = (d + 8) * u * S: the error of a logit. d products and sums, the scale, the
#         bias and its rounding, and 5 of a rotation (cos, sin, two products, a sum).
# w     = 2 * delta + (n + 4) * u: the relative error of a softmax weight, to first
#         order: numerator and denominator each move by at most delta; n sums of the
#         denominator, exp, the shift by the maximum, the division.
# out   : weights sum to 1, so |error| <= (w + n * u) * V.
# dlogit= W_ij (g_i . v_j - g_i . o_i): the bracket is at most 2GV, wrong by
#         2(d + 2)uGV for the two products, and by (w + n * u)GV through o_i. Summed
#         over a row the error is e = 3(w + n * u)GV + 2(d + 2)uGV, on a sum of 2GV.
# dq    = scale * dlogit @ k: scale * K * (e + 2(n + 2)uGV), and 5u more of a turn.
# dk    : m rows add up: scale * Q * m * (e + 2(m + 2)uGV).
# dv    : m rows of weights, each at most 1: m * G * (w + (m + 2)u).
# bias  : each parameter collects at most batch * m whole rows.
def float32_bounds(
    q: Tensor, k: Tensor, v: Tensor, g: Tensor, scheme: Scheme, bias: float
) -> tuple[float, list[float]]:
    unit = 2.0**-24
    big_q, big_k, big_v, big_g = (t.norm(dim=-1).max().item() for t in (q, k, v, g))
    m, n, d = q.shape[2], k.shape[2], q.shape[3]
    scale = scheme.scale(d)
    delta = (d + 8) * unit * (scale * big_q * big_k + bias)
    w = 2 * delta + (n + 4) * unit
    gv = big_g * big_v
    row = 3 * (w + n * unit) * gv + 2 * (d + 2) * unit * gv
    return (w + n * unit) * big_v, [
        scale * big_k * (row + 2 * (n + 7) * unit * gv),
        scale * big_q * m * (row + 2 * (m + 7) * unit * gv),
        m * big_g * (w + (m + 2) * unit),
        BATCH * m * (row + 2 * (BATCH * m + n) * unit * gv),
    ]


@grid(SIMPLE)
def test_paths_agree_in_float32(
    name: str,
    options: dict[str, Any],
    causal: bool,
    sizes: tuple[int, int],
    segmented: bool,
) -> None:
    scheme = make(name, options)
    given = arguments(scheme, causal, sizes, segmented)
    q = normal(BATCH, HEADS, sizes[0], WIDTH).float()
    k, v = normal(2, BATCH, HEADS, sizes[1], WIDTH).float()
    g = normal(BATCH, HEADS, sizes[0], WIDTH).float()
    scheme.float()  # the parameters are now those of float32 ...
    narrow = [t.requires_grad_() for t in (q, k, v, *scheme.parameters())]
    twin = make(name, options)
    twin.load_state_dict(scheme.state_dict())  # ... and the same in float64
    wide = [t.detach().double().requires_grad_() for t in (q, k, v)]
    wide += list(twin.parameters())
    exact = attention(
        wide[0], wide[1], wide[2], **{**given, "scheme": twin}, path="plain"
    )
    exact_grads = gradients(exact, wide, g)
    zero = torch.zeros_like(wide[1])
    with torch.no_grad():
        bias = attention_logits(
            zero,
            zero,
            scheme=twin,
            positions=given["key_positions"],
            mask=Mask(causal=twin.facts.causal_only),
        )
    bias = bias[bias.isfinite()]
    out_bound, grad_bounds = float32_bounds(q, k, v, g, scheme, bias.abs().max().item())
    for path in applicable(name, causal, sizes, segmented):
        if path == "flex":
            continue
        got = attention(q, k, v, **given, path=path)
        assert got.dtype == torch.float32
        assert (got.double() - exact).abs().max().item() <= out_bound, path
        pairs = zip(gradients(got, narrow, g), exact_grads, strict=True)
        for (i, grad), (_, exact_grad) in pairs:
            assert grad.dtype == torch.float32
            error = (grad.double() - exact_grad).abs().max().item()
            assert error <= grad_bounds[i], f"{path}, gradient {i}"


@pytest.mark.parametrize(
    ("name", "options"), SIMPLE, ids=[f"{n}-{list(o.values())}" for n, o in SIMPLE]
)
@pytest.mark.parametrize("causal", [True, False])
def test_bfloat16_is_close_to_float64(
    name: str, options: dict[str, Any], causal: bool
) -> None:
    if options.get("direction") == "causal" and not causal:
        return
    scheme = make(name, options).requires_grad_(False)
    given = arguments(scheme, causal, (40, 40), False)
    q, k, v = normal(3, BATCH, HEADS, 40, WIDTH).bfloat16()
    wide = [t.double() for t in (q, k, v)]
    expected = attention(wide[0], wide[1], wide[2], **given, path="plain")
    # u = 2**-8. A turned query and key are rounded once each: the logit moves by at
    # most 2u * scale * Q * K, a weight by twice that. The weight is rounded before it
    # meets the values, and so is the output: 2u of the largest value. What is summed
    # in float32 adds less than another tenth.
    unit = 2.0**-8
    big_q, big_k = (t.norm(dim=-1).max().item() for t in wide[:2])
    turned = scheme.acts_at("query") or scheme.acts_at("key")
    delta = 2 * unit * scheme.scale(WIDTH) * big_q * big_k if turned else 0.0
    bound = 1.1 * (math.expm1(2 * delta) + 2 * unit) * wide[2].abs().max().item()
    for path in applicable(name, causal, (40, 40), False):
        if path == "flex":
            continue
        got = attention(q, k, v, **given, path=path)
        assert got.dtype == torch.bfloat16
        assert (got.double() - expected).abs().max().item() <= bound, path


def test_bfloat16_gradients_are_in_bfloat16_and_close() -> None:
    scheme = make("t5_bias", {}).float()
    given = arguments(scheme, True, (40, 40), False)
    leaves = [t.bfloat16().requires_grad_() for t in normal(3, 1, HEADS, 40, WIDTH)]
    grads = {}
    paths: list[Path] = ["strided", "plain"]
    for path in paths:
        out = attention(leaves[0], leaves[1], leaves[2], **given, path=path)
        grads[path] = torch.autograd.grad(
            out.float().sum(), [*leaves, *scheme.parameters()]
        )
    for one, other in zip(grads["strided"], grads["plain"], strict=True):
        assert one.dtype == other.dtype
        # The two differ by roundings of o_i and of the result: a few 2**-8.
        size = other.abs().max().item()
        torch.testing.assert_close(one, other, rtol=0, atol=8 * 2.0**-8 * size)


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
    scheme = make(name, {})
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
    scheme = make("t5_bias", options, heads=1)
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


@pytest.mark.parametrize("length", [1, 15, 16, 17, 32, 33])
@pytest.mark.parametrize("causal", [True, False])
def test_strided_at_lengths_around_the_block(length: int, causal: bool) -> None:
    scheme = make("t5_bias", {"buckets": 8, "max_distance": 12, "bidirectional": True})
    q, k, v = normal(3, BATCH, HEADS, length, WIDTH)
    given = arguments(scheme, causal, (length, length), False)
    got = attention(q, k, v, **given, path="strided")
    expected = attention(q, k, v, **given, path="plain")
    torch.testing.assert_close(got, expected, rtol=0, atol=1e-10)


@pytest.mark.parametrize("causal", [True, False])
def test_strided_with_another_start_in_every_row(causal: bool) -> None:
    scheme = make("t5_bias", {"buckets": 8, "max_distance": 12, "bidirectional": True})
    q, k, v = normal(3, BATCH, HEADS, 20, WIDTH)
    rows = torch.arange(20) + torch.tensor([[0], [7]])
    got, expected = (
        attention(
            q, k, v, scheme=scheme, positions=rows, mask=Mask(causal=causal), path=path
        )
        for path in ("auto", "plain")
    )
    torch.testing.assert_close(got, expected, rtol=0, atol=1e-10)


@pytest.mark.parametrize("name", ["alibi", "t5_bias"])
def test_keys_may_stand_at_another_start_than_queries(name: str) -> None:
    scheme = make(name, {})
    q, k, v = normal(3, BATCH, HEADS, 20, WIDTH)
    for start in (-30, 4, 100):
        given: dict[str, Any] = {
            "scheme": scheme,
            "positions": torch.arange(20),
            "key_positions": torch.arange(20) + start,
            "mask": Mask(causal=False),
        }
        got = attention(q, k, v, **given, path="strided")
        expected = attention(q, k, v, **given, path="plain")
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
        "scheme": make(name, options),
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
    scheme, apart = make("alibi", {}), span // 2  # offsets go to either side
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


class LargestStorage(TorchDispatchMode):
    """Remember the most bytes behind any tensor that an operation returns."""

    def __init__(self) -> None:
        super().__init__()
        self.bytes = 0

    def __torch_dispatch__(
        self, func: Any, types: Any, args: Any = (), kwargs: Any = None
    ) -> Any:
        out = func(*args, **(kwargs or {}))
        for tensor in out if isinstance(out, tuple | list) else [out]:
            if isinstance(tensor, Tensor):
                self.bytes = max(self.bytes, tensor.untyped_storage().nbytes())
        return out


@pytest.mark.parametrize("name", ["alibi", "t5_bias"])
@pytest.mark.parametrize("causal", [True, False])
def test_strided_never_allocates_a_tensor_of_all_pairs(
    name: str, causal: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(strided, "BLOCK", 256)
    length = 4096
    scheme = make(name, {}, heads=1).float()
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
    built = make(scheme, {}) if isinstance(scheme, str) else scheme
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
    attention(q, k, v, scheme=make("rope", {}), **ids, mask=Mask(causal=causal))
    assert taken == [path]


class NotANumber(Scheme):
    """Makes queries that are no numbers."""

    def query(self, q: Tensor, positions: Tensor) -> Tensor:
        return q * math.nan


@pytest.mark.parametrize("kind", [torch.float32, torch.bfloat16, torch.float64])
@pytest.mark.parametrize("causal", [True, False])
@pytest.mark.parametrize("keys", [*range(1, 18), 33])
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
    nope = attention(q, k, v, scheme=make("nope", {}), positions=RUN)
    assert torch.equal(got, nope)


def test_flex_is_not_offered_where_it_cannot_train() -> None:
    q, k, v = normal(3, BATCH, HEADS, 16, WIDTH)
    q.requires_grad_()
    with pytest.raises(
        ConfigError,
        match=r"attention: path 'flex' cannot serve alibi here; "
        r"strided or dense or plain can",
    ):
        attention(q, k, v, scheme=make("alibi", {}), positions=RUN, path="flex")


def test_masks_go_by_index_not_by_position() -> None:
    q, k, v = normal(3, BATCH, HEADS, 16, WIDTH)
    other_k, other_v = k.clone(), v.clone()
    other_k[:, :, 6:] += 1
    other_v[:, :, 6:] += 1
    for name in ("rope", "alibi", "t5_bias"):
        scheme = make(name, {})
        before = attention(q, k, v, scheme=scheme, positions=RUN.flip(0))
        after = attention(q, other_k, other_v, scheme=scheme, positions=RUN.flip(0))
        assert torch.equal(before[:, :, :6], after[:, :, :6])


def test_logits_are_those_of_the_definition() -> None:
    q, k, v = normal(3, BATCH, HEADS, 40, WIDTH)
    for name, options in CASES:
        if name == "shaw":  # adds to the values too
            continue
        scheme = make(name, options)
        given = arguments(scheme, True, (40, 40), False)
        expected = attention(q, k, v, **given)
        del given["key_positions"]
        logits = attention_logits(q, k, **given)
        torch.testing.assert_close(logits.softmax(-1) @ v, expected, rtol=0, atol=1e-10)


def test_autocast_does_not_reach_the_logits() -> None:
    q, k, v = normal(3, BATCH, HEADS, 16, WIDTH).float()
    for name in ("rope", "alibi"):
        scheme = make(name, {})
        outside = attention(q, k, v, scheme=scheme, positions=RUN)
        seen = attention_logits(q, k, scheme=scheme, positions=RUN)
        with torch.autocast("cpu", torch.bfloat16):
            inside = attention(q, k, v, scheme=scheme, positions=RUN)
            logits = attention_logits(q, k, scheme=scheme, positions=RUN)
        assert torch.equal(inside, outside)
        assert torch.equal(logits, seen)


# --- errors -----------------------------------------------------------------------


@pytest.mark.parametrize(
    ("change", "error", "message"),
    [
        (
            {"k": torch.ones(1, 3, 6, 8)},
            ShapeError,
            r"attention: k must be \(2, 3, key, 8\) .*, got \(1, 3, 6",
        ),
        (
            {"k": torch.ones(2, 3, 5, 8)},
            ShapeError,
            r"positions without key_positions must be \(5,\) or \(2, 5\), got \(6",
        ),
        (
            {"v": torch.ones(2, 3, 5, 8)},
            ShapeError,
            r"attention: v must have the batch, heads and keys of k, \(2, 3, 6\), "
            r"got \(2, 3, 5\)",
        ),
        ({"q": torch.ones(3, 6, 8)}, ShapeError, r"attention: q must .*\(3, 6, 8\)"),
        (
            {"k": torch.ones(2, 3, 6, 4)},
            ShapeError,
            r"attention: k must .*\(2, 3, 6, 4\)",
        ),
        (
            {"positions": torch.arange(6.0)},
            ShapeError,
            r"attention: positions must be a tensor of whole numbers, "
            r"got torch\.float32",
        ),
        (
            {"positions": torch.arange(5)},
            ShapeError,
            r"attention: positions must be \(6,\) or \(2, 6\), got \(5,\)",
        ),
        (
            {"positions": torch.zeros(3, 6, dtype=torch.int64)},
            ShapeError,
            r"attention: positions must be \(6,\) or \(2, 6\), got \(3, 6\)",
        ),
        (
            {"positions": torch.tensor(3)},
            ShapeError,
            r"attention: positions must be \(6,\) or \(2, 6\), got \(\)",
        ),
        (
            {"key_positions": torch.arange(7)},
            ShapeError,
            r"attention: key_positions must be \(6,\) or \(2, 6\), got \(7,\)",
        ),
        (
            {"key_positions": torch.arange(6.0)},
            ShapeError,
            r"attention: key_positions must be a tensor of .*, got torch\.float32",
        ),
        (
            {"mask": Mask(segments=torch.zeros(2, 5, dtype=torch.int64))},
            ShapeError,
            r"attention: segments must be \(2, 6\), one for each key, got \(2, 5\)",
        ),
        (
            {"state": torch.zeros(2, 12, 1)},
            ShapeError,
            r"attention: state must be \(2, 6, ...\), one for each key, "
            r"got \(2, 12, 1\)",
        ),
        (
            {"scheme": create("alibi", model_dim=16, heads=2)},
            ShapeError,
            r"alibi: q must have the heads that the scheme was built for, 2, got 3; "
            r"one built with heads=3 would work",
        ),
        (
            {"positions": torch.zeros(2, 6, 3, dtype=torch.int64)},
            ShapeError,
            r"positions must be \(6,\) or \(2, 6\), got \(2, 6, 3\)",
        ),
        (
            {
                "scheme": create("alibi", options={"direction": "causal"}, heads=3),
                "mask": Mask(causal=False),
            },
            ConfigError,
            r"alibi: needs a causal mask, got causal=False",
        ),
        (
            {"path": "quick"},
            ConfigError,
            r"attention: path 'quick' cannot serve alibi here; "
            r"strided or dense or plain or flex can",
        ),
        (
            {"path": "logits"},
            ConfigError,
            r"attention: path 'logits' cannot serve alibi here",
        ),
    ],
)
def test_errors(change: dict[str, Any], error: type[Exception], message: str) -> None:
    given: dict[str, Any] = {
        "q": torch.ones(2, 3, 6, 8),
        "k": torch.ones(2, 3, 6, 8),
        "v": torch.ones(2, 3, 6, 8),
        "scheme": create("alibi", heads=3, model_dim=24),
        "positions": torch.arange(6),
    }
    attention(**given)  # nothing else is wrong
    with pytest.raises(error, match=message):
        attention(**{**given, **change})


def test_a_name_in_the_place_of_a_scheme_is_refused() -> None:
    q = torch.randn(1, 2, 4, 8)
    with pytest.raises(ConfigError, match="what `create` returns, got 'alibi'"):
        attention(q, q, q, scheme="alibi", positions=torch.arange(4))  # pyright: ignore
