"""Token states of a scheme, kept beside the caches of a model.

A cache of transformers has keys and values, and is handed from one forward pass to the
next. What a scheme stored for each token goes along with it, as long as the cache holds
the keys that were stored, in their order.
"""

from collections.abc import Container
from dataclasses import dataclass, field
from typing import Any
from weakref import WeakKeyDictionary

import torch
from torch import Tensor

from posenc_compare.hf.passes import Pass
from posenc_compare.hf.places import UnsupportedModelError
from posenc_compare.schemes import Scheme
from posenc_compare.schemes.contract import ask_state

CACHES = ("cache", "past_key_values", "layer_past")
WHOLE = {2: torch.int16, 4: torch.int32, 8: torch.int64}  # by bytes of a number


@dataclass
class _Stored:
    """What was stored of the tokens of one layer, and the mark of their keys."""

    state: Tensor
    mark: Tensor


@dataclass
class States:
    """What schemes stored, by cache and layer."""

    _of: WeakKeyDictionary[Any, dict[int, _Stored]] = field(
        default_factory=WeakKeyDictionary
    )

    def __getstate__(self) -> dict[str, Any]:
        """Return nothing: a cache is not saved with its model."""
        return {}

    def __setstate__(self, _: dict[str, Any]) -> None:
        self._of = WeakKeyDictionary()

    def extended(
        self, scheme: Scheme, layer: int, x: Tensor, key: Tensor, cache: Any, now: Pass
    ) -> Tensor | None:
        """Return the state of all keys, if the scheme has one.

        Args:
            scheme: of the layer.
            layer: its number.
            x: `(batch, query, model_dim)` what attention of the layer is given.
            key: `(batch, key_heads, key, head_dim)` as the cache has them.
            cache: of the model; None if it has none.
            now: the pass.

        Raises:
            UnsupportedModelError: if earlier tokens have no state, or padding stands
                between the tokens.
        """
        if not scheme.acts_at("token_state"):
            return None
        fault = ""
        past = self._of.get(cache, {}).get(layer) if now.past else None
        if now.dropped:  # a state may look at tokens before, as that of PaTH does
            fault = f"the cache of layer {layer} has dropped keys; use_cache=False"
        elif now.has_holes:
            fault = "padding stands between tokens of a row; padding on one side"
        elif now.past and not (past and _fits(past, key[:, :, : now.past])):
            fault = "the cache has other keys than it was stored for; a cache filled "
            fault += "by this model in one order"
        if fault:
            raise UnsupportedModelError(
                f"{scheme.name}: has a token state, and {fault} would work"
            )
        with torch.autocast(key.device.type, enabled=False):
            state = ask_state(scheme, x, past.state if past else None, now.keys)
        assert state is not None
        if cache is not None:
            stored = _Stored(state.detach(), _mark(key.detach()))
            self._of.setdefault(cache, {})[layer] = stored
        return state


def cache_name(names: Container[str]) -> str:
    """Return which argument of a model, or of its attention, is the cache.

    From transformers 5.24 on it is `cache`; before it was `past_key_values`, and
    GPT-NeoX calls it `layer_past` in its layers.

    Args:
        names: of all arguments.
    """
    return next((n for n in CACHES if n in names), CACHES[0])


def _fits(past: _Stored, key: Tensor) -> bool:
    """Return whether earlier keys are those that were stored, row by row."""
    known = past.state.shape[:2] == (key.shape[0], key.shape[2])
    return known and torch.equal(past.mark, _mark(key))


def _mark(key: Tensor) -> Tensor:
    """Return a number of each row that changes with its keys and with their order."""
    bits = key.contiguous().view(WHOLE[key.element_size()]).long()
    places = torch.arange(1, key.shape[2] + 1, device=key.device)[:, None]
    return (bits * places).sum(dim=(1, 2, 3))
