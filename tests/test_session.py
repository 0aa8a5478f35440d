"""A forward pass through a session: what is shared, what hooks see, and decoding."""

import math
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from types import MethodType
from typing import Any

import pytest
import torch
from schemes.tools import close, normal
from support.attention import decoded, make
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils.checkpoint import checkpoint

from posenc_compare.attention import Mask, Session, attention
from posenc_compare.errors import ConfigError, HookError, ShapeError
from posenc_compare.schemes import Call, Geometry, Scheme, Variant
from posenc_compare.schemes.rope import Rope
from posenc_compare.schemes.shared.rotation import Rotation

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
        given: dict[str, Any] = {"scheme": schemes[layer % 2], "positions": IDS}
        given["mask"] = Mask(window=(None, 3, 2)[layer % 3])
        alone = attention(*heads(layer), **given)
        assert torch.equal(session.attend(layer, *heads(layer)), alone)


@pytest.mark.parametrize("name", ["sinusoidal", "randomized", "randomized_distance"])
def test_a_later_scheme_may_not_act_before_the_layers(name: str) -> None:
    with pytest.raises(ConfigError, match=f"only the first scheme .* got {name}"):
        Session([make("alibi"), make(name)], IDS)
    Session([make("pose", scheme=Variant(inside)) for inside in ("rope", "alibi")], IDS)
    both = (make("shape", scheme=Variant(inside)) for inside in ("rope", name))
    with pytest.raises(ConfigError, match=r"only the first scheme .* got shape"):
        Session(both, IDS)


def test_a_pass_whose_tokens_were_not_embedded_is_warned_of() -> None:
    session = Session(make("sinusoidal"), IDS, fed=0)
    for count in (4, 5):
        session.extend(count)
        q, k, v = (part[:, :, : session.end] for part in heads())
        given = q[:, :, session.start :], k, v
        with pytest.warns(UserWarning, match=r"sinusoidal: .*embed was not called"):
            session.attend(0, *given)
        session.embed(normal(2, count, HEADS * WIDTH))
        session.attend(0, *given)


def test_schemes_of_one_class_share_no_table_of_other_options() -> None:
    schemes = [make("deberta", reach=8), make("deberta", reach=8, buckets=8)]
    session = Session(schemes, ids := torch.arange(LENGTH) * 3)
    for layer, scheme in enumerate(schemes):
        alone = attention(*heads(), scheme=scheme, positions=ids)
        assert torch.equal(session.attend(layer, *heads()), alone)


# --- hooks ------------------------------------------------------------------------


def test_a_token_state_needs_the_input_of_the_layer() -> None:
    message = "fox: has a token state, so x must be the input of layer 3, got none"
    with pytest.raises(ConfigError, match=message):
        Session(make("fox"), IDS).attend(3, *heads())


def test_a_scheme_that_differs_by_layer_serves_its_own_layer_alone() -> None:
    def mixed(**layer: int) -> Scheme:
        return Variant("mix").build(replace(GEOMETRY, **layer))

    session = Session(mixed(), IDS)
    session.attend(0, *heads())
    with pytest.raises(ConfigError, match="mix: differs by layer"):
        session.attend(1, *heads())
    both = Session([mixed(layer=i, layers=2) for i in range(2)], IDS)
    for layer in range(2):
        both.attend(layer, *heads())
    with pytest.raises(ConfigError, match=r"mix: .* got 2 for layer 2"):
        both.attend(2, *heads())
    for odd in (-1, "a", 0.5):
        with pytest.raises(ConfigError, match=f"layer must be .* got {odd!r}"):
            both.attend(odd, *heads())  # type: ignore[arg-type]
    with pytest.raises(ConfigError, match="below layers, got 1 and 1"):
        mixed(layer=1)


def test_a_layer_attends_once_in_a_pass_whose_keys_are_kept() -> None:
    """Under one number, a layer would be given the keys of another in the next pass."""
    parts = [
        [x[:, :, rows] for x in heads()] for rows in (slice(0, -1), slice(-1, None))
    ]
    session = Session(make("rope"), IDS, fed=LENGTH - 1, cache=True)
    q, k, v = parts[0]
    with pytest.raises(ShapeError):
        session.attend(0, q, k, v[:, :, 1:])  # which may be tried again
    session.attend(0, q, k, v)
    with pytest.raises(
        ConfigError, match=r"layer 0 .* once in a pass.* extend\(count\)"
    ):
        session.attend(0, q, k, v)
    with pytest.raises(
        ShapeError, match="extend must have a number of tokens, got ids"
    ):
        session.extend(IDS[-1:])  # type: ignore[arg-type]
    session.extend()
    last = session.attend(0, *parts[1])
    whole = Session(make("rope"), IDS, cache=True)
    whole.attend(0, *heads())
    both = whole.attend(0, *heads())  # again, as in gradient checkpointing
    torch.testing.assert_close(last, both[:, :, -1:], rtol=0, atol=1e-12)


def test_a_draw_is_the_same_in_all_layers() -> None:
    scheme, (q, k, _) = make("randomized_distance"), heads()
    generator = torch.Generator().manual_seed(3)
    session = Session(scheme, IDS, generator=generator)
    assert torch.equal(session.logits(0, q, k), session.logits(1, q, k))
    assert Session(scheme, IDS).drawn is None


def test_a_batch_is_placed_sequence_by_sequence() -> None:
    scheme = make("randomized")
    alike = Session(scheme, IDS, generator=torch.Generator().manual_seed(1))
    each = Session(scheme, IDS, generator=torch.Generator().manual_seed(1), batch=3)
    assert alike.ids.shape == (LENGTH,)
    assert each.ids.shape == (3, LENGTH)
    assert not torch.equal(each.ids[0], each.ids[1])
    assert Session(make("rope"), IDS, batch=3).ids.shape == (LENGTH,)


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

    def weights(self, logits: Tensor, call: Call) -> Any:
        return self.wrong if self.hook == "weights" else logits.softmax(-1)


@pytest.mark.parametrize(
    ("hook", "wrong", "said"),
    [
        ("positions", [1], r"positions must return \(9,\), got list \[1\]"),
        ("positions", IDS[:1], r"positions must return \(9,\), got \(1,\)"),
        ("positions", None, "positions must return .* got NoneType None"),
        ("positions", IDS > 1, r"positions must return .* got \(9,\) of torch.bool"),
        ("draw", [1], r"draw must return a tensor or None, got list \[1\]"),
        *(
            ("scale", wrong, "scale must return a finite positive number, got ")
            for wrong in (None, math.nan, math.inf, 0.0, -1.0, True, "1", IDS[1])
        ),
        ("token_state", [1], r"must return \(1, 9, \.\.\.\) or None, got list"),
        ("token_state", torch.zeros(1, 8), r"token_state must return .* got \(1, 8\)"),
        ("weights", torch.ones(1, 1, 9, 9), r"weights must return \(batch, heads, que"),
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


# --- decoding ---------------------------------------------------------------------

MODES = {
    "gradients": torch.enable_grad,
    "none": torch.no_grad,
    "inference": torch.inference_mode,
}
SEGMENTS = torch.tensor([[0] * 4 + [1] * 5, [0] * 9])


@pytest.mark.parametrize("cache", [True, False])
@pytest.mark.parametrize("steps", [[9], [4, 1, 1, 3], [1] * 9])
@pytest.mark.parametrize("name", ["rope", "alibi", "fox", "path", "sinusoidal", "cape"])
def test_decoding_equals_one_pass(name: str, steps: list[int], cache: bool) -> None:
    scheme, (q, k, v) = make(name), heads()
    x = normal(2, LENGTH, HEADS * WIDTH, seed=4)
    mask, seed = Mask(window=(None, 4), segments=SEGMENTS), torch.Generator()
    given: dict[str, Any] = {"mask": mask, "cache": cache}
    whole = Session(scheme, IDS, **given, generator=seed.manual_seed(2))
    session = Session(scheme, IDS, **given, generator=seed.manual_seed(2), fed=0)
    embedded = whole.embed(x)
    outs = [whole.attend(layer, q, k, v, x=x) for layer in range(2)]
    for step in steps:
        session.extend(step)
        new = slice(session.start, session.end)
        seen = new if cache else slice(session.end)
        close(session.embed(x[:, new]), embedded[:, new], 1e-11)
        for layer, out in enumerate(outs):
            keys = k[:, :, seen], v[:, :, seen]
            got = session.attend(layer, q[:, :, new], *keys, x=x[:, new])
            close(got, out[:, :, new], 1e-11)


@pytest.mark.parametrize("name", ["rope", "rope_learned", "xpos"])
def test_a_rotation_changes_the_keys_of_new_tokens_alone(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    scheme, counts, rotated = make(name), list[int](), Rotation.key

    def counted(self: Rotation, k: torch.Tensor, *more: Any) -> torch.Tensor:
        counts.append(k.shape[2])
        return rotated(self, k, *more)

    whole = Session(scheme, IDS).attend(0, *heads())
    monkeypatch.setattr(Rotation, "key", counted)
    session = Session(scheme, IDS, fed=0, cache=True)
    with torch.no_grad():
        close(decoded(session, [4, 1, 1, 3], heads()), whole, 1e-11)
    # `xpos` has a `key` of its own, and trained frequencies may change between passes.
    wanted = {"rope": [4, 1, 1, 3], "rope_learned": [4, 5, 6, 9], "xpos": []}
    assert counts == wanted[name]


@pytest.mark.parametrize("layout", ["adjacent", "half"])
@pytest.mark.parametrize(
    "modes",
    [
        ["none"] * 6,
        ["inference"] * 3 + ["none"] * 3,
        ["none", "none", "inference", "gradients", "none", "none"],
        ["gradients", "none", "none", "gradients", "none", "inference"],
    ],
)
def test_keys_that_are_kept_serve_passes_with_and_without_gradients(
    modes: list[str], layout: str
) -> None:
    """Without, new ones are written behind the old ones, which a graph may need."""
    scheme, (q, k, v) = make("rope", layout=layout), heads()
    whole, given = Session(scheme, IDS).attend(0, q, k, v), [x.clone() for x in (k, v)]
    session, end, graphs = Session(scheme, IDS, fed=0, cache=True), 0, []
    for step, mode in zip([3, 1, 1, 2, 1, 1], modes, strict=True):
        session.extend(step)
        new, end = slice(end, end + step), end + step
        own = q[:, :, new].clone().requires_grad_()
        with MODES[mode]():
            part = k[:, :, new], v[:, :, new]
            with pytest.raises(ShapeError, match="v must have the batch"):
                session.attend(0, own, part[0] + 1, part[1][:, :, :0])
            out = session.attend(0, own, *part)
        close(out.detach(), whole[:, :, new], 1e-12)
        graphs += [(out, own)] if out.requires_grad else []
    for out, own in graphs:  # no later pass wrote into what they need
        out.sum().backward()
        assert own.grad is not None
    assert torch.equal(k, given[0])
    assert torch.equal(v, given[1])


@pytest.mark.filterwarnings("ignore:There is a performance drop")
@pytest.mark.parametrize("inside", [[3, 1, 1, 2], [2]])
def test_passes_without_gradients_may_lie_inside_vmap(inside: list[int]) -> None:
    scheme, steps = make("rope"), [3, 1, 1, 2]
    parts = normal(3, 2, 1, HEADS, sum(steps), WIDTH)

    def decode(session: Session, steps: list[int], *parts: Tensor) -> Tensor:
        return decoded(session, steps, parts)[:, :, -inside[-1] :]

    def run(*parts: Tensor) -> Tensor:
        return decode(Session(scheme, IDS, fed=0, cache=True), steps, *parts)

    with torch.no_grad():
        whole = torch.stack([run(*rows) for rows in parts.unbind(1)])
        if len(inside) == len(steps):
            close(torch.func.vmap(run)(*parts), whole, 1e-11)
            return
        for one, row in zip(parts.unbind(1), whole, strict=True):
            session = Session(scheme, IDS, fed=0, cache=True)
            decoded(session, steps[:-1], one.unbind())
            last = partial(decode, session, inside)
            got = torch.func.vmap(last)(*(part[None] for part in one))
            close(got[0], row, 1e-11)


class Joined(TorchDispatchMode):
    """Count how many keys and values are copied to join others."""

    def __init__(self) -> None:
        super().__init__()
        self.rows = list[int]()

    def __torch_dispatch__(
        self, func: Any, types: Any, args: Any = (), kwargs: Any = None
    ) -> Any:
        out = func(*args, **(kwargs or {}))
        if func in (torch.ops.aten.cat.default, torch.ops.aten.copy_.default):
            self.rows.append(out.shape[2] if out.dim() == 4 else 0)
        return out


@pytest.mark.parametrize("name", ["nope", "rope", "alibi"])
def test_decoding_without_gradients_copies_new_keys_alone(name: str) -> None:
    parts = [normal(1, HEADS, 40, WIDTH, seed=n) for n in range(3)]
    session = Session(make(name), torch.arange(40), fed=0, cache=True)
    with torch.no_grad():
        decoded(session, [10, 1], parts)  # takes memory for twice as many
        with Joined() as joined:
            for _ in range(11):
                decoded(session, [1], parts)
        assert max(joined.rows) == 1
        with Joined() as joined:
            decoded(session, [1], parts)  # and again
        assert max(joined.rows) == 22


def test_a_pass_in_another_dtype_rotates_all_keys_again() -> None:
    scheme, (q, k, v) = make("rope"), heads()
    session, out = Session(scheme, IDS, fed=0, cache=True), q
    for step, dtype in ((4, torch.float32), *[(1, torch.float64)] * 4):
        session.extend(step)
        new = slice(session.start, session.end)
        parts = q[:, :, new], k[:, :, new].float(), v[:, :, new].to(dtype)
        out = session.attend(0, *parts)
    close(out, Session(scheme, IDS).attend(0, q, k, v)[:, :, 7:8], 1e-5)


@pytest.mark.parametrize("mode", ["gradients", "none"])
def test_parameters_may_change_and_dtypes_widen_between_passes(mode: str) -> None:
    scheme, (q, k, v) = make("rope_learned").requires_grad_(False), heads()
    session = Session(scheme, IDS, fed=4, cache=True)
    session.attend(0, q[:, :, :4], k[:, :, :4], v[:, :, :4])
    next(scheme.parameters()).add_(0.3)
    session.extend(5)
    out = session.attend(0, q[:, :, 4:], k[:, :, 4:], v[:, :, 4:])
    close(out, Session(scheme, IDS).attend(0, q, k, v)[:, :, 4:], 1e-11)
    narrow = [part[:, :, :4].bfloat16() for part in (q, k, v)]
    session = Session(make("rope"), IDS, fed=4, cache=True)
    with MODES[mode]():
        session.attend(0, narrow[0], narrow[1], narrow[2])
        session.extend(5)
        out = session.attend(0, q[:, :, 4:], k[:, :, 4:], v[:, :, 4:])
    k, v = (
        torch.cat([n, p[:, :, 4:]], 2) for n, p in zip(narrow[1:], (k, v), strict=True)
    )
    close(out, Session(make("rope"), IDS).attend(0, q, k, v)[:, :, 4:], 1e-11)


@pytest.mark.parametrize("name", ["rope", "rope_learned"])
def test_keys_of_earlier_passes_keep_no_graph_and_lose_no_gradient(name: str) -> None:
    scheme, (q, k, v) = make(name), heads()
    trained = [*scheme.parameters(), k.requires_grad_()]

    def gradients(out: torch.Tensor) -> list[torch.Tensor]:
        return [*torch.autograd.grad(out.sum(), trained)]

    expected = gradients(Session(scheme, IDS).attend(0, q, k, v)[:, :, 4:])
    for graph in (False, True):
        session, first = Session(scheme, IDS, fed=4, cache=True), k[:, :, :4]
        with torch.set_grad_enabled(graph):
            out = session.attend(0, q[:, :, :4], first, v[:, :, :4])
        if graph:
            torch.autograd.grad(out.sum(), trained[:-1] or first)
        session.extend(5)
        out = session.attend(0, q[:, :, 4:], k[:, :, 4:], v[:, :, 4:])
        for got, one in zip(gradients(out), expected, strict=True):
            close(got, one, 1e-11)


def test_a_plugin_may_rotate_by_the_other_positions_too() -> None:
    class Last(Rope):
        def angles(self, positions: torch.Tensor) -> torch.Tensor:
            return super().angles(positions - positions[..., -1:])

    replaced, (q, k, v) = make("rope"), heads()
    replaced.angles = MethodType(Last.angles, Last(GEOMETRY))
    for scheme in (Last(GEOMETRY), replaced):
        session = Session(scheme, IDS, fed=0, cache=True)
        out = decoded(session, [4, 1, 1, 3], (q, k, v))[:, :, -1]
        close(out, Session(scheme, IDS).attend(0, q, k, v)[:, :, -1], 1e-11)


@pytest.mark.parametrize("reentrant", [True, False])
def test_layers_share_a_trained_rotation_under_checkpointing(reentrant: bool) -> None:
    class Trained(Rope):
        def __init__(self, geometry: Geometry) -> None:
            super().__init__(geometry)
            self.rate = torch.nn.Parameter(torch.tensor(1.0))

        def angles(self, positions: torch.Tensor) -> torch.Tensor:
            return super().angles(positions) * self.rate

    def gradient(run: Callable[..., torch.Tensor]) -> torch.Tensor:
        scheme, (x, k, v) = Trained(GEOMETRY), heads()
        x.requires_grad_()
        session = Session(scheme, IDS)
        for layer in range(2):
            x = run(partial(session.attend, layer), x, k, v)
        x.square().sum().backward()
        assert scheme.rate.grad is not None
        return scheme.rate.grad

    kept = gradient(lambda layer, *given: layer(*given))
    again = gradient(partial(checkpoint, use_reentrant=reentrant))
    close(again, kept, 1e-11)


@pytest.mark.parametrize("name", ["alibi", "fox"])  # keys; keys and a state
def test_logits_of_other_tokens_change_nothing_that_is_kept(name: str) -> None:
    (q, k, v), x = heads(), normal(2, LENGTH, HEADS * WIDTH)
    session = Session(make(name), IDS, fed=4, cache=True)
    session.attend(0, q[:, :, :4], k[:, :, :4], v[:, :, :4], x=x[:, :4])
    session.logits(0, q[:, :, :4], heads(7)[1][:, :, :4], x=x[:, 4:8])
    session.extend(5)
    out = session.attend(0, q[:, :, 4:], k[:, :, 4:], v[:, :, 4:], x=x[:, 4:])
    whole = Session(make(name), IDS).attend(0, q, k, v, x=x)
    close(out, whole[:, :, 4:], 1e-11)


@pytest.mark.parametrize("name", ["rope", "sink", "stick_breaking", "fox", "erpe"])
@pytest.mark.parametrize("length", [LENGTH, 300])
def test_weights_times_values_are_the_output(name: str, length: int) -> None:
    q, k, v = (normal(2, HEADS, length, WIDTH, seed=n) for n in range(3))
    x, mask = normal(2, length, HEADS * WIDTH), Mask(window=5)
    scheme = make(name, length=512).requires_grad_(False)
    session = Session(scheme, torch.arange(length), mask=mask)
    with torch.no_grad():
        shares = session.weights(0, q, k, x=x)
        assert shares.shape == (2, HEADS, length, length)
        assert not shares.triu(1).any()
        close(shares @ v, session.attend(0, q, k, v, x=x), 1e-11)
    close(session.weights(0, q, k, x=x), shares, 1e-12)


def test_keys_and_values_keep_their_sizes_from_pass_to_pass() -> None:
    q, k, v = heads()
    session = Session(make("rope"), IDS, fed=4, cache=True)
    session.attend(0, q[:, :, :4], k[:, :, :4], v[:, :, :4])
    session.extend()
    new = [part[:, :, 4:5] for part in (q, k, v)]
    with pytest.raises(ShapeError, match=r"v of layer 0 must be \(2, 2, key, 8\) as"):
        session.attend(0, new[0], new[1], new[2][..., :4])
    with pytest.raises(ShapeError, match=r"k of layer 0 must be \(2, 2, key, 8\) as"):
        session.attend(0, new[0][:1], new[1][:1], new[2][:1])
    session.attend(0, new[0], new[1], new[2])


@pytest.mark.parametrize("steps", [[4, 5], [6, 1, 2], [9]])
@pytest.mark.parametrize("prefix", [4, torch.tensor([4, 1])])
def test_decoding_after_the_prefix_equals_one_pass(
    prefix: Any, steps: list[int]
) -> None:
    scheme, mask = make("alibi"), Mask(prefix=prefix)
    session = Session(scheme, IDS, mask=mask, fed=0, cache=True)
    full = Session(scheme, IDS, mask=mask).attend(0, *heads())
    close(decoded(session, steps, heads()), full, 1e-11)


@pytest.mark.parametrize(
    ("mask", "said"),
    [
        (Mask(prefix=4), "the first pass must have all 4 tokens of the prefix, got 2"),
        (Mask(prefix=99), "the first pass must have all 9 tokens of the prefix, got 2"),
        (Mask(prefix=torch.tensor([1, 3])), "the first pass must have all 3 tokens of"),
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
