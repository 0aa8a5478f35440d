"""Tokens without a position are not rotated, and get no code and no bias."""

from typing import Any

import pytest
import torch
from schemes.tools import close, normal, perturbed
from support.attention import decoded, ids_for, inputs, make
from torch import Tensor

from posenc_compare.attention import Mask, Session, attention, attention_logits, explain
from posenc_compare.errors import ConfigError, ShapeError
from posenc_compare.registry import SCHEMES
from posenc_compare.schemes import Scheme
from posenc_compare.schemes.contract import ask
from posenc_compare.schemes.rope_2d import Rope2d
from posenc_compare.schemes.scheme import why_all_placed

NAMES = [entry.name for entry in SCHEMES.built_in()]
REFUSED = {
    *("rerope", "self_extend", "dual_chunk", "string_rope", "sink"),  # whole rows
    *("rope_latent", "rope_pp", "pope"),  # heads together, or wider
    *("transformer_xl", "log_length"),  # queries change by more than their position
    *("ca_rope", "cope", "fox", "path", "repo", "selective_rope", "stick_breaking"),
    *("wall", "inkling", "grape_ap"),  # states
    *("dape", "erpe", "shaw", "tapa"),  # whole rows
}
FIRST, COUNT = 3, 19  # one class token and two registers; all tokens
PLACED = torch.arange(COUNT) >= FIRST
BOTH = Mask(causal=False)


def ids_of(scheme: Scheme, unread: int = 10**6) -> Tensor:
    """Return ids of all tokens; those of the first are not to be read."""
    ids = ids_for(scheme, COUNT - FIRST, columns=4)
    return torch.cat([torch.full_like(ids[:FIRST], unread), ids])


def mask_of(scheme: Scheme) -> Mask:
    return Mask() if scheme.facts.causal_only else BOTH


@pytest.mark.parametrize(
    ("name", "options"),
    [*((name, {}) for name in NAMES), ("cape", {"centred": True})],  # by all ids
)
def test_every_scheme_leaves_them_out_or_refuses_them(
    name: str, options: dict[str, Any]
) -> None:
    scheme = perturbed(make(name, **options), 0.3)
    ids, given, mask = ids_of(scheme), inputs(scheme, COUNT), mask_of(scheme)
    if name in REFUSED or options:
        message = f"{name}: needs a position for every token, since it .*, got placed"
        with pytest.raises(ConfigError, match=message):
            Session(scheme, ids, mask=mask, placed=PLACED)
        return
    x = normal(2, COUNT, scheme.geometry.model_dim)
    session = Session(scheme, ids, mask=mask, placed=PLACED)
    alone = Session(scheme, ids[FIRST:], mask=mask)
    embedded = session.embed(x)
    assert torch.equal(embedded[:, :FIRST], x[:, :FIRST])
    # A projection of fewer rows may round differently.
    close(embedded[:, FIRST:], alone.embed(x[:, FIRST:]))
    q, k = given["q"], given["k"]
    logits = session.logits(0, q, k)
    own = alone.logits(0, q[:, :, FIRST:], k[:, :, FIRST:])
    close(logits[:, :, FIRST:, FIRST:], own)
    # Whatever the hooks do to the other side, no rotation or bias is added on this.
    call = session.call(0, q, k)
    turned = ask(scheme, "query", q, call.q_positions, call)
    there = ask(scheme, "key", k, call.k_positions, call)
    scale = scheme.scale(q.shape[-1])
    first = q[:, :, :FIRST] @ torch.cat([k[:, :, :FIRST], there[:, :, FIRST:]], 2).mT
    to_first = turned[:, :, FIRST:] @ k[:, :, :FIRST].mT
    seen = logits[:, :, :FIRST].isfinite()
    close(logits[:, :, :FIRST][seen], (first * scale)[seen])
    close(logits[:, :, FIRST:, :FIRST], to_first * scale)


def test_they_are_the_prefix_tokens_of_dinov3() -> None:
    """As in timm and DINOv3, all but the first tokens are rotated."""
    scheme = make("rope_2d", layout="half")
    grid = torch.cartesian_prod(*[torch.linspace(-1, 1, 4).double()] * 2)
    ids = torch.cat([torch.zeros(FIRST, 2).double(), grid])
    given = inputs(scheme, COUNT)
    assert isinstance(scheme, Rope2d)
    angles = scheme.angles(grid)
    cosine, sine = (torch.cat([f, f], -1) for f in (angles.cos(), angles.sin()))

    def rotated(x: Tensor) -> Tensor:
        low, high = x[:, :, FIRST:].chunk(2, -1)
        patches = x[:, :, FIRST:] * cosine + torch.cat([-high, low], -1) * sine
        return torch.cat([x[:, :, :FIRST], patches], 2)

    q, k = rotated(given["q"]), rotated(given["k"])
    wanted = (q @ k.mT / 8**0.5).softmax(-1) @ given["v"]
    got = attention(**given, scheme=scheme, positions=ids, mask=BOTH, placed=PLACED)
    close(got, wanted)


@pytest.mark.filterwarnings("ignore:flex_attention called without torch")
@pytest.mark.parametrize("name", ["rope", "rope_2d", "alibi", "alibi_2d"])
def test_all_paths_agree_and_no_id_of_them_is_read(name: str) -> None:
    scheme = make(name)
    given = {**inputs(scheme, COUNT), "scheme": scheme, "mask": BOTH, "placed": PLACED}
    found = explain(**given, positions=ids_of(scheme))
    assert found.path == ("dense" if name.startswith("alibi") else "fused")
    if name == "alibi":
        assert found.others["strided"] == "some tokens may have no position"
    wanted = attention(**given, positions=ids_of(scheme))
    for path in ("dense", "plain", "flex"):
        got = attention(**given, positions=ids_of(scheme, -7), path=path)
        close(got, wanted)
    unread = ids_of(scheme).double()
    unread[:FIRST] = torch.nan
    close(attention(**given, positions=unread), wanted)
    with pytest.raises(ShapeError, match="positions must be finite, got nan"):
        attention(**given, positions=unread.flip(0))


def test_blocks_of_queries_keep_them_apart() -> None:
    scheme, count = make("alibi"), 600
    placed, given = torch.arange(count) % 3 > 0, inputs(scheme, count)
    q, k, v = (given[part] for part in "qkv")
    more: dict[str, Any] = {"scheme": scheme, "placed": placed}
    more["positions"] = torch.arange(count)
    wanted = attention_logits(q, k, **more).softmax(-1) @ v
    close(attention(q, k, v, **more), wanted)


@pytest.mark.parametrize("name", ["rope_2d", "t5_bias", "sinusoidal"])
def test_rows_may_differ_and_decoding_keeps_them(name: str) -> None:
    scheme = make(name)
    x, given = normal(2, COUNT, scheme.geometry.model_dim), inputs(scheme, COUNT)
    q, k, v = (given[part] for part in "qkv")
    placed = torch.stack([PLACED, PLACED.flip(0)])
    ids = torch.stack([ids_of(scheme), ids_of(scheme).flip(0)])
    session = Session(scheme, ids, placed=placed)
    embedded, out = session.embed(x), session.attend(0, q, k, v)
    for row in range(2):
        one = Session(scheme, ids[row], placed=placed[row])
        close(one.embed(x)[row], embedded[row])
        close(one.attend(0, q, k, v)[row], out[row])
    session = Session(scheme, ids, placed=placed, fed=0, cache=True)
    close(decoded(session, [1] * COUNT, (q, k, v), x), out)
    close(session.embed(x[:, -1:]), embedded[:, -1:])


def test_the_last_queries_are_those_of_the_keys_whatever_their_unread_ids() -> None:
    scheme = make("alibi")
    given = inputs(scheme, COUNT)
    q, k, v = (given[part] for part in "qkv")
    ids, placed = torch.arange(COUNT), PLACED.flip(0)  # the last have no position
    whole = attention(q, k, v, scheme=scheme, positions=ids, placed=placed)
    other = ids.clone()
    other[-FIRST:] = 99
    more: dict[str, Any] = {"positions": other[-5:], "key_positions": ids}
    more |= {"placed": placed[-5:], "key_placed": placed}
    close(attention(q[:, :, -5:], k, v, scheme=scheme, **more), whole[:, :, -5:])
    del more["placed"]  # so these queries are no keys, even with the first key's id
    more["positions"] = torch.where(placed[-5:], ids[-5:], ids[0])
    with pytest.raises(ConfigError, match="positions are not those of the last keys"):
        attention(q[:, :, -5:], k, v, scheme=scheme, **more)


def test_keys_of_another_text_may_have_none() -> None:
    scheme = make("rope")
    given = inputs(scheme, COUNT)
    q, k, v = (given[part] for part in "qkv")
    ids = ids_of(scheme)
    crossed = Session(
        scheme, ids[FIRST:], key_positions=ids, key_placed=PLACED, mask=BOTH
    )
    got = crossed.attend(0, q[:, :, FIRST:], k, v)
    whole = Session(scheme, ids, placed=PLACED, mask=BOTH).attend(0, q, k, v)
    close(got, whole[:, :, FIRST:])


def test_a_text_in_which_no_token_has_a_position() -> None:
    scheme = make("learned")
    session = Session(scheme, ids_of(scheme), placed=PLACED & False)
    x = normal(2, COUNT, scheme.geometry.model_dim)
    assert torch.equal(session.embed(x), x)


def test_all_schemes_of_several_axes_serve_them() -> None:
    several = [name for name in NAMES if SCHEMES.get(name).facts.axes > 1]
    assert {name for name in several if why_all_placed(make(name))} == set()
    assert len(several) >= 11


WHOLE = {"learned_2d", "rope_dinov3", "decomposed", "fourier_random_2d"}
WHOLE |= {"perceiver", "rope_pixel", "sinusoidal_detr", "cape:centred=true"}


@pytest.mark.parametrize("label", [*NAMES, "cape:centred=true"])
def test_a_scheme_that_places_tokens_by_all_ids_refuses_several_texts(
    label: str,
) -> None:
    name, *centred = label.split(":")
    scheme = make(name, **({"centred": True} if centred else {}))
    ids = ids_for(scheme, 8, columns=4)
    both = torch.cat([ids, ids[:4]])
    for other in (0, 2, -1):
        mask = Mask(segments=torch.tensor([[1] * 8 + [other] * 4]))
        if label not in WHOLE:
            Session(scheme, both, mask=mask)
            continue
        with pytest.raises(ConfigError, match=f"^{scheme.name}: needs one text or im"):
            Session(scheme, both, mask=mask)


@pytest.mark.parametrize("name", ["randomized", "randomized_distance", "pose"])
def test_draws_of_a_text_do_not_depend_on_the_others_of_its_row(name: str) -> None:
    scheme = make(name).train()
    mask = Mask(segments=torch.tensor([[1] * 8 + [2] * 9]))
    both = torch.cat([torch.arange(8), torch.arange(9)])
    given = {"mask": mask, "generator": torch.Generator().manual_seed(0)}
    if name != "pose":
        with pytest.raises(ConfigError, match=f"^{name}: needs one text or image in"):
            Session(scheme, both, **given)
        return
    continued = torch.arange(17)  # one text by its ids, two by its segments
    with pytest.raises(ConfigError, match=r"^pose: needs one text"):
        Session(scheme, continued, **given)
    sessions = [Session(scheme, both, **given) for _ in range(9)]
    ids = torch.stack([session.ids for session in sessions])
    for text in (ids[:, :8], ids[:, 8:]):
        assert (text.diff(dim=1) > 1).any(dim=1).sum() > 5  # it skips ahead


@pytest.mark.parametrize("name", ["path", "fox", "alibi"])
def test_a_token_state_needs_contiguous_segments(name: str) -> None:
    scheme, mask = make(name), Mask(segments=torch.tensor([[1, 2, 1, 1], [1, 1, 2, 2]]))
    Session(scheme, torch.arange(0), mask=Mask(segments=torch.zeros(1, 0).long()))
    if name == "alibi":
        Session(scheme, torch.arange(4), mask=mask)
        return
    with pytest.raises(ConfigError, match=f"^{name}: needs contiguous segments"):
        Session(scheme, torch.arange(4), mask=mask)


def test_padding_of_an_image_is_left_out_by_placed() -> None:
    scheme = make("learned_2d")
    ids = torch.cat([ids_for(scheme, 8, columns=4), torch.full((4, 2), 9)])
    mask = Mask(causal=False, segments=torch.tensor([[1] * 8 + [0] * 4]))
    with pytest.raises(ConfigError, match="places tokens by all ids, got segments"):
        Session(scheme, ids, mask=mask)
    session = Session(scheme, ids, mask=mask, placed=torch.arange(12) < 8)
    alone = Session(scheme, ids[:8], mask=BOTH)
    assert torch.equal(session.places[:8], alone.places)


def test_a_session_of_several_texts_is_compiled_in_one_graph() -> None:
    scheme, segments = make("shape").eval(), torch.ones(1, 6, dtype=torch.long)

    def embedded(x: Tensor, ids: Tensor, segments: Tensor) -> Tensor:
        return Session(scheme, ids, mask=Mask(segments=segments)).embed(x)

    given = normal(1, 6, scheme.geometry.model_dim), torch.arange(6), segments
    compiled = torch.compile(embedded, fullgraph=True, backend="eager")
    assert torch.equal(compiled(*given), embedded(*given))


def test_segments_must_have_the_rows_of_the_positions() -> None:
    ids = torch.arange(12).expand(3, -1)
    mask = Mask(segments=torch.ones(2, 12, dtype=torch.long))
    with pytest.raises(ShapeError, match=r"segments must be \(3, 12\), as the pos"):
        Session(make("cape"), ids, mask=mask)
