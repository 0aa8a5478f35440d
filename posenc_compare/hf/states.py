"""Marks of keys and token states of a scheme, kept on the caches of a model.

A cache of transformers has keys and values, and is handed from one forward pass to the
next, or copied, cropped and reordered. The mark of each key goes along with it, so keys
that another model or a library put there are seen, and so does what a scheme stored for
each token, as long as the cache holds the keys that were stored, in their order.
"""

from collections.abc import Container
from dataclasses import dataclass, field

import torch
from torch import Tensor

from posenc_compare.hf.layers import Given
from posenc_compare.hf.places import UnsupportedModelError
from posenc_compare.schemes import Scheme
from posenc_compare.schemes.contract import ask_state

CACHES = ("cache", "past_key_values", "layer_past")
KEPT = "posenc_compare_kept"  # on a cache
WHOLE = {1: torch.int8, 2: torch.int16, 4: torch.int32, 8: torch.int64}  # by bytes


@dataclass
class _Stored:
    """The mark of every key of one layer, and what was stored for its tokens."""

    marks: Tensor
    state: Tensor | None = None


@dataclass
class _Kept:
    """What was stored of one cache, and who filled it.

    A layer that a model runs several times in a pass has as many marks. The pass in
    which it found the cache empty is in `begun`.
    """

    owner: str
    layers: dict[int, list[_Stored]] = field(default_factory=dict)
    begun: dict[int, object] = field(default_factory=dict)


def extended(scheme: Scheme, given: Given, key: Tensor) -> Tensor | None:
    """Return the token state of all keys, if the scheme has one.

    `key` is `(batch, key_heads, key, head_dim)` as the cache has them.
    """
    now, number, states = given.now, given.layer.number, scheme.acts_at("token_state")
    kept, own = _kept(given), _Stored(_marks(key))
    past = _past(given, kept, own.marks) if now.past else None
    fault = ""
    if states and now.dropped:  # a state may look at tokens before, as PaTH does
        fault = f"the cache of layer {number} has dropped keys; use_cache=False"
    elif states and past and past.state is None:
        fault = "the cache has other keys than it was stored for; a cache filled "
        fault += "by this model in one order"
    if fault:
        raise UnsupportedModelError(
            f"{scheme.name}: has a token state, and {fault} would work"
        )
    if states:
        x, before = given.x.to(key.device), past.state if past else None
        with torch.autocast(key.device.type, enabled=False):
            own.state = ask_state(scheme, x, before, now.keys)
        assert own.state is not None
    marks = torch.nn.functional.pad(own.marks, (now.dropped, 0))
    kept.layers.setdefault(number, []).append(
        _Stored(marks, None if own.state is None else own.state.detach())
    )
    return own.state


def cache_name(names: Container[str]) -> str:
    """Return which argument of a model, or of its attention, is the cache.

    From transformers 5.24 on it is `cache`; before it was `past_key_values`, and
    GPT-NeoX calls it `layer_past` in its layers.
    """
    return next((n for n in CACHES if n in names), CACHES[0])


def _kept(given: Given) -> _Kept:
    """Return what was stored of the cache of a call, which is kept on the cache."""
    now, layer, cache = given.now, given.layer, given.cache
    kept = getattr(cache, KEPT, None)
    if not isinstance(kept, _Kept) or kept.owner != layer.owner:
        kept = _Kept(layer.owner)
        if cache is not None:
            setattr(cache, KEPT, kept)
    if not now.past and kept.begun.get(layer.number) is not now.name:
        kept.layers[layer.number], kept.begun[layer.number] = [], now.name
    return kept


def _past(given: Given, kept: _Kept, marks: Tensor) -> _Stored:
    """Return what was stored of the earlier keys; no state if rows changed places.

    It is no longer stored, as more will be.
    """
    now, number = given.now, given.layer.number
    new = marks[:, : now.past]
    ours = kept.layers.get(number, [])
    for i, stored in enumerate(ours):
        old = stored.marks[:, now.dropped :].to(marks.device)[:, : now.past]
        if torch.equal(old, new):
            state = None if stored.state is None else stored.state[:, : now.past]
        elif old.shape[1] < now.past:
            continue
        elif (new[:, None] == old[None]).all(dim=2).any(dim=1).all():
            state = None  # the rows are in another order
        else:
            continue
        del ours[i]
        return _Stored(old, state)
    raise UnsupportedModelError(
        f"layer {number}: the cache has keys that this model did not put there under "
        f"this scheme, as a prefix or another model does; a cache that is empty at "
        f"first would work"
    )


def _marks(key: Tensor) -> Tensor:
    """Return a number for each key `(batch, key)`, that of its bits."""
    bits = key.detach().transpose(1, 2).flatten(2).contiguous()
    bits = bits.view(WHOLE[key.element_size()])
    weights = torch.arange(1, 2 * bits.shape[-1], 2, device=key.device)
    return (bits * weights.to(bits.dtype)).sum(dim=2)
