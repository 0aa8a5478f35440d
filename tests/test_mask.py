"""Every path under every mask, and grouped queries, against loops and repeated keys."""

import math
from typing import Any, get_args

import pytest
import torch
from schemes.tools import close, normal
from support.attention import ids_for, serving
from support.attention import make as build
from torch import Tensor

from posenc_compare.attention import (
    Mask,
    Path,
    attention,
    attention_logits,
    explain,
    request,
)
from posenc_compare.attention.backends import plain, strided
from posenc_compare.check import built_in
from posenc_compare.errors import ConfigError
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
# One scheme of each path. These alone have a single query, and the masks below.
OF_PATHS = ("nope", "alibi", "fire", "cope")
EDGES = {kind for kind in MASKS if kind.startswith("window of")} | {"prefixes"}
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
NEAR = {"rtol": 0, "atol": 1e-11}  # of gradients


@pytest.fixture(autouse=True)
def small_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(strided, "QUERIES", 4)
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
    ids = ids_for(scheme, KEYS, 3)
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


@pytest.mark.parametrize(
    ("name", "options", "kind", "queries"),
    [
        (name, options, kind, queries)
        for name, options in SCHEMES
        for kind in MASKS
        for queries in (KEYS, 5, 1)
        if name in OF_PATHS or (kind not in EDGES and queries > 1)
    ],
)
def test_every_path_honours_every_mask(
    name: str,
    options: dict[str, Any],
    kind: str,
    queries: int,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    scheme, mask = make(name, **options), MASKS[kind]
    asked = given(scheme, mask, queries)
    if scheme.facts.causal_only and (not mask.causal or "prefix" in kind):
        with pytest.raises(ConfigError, match=f"{name}: needs a causal mask"):
            attention(*leaves(queries), **asked)
        return
    q, k, v = leaves(queries)
    seen = grid(mask, queries)
    whole = attention(q, k, v, **asked, path="plain")
    if name == "nope":
        logits = q @ k.mT / math.sqrt(WIDTH)
        slow = logits.masked_fill(~seen, -math.inf).softmax(-1) @ v
        close(whole, slow)
    if queries == KEYS:
        alone = {n: x for n, x in asked.items() if n != "key_positions"}
        logits = attention_logits(q, k, **alone)
        assert torch.equal(logits.isfinite(), seen.expand_as(logits))
        if name != "shaw":  # which adds to the values, too
            close(logits.softmax(-1) @ v, whole)
    inputs = [q, k, v, *scheme.parameters()]
    wanted = gradients(whole, inputs)
    unused = [grad is None for grad in wanted]
    assert unused == [False] * 3 + [name == "learned"] * (len(inputs) - 3)
    others = explain(q, k, v, **asked).others
    monkeypatch.setattr(request, "QUERIES", 6)
    for path in get_args(Path):
        if path not in trained_paths(name, mask, queries):
            assert others[path]
            with pytest.raises(ConfigError, match=f"path '{path}' cannot serve {name}"):
                attention(q, k, v, **asked, path=path)
            continue
        got = attention(q, k, v, **asked, path=path)
        torch.testing.assert_close(got, whole, rtol=0, atol=1e-12, msg=path)
        torch.testing.assert_close(gradients(got, inputs), wanted, **NEAR)


@pytest.mark.filterwarnings("ignore:flex_attention called without")
@pytest.mark.parametrize(
    ("name", "kind"),
    [
        # Blocks of keys are left out by what the plain path masks by.
        *(("nope", kind) for kind in ("causal", "window", "prefix", "all")),
        ("t5_bias", "all"),
        ("fire", "segments"),
        ("fox", "segments"),
    ],
)
def test_flex_honours_every_mask(name: str, kind: str) -> None:
    scheme, mask = make(name).requires_grad_(False), MASKS[kind]
    q, k, v = (leaf.detach() for leaf in leaves(5, 2))
    asked = given(scheme, mask, 5)
    got = attention(q, k, v, **asked, path="flex")
    close(got, attention(q, k, v, **asked, path="plain"))


def test_explain_says_why_each_other_path_is_not_taken() -> None:
    found = explain(*leaves(KEYS), **given(make("alibi"), Mask(prefix=3), KEYS))
    assert found.path == "dense"
    assert found.others == {
        "fused": "alibi adds a bias",
        "strided": "segments and a prefix are no function of the offset",
        "plain": "dense comes first",
        "flex": "it cannot train on the CPU",
    }


@pytest.mark.parametrize("name", sorted(built_in()))
def test_blocks_of_rows_give_what_all_rows_give(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    scheme = make(name)
    whole_text = Mask(causal=scheme.facts.causal_only)
    of_each = Mask(window=3, segments=SEGMENTS)
    for mask, queries in ((of_each, 7), (whole_text, KEYS)):
        inputs, asked = leaves(queries), given(scheme, mask, queries)
        monkeypatch.setattr(request, "QUERIES", KEYS)
        whole = attention(*inputs, **asked, path="plain")
        learned = [*inputs, *(x for x in scheme.parameters() if x.requires_grad)]
        slopes = gradients(whole, learned)
        monkeypatch.setattr(request, "QUERIES", 6)
        for path in ("auto", "plain"):
            got = attention(*inputs, **asked, path=path)
            close(got, whole)
            torch.testing.assert_close(gradients(got, learned), slopes, **NEAR)
        monkeypatch.setattr(plain, "QUERIES", 3)  # of weights, where nothing learns
        with torch.no_grad():
            close(attention(*inputs, **asked, path="plain"), whole)


GROUPED: list[tuple[str, dict[str, Any]]] = [
    *((name, {}) for name in ("nope", "rope", "alibi", "t5_bias", "fope", "deberta")),
    *((name, {}) for name in ("transformer_xl", "shaw", "fox", "pope", "path")),
    *((name, {}) for name in ("rerope", "rope_pp")),
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
        slopes = gradients(wanted, inputs)
        for path in serving(q=q, k=k, v=v, **asked):
            got = attention(q, k, v, **asked, path=path)
            close(got, wanted)
            torch.testing.assert_close(gradients(got, inputs), slopes, **NEAR)


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
    """Scales the keys of each head by its number, read off the shape."""

    def key(self, k: Tensor, positions: Tensor, call: Call | None = None) -> Tensor:
        numbered = k * torch.arange(1, k.shape[1] + 1).to(k)[:, None, None]
        return super().key(numbered, positions)


class ScalesARotation(TurnsByNumber, Rope):
    """The same before a rotation."""


class AroundARotation(TurnsByNumber, Wrapper):
    """The same around one."""

    def __init__(self, geometry: Geometry) -> None:
        super().__init__(geometry, Rope(geometry))


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
    close(got, expected)
