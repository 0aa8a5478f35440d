"""A positional scheme inside a Hugging Face causal model.

Every chosen layer gets rotary tables that rotate nothing, so keys come to the cache as
they were projected, and its attention goes through `posenc_compare.attention`. Which
module belongs to which scheme is known to the modules, and never to a name.
"""

import functools
import inspect
import math
import operator
import sys
import uuid
from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils.hooks import RemovableHandle
from transformers import AttentionInterface, PreTrainedModel
from transformers.integrations.sdpa_attention import sdpa_attention_forward
from transformers.masking_utils import AttentionMaskInterface

from posenc_compare.attention.layer import Step
from posenc_compare.errors import ConfigError
from posenc_compare.hf.candidates import geometry_of, with_original
from posenc_compare.hf.layers import (
    GIVEN,
    LAYER,
    SCHEMES,
    Given,
    Layer,
    Schemes,
    layer_of,
)
from posenc_compare.hf.measure import neutral, rotating_layers
from posenc_compare.hf.passes import Capped, check_real, masked, pass_of, uncompiled
from posenc_compare.hf.places import (
    ROTARY,
    WOULD_WORK,
    Place,
    UnsupportedModelError,
    check_interface,
    device_of,
    places_of,
)
from posenc_compare.hf.readings import check_applied
from posenc_compare.hf.states import cache_name, extended
from posenc_compare.schemes import HOOKS, Scheme, Variant
from posenc_compare.validate import check_whole
from posenc_compare.variants import labelled

# `flash`, `sdpa` or a slash in it would mean something to transformers.
NAME = "posenc_compare"
APPLIED = "posenc_compare_applied"  # on the model
EAGER = "eager_attention_forward"  # of every modelling file
REFUSED = {  # what attention is given, by name
    "dropout": "dropout",
    "s_aux": "sinks (s_aux)",
    "position_bias": "a bias of its own (position_bias)",
}


class Applied:
    """A scheme in a model, until `remove`; also a context manager.

    A copy of the model has one of its own, as `copy.posenc_compare_applied`.

    Args are those of `apply`. No logits are compared.
    """

    def __init__(
        self,
        model: PreTrainedModel,
        scheme: str | Variant | Scheme,
        layers: Iterable[int] | None = None,
        keep_rotary: bool = False,
        length: int | None = None,
        generator: torch.Generator | None = None,
    ) -> None:
        _check_kinds(scheme, generator)
        if length is not None:
            check_whole("length", length, 1, 1 << 24)
        places = places_of(model)
        _check_free(model, places)
        self.model = model
        self.keep_rotary = keep_rotary
        chosen = layers
        if layers is None and not keep_rotary:
            chosen = rotating_layers(model)
        self.places, self._every = _chosen(places, chosen), places
        check_interface(model, self.places)
        if isinstance(scheme, str):
            scheme = labelled(scheme)
        if isinstance(scheme, Variant):
            scheme = with_original(scheme, model.config.get_text_config())
        made = _made(scheme, model, self.places, length)
        if layers is None and made[0].acts_at("embed"):  # which all layers see
            self.places = list(places)
            made = _made(scheme, model, self.places, length)
        self.schemes = made  # of the chosen layers, in their order
        built = isinstance(scheme, Scheme)
        self.label = scheme.built_label or scheme.name if built else scheme.label
        self._check_schemes()
        self.before: str = model.config._attn_implementation or "eager"
        model.set_attn_implementation(NAME)
        own = list(dict.fromkeys(made))
        index = dict(zip(self.places, map(own.index, made), strict=True))
        held = Schemes(own, device_of(self.places[0].attention))
        model.add_module(SCHEMES, held)
        owner = uuid.uuid4().hex
        for place in places:
            layer = Layer(
                place.layer,
                index.get(place),
                place is self.places[0],
                held,
                keep_rotary=keep_rotary,
                generator=generator,
                before=self.before,
                owner=owner,
            )
            place.attention.add_module(LAYER, layer.train(place.attention.training))
        self._hooks = self._hooked()
        setattr(model, APPLIED, self)

    def __enter__(self) -> "Applied":
        return self

    def __exit__(self, *_: object) -> None:
        self.remove()

    def remove(self) -> None:
        """Leave the model as it was: its rotary, its attention and its parameters.

        Copies of the model keep the scheme.
        """
        for hook in self._hooks:
            hook.remove()
        self._hooks = []
        if getattr(self.model, APPLIED, None) is self:
            for place in self._every:
                delattr(place.attention, LAYER)
            delattr(self.model, APPLIED)
            delattr(self.model, SCHEMES)
            self.model.set_attn_implementation(self.before)

    def __repr__(self) -> str:
        return f"Applied({self.label}, {len(self.places)} layers)"

    def report(self) -> dict[str, Any]:
        """Return what was put where.

        Returns:
            `scheme`, its label, or the name of one that was built from its class;
            `layers`, their numbers; `hooks` at which it acts; `rotary`, kept or
            neutral; `cache`, what the cache holds; `parameters`, how many the scheme
            has.
        """
        first = self.schemes[0]
        own = dict.fromkeys(self.schemes)
        return {
            "scheme": self.label,
            "layers": [place.layer for place in self.places],
            "hooks": [hook for hook in HOOKS if first.acts_at(hook)],
            "rotary": "kept" if self.keep_rotary else "neutral",
            "cache": "rotated keys" if self.keep_rotary else "raw keys",
            "parameters": sum(p.numel() for one in own for p in one.parameters()),
        }

    def check(self, tokens: int = 0) -> dict[str, float]:
        """Check the model with the scheme on random tokens, in some seconds.

        Args:
            tokens: of a text, at least 8; 0: 64, or fewer if the model is for fewer.

        Returns:
            The largest difference of logits that should be the same, by name:
            `causal` after later tokens have changed, `cached` read in three parts
            instead of one, `padded` with padding on the left, `alone` without the
            other row of the batch. Those whose arguments the model does not take are
            left out.

        Raises:
            CheckError: if one is larger than rounding.
            ConfigError: if the tokens are too few.
        """
        return check_applied(self.model, tokens)

    def _hooked(self) -> list[RemovableHandle]:
        # Some of transformers looks at values before it asks for a mask.
        hooks = [self.model.get_input_embeddings().register_forward_hook(_embedded)]
        for place in self.places:
            enter = functools.partial(_enter, place.name)
            on, block = place.attention, place.block
            hooks.append(block.register_forward_pre_hook(enter, with_kwargs=True))
            hooks.append(on.register_forward_pre_hook(_prepare, with_kwargs=True))
            hooks.append(on.register_forward_hook(_finish, with_kwargs=True))
        return hooks

    def _check_schemes(self) -> None:
        """Refuse what a scheme asks for and the model cannot give."""
        first = self.schemes[0]
        if first.facts.axes != 1:
            raise ConfigError(
                f"{first.name}: needs positions of {first.facts.axes} axes, and a "
                f"language model has one"
            )
        if not first.acts_at("embed"):
            return
        if len(self.places) != len(self._every):
            raise ConfigError(
                f"{first.name}: acts before the first layer, so all layers must have "
                f"it, got {[place.layer for place in self.places]}"
            )
        if self.places[0].layer:
            raise UnsupportedModelError(
                f"{type(self.model).__name__}: must begin with a layer of attention "
                f"for {first.name}, which acts before the first layer; rope would work"
            )


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
    """Return attention without weights, as transformers asks for it under `NAME`.

    The shape is `(batch, query, heads, head_dim)`.
    """
    layer = layer_of(module)
    if layer.index is None:
        plain: Any = sdpa_attention_forward
        if layer.before == "eager":
            plain = getattr(sys.modules[type(module).__module__], EAGER, plain)
            assert attention_mask is not None
            hidden = torch.finfo(query.dtype).min
            seen = attention_mask[..., : key.shape[2]]
            attention_mask = torch.zeros_like(seen, dtype=query.dtype)
            attention_mask = attention_mask.masked_fill(~seen, hidden)
        more |= {"dropout": dropout, "scaling": scaling}
        return plain(module, query, key, value, attention_mask, **more)[0], None
    for name, what in REFUSED.items():
        if more.get(name) is not None or (dropout and name == "dropout"):
            raise UnsupportedModelError(
                f"{type(module).__name__}: must have attention without {what}"
            )
    softcap = more.get("softcap")
    out = attend(module, query, key, value, attention_mask, scaling, softcap)
    return out.transpose(1, 2).contiguous(), None


# Sessions are looked up and compared, which is no work for a compiler.
@uncompiled
def attend(
    module: nn.Module,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    mask: Tensor | None,
    scaling: float | None,
    softcap: float | None,
) -> Tensor:
    """Return attention of one layer, `(batch, heads, query, head_dim)`."""
    given = getattr(mask, GIVEN, None)
    if not isinstance(given, Given) or given.layer is not layer_of(module):
        raise UnsupportedModelError(
            f"{type(module).__name__}: must pass on the attention_mask it "
            f"receives, got another; layers=[...] without it would work"
        )
    layer, now, keys = given.layer, given.now, given.now.keys
    if key.shape[2] < keys:
        raise UnsupportedModelError(
            f"layer {layer.number}: must have the keys of its mask, {keys}, got "
            f"{key.shape[2]}"
        )
    key, value = key[:, :, :keys], value[:, :, :keys]
    scheme = layer.scheme(query.device)
    session = now.begin(layer.every_scheme(query.device))
    if not given.used:  # some ask for attention twice, with other values
        given.state = extended(scheme, given, key)
        given.used = True
    if softcap is not None:
        scheme = now.capped.setdefault(scheme, Capped(scheme, softcap))
    # A model with another scale is one with the usual scale and other queries.
    head_dim = query.shape[-1]
    gain = scheme.query_init_gain(head_dim)
    gain *= 1.0 if scaling is None else scaling * head_dim**0.5
    if not math.isclose(gain, 1):
        query = query * gain
    number, state = layer.number, given.state
    step = Step(session.plan, scheme, number, query, key, value, state)
    return step.attend("auto")


# A pickled model is unpickled where no `apply` was called, so it is done on import.
AttentionInterface.register(NAME, attention)
AttentionMaskInterface.register(NAME, masked)


def _embedded(_: nn.Module, args: object, x: Tensor) -> None:
    check_real(x)


@uncompiled
def _enter(name: str, block: nn.Module, args: Any, kwargs: dict[str, Any]) -> Any:
    """Store the position ids of a layer; before the first layer, embed tokens."""
    layer = layer_of(getattr(block, name))
    given = _named(block, args, kwargs)
    x = given["hidden_states"]
    now = pass_of(given.get("attention_mask"))
    now.told(given.get("position_ids"))
    if not layer.first:
        return None
    if now.session is None:
        now.draw(layer.generator if layer.training else None)
    schemes = layer.every_scheme(x.device)
    if layer.keep_rotary:
        now.check_counted(schemes)
    if not schemes[0].acts_at("embed"):
        return None
    x = now.begin(schemes).embed(x)
    # Checkpoints of activations look for gradients among what is given by place.
    return ((x, *args[1:]), kwargs) if args else ((), {**kwargs, "hidden_states": x})


@uncompiled
def _prepare(module: nn.Module, args: Any, kwargs: dict[str, Any]) -> Any:
    """Pass the input of a layer on to its attention, with neutral rotary tables."""
    layer = layer_of(module)
    given = _named(module, args, kwargs)
    now, x = pass_of(given.get("attention_mask")), given["hidden_states"]
    given["attention_mask"] = Given(layer, now, x, given.get(cache_name(given))).put()
    if not layer.keep_rotary:
        try:
            given[ROTARY] = neutral(given.get(ROTARY))
        except UnsupportedModelError as error:
            raise UnsupportedModelError(f"layer {layer.number}: {error}") from None
    if args and args[0] is x:  # other hooks may look for it there
        return (given.pop("hidden_states"),), given
    return (), given


@uncompiled
def _finish(module: nn.Module, args: Any, kwargs: dict[str, Any], _: object) -> None:
    """Refuse attention that was computed without the scheme."""
    given = getattr(kwargs.get("attention_mask"), GIVEN, None)
    if not isinstance(given, Given) or not given.used:
        raise UnsupportedModelError(
            f"{type(module).__name__}: did not ask for attention in layer "
            f"{layer_of(module).number}; layers=[...] without it would work"
        )


def _check_kinds(scheme: object, generator: object) -> None:
    """Refuse arguments of types that `apply` does not take."""
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
    if any(hasattr(place.attention, LAYER) for place in places):
        raise ConfigError(
            f"{name}: has a scheme already; remove() would work, of what hf.apply "
            f"returned or model.{APPLIED}"
        )
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
    wanted = list(layers) if isinstance(layers, Iterable) else []
    if any(isinstance(one, bool) or not hasattr(one, "__index__") for one in wanted):
        wanted = []
    wanted = sorted({*map(operator.index, wanted)})
    if not wanted or not known.keys() >= {*wanted}:
        raise ConfigError(
            f"layers must be from 0 to {max(known)}, at least one, got {layers!r}; "
            f"[0] would work"
        )
    return [known[layer] for layer in wanted]


def _made(
    scheme: Variant | Scheme,
    model: PreTrainedModel,
    places: Sequence[Place],
    length: int | None,
) -> list[Scheme]:
    """Return the scheme of every chosen layer, on the device of its attention."""
    if isinstance(scheme, Scheme):
        if scheme.facts.per_layer:
            raise ConfigError(
                f"{scheme.name}: has parameters for each layer, so it must be given "
                f"by its label, got one scheme; {scheme.name!r} would work"
            )
        made = [scheme] * len(places)
    else:
        try:
            geometry = geometry_of(model.config.get_text_config(), length)
        except RuntimeError as error:  # a size that differs by layer
            raise UnsupportedModelError(
                f"{type(model).__name__}: must have heads of one size in all layers, "
                f"got a configuration with several; {WOULD_WORK}"
            ) from error
        first: Scheme = scheme.build(geometry)
        made = [first] * len(places)
        if first.facts.per_layer:
            sizes = [replace(geometry, layer=place.layer) for place in places]
            made = [scheme.build(size) for size in sizes]
    for one, place in zip(reversed(made), reversed(places), strict=True):
        one.to(device_of(place.attention)).train(model.training)
    return made


@functools.cache
def _parameters(kind: type[nn.Module]) -> list[str]:
    return [*inspect.signature(kind.forward).parameters][1:]


def _named(module: nn.Module, args: Any, kwargs: dict[str, Any]) -> dict[str, Any]:
    """Return the arguments of a call, all of them by the names of their parameters."""
    return dict(zip(_parameters(type(module)), args, strict=False)) | kwargs
