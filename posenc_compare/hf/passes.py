"""What a forward pass of a Hugging Face model says of its tokens, as a `Session`.

The registered function of masks is told how many keys there are, where queries begin
among them, and which tokens are padding. It returns the mask that `sdpa` would have,
with all of that attached, and attention finds it there. A `Session` states the same
mask in our words, and is compared with it before it is used.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor
from transformers.masking_utils import sdpa_mask

from posenc_compare.attention import Mask, Session
from posenc_compare.hf.places import UnsupportedModelError
from posenc_compare.schemes import Scheme, Variant
from posenc_compare.schemes.scheme import Call
from posenc_compare.schemes.wrapper import Wrapper

ROTATED = ("query", "key", "pair_bias", "scores", "values", "weights")
AFTER = ("offset_bias", "pair_bias", "scores", "weights")  # would be capped too
ATTACHED = "posenc_compare_pass"
DRAWN = "posenc_compare_drawn"
uncompiled: Any = torch.compiler.disable  # a scheme looks at masks and keys


@dataclass
class Pass:
    """One forward pass, as all layers of one kind of mask see it.

    There are `queries`, `keys` up to the last query, and `tokens` with dropped ones.
    """

    seen: Tensor  # (batch, 1, query, key) whether a query sees a key
    dropped: int  # tokens before the first key, which a cache has dropped
    past: int  # keys before the first query
    real: Tensor | None  # (batch, token) bool, False for padding; None if there is none
    window: int | None  # how many keys a query sees, itself included; None for all
    position_ids: Tensor | None = None  # (batch or 1, query), as the model has them
    session: Session | None = field(default=None, repr=False)
    capped: dict[Scheme, Scheme] = field(default_factory=dict, repr=False)
    name: object = field(default_factory=object, repr=False)  # unique to this pass

    def __post_init__(self) -> None:
        self.queries = self.seen.shape[2]
        self.keys = self.past + self.queries
        self.tokens = self.dropped + self.keys

    def told(self, position_ids: Tensor | None) -> None:
        """Set the position ids that a layer is given; other ids begin a new session.

        A mask that a user made may come again in another pass.
        """
        before = self.position_ids
        if before is not None and position_ids is not None and self.session:
            if before.shape != position_ids.shape or (before != position_ids).any():
                self.session = None
        self.position_ids = position_ids

    def draw(self, generator: torch.Generator | None) -> None:
        """Let schemes draw in this forward pass, under each of its masks alike.

        Position ids are what the masks of one forward pass have in common, and must be
        given if there is a generator.
        """
        if self.position_ids is None and generator:
            raise UnsupportedModelError(
                "generator: the model must hand position_ids to its layers, got none; "
                "generator=None would work"
            )
        if self.position_ids is not None:
            state = None if generator is None else generator.get_state()
            setattr(self.position_ids, DRAWN, state)
        if generator is not None:
            torch.randint(2, (1,), generator=generator)  # another in the next pass

    def begin(self, schemes: Sequence[Scheme]) -> Session:
        """Return the session of this pass; its first scheme embeds tokens for all."""
        if self.session is None:
            state, generator = getattr(self.position_ids, DRAWN, None), None
            if state is not None:
                generator = torch.Generator()
                generator.set_state(state)
            ids, segments = self._placed()
            session = Session(
                schemes,
                ids,
                mask=Mask(window=self.window, segments=segments),
                generator=generator,
                batch=len(self.seen) if generator else 0,
                fed=self.past or None,
            )
            if self.past:
                session.extend(self.queries)
            self._compare(session)
            self.session = session
        return self.session

    def _placed(self) -> tuple[Tensor, Tensor | None]:
        """Return ids of the keys, and their segments if there are several."""
        batch, device = len(self.seen), self.seen.device
        if self.real is not None:
            real = self.real[:, : self.tokens]
            counted = (real.cumsum(dim=1) - 1).clamp(min=0)[:, self.dropped :]
            real = real[:, self.dropped :]
            self._check_ids(counted, real)
            after = (real.cumsum(dim=1) > 0).long()  # padding on each side is its own
            return counted, torch.where(real.bool(), 1, 2 * after)
        ids, given = torch.arange(self.dropped, self.tokens), self.position_ids
        if given is not None and self.tokens == self.queries:
            given = given.cpu().expand(batch, -1)
            starts = given.diff(dim=1) != 1
            if starts.any():  # packed documents: each counts from 0
                begun = torch.nn.functional.pad(starts.cumsum(dim=1), (1, 0))
                return given.to(device), begun.to(device)
        self._check_ids(ids[None], torch.ones_like(ids[None]).bool())
        return ids, None

    def check_counted(self, schemes: Sequence[Scheme]) -> None:
        """Refuse schemes that read rotated queries if the rotation counts padding.

        A model without position ids counts all tokens, and a scheme those that are no
        padding: two numberings in one layer.
        """
        reads = any(scheme.acts_at(hook) for scheme in schemes for hook in ROTATED)
        if self.real is None or not reads:
            return
        real = self.real[:, : self.tokens]
        counted = (real.cumsum(dim=1) - 1)[:, -self.queries :]
        given = self.position_ids
        if given is None:
            given = torch.arange(self.tokens - self.queries, self.tokens)
        if ((given.to(counted.device) != counted) & real[:, -self.queries :]).any():
            raise UnsupportedModelError(
                f"keep_rotary: position_ids must count the tokens that are no padding, "
                f"as {schemes[0].name} does, got ids that count all; position_ids="
                f"(attention_mask.cumsum(1) - 1).clamp(min=0) would work"
            )

    def _check_ids(self, ids: Tensor, real: Tensor) -> None:
        """Refuse ids that count neither all tokens nor those that are no padding.

        Without any, a model counts all tokens; a scheme never counts padding.
        """
        if self.position_ids is None:
            return
        given, own = self.position_ids.to(ids.device), ids[:, self.past :]
        index = torch.arange(self.tokens - self.queries, self.tokens, device=ids.device)
        wrong = (given != own) & (given != index) & real[:, self.past :]
        if wrong.any():
            raise UnsupportedModelError(
                f"position_ids must count the tokens that are no padding from 0, got "
                f"{given.expand_as(wrong)[wrong][0]} where "
                f"{own.expand_as(wrong)[wrong][0]} would work"
            )

    def _compare(self, session: Session) -> None:
        """Refuse a mask that the session states otherwise."""
        seen = self.seen[..., : self.keys]
        batch, _, queries, keys = seen.shape
        room = seen.new_zeros((), dtype=torch.float32)
        geometry = session.scheme(0).geometry
        plain = Variant("nope").build(geometry)  # a scheme may hide more by itself
        heads, channels = geometry.heads, geometry.head_dim
        q = room.expand(batch, heads, queries, channels)
        k = room.expand(batch, heads, keys, channels)
        keep = session.plan.call(plain, 0, q, k, None).keep()
        differs = ~seen if keep is None else keep != seen
        if self.real is not None:
            own = self.real[:, self.dropped + self.past : self.tokens]
            differs = differs & own[:, None, :, None]  # padding may look anywhere
        if differs.any():
            raise UnsupportedModelError(
                "mask must be causal, with a window, padding or packed documents at "
                "the most, got another; packed documents need use_cache=False"
            )


def check_real(x: Tensor) -> None:
    """Refuse a pass that computes nothing, as in a traced graph or on meta tensors."""
    fault = ""
    jit: Any = torch.jit
    if jit.is_tracing() or torch.compiler.is_exporting():
        fault = "is in no traced graph (torch.jit.trace, torch.export): a scheme looks "
        fault += "at masks and keys; torch.compile(model) would work"
    elif x.is_meta:
        fault = "must have its weights, got the meta device; a loaded one would work"
    if fault:
        raise UnsupportedModelError(f"a model with a scheme {fault}")


@uncompiled
def masked(**given: Any) -> Tensor:
    """Return the mask of a pass with the `Pass` attached; registered by `apply`.

    `given` are the arguments of `sdpa_mask` by name, as transformers passes them.
    """
    check_real(torch.empty(0, device=given.get("device", "cpu")))
    given["allow_is_causal_skip"] = given["allow_is_bidirectional_skip"] = False
    seen = sdpa_mask(**given)
    assert seen is not None
    seen = seen.contiguous()  # so that `generate` hands on this very tensor
    begin, dropped = (int(given.get(f"{of}_offset", 0)) for of in ("q", "kv"))
    real, window = given.get("attention_mask"), given.get("local_size")
    real = None if real is None or real.all() else real.bool()
    found = Pass(seen, dropped, begin - dropped, real, window)
    setattr(seen, ATTACHED, found)
    return seen


def pass_of(mask: object) -> Pass:
    """Return the pass of one of our masks, or refuse the mask."""
    found = getattr(mask, ATTACHED, None)
    if isinstance(found, Pass):
        return found
    raise UnsupportedModelError(
        f"attention_mask must be (batch, token) of 0 and 1, or none, got "
        f"{tuple(mask.shape) if isinstance(mask, Tensor) else type(mask).__name__}"
    )


class Capped(Wrapper):
    """A scheme whose logits `x` a model caps before the mask, as Gemma 2 does.

    They become `cap * tanh(x / cap)`.
    """

    def __init__(self, inner: Scheme, cap: float) -> None:
        super().__init__(inner.geometry, inner)
        adds = [hook for hook in AFTER if inner.acts_at(hook)]
        if adds:
            raise UnsupportedModelError(
                f"{inner.name}: acts at {adds[0]}, and this model caps its logits at "
                f"{cap:g}, with all that is added; a scheme that rotates would work"
            )
        self.cap = cap

    def scores(self, logits: Tensor, call: Call) -> Tensor:
        return (logits / self.cap).tanh() * self.cap
