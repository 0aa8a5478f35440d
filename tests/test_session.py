"""A forward pass through a session: what is shared, what hooks see, and decoding."""

import math
from typing import Any

import pytest
import torch
from schemes.tools import normal
from support.attention import make
from torch import Tensor

from posenc_compare.attention import Mask, Session, attention
from posenc_compare.attention import plan as plans
from posenc_compare.errors import ConfigError, HookError, ShapeError
from posenc_compare.schemes import Call, Geometry, Scheme

HEADS, WIDTH, LENGTH = 2, 8, 9
GEOMETRY = Geometry(model_dim=HEADS * WIDTH, heads=HEADS, length=32)
IDS = torch.arange(LENGTH)


def heads(seed: int = 0) -> list[Tensor]:
    return [normal(2, HEADS, LENGTH, WIDTH, seed=seed + n) for n in range(3)]


# --- what is shared ---------------------------------------------------------------


def test_layers_take_turns_with_schemes_and_windows() -> None:
    schemes = [make("rope"), make("alibi")]
    mask = Mask(window=(None, 3, 2))
    session = Session(schemes, IDS, mask=mask)
    for layer in range(7):
        q, k, v = heads(layer)
        alone = attention(
            q,
            k,
            v,
            scheme=schemes[layer % 2],
            positions=IDS,
            mask=Mask(window=(None, 3, 2)[layer % 3]),
        )
        assert torch.equal(session.attend(layer, q, k, v), alone)


def test_facts_of_a_pass_are_found_once(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[str] = []
    for name in ("_reach", "_in_step", "checked_ids", "check_sizes"):
        whole = getattr(plans, name)

        def watched(*given: Any, name: str = name, whole: Any = whole) -> Any:
            asked.append(name)
            return whole(*given)

        monkeypatch.setattr(plans, name, watched)
    scheme, built = make("alibi"), []
    bias = scheme.offset_bias
    scheme.__dict__["offset_bias"] = lambda offsets: built.append(1) or bias(offsets)
    session = Session(scheme, IDS)
    for layer in range(5):
        session.attend(layer, *heads(layer))
    assert sorted(asked) == ["_in_step", "_reach", "check_sizes", "checked_ids"]
    assert built == [1]


def test_a_bias_that_learns_is_asked_for_by_every_layer() -> None:
    """Summed over layers, its gradient would come in another order, in other bits."""
    scheme, built = make("t5_bias"), []
    bias = scheme.offset_bias
    scheme.__dict__["offset_bias"] = lambda offsets: built.append(1) or bias(offsets)
    session = Session(scheme, IDS)
    for layer in range(3):
        session.attend(layer, *heads(layer))
    assert len(built) == 3
    with torch.no_grad():
        session = Session(scheme, IDS)
        for layer in range(3):
            session.attend(layer, *heads(layer))
    assert len(built) == 4


class Tabled(Scheme):
    """Turns by a table that all layers share, and counts how often it is made."""

    made = 0

    def query(self, q: Tensor, positions: Tensor, call: Call | None = None) -> Tensor:
        assert call is not None
        return q * self.table(positions, call)

    def key(self, k: Tensor, positions: Tensor, call: Call | None = None) -> Tensor:
        assert call is not None
        return k * self.table(positions, call)

    def table(self, positions: Tensor, call: Call) -> Tensor:
        return call.once(self, "table", positions, lambda: self.make(positions))

    def make(self, positions: Tensor) -> Tensor:
        self.made += 1
        return positions.double().cos()[:, None, :, None]


def test_tables_are_made_once_for_queries_keys_and_all_layers() -> None:
    scheme = Tabled(GEOMETRY)
    session = Session(scheme, IDS)
    for layer in range(3):
        q, k, v = heads(layer)
        got = session.attend(layer, q, k, v)
        turn = IDS.double().cos()[:, None]
        alone = attention(q * turn, k * turn, v, scheme=make("nope"), positions=IDS)
        torch.testing.assert_close(got, alone, rtol=0, atol=1e-12)
    assert scheme.made == 1


# --- hooks ------------------------------------------------------------------------


def test_weights_of_another_shape_are_refused() -> None:
    class Wrong(Scheme):
        def weights(self, logits: Tensor, call: Call) -> Tensor:
            return logits[:, :1].softmax(dim=-1)

    with pytest.raises(HookError, match=r"weights must return \(batch, heads, query"):
        Session(Wrong(GEOMETRY), IDS).attend(0, *heads())


@pytest.mark.parametrize("name", ["fox", "selective_rope"])
def test_a_token_state_is_made_of_the_input_of_the_layer(name: str) -> None:
    scheme, x = make(name), normal(2, LENGTH, HEADS * WIDTH, seed=4)
    got = Session(scheme, IDS).attend(0, *heads(), x=x)
    state = scheme.token_state(x)
    expected = attention(*heads(), scheme=scheme, positions=IDS, state=state)
    assert torch.equal(got, expected)


def test_a_token_state_needs_the_input_of_the_layer() -> None:
    message = "fox: has a token state, so x must be the input of layer 3, got none"
    with pytest.raises(ConfigError, match=message):
        Session(make("fox"), IDS).attend(3, *heads())


class Stretched(Scheme):
    """Places tokens at half their positions, and draws a slope for all layers."""

    def positions(
        self, positions: Tensor, generator: torch.Generator | None = None
    ) -> Tensor:
        return positions.double() / 2

    def embed(self, x: Tensor, positions: Tensor) -> Tensor:
        return x + positions[..., None]

    def draw(
        self, positions: Tensor, generator: torch.Generator | None
    ) -> Tensor | None:
        if generator is None:
            return None
        return torch.rand(HEADS, 1, generator=generator, dtype=torch.float64)

    def offset_bias(self, offsets: Tensor, call: Call | None = None) -> Tensor | None:
        if call is None or call.drawn is None:
            return None
        return call.drawn * offsets.double()


def test_real_positions_go_to_embed_and_draws_to_all_layers() -> None:
    scheme = Stretched(GEOMETRY)
    session = Session(scheme, IDS, generator=torch.Generator().manual_seed(3))
    assert torch.equal(session.ids, IDS)
    x = session.embed(torch.zeros(2, LENGTH, 4).double())
    assert torch.equal(x[1, :, 2], IDS / 2.0)
    drawn = torch.rand(
        HEADS, 1, generator=torch.Generator().manual_seed(3), dtype=torch.float64
    )
    q, k, _ = heads()
    for layer in (0, 1):
        logits = session.logits(layer, q, k)
        plain = q @ k.mT / WIDTH**0.5 + drawn[:, :, None] * (IDS - IDS[:, None])
        seen = logits.isfinite()
        torch.testing.assert_close(logits[seen], plain[seen], rtol=0, atol=1e-12)
    still = Session(scheme, IDS)
    assert still.drawn is None


def test_a_batch_is_placed_sequence_by_sequence() -> None:
    scheme = make("randomized")
    alike = Session(scheme, IDS, generator=torch.Generator().manual_seed(1))
    each = Session(scheme, IDS, generator=torch.Generator().manual_seed(1), batch=3)
    assert alike.ids.shape == (LENGTH,)
    assert each.ids.shape == (3, LENGTH)
    assert not torch.equal(each.ids[0], each.ids[1])
    assert Session(make("rope"), IDS, batch=3).ids.shape == (LENGTH,)


def test_positions_of_another_shape_are_refused() -> None:
    class Wrong(Scheme):
        def positions(
            self, positions: Tensor, generator: torch.Generator | None = None
        ) -> Tensor:
            return positions[:1]

    with pytest.raises(HookError, match=r"positions must return \(9,\), got \(1,\)"):
        Session(Wrong(GEOMETRY), IDS)
    with pytest.raises(
        ShapeError, match="session: positions must be a tensor of whole"
    ):
        Session(make("t5_bias"), IDS.double())
    with pytest.raises(ShapeError, match=r"be \(seq, 2\) or .* rope_2d, got \(9,\)"):
        Session(make("rope_2d"), IDS)


class Listed(Scheme):
    """Returns what it is given at one of the hooks of a pass."""

    def __init__(self, hook: str, wrong: object) -> None:
        super().__init__(GEOMETRY)
        self.hook, self.wrong = hook, wrong

    def acts_at(self, hook: str) -> bool:
        return hook == self.hook

    def positions(
        self, positions: Tensor, generator: torch.Generator | None = None
    ) -> Any:
        return self.wrong if self.hook == "positions" else positions

    def draw(self, positions: Tensor, generator: torch.Generator | None) -> Any:
        return self.wrong if self.hook == "draw" else None

    def scale(self, head_dim: int) -> Any:
        return self.wrong if self.hook == "scale" else 1.0

    def token_state(self, x: Tensor, past: Tensor | None = None) -> Any:
        return self.wrong if self.hook == "token_state" else None


@pytest.mark.parametrize(
    ("hook", "wrong", "said"),
    [
        ("positions", [1], r"positions must return \(9,\), got list \[1\]"),
        ("positions", None, "positions must return .* got NoneType None"),
        ("positions", IDS > 1, r"positions must return .* got \(9,\) of torch.bool"),
        ("draw", [1], r"draw must return a tensor or None, got list \[1\]"),
        (
            "scale",
            None,
            "scale must return a finite positive number, got NoneType None",
        ),
        *(
            ("scale", wrong, "scale must return a finite positive number, got ")
            for wrong in (math.nan, math.inf, 0.0, -1.0, True, "1", torch.tensor(1.0))
        ),
        (
            "token_state",
            [1],
            r"token_state must return \(1, 9, \.\.\.\) or None, got l",
        ),
        ("token_state", torch.zeros(1, 8), r"token_state must return .* got \(1, 8\)"),
    ],
)
def test_what_no_hook_may_return_is_refused(hook: str, wrong: Any, said: str) -> None:
    q, k, v = normal(3, 1, HEADS, LENGTH, WIDTH)

    def run() -> None:
        session = Session(Listed(hook, wrong), IDS)
        session.attend(0, q, k, v, x=torch.zeros(1, LENGTH, HEADS * WIDTH))

    with pytest.raises(HookError, match=said) as caught:
        run()
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("schemes", [[], ["rope"], "rope"])
def test_a_pass_needs_a_scheme(schemes: Any) -> None:
    message = "session: schemes must be one scheme or several, got "
    with pytest.raises(ConfigError, match=message):
        Session(schemes, IDS)


# --- decoding ---------------------------------------------------------------------

SEGMENTS = torch.tensor([[0] * 4 + [1] * 5, [0] * 9])


@pytest.mark.parametrize("cache", [True, False])
@pytest.mark.parametrize("steps", [[9], [4, 1, 1, 3], [1] * 9])
@pytest.mark.parametrize("name", ["rope", "alibi", "fox", "path", "sinusoidal", "cape"])
def test_decoding_equals_one_pass(name: str, steps: list[int], cache: bool) -> None:
    scheme, x = make(name), normal(2, LENGTH, HEADS * WIDTH, seed=4)
    weights = normal(3, HEADS * WIDTH, HEADS * WIDTH, seed=6) / 4
    mask = Mask(window=(None, 4), segments=SEGMENTS)
    seed = torch.Generator()

    def run(steps: list[int]) -> Tensor:
        session = Session(
            scheme, IDS, mask=mask, fed=0, cache=cache, generator=seed.manual_seed(2)
        )
        outs: list[Tensor] = []
        seen: list[list[Tensor]] = [[], []]
        for step in steps:
            session.extend(step)
            piece = session.embed(x[:, session.start : session.end])
            for layer in range(2):
                seen[layer].append(piece)
                read = piece if cache else torch.cat(seen[layer], dim=1)
                q, k, v = (
                    (part @ weight).unflatten(-1, (HEADS, -1)).transpose(1, 2)
                    for part, weight in zip((piece, read, read), weights, strict=True)
                )
                out = session.attend(layer, q, k, v, x=piece)
                piece = piece + out.transpose(1, 2).flatten(2)
            outs.append(piece)
        return torch.cat(outs, dim=1)

    torch.testing.assert_close(run(steps), run([LENGTH]), rtol=0, atol=1e-11)


@pytest.mark.parametrize("window", [1, 3, LENGTH - 1])
@pytest.mark.parametrize("name", ["rope", "alibi", "shaw", "fox"])
def test_padded_rows_decode_in_a_window_as_they_do_alone(
    name: str, window: int
) -> None:
    scheme, x = make(name), normal(2, LENGTH, HEADS * WIDTH, seed=4)
    (q, k, v), padding = heads(), torch.tensor([4, 0])
    ids = (IDS - padding[:, None]).clamp(min=0)
    mask = Mask(window=window, segments=(padding[:, None] <= IDS).long())
    session = Session(scheme, ids, mask=mask, fed=0, cache=True)
    parts: list[Tensor] = []
    for step in (3, 3, 1, 1, 1):
        session.extend(step)
        new = slice(session.start, session.end)
        given = (part[:, :, new] for part in (q, k, v))
        parts.append(session.attend(0, *given, x=x[:, new]))
    found = torch.cat(parts, dim=2)
    for row, first in enumerate(padding.tolist()):
        own = (slice(row, row + 1), slice(None), slice(first, None))
        alone = Session(scheme, IDS[: LENGTH - first], mask=Mask(window=window))
        given = (part[own] for part in (q, k, v))
        expected = alone.attend(0, *given, x=x[row : row + 1, first:])
        torch.testing.assert_close(found[own], expected, rtol=0, atol=1e-11)


@pytest.mark.parametrize("steps", [[4, 5], [6, 1, 2], [9]])
@pytest.mark.parametrize("prefix", [4, torch.tensor([4, 1])])
def test_decoding_after_the_prefix_equals_one_pass(
    prefix: Any, steps: list[int]
) -> None:
    scheme, (q, k, v) = make("alibi"), normal(3, 2, HEADS, LENGTH, WIDTH)
    mask, parts = Mask(prefix=prefix), []
    session = Session(scheme, IDS, mask=mask, fed=0, cache=True)
    for step in steps:
        session.extend(step)
        new = slice(session.start, session.end)
        parts.append(session.attend(0, q[:, :, new], k[:, :, new], v[:, :, new]))
    full = Session(scheme, IDS, mask=mask).attend(0, q, k, v)
    torch.testing.assert_close(torch.cat(parts, dim=2), full, rtol=0, atol=1e-11)


@pytest.mark.parametrize(
    ("mask", "said"),
    [
        (Mask(prefix=4), "the first pass must have all 4 tokens of the prefix, got 2"),
        (Mask(prefix=99), "the first pass must have all 9 tokens of the prefix, got 2"),
        (
            Mask(prefix=torch.tensor([1, 3])),
            "the first pass must have all 3 tokens of the prefix, ",
        ),
        (Mask(causal=False), "mask must be causal in a pass that more tokens follow"),
    ],
)
def test_a_pass_whose_queries_would_see_later_tokens_is_refused(
    mask: Mask, said: str
) -> None:
    message = f"session: {said}.*; fed=None would work"
    with pytest.raises(ConfigError, match=message):
        Session(make("alibi"), IDS, mask=mask, fed=2)
    session = Session(make("alibi"), IDS, mask=mask, fed=0)
    with pytest.raises(ConfigError, match=message):
        session.extend(2)


@pytest.mark.parametrize("fed", [None, 0, 2])
@pytest.mark.parametrize("keys", [LENGTH - 1, LENGTH + 1])
def test_segments_are_those_of_all_tokens(keys: int, fed: int | None) -> None:
    mask = Mask(segments=torch.zeros(2, keys).long())
    message = rf"session: segments must be \(batch, 9\), .* got \(2, {keys}\)"
    with pytest.raises(ShapeError, match=message):
        Session(make("alibi"), IDS, mask=mask, fed=fed)


def test_no_more_tokens_than_planned() -> None:
    session = Session(make("rope"), IDS, fed=7)
    message = "session: extend must have at most the 2 tokens left of 9, got 3"
    with pytest.raises(ShapeError, match=message):
        session.extend(3)


def test_a_session_compiles_whole() -> None:
    scheme = make("rope")

    def read(q: Tensor, k: Tensor, v: Tensor, ids: Tensor) -> Tensor:
        session = Session(scheme, ids)
        for layer in range(2):
            v = session.attend(layer, q, k, v)
        return v

    whole = torch.compile(read, backend="eager", fullgraph=True)
    q, k, v = heads()
    assert torch.equal(whole(q, k, v, IDS), read(q, k, v, IDS))
