"""Ways to read the same tokens that must give the same outputs of a model.

Each reading returns outputs, and those that they must equal: of the whole texts in one
pass, without a cache and without padding.
"""

import inspect
import math
from collections.abc import Callable, Iterator
from contextlib import ExitStack, suppress
from functools import cached_property, partial
from typing import Any

import torch
from torch import Tensor, nn
from transformers import MODEL_FOR_CAUSAL_LM_MAPPING as CAUSAL
from transformers import Cache, GenerationConfig, PreTrainedModel, StaticCache

from posenc_compare.errors import ConfigError, PosencError
from posenc_compare.hf.candidates import config_length, length_limits
from posenc_compare.hf.measure import evaluating, layers_of
from posenc_compare.hf.places import UnsupportedModelError
from posenc_compare.hf.states import CACHES, cache_name

LEAST = 8  # tokens that can be cut in half, and in quarters
MOST = 64  # tokens that are read by default
NEW = 3  # tokens that are generated
OF_A_SCHEME = ("causal", "cached", "padded", "alone")
ATTENTION = ("full_attention", "sliding_attention", "chunked_attention")
NO_IDS = "takes no position_ids"
NO_MASK = "takes no attention_mask"
SPREAD = 0.1  # of outputs: the bound of large models in half precision


class CheckError(PosencError):
    """A model with a scheme sees the future, or forgets the past."""


STOCK = ("transformers.", "torch.")  # modules of classes that are no port


class NotApplicableError(Exception):
    """A reading that this model does not take, and why."""


class FaultError(Exception):
    """What a model does wrong in a reading, if it is known without its outputs."""


def arguments_of(model: nn.Module) -> set[str]:
    """Return the names of what `forward` takes.

    If it takes `**kwargs`, these include the arguments of the methods it overrides.
    """
    found: set[str] = set()
    kinds = [kind for kind in type(model).__mro__ if "forward" in vars(kind)]
    above = [kind.forward for kind in kinds]  # type: ignore[attr-defined]
    for forward in (model.forward, *above):
        parameters = inspect.signature(forward).parameters.values()
        found |= {one.name for one in parameters}
        if all(one.kind != one.VAR_KEYWORD for one in parameters):
            break
    return found


class Reader:
    """Reads two rows of random tokens with a model in evaluation mode.

    Args are those of `check`.
    """

    def __init__(self, model: Any, tokens: int = 0, causal: bool | None = None) -> None:
        self.model = model
        self.config = config = model.config.get_text_config()
        self.causal = is_causal(model) if causal is None else causal
        tokens = tokens_of(config, tokens)
        self.tokens, self.half, self.quarter = tokens, tokens // 2, tokens // 4
        self.parts = [self.half, tokens - self.half - 1, 1]  # read with a cache
        self.arguments = arguments_of(model)
        named = inspect.signature(model.forward).parameters
        own = self.arguments & named.keys()  # before what `**kwargs` may take
        self.cache = cache_name(own if {*CACHES} & own else self.arguments)
        pad = getattr(config, "pad_token_id", None)
        self.pad = pad if isinstance(pad, int) and pad >= 0 else None
        named = [v for n, v in vars(config).items() if n.endswith("_token_id")]
        special = [t for v in named for t in (v if isinstance(v, list) else [v])]
        known = [one for one in range(config.vocab_size) if one not in special]
        draw = torch.Generator().manual_seed(0)
        ids = torch.randint(len(known), (2, tokens), generator=draw)
        device = next(model.parameters()).device
        self.other = torch.tensor(known)[(ids + 1) % len(known)].to(device)
        self.ids = torch.tensor(known)[ids].to(device)
        self.counted = torch.arange(tokens, device=device).expand(2, -1)
        self.arguments -= self._set_by_model()
        self.full = self.read(self.ids)
        if self.full.shape[:-1] != self.ids.shape:
            raise no_outputs(f"{tuple(self.full.shape)} of {type(model).__name__}")
        if self._ignores_ids():
            self.arguments.discard("position_ids")

    @property
    def bound(self) -> float:
        """Return the largest difference that rounding explains.

        A layer has four sums of rounded products one after another, each of about
        `hidden_size`. The bound is at most a tenth of the largest output, also for
        large models in half precision.
        """
        width, layers = self.config.hidden_size, self.config.num_hidden_layers
        rounding = self._eps * math.sqrt(width) * 4 * layers
        return min(rounding, SPREAD) * float(self.full.abs().max())

    @cached_property
    def amplified(self) -> float:
        """Return the largest difference that amplified rounding errors may explain.

        Modules without parts round differently once. Other faults may be as small.
        """
        return min(4 * self._rounded(), SPREAD * float(self.full.abs().max()))

    @property
    def _eps(self) -> float:
        """Return the rounding of one number; float64 has softmax in float32."""
        dtype = next(self.model.parameters()).dtype
        return max(torch.finfo(dtype).eps, torch.finfo(torch.float32).eps)

    def _rounded(self) -> float:
        """Return how far outputs move if modules without parts round differently."""
        draw = torch.Generator().manual_seed(0)

        def rounds(module: nn.Module, given: object, made: object) -> object:
            if not isinstance(made, Tensor) or not made.is_floating_point():
                return made
            noise = torch.randn(made.shape, generator=draw).to(made)
            return made * (1 + self._eps * noise)

        parts = [m for m in self.model.modules() if not [*m.children()]]
        with ExitStack() as stack:
            for part in parts:
                stack.callback(part.register_forward_hook(rounds).remove)
            return apart(self.read(self.ids), self.full)

    @cached_property
    def start(self) -> int | None:
        """Return the id of the first position; None if ids are not taken as such."""
        if "position_ids" not in self.arguments:
            return None
        for first in (0, (self.pad or 0) + 1):  # as RoBERTa counts
            try:
                made = self.read(self.ids, position_ids=self.counted + first)
            except Exception:  # ids of several axes, or a table that is too short
                continue
            if apart(made, self.full) <= self.bound:
                return first
        return None

    def _set_by_model(self) -> set[str]:
        """Return the arguments that the model sets itself, beside its `**kwargs`."""
        values = {
            "attention_mask": torch.ones_like(self.ids),
            "position_ids": self.counted,
            "use_cache": False,
            self.cache: None,
        }
        found = set()
        named = inspect.signature(self.model.forward).parameters.keys()
        for name in self.arguments & values.keys() - named:
            try:
                self.model(self.ids, **{name: values[name]})
            except TypeError:  # it is given twice
                found.add(name)
            except Exception:  # ids of several axes
                continue
        return found

    def _ignores_ids(self) -> bool:
        """Return whether the model takes ids by `**kwargs` and reads none of them."""
        if "position_ids" in inspect.signature(self.model.forward).parameters:
            return False
        try:
            made = self.read(self.ids, position_ids=self.counted.flip(1))
        except Exception:  # ids of several axes
            return False
        return apart(made, self.full) <= self.bound

    def at(self, positions: Tensor) -> dict[str, Tensor]:
        """Return positions as an argument; raise if the model does not take them."""
        if self.start is None:
            raise NotApplicableError(NO_IDS)
        return {"position_ids": positions + self.start}

    def read(self, texts: Tensor, **given: Tensor) -> Tensor:
        """Return outputs `(row, token, ...)` of whole texts, ids or embeddings."""
        if "use_cache" in self.arguments:
            given["use_cache"] = False  # type: ignore[assignment]
        return outputs(self._made(texts, **given))

    def _made(self, texts: Tensor, **given: Any) -> Any:
        if texts.is_floating_point():
            return self.model(inputs_embeds=texts, **given)
        return self.model(texts, **given)

    def in_parts(
        self, texts: Tensor, parts: list[int], cache: Any = None, **given: Tensor
    ) -> Tensor:
        """Return outputs of texts that are read in parts; see `each_part`."""
        return torch.cat([*self.each_part(texts, parts, cache, **given)], dim=1)

    def each_part(
        self, texts: Tensor, parts: list[int], cache: Any = None, **given: Tensor
    ) -> Iterator[Tensor]:
        """Yield outputs of each part of texts, read with a cache.

        Without a cache the model makes one; `given` are arguments of whole texts.
        """
        name, end = self.cache, 0
        self.check_cache()
        for part in texts.split(parts, dim=1):
            begin, end = end, end + part.shape[1]
            more = {n: v[:, begin:end] for n, v in given.items()}
            if "attention_mask" in given:  # of all keys
                more["attention_mask"] = given["attention_mask"][:, :end]
            out = self._made(part, use_cache=True, **{name: cache}, **more)
            made = [out.get(n) for n in CACHES] if isinstance(out, dict) else []
            cache = next((one for one in made if one is not None), None)
            if cache is None:
                raise NotApplicableError("returns no cache of keys")
            if isinstance(cache, Cache) and not cache.get_seq_length():
                raise FaultError("no layer added keys to the cache")
            yield outputs(out)

    def check_cache(self) -> None:
        """Raise if the model takes no cache."""
        if not {self.cache, "use_cache"} <= self.arguments or not self.causal:
            raise NotApplicableError("takes no cache of keys")

    def padded(self, share: float) -> tuple[Tensor, dict[str, Tensor]]:
        """Return two texts, the first of them padded, and their mask and positions.

        Its padding comes after this share of its tokens. The second is as long as the
        first with its padding.
        """
        if "attention_mask" not in self.arguments:
            raise NotApplicableError(NO_MASK)
        first, second = self.ids[:1], self.ids[1:]
        more, at = first[:, : self.quarter], int(self.tokens * share)
        filler = more if self.pad is None else torch.full_like(more, self.pad)
        row = torch.cat([first[:, :at], filler, first[:, at:]], dim=1)
        long = torch.cat([second[:, : self.quarter], second], dim=1)
        real = torch.ones_like(long).repeat(2, 1)
        real[0, at : at + self.quarter] = 0
        positions = (real.cumsum(dim=1) - 1).clamp(min=0)
        given = self.at(positions) if self.start == 0 else {}  # RoBERTa counts itself
        return torch.cat([row, long]), {"attention_mask": real, **given}

    def static(self) -> StaticCache:
        """Return a cache of fixed size, with more room than texts need."""
        if not getattr(self.model, "_can_compile_fullgraph", False):
            raise NotApplicableError("its class states no support of a static cache")
        room = self.tokens + 2 * self.quarter
        return StaticCache(config=self.model.config, max_cache_len=room)


Reading = Callable[[Reader], tuple[Tensor, Tensor]]
Compared = tuple[float, float, str]  # the largest difference, its bound, and where


def _causal(r: Reader) -> tuple[Tensor, Tensor]:
    if not r.causal:
        raise NotApplicableError("an encoder: tokens look ahead")
    ids = torch.cat([r.ids[:, : r.half], r.other[:, r.half :]], dim=1)
    return r.read(ids)[:, : r.half], r.full[:, : r.half]


def _cached(r: Reader) -> tuple[Tensor, Tensor]:
    return r.in_parts(r.ids, r.parts), r.full


def _stepwise(r: Reader) -> tuple[Tensor, Tensor]:
    parts = [1, r.half - 1] + [1] * (r.tokens - r.half)
    return r.in_parts(r.ids, parts), r.full


def _offset(r: Reader) -> tuple[Tensor, Tensor]:
    given = r.at(r.counted + r.quarter)
    return r.in_parts(r.ids, r.parts, **given), r.read(r.ids, **given)


def _static(r: Reader) -> tuple[Tensor, Tensor]:
    return r.in_parts(r.ids, r.parts, r.static()), r.full


def _padded(r: Reader, *, share: float) -> tuple[Tensor, Tensor]:
    ids, given = r.padded(share)
    real = given["attention_mask"][0].bool()
    return r.read(ids, **given)[:, real], _unpadded(r, ids, real)


def _padded_cached(
    r: Reader, *, share: float = 0, static: bool = False, places: bool = True
) -> tuple[Tensor, Tensor]:
    """Read padded texts in parts; without `places` the mask alone shows padding."""
    ids, given = r.padded(share)
    real = given["attention_mask"][0].bool()
    if not places and given.pop("position_ids", None) is None:
        raise NotApplicableError(NO_IDS)
    parts = [r.half + r.quarter, r.tokens - r.half - 2, 1, 1]
    cache = r.static() if static else None
    return r.in_parts(ids, parts, cache, **given)[:, real], _unpadded(r, ids, real)


def _unpadded(r: Reader, ids: Tensor, real: Tensor) -> Tensor:
    """Return the outputs of each text alone, where the first has tokens.

    A model that places all rows as the first is wrong in the second.
    """
    return torch.cat([r.full[:1], r.read(ids[1:])[:, real]])


def _again(r: Reader) -> tuple[Tensor, Tensor]:
    """Read after a padded text, of which a model must keep nothing."""
    _padded_cached(r)
    return _cached(r)


def _in_turn(r: Reader) -> tuple[Tensor, Tensor]:
    """Read two texts in turn; only their caches may hold anything of them."""
    first = r.each_part(r.ids, r.parts)
    second = r.each_part(r.other, r.parts[::-1])
    both = zip(*zip(first, second, strict=True), strict=True)
    made = [torch.cat(parts, dim=1) for parts in both]
    return torch.cat(made), torch.cat([r.full, r.read(r.other)])


def _generated(r: Reader) -> tuple[Tensor, Tensor]:
    """Let a padded text be continued by `generate`, which makes the arguments."""
    r.check_cache()
    if not getattr(r.model, "can_generate", bool)():
        raise NotApplicableError("does not generate")
    ids, given = r.padded(0)
    real, known = given["attention_mask"], ids[:, :-NEW]
    made = r.model.generate(
        known,
        attention_mask=real[:, :-NEW],
        prefix_allowed_tokens_fn=lambda row, read: ids[row, len(read), None].tolist(),
        generation_config=GenerationConfig(
            max_new_tokens=NEW,
            output_logits=True,
            return_dict_in_generate=True,
            pad_token_id=r.pad or 0,
        ),
    )
    own = _unpadded(r, ids, real[0].bool())[:, -NEW - 1 : -1]
    return torch.stack(made.logits, dim=1), own


def _embedded(r: Reader) -> tuple[Tensor, Tensor]:
    """Read embeddings of tokens, whole and with a cache if there is one."""
    if "inputs_embeds" not in r.arguments:
        raise NotApplicableError("takes no inputs_embeds")
    states = r.model.get_input_embeddings()(r.ids)
    try:
        made = [r.read(states)]
        with suppress(NotApplicableError):
            made.append(r.in_parts(states, r.parts))
    except (AttributeError, TypeError) as error:  # it reads ids all the same
        raise NotApplicableError("takes no inputs_embeds") from error
    return torch.cat(made), r.full.repeat(len(made), 1, 1)


def _padding_token(r: Reader) -> tuple[Tensor, Tensor]:
    """Read texts that hold the tokens of padding and end, with a mask and without.

    The end token often serves as padding. Here no mask leaves either out.
    """
    end = getattr(r.config, "eos_token_id", None)
    ends = end if isinstance(end, list) else [end]
    known = range(r.config.vocab_size)
    tokens = [one for one in (r.pad, *ends) if isinstance(one, int) and one in known]
    found = list(dict.fromkeys(tokens))
    if not found:
        raise NotApplicableError("states neither a padding token nor an end token")
    if not {"inputs_embeds", "attention_mask"} <= r.arguments:
        raise NotApplicableError("takes no inputs_embeds, or no attention_mask")
    ids = r.ids.clone()
    for place, token in enumerate(found[: r.quarter]):
        ids[:, r.quarter + place] = token
    states, real = r.model.get_input_embeddings()(ids), torch.ones_like(ids)
    wanted = r.read(states, attention_mask=real)
    made = torch.cat([r.read(ids, attention_mask=real), r.read(ids)])
    return made, wanted.repeat(2, 1, 1)


def _packed(r: Reader, *, by_ids: bool) -> tuple[Tensor, Tensor]:
    """Read two documents in each row, separated by a mask or by position ids alone.

    They end elsewhere in each row.
    """
    if by_ids and not r.causal:
        raise NotApplicableError("an encoder: a mask alone separates documents")
    first = torch.tensor([[r.half], [r.half - 1]], device=r.ids.device)  # of the second
    second, longest = r.counted >= first, r.tokens - r.half + 1
    window = getattr(r.config, "sliding_window", None)
    if not by_ids and window and window < longest:
        raise NotApplicableError(f"a mask would replace its window of {window}")
    given = r.at(r.counted - first * second)
    if not by_ids:
        if "attention_mask" not in r.arguments:
            raise NotApplicableError(NO_MASK)
        seen = second[:, None, :, None] == second[:, None, None]
        if r.causal:
            seen = seen.tril()
        mask = torch.zeros(seen.shape, dtype=next(r.model.parameters()).dtype)
        mask = mask.to(seen.device).masked_fill(~seen, torch.finfo(mask.dtype).min)
        given["attention_mask"] = mask
    rows = [
        torch.cat([r.read(row[None, ~late]), r.read(row[None, late])], dim=1)
        for row, late in zip(r.ids, second, strict=True)
    ]
    try:
        return r.read(r.ids, **given), torch.cat(rows)
    except (RuntimeError, AssertionError) as error:  # of shapes
        if by_ids:
            raise
        raise NotApplicableError("takes no mask (row, 1, query, key)") from error


def _alone(r: Reader) -> tuple[Tensor, Tensor]:
    return torch.cat([r.read(row[None]) for row in r.ids]), r.full


def _position_ids(r: Reader) -> tuple[Tensor, Tensor]:
    if "position_ids" not in r.arguments:
        raise NotApplicableError(NO_IDS)
    first = r.start if r.start is not None else 0
    return r.read(r.ids, position_ids=r.counted + first), r.full


# By name: what is compared with the whole texts in one pass, and how it is read.
READINGS: dict[str, tuple[str, Reading]] = {
    "causal": ("later tokens changed", _causal),
    "cached": ("three parts with a cache", _cached),
    "stepwise": ("a token, half of the tokens, then token by token", _stepwise),
    "offset": ("parts with a cache, from a later position", _offset),
    "static": ("parts with a static cache", _static),
    "padded": ("padding on the left", partial(_padded, share=0)),
    "padded right": ("padding on the right", partial(_padded, share=1)),
    "padded cached": ("padding on the left, parts with a cache", _padded_cached),
    "padded between": (
        "padding on the right, then parts with a cache",
        partial(_padded_cached, share=1 / 2),
    ),
    "padded static": (
        "padding on the left, parts with a static cache",
        partial(_padded_cached, static=True),
    ),
    "padded, no ids": (
        "padding on the left, parts with a cache, no position_ids",
        partial(_padded_cached, places=False),
    ),
    "cached again": ("three parts with a cache, after padding", _again),
    "in turn": ("two texts in turn, each with its own cache", _in_turn),
    "generated": ("padding on the left, continued by generate", _generated),
    "embedded": ("embeddings in the place of ids, whole and in parts", _embedded),
    "padding token": ("a text with the padding token, as embeddings", _padding_token),
    "packed": (
        "two documents in a row, mask of blocks",
        partial(_packed, by_ids=False),
    ),
    "packed by ids": (
        "two documents in a row, position ids restart",
        partial(_packed, by_ids=True),
    ),
    "alone": ("each row of the batch alone", _alone),
    "position ids": ("position_ids stated", _position_ids),
}


def is_causal(model: Any) -> bool:
    """Return whether no token sees the later ones, as class and configuration state."""
    stated = [getattr(one, "is_causal", None) for one in model.modules()]
    if stated := [one for one in stated if isinstance(one, bool)]:
        return any(stated)
    decoder = getattr(model.config.get_text_config(), "is_decoder", None)
    return decoder is not False and type(model.config) in CAUSAL


def mixes(model: Any) -> bool:
    """Return whether tokens are mixed by more than attention, as by convolutions.

    Such layers see padding and other documents, and many take one token at a time once
    they have a state.
    """
    kinds = getattr(model.config, "layer_types", None) or []
    if any(one not in ATTENTION for one in kinds):
        return True
    stock = all(type(m).__module__.startswith(STOCK) for m in model.modules())
    if stock and not layers_of(model):
        return True  # a port may name its attention otherwise
    convolves = any(isinstance(one, nn.Conv1d) for one in model.modules())
    return convolves or bool(getattr(model, "_is_stateful", False))


def tokens_of(config: Any, tokens: int = 0) -> int:
    """Return how many tokens of a row are read; see `check`.

    By default a text, even padded by a quarter, is too short for models that rotate
    longer texts otherwise.
    """
    longest = min([config_length(config), *length_limits(config)])
    tokens = tokens or min(MOST, longest * 4 // 5)
    if tokens < LEAST:
        raise ConfigError(f"tokens must be at least {LEAST}, got {tokens}")
    return tokens


def compared(made: Tensor, own: Tensor, bound: float) -> Compared:
    """Return the largest difference of `(..., token, channel)`, its bound, and where.

    The place is that of the first token whose outputs differ by more than the bound.
    """
    off = (made - own).masked_fill(made == own, 0).abs().amax(dim=-1)
    wrong = (~(off <= bound)).reshape(-1, off.shape[-1]).any(dim=0)
    where = f"first at token {int(wrong.int().argmax())} of {len(wrong)}"
    return float(off.max()), bound, where


def apart(made: Tensor, own: Tensor) -> float:
    """Return the largest difference; 0 where both are the same infinity."""
    return float((made - own).masked_fill(made == own, 0).abs().max())


def check_applied(model: PreTrainedModel, tokens: int) -> dict[str, float]:
    """Return the largest differences, and raise as `Applied.check`."""
    found = dict[str, float]()
    with evaluating(model):
        reader = Reader(model, tokens, causal=True)
        for name in OF_A_SCHEME:
            with suppress(NotApplicableError):
                found[name] = apart(*READINGS[name][1](reader))
        for name, most in found.items():
            if not most <= reader.bound:
                raise CheckError(
                    f"{name}: logits must be the same up to {reader.bound:.1e}, got "
                    f"{most:.1e}"
                )
    return found


def no_outputs(name: str) -> UnsupportedModelError:
    """Return the error of a model whose outputs are not of tokens."""
    return UnsupportedModelError(
        f"model must return logits or states (row, token, channel), got {name}; its "
        f"class for a language model, with return_dict=True, would work"
    )


def outputs(out: Any) -> Tensor:
    """Return logits, or else the states of the last layer."""
    if not isinstance(out, Tensor):
        logits, name = getattr(out, "logits", None), type(out).__name__
        out = getattr(out, "last_hidden_state", None) if logits is None else logits
        if out is None:
            raise no_outputs(name)
    return out if out.dtype == torch.float64 else out.float()
