"""Queries over the keys of another text: every scheme, path, size and mask."""

from collections.abc import Callable
from typing import Any, get_args

import pytest
import torch
from schemes.tools import normal
from support.attention import ids_for, make, serving
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
from posenc_compare.errors import ConfigError, PosencError
from posenc_compare.schemes import Scheme
from posenc_compare.schemes.wrapper import Wrapper

BATCH, HEADS, WIDTH = 2, 2, 8
# A mask of `masks`, and the queries and keys that it is seen with.
SEEN = [("a sequence of padding", 4, 9), ("none", 6, 6), ("packed", 8, 7)]
SEEN += [("padding", 3, 1)]
FLEX = {"nope", "alibi", "wavelet"}  # slow; without a bias, of offsets and of pairs
OWN_TEXT = "needs keys of the queries' own text, got .* another, .*; rope would work$"


@pytest.fixture(autouse=True)
def small_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(request, "QUERIES", 5)
    monkeypatch.setattr(strided, "QUERIES", 4)
    monkeypatch.setattr(strided, "BACKWARD_BLOCK", 3)


def nested() -> list[tuple[str, dict[str, Any]]]:
    """Return each scheme, and each wrapper around schemes of other kinds."""
    found: list[tuple[str, dict[str, Any]]] = []
    for name in sorted(built_in()):
        found.append((name, {}))
        if isinstance(make(name), Wrapper):
            for inner in ("alibi", "fox"):
                try:
                    make(name, scheme=inner)
                except PosencError:
                    continue  # not a pair
                found.append((name, {"scheme": inner}))
    return [*found, ("mix", {"window": 3}), ("log_length", {"rule": "ssmax"})]


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
            alone: dict[str, Any] = {"scheme": scheme, "mask": Mask(causal=False)}
            alone["positions"] = given["positions"][i : i + 1]
            alone["key_positions"] = given["key_positions"][seen]
            keys = k[b : b + 1, :, seen], v[b : b + 1, :, seen]
            out = attention(q[b : b + 1, :, i : i + 1], *keys, **alone, path="plain")
            rows.append(out[0, :, 0])
    return torch.stack(rows).unflatten(0, (BATCH, -1)).transpose(1, 2)


def arguments(scheme: Scheme, queries: int, keys: int) -> dict[str, Any]:
    sizes = {"q": queries, "k": keys, "v": keys}
    heads = {
        part: normal(BATCH, HEADS, size, WIDTH, seed=seed).requires_grad_()
        for seed, (part, size) in enumerate(sizes.items())
    }
    ids, others = ids_for(scheme, queries, 2), ids_for(scheme, keys, 5)
    return {**heads, "scheme": scheme, "positions": ids, "key_positions": others}


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
@pytest.mark.parametrize(("name", "options"), nested(), ids=str)
def test_each_scheme_equals_one_query_at_a_time_or_is_refused(
    name: str, options: dict[str, Any]
) -> None:
    scheme = make(name, **options)
    own = [x for x in scheme.parameters() if x.requires_grad]
    for kind, *size in SEEN:
        given, mask = arguments(scheme, *size), masks(*size)[kind]
        learned = [*(given[part] for part in "qkv"), *own]
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
        for path in serving(**still, mask=mask):
            if path == "flex" and name not in FLEX:
                continue
            if path == "flex":  # which serves where there is nothing to learn
                got = attention(**still, mask=mask, path=path)
            else:
                got = attention(**given, mask=mask, path=path)
                found = torch.autograd.grad(
                    got.cos().sum(), learned, allow_unused=True, materialize_grads=True
                )
                torch.testing.assert_close(found, slopes, rtol=0, atol=1e-10)
            torch.testing.assert_close(got, expected, rtol=0, atol=1e-11, msg=path)


def test_each_path_serves_more_queries_than_keys() -> None:
    served = set()
    for name in ("nope", "alibi", "shaw"):
        scheme = make(name).requires_grad_(False)
        given = arguments(scheme, 20, 16)
        given |= {part: given[part].detach() for part in "qkv"}
        given["mask"] = Mask(causal=False)
        served |= {explain(**given).path, *serving(**given)}
    assert served == {"auto", *get_args(Path)}


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


# --- sessions -------------------------------------------------------------------------


def test_keys_of_another_text_must_be_given_or_kept() -> None:
    rope, ids, mask = make("rope"), torch.arange(5), Mask(causal=False)
    q = torch.zeros(BATCH, HEADS, 2, WIDTH).double()
    message = r"^session: k of layer 0 must be given, got none; a session with key_pos"
    for session in (
        Session(rope, ids, key_positions=PLACES, mask=mask, fed=2, cache=True),
        Session(rope, ids, key_positions=PLACES, mask=mask, fed=2),
        Session(rope, ids, fed=2, cache=True),
    ):
        with pytest.raises(ConfigError, match=message):
            session.attend(0, q, None, None)


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


def layer_and_inputs(name: str, by_session: bool) -> tuple[Layer, Tensor, Tensor]:
    layer = Layer(make(name).requires_grad_(False), by_session)
    q = arguments(layer.scheme, 20, 20)["q"].detach()
    return layer, q, ids_for(layer.scheme, 20, 0)


NO_NUMBERS = {
    "meta": "attention: q must hold numbers, got a tensor on the meta device; ",
    "meta ids": "attention: positions must hold numbers, got a tensor on the meta ",
    "trace": "(session|attention): torch.jit.trace must ",
}


@pytest.mark.filterwarnings("ignore:`torch.jit.trace")
@pytest.mark.parametrize("by_session", [True, False])
@pytest.mark.parametrize("name", ["rope", "t5_bias"])
@pytest.mark.parametrize("how", NO_NUMBERS)
def test_what_has_no_numbers_is_refused(how: str, name: str, by_session: bool) -> None:
    layer, q, ids = layer_and_inputs(name, by_session)
    calls: dict[str, Callable[[], object]] = {
        "meta": lambda: layer(q.to("meta"), ids),
        "meta ids": lambda: layer(q, ids.to("meta")),
        "trace": lambda: torch.jit.trace(layer, (q, ids)),
    }
    with pytest.raises(PosencError, match=f"^{NO_NUMBERS[how]}.*would work$"):
        calls[how]()


@pytest.mark.parametrize("by_session", [True, False])
@pytest.mark.parametrize("name", ["nope", "rope", "shaw", "swin"])
def test_an_exported_layer_serves_other_ids(name: str, by_session: bool) -> None:
    layer, q, ids = layer_and_inputs(name, by_session)
    whole = torch.export.export(layer, (q, ids)).module()
    other = ids * 2 if name != "swin" else ids  # which has a table of a grid
    assert torch.equal(whole(q, other), layer(q, other))


@pytest.mark.parametrize("by_session", [True, False])
@pytest.mark.parametrize("name", ["alibi", "t5_bias"])
def test_what_reads_ids_cannot_be_exported(name: str, by_session: bool) -> None:
    layer, q, ids = layer_and_inputs(name, by_session)
    said = f"^{name}: must read the values of position ids, got the symbols"
    with pytest.raises(ConfigError, match=said):
        torch.export.export(layer, (q, ids))
