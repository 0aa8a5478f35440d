"""Queries over the keys of another text: every scheme, path, size and mask."""

from itertools import product
from typing import Any, get_args

import pytest
import torch
from support.attention import ids_for, make
from torch import Tensor

from posenc_compare.attention import (
    Mask,
    Path,
    Session,
    attention,
    attention_logits,
    explain,
    request,
)
from posenc_compare.attention.backends import strided
from posenc_compare.check.fresh_process import built_in
from posenc_compare.errors import ConfigError, PosencError, ShapeError
from posenc_compare.schemes import Scheme
from posenc_compare.schemes.wrapper import Wrapper

BATCH, HEADS, WIDTH = 2, 2, 8
# Queries and keys, and the masks (of `masks`) that each size is seen under.
SIZES = {"fewer": (5, 12), "as many": (10, 10), "more": (12, 10), "one key": (3, 1)}
SEEN = {"fewer": {"none", "padding", "a sequence of padding", "packed"}}
SEEN |= {"as many": {"packed"}, "more": {"none", "packed"}, "one key": {"padding"}}
OWN_TEXT = "needs keys of the queries' own text, got .* another, .*; rope would work$"


@pytest.fixture(autouse=True)
def small_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(request, "ROWS", 7)
    monkeypatch.setattr(strided, "BLOCK", 4)
    monkeypatch.setattr(strided, "BACKWARD_BLOCK", 3)


def nested() -> list[tuple[str, dict[str, Any]]]:
    """Return each scheme, and each wrapper around schemes of other kinds."""
    found: list[tuple[str, dict[str, Any]]] = []
    for name in sorted(built_in()):
        found.append((name, {}))
        if isinstance(make(name), Wrapper):
            for inner in ("alibi", "shaw", "fox", "deberta"):
                try:
                    make(name, scheme=inner)
                except PosencError:
                    continue  # not a pair
                found.append((name, {"scheme": inner}))
    return [
        *found,
        ("mix", {"window": 3}),
        ("log_length", {"rule": "ssmax"}),
    ]


def masks(queries: int, keys: int) -> dict[str, Mask]:
    """Return masks; in some of them a query sees no key."""
    padding = torch.ones(BATCH, keys).long()
    padding[0, keys // 2 + 1 :] = 0
    packed = torch.stack([torch.arange(keys) // 6 + 1, torch.arange(keys) // 9])
    own = torch.stack([torch.arange(queries) // 2, torch.arange(queries) // 7])
    blank = padding.clone()
    blank[1] = 0
    return {
        "none": Mask(causal=False),
        "padding": Mask(causal=False, segments=padding),
        "a sequence of padding": Mask(causal=False, segments=blank),
        "packed": Mask(causal=False, segments=packed, query_segments=own),
    }


def slowly(given: dict[str, Any], mask: Mask) -> Tensor:
    """Return the output, one query and its own keys at a time."""
    q, k, v, scheme = (given[name] for name in ("q", "k", "v", "scheme"))
    rows = []
    for b in range(BATCH):
        for i in range(q.shape[2]):
            seen = torch.ones(k.shape[2]).bool()
            if mask.segments is not None:
                own = 1 if mask.query_segments is None else mask.query_segments[b, i]
                seen = mask.segments[b] == own
            if not seen.any():
                rows.append(q.new_zeros(HEADS, v.shape[3]))
                continue
            out = attention(
                q[b : b + 1, :, i : i + 1],
                k[b : b + 1, :, seen],
                v[b : b + 1, :, seen],
                scheme=scheme,
                positions=given["positions"][i : i + 1],
                key_positions=given["key_positions"][seen],
                mask=Mask(causal=False),
                path="plain",
            )
            rows.append(out[0, :, 0])
    return torch.stack(rows).unflatten(0, (BATCH, -1)).transpose(1, 2)


def arguments(scheme: Scheme, queries: int, keys: int) -> dict[str, Any]:
    generator = torch.Generator().manual_seed(2)
    q, k, v = (
        torch.randn(BATCH, HEADS, n, WIDTH, generator=generator).double()
        for n in (queries, keys, keys)
    )
    return {
        "q": q.requires_grad_(),
        "k": k.requires_grad_(),
        "v": v.requires_grad_(),
        "scheme": scheme,
        "positions": ids_for(scheme, queries, 2),
        "key_positions": ids_for(scheme, keys, 5),
    }


def looks_for_its_own_key(scheme: Scheme) -> bool:
    """Return whether a scheme has no meaning where keys are another text."""
    parts = [scheme, *(part for part in scheme.modules() if isinstance(part, Scheme))]
    return any(
        part.facts.causal_only
        or part.facts.own_text
        or part.acts_at("token_state")
        or part.facts.window
        for part in parts
    )


def in_passes(
    q: Tensor, k: Tensor, v: Tensor, *, scheme: Scheme, positions: Tensor,
    key_positions: Tensor, mask: Mask, cache: bool = True,
) -> Tensor:  # fmt: skip
    """Return the output of a session that decodes; a cache is given the keys once."""
    session = Session(
        scheme, positions, key_positions=key_positions, mask=mask, fed=0, cache=cache
    )
    parts: list[Tensor] = []
    while session.end < q.shape[2]:
        session.extend(min(2, q.shape[2] - session.end))
        new = q[:, :, session.start : session.end]
        keys = (None, None) if parts and cache else (k, v)
        parts.append(session.attend(0, new, *keys))
    return torch.cat(parts, dim=2)


@pytest.mark.filterwarnings("ignore:flex_attention called without torch")
@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize(("name", "options"), nested(), ids=str)
def test_each_scheme_equals_one_query_at_a_time_or_is_refused(
    name: str, options: dict[str, Any], size: str
) -> None:
    scheme = make(name, **options)
    given = arguments(scheme, *SIZES[size])
    own = [x for x in scheme.parameters() if x.requires_grad]
    learned = [*(given[part] for part in "qkv"), *own]
    for kind in sorted(SEEN[size]):
        mask = masks(*SIZES[size])[kind]
        if looks_for_its_own_key(scheme):
            for run in (attention, in_passes):
                with pytest.raises(ConfigError, match=f"^{name}: {OWN_TEXT}"):
                    run(**given, mask=mask)
            continue
        expected = slowly(given, mask)
        slopes = torch.autograd.grad(
            expected.cos().sum(), learned, allow_unused=True, materialize_grads=True
        )
        for cache in (True, False) if kind == "packed" else (True,):
            got = in_passes(**given, mask=mask, cache=cache)
            torch.testing.assert_close(got, expected, rtol=0, atol=1e-11, msg=kind)
        still = {**given, **{part: given[part].detach() for part in "qkv"}}
        for path, why in {"auto": "", **explain(**still, mask=mask).others}.items():
            if why and not why.endswith("comes first"):
                continue
            if path == "flex":
                with torch.no_grad():
                    scheme.requires_grad_(False)
                    got = attention(**still, mask=mask, path="flex")
                    for parameter in own:
                        parameter.requires_grad_(True)
            else:
                got = attention(**given, mask=mask, path=path)  # type: ignore[arg-type]
                found = torch.autograd.grad(
                    got.cos().sum(), learned, allow_unused=True, materialize_grads=True
                )
                for one, other in zip(found, slopes, strict=True):
                    torch.testing.assert_close(one, other, rtol=0, atol=1e-10)
            torch.testing.assert_close(got, expected, rtol=0, atol=1e-11, msg=path)


def test_each_path_serves_more_queries_than_keys() -> None:
    served = set()
    for name in ("nope", "alibi", "shaw"):
        scheme = make(name).requires_grad_(False)
        given = arguments(scheme, 20, 16)
        given |= {part: given[part].detach() for part in "qkv"}
        found = explain(**given, mask=Mask(causal=False))
        served.add(found.path)
        served |= {p for p, why in found.others.items() if "comes first" in why}
        served |= {"flex"} if not found.others.get("flex") else set()
    assert served == set(get_args(Path))


def test_logits_are_infinite_where_a_query_does_not_look() -> None:
    given = arguments(make("alibi"), 5, 16)
    del given["v"]
    for mask in masks(5, 16).values():
        logits = attention_logits(**given, mask=mask)
        if mask.segments is None:
            assert logits.isfinite().all()
            continue
        own = mask.query_segments
        own = torch.ones(BATCH, 5).long() if own is None else own
        seen = own[:, None, :, None] == mask.segments[:, None, None, :]
        assert torch.equal(logits.isfinite(), seen.expand_as(logits))


# --- which keys are another text ------------------------------------------------------

PLACES = torch.arange(16)
ROWS = torch.stack([PLACES, (PLACES - 4).clamp(min=0)])  # padded, so ids restart


@pytest.mark.parametrize("key_positions", [PLACES, PLACES % 5, ROWS], ids=str)
@pytest.mark.parametrize("queries", [1, 5, 16])
def test_the_last_keys_are_the_queries_own(queries: int, key_positions: Tensor) -> None:
    """While decoding, all masks are served, as they were."""
    given = arguments(make("rope"), queries, 16)
    given |= {
        "positions": key_positions[..., 16 - queries :],
        "key_positions": key_positions,
    }
    segments = torch.tensor([[0] * 4 + [1] * 12, [1] * 10 + [2] * 6])
    for mask in (Mask(), Mask(window=3), Mask(prefix=2), Mask(segments=segments)):
        out = attention(**given, mask=mask)
        whole = arguments(make("rope"), 16, 16)
        whole |= {"k": given["k"], "v": given["v"], "positions": key_positions}
        del whole["key_positions"]
        whole["q"] = torch.cat([whole["q"][:, :, queries:], given["q"]], dim=2)
        expected = attention(**whole, mask=mask)[:, :, 16 - queries :]
        torch.testing.assert_close(out, expected, rtol=0, atol=1e-12)


ANOTHER: dict[str, dict[str, Any]] = {
    "other ids": {"positions": torch.arange(5)},
    "another order": {"positions": PLACES.flip(0)[:5]},
    "other ids in one row": {"key_positions": torch.stack([PLACES, PLACES + 1])},
    "more queries": {"positions": torch.arange(20)},
}


@pytest.mark.parametrize(
    ("limits", "got"),
    [
        ({}, "causal=True"),
        ({"causal": False, "window": 3}, "window=3"),
        ({"causal": False, "window": (None, 3)}, r"window=\(None, 3\)"),
        ({"causal": False, "prefix": 2}, "prefix=2"),
        ({"causal": False, "prefix": torch.tensor([0, 2])}, r"prefix=tensor\(\[0, 2"),
        ({"window": 3}, "causal=True and window=3"),
    ],
)
@pytest.mark.parametrize("change", ANOTHER)
def test_a_mask_within_one_text_is_refused(
    change: str, limits: dict[str, Any], got: str
) -> None:
    asked = {"positions": PLACES[11:], "key_positions": PLACES, **ANOTHER[change]}
    given = arguments(make("rope"), len(asked["positions"]), 16) | asked
    message = f"^attention: mask must have segments only .* got {got}.*, and "
    cure = r"; Mask\(causal=False\) would work$"
    with pytest.raises(ConfigError, match=message + ".*" + cure) as caught:
        attention(**given, mask=Mask(**limits))
    assert "\n" not in str(caught.value)
    with pytest.raises(ConfigError, match=message):
        Session(
            given["scheme"],
            given["positions"],
            key_positions=given["key_positions"],
            mask=Mask(**limits),
        )


def test_segments_of_queries_say_that_keys_are_another_text() -> None:
    given = arguments(make("nope"), 16, 16)
    given |= {"positions": PLACES, "key_positions": PLACES}
    own = torch.ones(BATCH, 16).long()
    with pytest.raises(ConfigError, match=r"causal=True, and the mask has query_segme"):
        attention(**given, mask=Mask(segments=own, query_segments=own))


@pytest.mark.parametrize(
    ("segments", "own", "error", "message"),
    [
        (PLACES // 8 + 1, None, ConfigError, "got several; query_segments would work$"),
        (PLACES * 0, None, ConfigError, "got 0 alone; query_segments would work$"),
        (
            PLACES,
            torch.ones(BATCH, 16).long(),
            ShapeError,
            r"query_segments must be \(2, 5\), one for each query, got \(2, 16\)",
        ),
        (
            None,
            torch.ones(BATCH, 5).long(),
            ConfigError,
            "mask: query_segments must come with segments of the keys, got none; ",
        ),
        (
            PLACES,
            torch.ones(BATCH, 5).bool(),
            ShapeError,
            r"mask: query_segments must be a tensor of whole numbers, got torch.bool",
        ),
    ],
)
def test_segments_that_do_not_say_what_a_query_sees(
    segments: Any, own: Any, error: type[Exception], message: str
) -> None:
    given = arguments(make("alibi"), 5, 16)
    if segments is not None:
        segments = segments.expand(BATCH, -1)

    def run() -> Tensor:
        mask = Mask(causal=False, segments=segments, query_segments=own)
        return attention(**given, mask=mask)

    with pytest.raises(error, match=message):
        run()


# --- sessions -------------------------------------------------------------------------


def crossing(**given: Any) -> Session:
    given = {"key_positions": PLACES, "mask": Mask(causal=False), **given}
    return Session(make("rope"), torch.arange(5), **given)


def test_keys_of_another_text_must_be_given_or_kept() -> None:
    q = torch.zeros(BATCH, HEADS, 2, WIDTH).double()
    message = r"^session: k of layer 0 must be given, got none; a session with key_pos"
    for session in (
        crossing(fed=2, cache=True),
        crossing(fed=2),
        Session(make("rope"), torch.arange(5), fed=2, cache=True),
    ):
        with pytest.raises(ConfigError, match=message):
            session.attend(0, q, None, None)


@pytest.mark.parametrize(
    ("mask", "message"),
    [
        ({"segments": torch.ones(2, 5).long()}, r"segments must be \(batch, 16\), one"),
        (
            {
                "segments": torch.ones(2, 16).long(),
                "query_segments": torch.ones(2, 16).long(),
            },
            r"query_segments must be \(batch, 5\), one for each token, got \(2, 16\)",
        ),
    ],
)
def test_a_session_checks_segments_of_both_texts(
    mask: dict[str, Any], message: str
) -> None:
    with pytest.raises(ShapeError, match=f"^session: {message}"):
        crossing(mask=Mask(causal=False, **mask), fed=0)


def test_a_session_over_another_text_embeds_and_places_nothing() -> None:
    scheme = make("randomized", scheme="alibi")
    own, other = (
        Session(scheme, ids, generator=torch.Generator().manual_seed(seed))
        for seed, ids in enumerate((torch.arange(5), PLACES))
    )
    generator = torch.Generator().manual_seed(3)
    session = Session(
        scheme,
        own.ids,
        key_positions=other.ids,
        mask=Mask(causal=False),
        generator=generator,
    )
    assert torch.equal(session.ids, own.ids)
    given = arguments(make("alibi"), 5, 16)
    given |= {"positions": own.ids, "key_positions": other.ids}
    got = session.attend(0, *(given[part] for part in "qkv"))
    expected = attention(**given, mask=Mask(causal=False))
    torch.testing.assert_close(got, expected, rtol=0, atol=1e-12)
    with pytest.raises(ConfigError, match="session: embed must be called on the sess"):
        session.embed(torch.zeros(1, 5, HEADS * WIDTH))


def test_drawn_distances_reach_the_keys_of_another_text() -> None:
    given = arguments(make("alibi"), 5, 16)
    session = Session(
        make("randomized_distance"),
        given["positions"].expand(BATCH, -1),
        key_positions=given["key_positions"],
        mask=Mask(causal=False),
        generator=torch.Generator().manual_seed(3),
    )
    assert session.drawn is not None
    logits = session.logits(0, given["q"] * 0, given["k"])
    apart = (given["key_positions"] - given["positions"][:, None]).abs()
    slopes = make("alibi").offset_bias(torch.tensor([-1]))
    assert slopes is not None
    expected = slopes[:, :, None] * session.drawn[apart]
    torch.testing.assert_close(logits[0], expected.double(), rtol=0, atol=1e-12)


@pytest.mark.parametrize("kind", masks(5, 16))
@pytest.mark.parametrize("name", ["rope", "shaw"])
def test_a_session_over_another_text_compiles_whole(name: str, kind: str) -> None:
    scheme, mask = make(name), masks(5, 16)[kind]
    given = arguments(scheme, 5, 16)
    del given["scheme"]

    def read(
        q: Tensor, k: Tensor, v: Tensor, positions: Tensor, key_positions: Tensor
    ) -> Tensor:
        session = Session(scheme, positions, key_positions=key_positions, mask=mask)
        return session.attend(0, q, k, v)

    torch._dynamo.reset()  # many forms of one function
    whole = torch.compile(read, backend="eager", fullgraph=True)
    assert torch.equal(whole(**given), read(**given))


# --- what has no numbers --------------------------------------------------------------


class Layer(torch.nn.Module):
    """Attention of one text, by a session or alone."""

    def __init__(self, scheme: Scheme, by_session: bool) -> None:
        super().__init__()
        self.scheme, self.by_session = scheme, by_session

    def forward(self, q: Tensor, ids: Tensor) -> Tensor:
        if self.by_session:
            return Session(self.scheme, ids, mask=Mask()).attend(0, q, q, q)
        return attention(q, q, q, scheme=self.scheme, positions=ids, mask=Mask())


@pytest.mark.filterwarnings("ignore:`torch.jit.trace")
@pytest.mark.parametrize("by_session", [True, False])
@pytest.mark.parametrize(
    ("how", "name"),
    [
        *product(("meta", "meta ids", "trace"), ("rope", "t5_bias")),
        *(("export", n) for n in ("nope", "rope", "alibi", "t5_bias", "swin", "shaw")),
    ],
)
def test_what_reads_no_numbers_works_or_is_refused(
    how: str, name: str, by_session: bool
) -> None:
    layer = Layer(make(name).requires_grad_(False), by_session)
    ids = ids_for(layer.scheme, 20, 0)
    q = torch.randn(1, HEADS, 20, WIDTH, generator=torch.Generator().manual_seed(0))
    q = q.double()
    try:
        if how == "meta":
            layer(q.to("meta"), ids)
        elif how == "meta ids":
            layer(q, ids.to("meta"))
        elif how == "trace":
            torch.jit.trace(layer, (q, ids))
        else:
            whole = torch.export.export(layer, (q, ids)).module()
            other = ids * 2 if layer.scheme.facts.axes == 1 else ids
            assert torch.equal(whole(q, other), layer(q, other))
            return
    except PosencError as error:
        said = str(error)
    else:
        raise AssertionError(f"{how} is taken")
    places = {
        "meta": "attention: q must hold numbers, got a tensor on the meta device; ",
        "meta ids": "attention: positions must hold numbers, got a tensor on the meta ",
        "trace": f"{'session' if by_session else 'attention'}: torch.jit.trace must ",
        "export": f"{name}: must read the values of position ids, got the symbols",
    }
    assert said.startswith(places[how])
    assert said.endswith("would work")
    assert how != "export" or name not in ("nope", "rope", "shaw")


@pytest.mark.parametrize(
    ("mask", "said"),
    [
        (
            torch.ones(2, 9).bool(),
            r"got \(2, 9\) of torch.bool; Mask\(segments=mask.long\(\)\) would set",
        ),
        (torch.ones(2, 9).int(), r"got .*32; Mask\(segments=mask\) would set padding"),
        (torch.ones(2, 1, 9, 9).bool(), r"got .* Mask\(causal=..., window=..., prefi"),
        (torch.zeros(9, 9), r"got \(9, 9\) of torch.float32; Mask\(causal=..., win"),
        *((mask, f"got {mask}; Mask") for mask in (None, True, "causal")),
    ],
)
def test_what_stands_in_the_place_of_a_mask_names_the_cure(
    mask: Any, said: str
) -> None:
    q = torch.zeros(2, HEADS, 9, WIDTH).double()
    with pytest.raises(ConfigError, match=f"attention: mask must be a Mask, {said}"):
        attention(q, q, q, scheme=make("rope"), positions=torch.arange(9), mask=mask)
    if mask is None:
        return  # which a session takes for its default
    with pytest.raises(ConfigError, match=f"session: mask must be a Mask, {said}"):
        Session(make("rope"), torch.arange(9), mask=mask)
