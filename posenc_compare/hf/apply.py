"""Put a positional scheme into a Hugging Face causal model, and take it out again.

Every chosen layer gets rotary tables that turn nothing, so keys come to the cache as
they were projected, and its attention goes through `posenc_compare.attention`. Which
module belongs to which scheme is known to the modules, and never to a name.
"""

import functools
import inspect
import math
import operator
import sys
from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any

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
from posenc_compare.hf.measure import neutral, rotating_layers
from posenc_compare.hf.passes import Pass, masked, pass_of, uncompiled
from posenc_compare.hf.places import ROTARY, Place, UnsupportedModelError, places_of
from posenc_compare.hf.sizes import geometry_of
from posenc_compare.hf.softcap import Capped
from posenc_compare.hf.states import States, cache_name
from posenc_compare.schemes import DOORS, Scheme, Variant
from posenc_compare.validate import check_whole
from posenc_compare.variants import labelled

# `flash`, `sdpa` or a slash in it would mean something to transformers.
NAME = "posenc_compare"
SCHEMES = "posenc_compare_schemes"  # the submodule that holds the schemes
OWNER = "posenc_compare_applied"  # on every module of attention
EAGER = "eager_attention_forward"  # of every modelling file


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
        _check_free(model, places)
        self.model = model
        self.keep_rotary = keep_rotary
        self.generator = generator
        if layers is None and not keep_rotary:
            layers = rotating_layers(model)
        self.places, self._every = _chosen(places, layers), places
        self.schemes = _made(scheme, model, 1 + places[-1].layer, length)
        self._check_schemes()
        self._layer = {place.attention: place for place in self.places}
        self._capped: dict[int, Capped] = {}
        # What attention of a layer is given, until it is done: its input, its cache.
        self._given: dict[int, tuple[Tensor, Any]] = {}
        self._states = States()
        self._begun: Tensor | None = None  # the generator's, at the first layer
        self.before: str = model.config._attn_implementation or "eager"
        AttentionInterface.register(NAME, attention)
        AttentionMaskInterface.register(NAME, masked)
        model.set_attn_implementation(NAME)
        self._hooks = self._hooked()
        for place in places:
            setattr(place.attention, OWNER, self)
        model.add_module(SCHEMES, nn.ModuleList(self._own))

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
            self.model.set_attn_implementation(self.before)

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
            "parameters": sum(p.numel() for one in self._own for p in one.parameters()),
        }

    @property
    def _own(self) -> list[Scheme]:
        """Return the schemes of the layers that have one, each once."""
        return list(dict.fromkeys(self.schemes[place.layer] for place in self.places))

    def check(self, tokens: int = 0) -> dict[str, float]:
        """Check the model with the scheme on random tokens, in some seconds.

        Args:
            tokens: of a text, at least 8; 0: 64, or fewer if the model is for fewer.

        Returns:
            The largest difference of logits that should be the same, by name:
            `causal` after later tokens have changed, `cached` read in three parts
            instead of one, `padded` with padding on the left, `alone` without the
            other row of the batch.

        Raises:
            CheckError: if one is larger than rounding.
            ConfigError: if the tokens are too few.
        """
        return check(self.model, tokens)

    # Sessions are looked up and compared, which is no work for a compiler.
    @uncompiled
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
        x, cache = self._given.pop(layer)
        state = self._states.extended(scheme, layer, x, key, cache, found)
        # A model with another scale is one with the usual scale and other queries.
        head_dim = query.shape[-1]
        gain = scheme.query_init_gain(head_dim)
        gain *= 1.0 if scaling is None else scaling * head_dim**0.5
        if not math.isclose(gain, 1):
            query = query * gain
        return attend(session.plan, scheme, layer, query, key, value, state, "auto")

    def serves(self, module: nn.Module) -> bool:
        """Return whether a module is attention of a layer that has the scheme."""
        return module in self._layer

    def _session(self, found: Pass) -> Session:
        """Return the session of a pass; masks of one pass see the same draws."""
        if self._begun is None or not self.model.training:
            return found.begin(self.schemes, None)
        generator = torch.Generator()
        generator.set_state(self._begun)
        return found.begin(self.schemes, generator)

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

    @uncompiled
    def _enter(
        self, place: Place, block: nn.Module, args: Any, kwargs: dict[str, Any]
    ) -> Any:
        """Keep what a layer is told of positions; before the first, embed tokens."""
        given = _named(type(block), args) | kwargs
        found = pass_of(given.get("attention_mask"))
        found.told(given.get("position_ids"))
        if place is self._every[0] and self.generator and found.session is None:
            self._begun = self.generator.get_state()
            torch.randint(2, (1,), generator=self.generator)  # another in the next pass
        if place is not self._every[0] or not self.schemes[0].acts_at("embed"):
            return None
        x = self._session(found).embed(given["hidden_states"])
        if args:
            return (x, *args[1:]), kwargs
        return args, {**kwargs, "hidden_states": x}

    @uncompiled
    def _prepare(
        self, layer: int, module: nn.Module, args: Any, kwargs: dict[str, Any]
    ) -> Any:
        """Keep what attention is given, and make its rotary turn nothing."""
        given = _named(type(module), args) | kwargs
        self._given[layer] = given["hidden_states"], given.get(cache_name(given))
        if self.keep_rotary:
            return None
        try:
            return args, {**kwargs, ROTARY: neutral(kwargs.get(ROTARY))}
        except UnsupportedModelError as error:
            raise UnsupportedModelError(f"layer {layer}: {error}") from None

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
                f"{first.name}: acts before the first layer, so all layers must have "
                f"it, got {[place.layer for place in self.places]}"
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
        layers: numbers of the layers that get the scheme; None: those that rotate
            queries and keys, or all if none does or `keep_rotary`. The others stay as
            they are.
        keep_rotary: leave the rotary positions in those layers too.
        length: positions that a scheme of fixed size must cover; None: what the
            configuration says that the model is for.
        generator: of what a scheme draws while the model trains; on the CPU.

    Raises:
        UnsupportedModelError: if the model leaves a scheme no place to act.
        ConfigError: if the scheme, an option or a layer cannot be used.
    """
    _check_kinds(scheme, generator)
    if length is not None:
        check_whole("length", length, 1, 1 << 24)
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
        plain: Any = sdpa_attention_forward
        if owner.before == "eager":
            plain = getattr(sys.modules[type(module).__module__], EAGER, plain)
            assert attention_mask is not None
            hidden = torch.finfo(query.dtype).min
            seen = attention_mask[..., : key.shape[2]]
            attention_mask = torch.zeros_like(seen, dtype=query.dtype)
            attention_mask = attention_mask.masked_fill(~seen, hidden)
        more |= {"dropout": dropout, "scaling": scaling}
        return plain(module, query, key, value, attention_mask, **more)[0], None
    if dropout or more.get("s_aux") is not None:
        what = "dropout" if dropout else "sinks (s_aux)"
        raise UnsupportedModelError(
            f"{type(module).__name__}: must have attention without {what}"
        )
    out = owner.attend(
        module, query, key, value, attention_mask, scaling, more.get("softcap")
    )
    return out.transpose(1, 2).contiguous(), None


def _check_kinds(scheme: object, generator: object) -> None:
    """Refuse what is none of the kinds that `apply` takes.

    Raises:
        ConfigError: if it is one of others.
    """
    if not isinstance(scheme, str | Variant | Scheme):
        raise ConfigError(
            f"scheme must be a label, a variant or a scheme, got "
            f"{type(scheme).__name__}; 'alibi' would work"
        )
    if generator is not None and not isinstance(generator, torch.Generator):
        raise ConfigError(
            f"generator must be a torch.Generator or None, got "
            f"{type(generator).__name__}"
        )


def _check_free(model: PreTrainedModel, places: Sequence[Place]) -> None:
    """Refuse a model that has a scheme, or shares its configuration with one."""
    name = type(model).__name__
    if any(hasattr(place.attention, OWNER) for place in places):
        raise ConfigError(f"{name}: has a scheme already; remove() would work")
    if model.config._attn_implementation == NAME:
        raise ConfigError(
            f"{name}: shares its configuration with a model that has a scheme; one "
            f"built from copy.deepcopy(config) would work"
        )


def _chosen(places: Sequence[Place], layers: Iterable[int] | None) -> list[Place]:
    """Return the places of the layers that are asked for."""
    if layers is None:
        return list(places)
    known = {place.layer: place for place in places}
    wanted = list(layers) if isinstance(layers, Iterable) else [layers]
    whole = isinstance(layers, Iterable) and not any(
        isinstance(one, bool) or not hasattr(one, "__index__") for one in wanted
    )
    wanted = [operator.index(one) for one in wanted] if whole else wanted
    if not wanted or not whole or not known.keys() >= set(wanted):
        raise ConfigError(
            f"layers must be from 0 to {max(known)}, at least one, got {layers!r}; "
            f"[0] would work"
        )
    return [known[layer] for layer in sorted(set(wanted))]


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
    return [one.to(model.device).train(model.training) for one in built]


@functools.cache
def _parameters(kind: type[nn.Module]) -> list[str]:
    return [*inspect.signature(kind.forward).parameters][1:]


def _named(kind: type[nn.Module], args: Sequence[Any]) -> dict[str, Any]:
    """Return what is given by place, by the name of its parameter."""
    return dict(zip(_parameters(kind), args, strict=False))
