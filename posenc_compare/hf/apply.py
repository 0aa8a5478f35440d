"""Put a positional scheme into a Hugging Face causal model, and take it out again.

Every chosen layer gets rotary tables that turn nothing, so keys come to the cache as
they were projected, and its attention goes through `posenc_compare.attention`. Which
module belongs to which scheme is known to the modules, and never to a name.
"""

import functools
import inspect
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any
from weakref import WeakKeyDictionary

import torch
from torch import Tensor, nn
from torch.utils.hooks import RemovableHandle
from transformers import AttentionInterface, PreTrainedModel
from transformers.integrations.sdpa_attention import sdpa_attention_forward
from transformers.masking_utils import AttentionMaskInterface

from posenc_compare.attention import Session
from posenc_compare.attention.session import attend
from posenc_compare.errors import ConfigError
from posenc_compare.hf.check import check
from posenc_compare.hf.passes import Pass, masked, pass_of
from posenc_compare.hf.places import ROTARY, Place, UnsupportedModelError, places_of
from posenc_compare.hf.sizes import geometry_of
from posenc_compare.hf.softcap import Capped
from posenc_compare.schemes import DOORS, Scheme, Variant
from posenc_compare.schemes.contract import ask_scale, ask_state
from posenc_compare.variants import labelled

# `flash`, `sdpa` or a slash in it would mean something to transformers.
NAME = "posenc_compare"
SCHEMES = "posenc_compare_schemes"  # the submodule that holds the schemes
OWNER = "posenc_compare_applied"  # on every module of attention


@dataclass
class _State:
    """What a scheme stored for the tokens of a cache.

    Attributes:
        state: `(batch, token, ...)`.
        last: the key of the last token, `(batch, key_heads, head_dim)`.
    """

    state: Tensor
    last: Tensor

    def fits(self, tokens: int, key: Tensor, past: int) -> bool:
        """Return whether so many tokens were stored, and the cache has not moved."""
        last = key[:, :, past - 1]
        known = self.state.shape[1] == tokens and last.shape == self.last.shape
        return known and torch.equal(last, self.last)


class Applied:
    """A scheme in a model, until `remove`; also a context manager.

    Args are those of `apply`.
    """

    def __init__(
        self,
        model: PreTrainedModel,
        scheme: str | Variant | Scheme,
        layers: Iterable[int] | None,
        keep_rotary: bool,
        length: int | None,
        generator: torch.Generator | None,
    ) -> None:
        places = places_of(model)
        if hasattr(model, SCHEMES):
            raise ConfigError(
                f"{type(model).__name__}: has a scheme already; remove() would work"
            )
        self.model = model
        self.keep_rotary = keep_rotary
        self.generator = generator
        self.places, self._every = _chosen(places, layers), places
        self.schemes = _made(scheme, model, len(places), length)
        self._check_schemes()
        self._layer = {place.attention: place for place in self.places}
        self._capped: dict[int, Capped] = {}
        self._tokens: dict[int, Tensor] = {}  # what attention of a layer is given
        self._caches: dict[int, Any] = {}
        self._states: WeakKeyDictionary[Any, dict[int, _State]]
        self._states = WeakKeyDictionary()
        self._hooks = self._hooked()
        self._before: str = model.config._attn_implementation or "eager"
        for place in places:
            setattr(place.attention, OWNER, self)
        AttentionInterface.register(NAME, attention)
        AttentionMaskInterface.register(NAME, masked)
        model.set_attn_implementation(NAME)
        model.add_module(SCHEMES, nn.ModuleList(dict.fromkeys(self.schemes)))

    def __enter__(self) -> "Applied":
        return self

    def __exit__(self, *_: object) -> None:
        self.remove()

    def remove(self) -> None:
        """Leave the model as it was: its rotary, its attention and its parameters."""
        for hook in self._hooks:
            hook.remove()
        self._hooks = []
        if getattr(self._every[0].attention, OWNER, None) is self:
            for place in self._every:
                delattr(place.attention, OWNER)
            delattr(self.model, SCHEMES)
            self.model.set_attn_implementation(self._before)

    def report(self) -> dict[str, Any]:
        """Return what was put where.

        Returns:
            `scheme`, its name; `layers`, their numbers; `doors` at which it acts;
            `rotary`, kept or neutral; `cache`, what the cache holds; `parameters`, how
            many the scheme has.
        """
        first = self.schemes[0]
        return {
            "scheme": first.name,
            "layers": [place.layer for place in self.places],
            "doors": [door for door in DOORS if first.acts_at(door)],
            "rotary": "kept" if self.keep_rotary else "neutral",
            "cache": "rotated keys" if self.keep_rotary else "raw keys",
            "parameters": sum(
                parameter.numel()
                for one in dict.fromkeys(self.schemes)
                for parameter in one.parameters()
            ),
        }

    def check(self, tokens: int = 64) -> dict[str, float]:
        """Check the model with the scheme on random tokens, in some seconds.

        Returns:
            The largest difference of logits that should be the same, by name:
            `causal` after later tokens have changed, `cached` read in three parts
            instead of one, `padded` with padding on the left, `alone` without the
            other row of the batch.

        Raises:
            CheckError: if one is larger than rounding.
        """
        return check(self.model, tokens)

    def attend(
        self,
        module: nn.Module,
        query: Tensor,
        key: Tensor,
        value: Tensor,
        mask: object,
        scaling: float | None,
        softcap: float | None,
    ) -> Tensor:
        """Return attention of one layer, `(batch, heads, query, head_dim)`."""
        place, found = self._layer[module], pass_of(mask)
        layer, scheme = place.layer, self.schemes[place.layer]
        session = self._session(found)
        keys = found.keys
        if key.shape[2] < keys:
            raise UnsupportedModelError(
                f"layer {layer}: must have the keys of its mask, {keys}, "
                f"got {key.shape[2]}"
            )
        key, value = key[:, :, :keys], value[:, :, :keys]
        if softcap is not None:
            if layer not in self._capped:
                self._capped[layer] = Capped(scheme, softcap)
            scheme = self._capped[layer]
        state = self._state(scheme, layer, found, key)
        if scaling is not None:
            query = query * (scaling / ask_scale(scheme, query.shape[-1]))
        return attend(session.plan, scheme, layer, query, key, value, state, "auto")

    def serves(self, module: nn.Module) -> bool:
        """Return whether a module is attention of a layer that has the scheme."""
        return module in self._layer

    def _session(self, found: Pass) -> Session:
        generator = self.generator if self.model.training else None
        return found.begin(self.schemes, generator)

    def _state(
        self, scheme: Scheme, layer: int, found: Pass, key: Tensor
    ) -> Tensor | None:
        """Return the state of all keys, and keep it beside the cache."""
        if not scheme.acts_at("token_state"):
            return None
        cache, before = self._caches[layer], found.tokens - found.queries
        if found.dropped:  # a state may look at tokens before, as that of PaTH does
            raise UnsupportedModelError(
                f"{scheme.name}: has a token state, and the cache of layer {layer} has "
                f"dropped keys; use_cache=False would work"
            )
        past = self._states.get(cache, {}).get(layer) if before else None
        if before and not (past and past.fits(before, key, found.past)):
            raise UnsupportedModelError(
                f"{scheme.name}: the cache must be filled by this model, token by "
                f"token, in one order; got other keys than it kept a state of"
            )
        with torch.autocast(key.device.type, enabled=False):
            state = ask_state(
                scheme, self._tokens[layer], past.state if past else None, found.tokens
            )
        assert state is not None
        if cache is not None:
            kept = self._states.setdefault(cache, {})
            kept[layer] = _State(state.detach(), key[:, :, -1].detach().clone())
        return state

    def _hooked(self) -> list[RemovableHandle]:
        hooks = []
        for place in self._every:
            enter = functools.partial(self._enter, place)
            hooks.append(place.block.register_forward_pre_hook(enter, with_kwargs=True))
        for place in self.places:
            prepare = functools.partial(self._prepare, place.layer)
            on = place.attention
            hooks.append(on.register_forward_pre_hook(prepare, with_kwargs=True))
        return hooks

    def _enter(
        self, place: Place, block: nn.Module, args: Any, kwargs: dict[str, Any]
    ) -> Any:
        """Keep what a layer is told of positions; before the first, embed tokens."""
        given = _named(type(block), args) | kwargs
        found = pass_of(given.get("attention_mask"))
        found.position_ids = given.get("position_ids")
        if place is not self._every[0] or not self.schemes[0].acts_at("embed"):
            return None
        x = self._session(found).embed(given["hidden_states"])
        if args:
            return (x, *args[1:]), kwargs
        return args, {**kwargs, "hidden_states": x}

    def _prepare(
        self, layer: int, module: nn.Module, args: Any, kwargs: dict[str, Any]
    ) -> Any:
        """Keep what attention is given, and make its rotary turn nothing."""
        given = _named(type(module), args) | kwargs
        self._tokens[layer] = given["hidden_states"]
        self._caches[layer] = given.get("past_key_values", given.get("layer_past"))
        if self.keep_rotary:
            return None
        pair = kwargs.get(ROTARY)
        if not isinstance(pair, tuple) or len(pair) != 2:
            raise UnsupportedModelError(
                f"layer {layer}: {ROTARY} must be cosines and sines, given by name, "
                f"got {type(pair).__name__}"
            )
        cos, sin = pair
        return args, {**kwargs, ROTARY: (torch.ones_like(cos), torch.zeros_like(sin))}

    def _check_schemes(self) -> None:
        """Refuse what a scheme asks for and the model cannot give."""
        first = self.schemes[0]
        if first.facts.axes != 1:
            raise ConfigError(
                f"{first.name}: needs positions of {first.facts.axes} axes, and a "
                f"language model has one"
            )
        if first.acts_at("embed") and len(self.places) != len(self.schemes):
            raise ConfigError(
                f"{first.name}: acts before the first layer, so layers must be all, "
                f"got {[place.layer for place in self.places]}"
            )


def apply(
    model: PreTrainedModel,
    scheme: str | Variant | Scheme,
    *,
    layers: Iterable[int] | None = None,
    keep_rotary: bool = False,
    length: int | None = None,
    generator: torch.Generator | None = None,
) -> Applied:
    """Put a scheme in the place of a model's rotary positions.

    The weights stay as they are; parameters of the scheme become parameters of the
    model. `save_pretrained` writes them, and transformers does not read them again.

    Args:
        model: a causal model whose attention goes through `AttentionInterface`, fresh
            or pretrained.
        scheme: a label such as `alibi` or `rope:base=500000`, a variant, or a scheme
            that was built for the model's sizes.
        layers: numbers of the layers that get the scheme; None: all. The others keep
            their rotary positions.
        keep_rotary: leave the rotary positions in those layers too.
        length: positions that a scheme of fixed size must cover; None: what the
            configuration says that the model is for.
        generator: of what a scheme draws while the model trains; on the CPU.

    Raises:
        UnsupportedModelError: if the model leaves a scheme no place to act.
        ConfigError: if the scheme, an option or a layer cannot be used.
    """
    return Applied(model, scheme, layers, keep_rotary, length, generator)


def attention(
    module: nn.Module,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attention_mask: Tensor | None,
    dropout: float = 0.0,
    scaling: float | None = None,
    **more: Any,
) -> tuple[Tensor, None]:
    """Return attention as transformers asks for it; registered by `apply`.

    Returns:
        `(batch, query, heads, head_dim)`, and no weights.
    """
    owner = getattr(module, OWNER, None)
    if not isinstance(owner, Applied):
        raise UnsupportedModelError(
            f"{type(module).__name__}: has no scheme; hf.apply(model, ...) would work"
        )
    if not owner.serves(module):
        out, _ = sdpa_attention_forward(
            module,
            query,
            key,
            value,
            attention_mask,
            dropout=dropout,
            scaling=scaling,
            **more,
        )
        return out, None
    if dropout or more.get("s_aux") is not None:
        what = "dropout" if dropout else "sinks (s_aux)"
        raise UnsupportedModelError(
            f"{type(module).__name__}: must have attention without {what}"
        )
    out = owner.attend(
        module, query, key, value, attention_mask, scaling, more.get("softcap")
    )
    return out.transpose(1, 2).contiguous(), None


def _chosen(places: Sequence[Place], layers: Iterable[int] | None) -> list[Place]:
    """Return the places of the layers that are asked for."""
    if layers is None:
        return list(places)
    wanted, known = sorted(set(layers)), {place.layer: place for place in places}
    if not wanted or not known.keys() >= set(wanted):
        raise ConfigError(
            f"layers must be from 0 to {max(known)}, at least one, got {wanted}"
        )
    return [known[layer] for layer in wanted]


def _made(
    scheme: str | Variant | Scheme,
    model: PreTrainedModel,
    layers: int,
    length: int | None,
) -> list[Scheme]:
    """Return the scheme of every layer, on the device of the model."""
    if isinstance(scheme, Scheme):
        if scheme.facts.per_layer:
            raise ConfigError(
                f"{scheme.name}: has parameters for each layer, so it must be given "
                f"by its label, got one scheme; {scheme.name!r} would work"
            )
        return [scheme] * layers
    variant = labelled(scheme) if isinstance(scheme, str) else scheme
    geometry = geometry_of(model.config.get_text_config(), length)
    first: Scheme = variant.build(geometry)
    built = [first] * layers
    if first.facts.per_layer:
        others = (replace(geometry, layer=i) for i in range(1, layers))
        built = [first, *map(variant.build, others)]
    return [one.to(model.device) for one in built]


@functools.cache
def _parameters(kind: type[nn.Module]) -> list[str]:
    return [*inspect.signature(kind.forward).parameters][1:]


def _named(kind: type[nn.Module], args: Sequence[Any]) -> dict[str, Any]:
    """Return what is given by place, by the name of its parameter."""
    return dict(zip(_parameters(kind), args, strict=False))
