"""Every path under every mask, and grouped queries, against loops and repeated keys."""

import math
from typing import Any, get_args

import pytest
import torch
from schemes.tools import normal
from support.attention import make as build
from torch import Tensor

from posenc_compare.attention import Mask, Path, attention, attention_logits, explain
from posenc_compare.attention.backends import strided
from posenc_compare.errors import ConfigError, ShapeError
from posenc_compare.schemes import Call, Geometry, Scheme
from posenc_compare.schemes.rope import Rope
from posenc_compare.schemes.shared.rotation import Rotation
from posenc_compare.schemes.wrapper import Wrapper

BATCH, HEADS, WIDTH, KEYS = 2, 4, 8, 16
SEGMENTS = torch.tensor([[0] * 5 + [1] * 11, [0] * 11 + [3] * 5])
MASKS = {
    "causal": Mask(),
    "none": Mask(causal=False),
    "window": Mask(window=3),
    "window both ways": Mask(causal=False, window=4),
    "window of one": Mask(window=1),
    "window of all but one": Mask(window=KEYS - 1),
    "window of all but one both ways": Mask(causal=False, window=KEYS - 1),
    "window of all": Mask(window=KEYS),
    "prefix": Mask(prefix=4),
    "prefixes": Mask(prefix=torch.tensor([2, 6])),
    "prefix and window": Mask(prefix=2, window=3),
    "segments": Mask(segments=SEGMENTS),
    "all": Mask(causal=False, window=4, prefix=torch.tensor([7, 1]), segments=SEGMENTS),
}
# A scheme or two for every hook, and options that bring other code or more than one
# bucket. All other schemes go through attention in their conformance checks.
SCHEMES: list[tuple[str, dict[str, Any]]] = [
    *((name, {}) for name in ("learned", "nope", "sinusoidal", "rope", "alibi")),
    *((name, {}) for name in ("t5_bias", "xpos", "transformer_xl")),
    *((name, {}) for name in ("fox", "cope", "shaw")),
    ("rope", {"layout": "half", "fraction": 0.5}),
    ("alibi", {"direction": "causal"}),
    ("t5_bias", {"buckets": 8, "max_distance": 12, "bidirectional": True}),
    ("fire", {"threshold": 20.0}),
]
OFFSETS = {"alibi", "t5_bias"}  # add a bias of the offset alone
PAIRS = {"transformer_xl", "fire", "fox"}  # add a bias to each pair
ROWS = {"cope", "shaw"}  # change rows of logits, or values


@pytest.fixture(autouse=True)
def small_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(strided, "BLOCK", 4)
    monkeypatch.setattr(strided, "BACKWARD_BLOCK", 3)


def make(name: str, **options: Any) -> Scheme:
    scheme = build(name, heads=HEADS, width=WIDTH, length=32, **options)
    with torch.no_grad():
        for parameter in scheme.parameters():
            parameter.mul_(4)  # so that a wrong row of a table is seen
    return scheme


def sees(mask: Mask, b: int, i: int, j: int) -> bool:
    """Say, slowly, whether the query at index i of a sequence sees the key at j."""
    seen = True
    if mask.causal:
        seen = j <= i
    if isinstance(mask.window, int):
        seen = seen and abs(i - j) <= mask.window - 1
    first = mask.prefix if isinstance(mask.prefix, int) else int(mask.prefix[b])
    seen = seen or j < first
    if mask.segments is not None:
        seen = seen and bool(mask.segments[b, i] == mask.segments[b, j])
    return seen


def grid(mask: Mask, queries: int) -> Tensor:
    rows = range(KEYS - queries, KEYS)
    return torch.tensor(
        [
            [[sees(mask, b, i, j) for j in range(KEYS)] for i in rows]
            for b in range(BATCH)
        ]
    )[:, None]


def leaves(queries: int, key_heads: int = HEADS) -> list[Tensor]:
    parts = [normal(BATCH, HEADS, queries, WIDTH)]
    parts += [normal(BATCH, key_heads, KEYS, WIDTH, seed=n) for n in (1, 2)]
    return [part.requires_grad_() for part in parts]


def given(scheme: Scheme, mask: Mask, queries: int) -> dict[str, Any]:
    ids = torch.arange(KEYS) + 3
    x = normal(BATCH, KEYS, HEADS * WIDTH, seed=5)
    return {
        "scheme": scheme,
        "positions": ids[KEYS - queries :],
        "key_positions": ids,
        "mask": mask,
        "state": scheme.token_state(x),
    }


def gradients(out: Tensor, inputs: list[Tensor]) -> tuple[Tensor | None, ...]:
    weights = torch.arange(out.numel()).cos().view_as(out)
    return torch.autograd.grad(
        (out * weights).sum(), inputs, retain_graph=True, allow_unused=True
    )


def trained_paths(name: str, mask: Mask, queries: int) -> set[str]:
    """Return the paths that serve on a CPU while gradients are asked for."""
    if name in ROWS:
        return {"plain"}
    paths = {"plain"} if name == "xpos" else {"plain", "dense"}
    segmented = mask.segments is not None
    mixed = segmented or not isinstance(mask.prefix, int) or mask.prefix > 0
    if name in OFFSETS and not mixed:
        paths.add("strided")
    whole = mask.window is None or mask.window == KEYS
    square = not mask.causal or queries in (1, KEYS)
    if name not in OFFSETS | PAIRS and not mixed and whole and square:
        paths.add("fused")
    return paths


@pytest.mark.parametrize("queries", [KEYS, 5, 1])
@pytest.mark.parametrize("kind", MASKS)
@pytest.mark.parametrize(("name", "options"), SCHEMES, ids=str)
def test_every_path_honours_every_mask(
    name: str, options: dict[str, Any], kind: str, queries: int
) -> None:
    scheme, mask = make(name, **options), MASKS[kind]
    asked = given(scheme, mask, queries)
    if scheme.facts.causal_only and (not mask.causal or "prefix" in kind):
        with pytest.raises(ConfigError, match=f"{name}: needs a causal mask"):
            attention(*leaves(queries), **asked)
        return
    q, k, v = leaves(queries)
    seen = grid(mask, queries)
    plain = attention(q, k, v, **asked, path="plain")
    if name == "nope":
        logits = q @ k.mT / math.sqrt(WIDTH)
        slow = logits.masked_fill(~seen, -math.inf).softmax(-1) @ v
        torch.testing.assert_close(plain, slow, rtol=0, atol=1e-12)
    if queries == KEYS:
        whole = {n: x for n, x in asked.items() if n != "key_positions"}
        logits = attention_logits(q, k, **whole)
        assert torch.equal(logits.isfinite(), seen.expand_as(logits))
        if name != "shaw":  # which adds to the values, too
            out = logits.softmax(-1) @ v
            torch.testing.assert_close(out, plain, rtol=0, atol=1e-12)
    inputs = [q, k, v, *scheme.parameters()]
    wanted = gradients(plain, inputs)
    unused = [grad is None for grad in wanted]
    assert unused == [False] * 3 + [name == "learned"] * (len(inputs) - 3)
    others = explain(q, k, v, **asked).others
    for path in get_args(Path):
        if path not in trained_paths(name, mask, queries):
            assert others[path]
            with pytest.raises(ConfigError, match=f"path '{path}' cannot serve {name}"):
                attention(q, k, v, **asked, path=path)
            continue
        got = attention(q, k, v, **asked, path=path)
        torch.testing.assert_close(got, plain, rtol=0, atol=1e-12, msg=path)
        found = gradients(got, inputs)
        torch.testing.assert_close(found, wanted, rtol=0, atol=1e-11, msg=path)


@pytest.mark.filterwarnings("ignore:flex_attention called without")
@pytest.mark.parametrize("kind", MASKS)
@pytest.mark.parametrize("name", ["nope", "rope", "alibi", "t5_bias", "fire", "fox"])
def test_flex_honours_every_mask(name: str, kind: str) -> None:
    scheme, mask = make(name).requires_grad_(False), MASKS[kind]
    if scheme.facts.causal_only and (not mask.causal or "prefix" in kind):
        return
    q, k, v = (leaf.detach() for leaf in leaves(5, 2))
    asked = given(scheme, mask, 5)
    got = attention(q, k, v, **asked, path="flex")
    plain = attention(q, k, v, **asked, path="plain")
    torch.testing.assert_close(got, plain, rtol=0, atol=1e-12)


@pytest.mark.parametrize(
    ("name", "kind", "path"),
    [
        ("alibi", "window", "strided"),
        ("alibi", "window both ways", "strided"),
        ("alibi", "prefix", "dense"),
        ("nope", "window", "dense"),
        ("nope", "window of all", "fused"),
        ("rope", "prefix", "dense"),
        ("shaw", "window", "plain"),
    ],
)
def test_the_path_that_takes_over(name: str, kind: str, path: str) -> None:
    asked = given(make(name), MASKS[kind], KEYS)
    assert explain(*leaves(KEYS), **asked).path == path


def test_explain_says_why_each_other_path_is_not_taken() -> None:
    found = explain(*leaves(KEYS), **given(make("alibi"), Mask(prefix=3), KEYS))
    assert found.path == "dense"
    assert found.others == {
        "fused": "alibi adds a bias",
        "strided": "segments and a prefix are no function of the offset",
        "plain": "dense comes first",
        "flex": "it cannot train on the CPU",
    }


GROUPED: list[tuple[str, dict[str, Any]]] = [
    *((name, {}) for name in ("nope", "rope", "alibi", "t5_bias", "fope", "deberta")),
    *((name, {}) for name in ("transformer_xl", "shaw", "fox", "pope", "path")),
    ("rerope", {}),
]


@pytest.mark.parametrize("queries", [KEYS, 5])
@pytest.mark.parametrize(("name", "options"), GROUPED, ids=str)
def test_grouped_queries_share_keys_and_values(
    name: str, options: dict[str, Any], queries: int
) -> None:
    built = make(name, **options)
    for key_heads in (1, 2):
        inputs = q, k, v = leaves(queries, key_heads)
        asked = given(built, Mask(), queries)
        whole = [x.repeat_interleave(HEADS // key_heads, dim=1) for x in (k, v)]
        wanted = attention(q, *whole, **asked, path="plain")
        slopes, others = gradients(wanted, inputs), explain(q, k, v, **asked).others
        for path in get_args(Path):
            if others.get(path, "comes first").endswith("comes first"):
                got = attention(q, k, v, **asked, path=path)
                torch.testing.assert_close(got, wanted, rtol=0, atol=1e-12, msg=path)
                found = gradients(got, inputs)
                torch.testing.assert_close(found, slopes, rtol=0, atol=1e-11, msg=path)


def test_a_turn_that_is_the_same_for_all_heads_sees_the_heads_of_the_keys() -> None:
    seen: list[int] = []

    class Counts(Rope):
        def rotated(
            self, x: Tensor, positions: Tensor, call: Any, phasors: Any
        ) -> Tensor:
            seen.append(x.shape[1])
            return super().rotated(x, positions, call, phasors)

    scheme = Counts(make("nope").geometry)
    attention(*leaves(KEYS, 2), **given(scheme, Mask(), KEYS))
    assert seen == [HEADS, 2]


class HeadRope(Rotation):
    """A fixed frequency for each head: per_head, and no parameters."""

    per_head = True

    def __init__(self, geometry: Geometry) -> None:
        super().__init__(geometry, 1e4, "half")

    def angles(self, positions: Tensor) -> Tensor:
        number = torch.arange(1, self.geometry.heads + 1).double()[:, None, None]
        pair = torch.logspace(0, -2, self.geometry.head_dim // 2).double()
        return positions[..., None, :, None].double() * number * pair


class TurnsByNumber(Scheme):
    """Scales each head by its number, read off the shape."""

    def query(self, q: Tensor, positions: Tensor) -> Tensor:
        return self.scaled(q)

    def key(self, k: Tensor, positions: Tensor) -> Tensor:
        return self.scaled(k)

    def scaled(self, x: Tensor) -> Tensor:
        return x * torch.arange(1, x.shape[1] + 1).to(x)[:, None, None]


class ScalesARotation(Rope):
    """The same before a rotation."""

    def key(self, k: Tensor, positions: Tensor, call: Call | None = None) -> Tensor:
        return super().key(TurnsByNumber.scaled(self, k), positions, call)  # type: ignore[arg-type]


class AroundARotation(Wrapper):
    """The same around one."""

    def __init__(self, geometry: Geometry) -> None:
        super().__init__(geometry, Rope(geometry))

    def key(self, k: Tensor, positions: Tensor, call: Call | None = None) -> Tensor:
        return super().key(TurnsByNumber.scaled(self, k), positions, call)  # type: ignore[arg-type]


class ReadsKeys(Scheme):
    """A query hook that reads `call.k`, `(batch, heads, key, head_dim)` of a Call."""

    def query(self, q: Tensor, positions: Tensor, call: Call | None = None) -> Tensor:
        return q if call is None else q * (1 + call.k.mean(dim=(2, 3), keepdim=True))


@pytest.mark.parametrize(
    "kind", [HeadRope, TurnsByNumber, ScalesARotation, AroundARotation, ReadsKeys]
)
def test_schemes_that_may_tell_heads_apart_see_one_key_for_each(
    kind: type[Scheme],
) -> None:
    scheme = kind(make("nope").geometry)
    q, k, v = leaves(KEYS, 2)
    whole = [x.repeat_interleave(HEADS // 2, dim=1) for x in (k, v)]
    expected = attention(q, *whole, **given(scheme, Mask(), KEYS))
    got = attention(q, k, v, **given(scheme, Mask(), KEYS))
    torch.testing.assert_close(got, expected, rtol=0, atol=1e-12)


@pytest.mark.parametrize(
    ("wrong", "error", "message"),
    [
        ({"window": 0}, ConfigError, "mask: window must be at least 1, or None, got 0"),
        (
            {"window": (4, -1)},
            ConfigError,
            "window must be at least 1, or None, got -1",
        ),
        ({"window": ()}, ConfigError, "mask: window must have an entry"),
        ({"window": True}, ConfigError, "mask: window must be .* got True"),
        ({"prefix": -1}, ConfigError, "mask: prefix must be at least 0, got -1"),
        (
            {"prefix": torch.ones(2)},
            ShapeError,
            "mask: prefix must be a tensor of whole",
        ),
        (
            {"prefix": torch.ones(3).long()},
            ShapeError,
            r"attention: prefix must be one number or \(2,\), .* got \(3,\)",
        ),
    ],
)
def test_what_a_mask_cannot_be(
    wrong: dict[str, Any], error: type[Exception], message: str
) -> None:
    with pytest.raises(error, match=message):
        attention(*leaves(KEYS), **given(make("nope"), Mask(**wrong), KEYS))


def test_heads_of_keys_must_divide_those_of_queries() -> None:
    q, k, v = leaves(KEYS, 3)
    message = r"k must be \(2, 4, key, 8\) .* or fewer heads that divide 4, got \(2, 3"
    with pytest.raises(ShapeError, match=message):
        attention(q, k, v, **given(make("nope"), Mask(), KEYS))
