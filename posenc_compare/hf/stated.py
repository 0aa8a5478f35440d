"""What a model does with positions, beside the class that its configuration names.

A copy of the model with random weights is measured, and beside it the class of
transformers that the configuration names. A model that is too large for a copy is built
small.
"""

import copy
import importlib.util
from collections.abc import Callable
from contextlib import suppress
from functools import cached_property, partial
from typing import Any

import torch
import transformers
from torch import Tensor
from transformers import MODEL_FOR_CAUSAL_LM_MAPPING as CAUSAL
from transformers import MODEL_FOR_MASKED_LM_MAPPING as MASKED
from transformers import MODEL_MAPPING as MODELS
from transformers.modeling_utils import ALL_ATTENTION_FUNCTIONS

from posenc_compare.hf.candidates import config_length, length_limits, stated
from posenc_compare.hf.checkpoint import reason_of
from posenc_compare.hf.measure import EXACT, Rotation, meet, rotations, takes_positions
from posenc_compare.hf.places import UnsupportedModelError
from posenc_compare.hf.readings import (
    NO_IDS,
    Compared,
    NotApplicableError,
    Reader,
    Reading,
    apart,
    compared,
)
from posenc_compare.hf.tiny import MOST, in_double, tiny

STOCK = "transformers.models."  # modules of its classes
LENGTH = 4096
TEXTS = 64  # of one token each
ONE = torch.ones((1, 1), dtype=torch.long)  # a token
FAR = 1 << 15  # from here on bfloat16 has one number for 256 positions
NEAR = 3
DISTANCES = (1, 17, 997)
AXES = "mrope_section"  # of a configuration with positions of three axes
HALF = 2.0**-5  # of scores in bfloat16: eight roundings of 2**-9, and as much again


class Stated:
    """A model that is checked, and the class that its configuration names.

    Texts have `tokens`.
    """

    def __init__(self, model: Any, tokens: int, causal: bool) -> None:
        config, self.causal = copy.deepcopy(model.config), causal
        self.tokens = tokens
        self.small = sum(one.numel() for one in model.parameters()) > MOST
        if not self.small:
            self.own = in_double(copy.deepcopy(model).cpu(), lambda m: m(ONE))
        else:
            self.own = tiny(config, type(model))
            config = self.own.config
            _check_small(model, self.own)
        self.config = config.get_text_config()
        limits = length_limits(self.own.config)
        # Positions in which rotations are measured, and the last one of a text beside
        # them, which may be so long that they are others.
        self.length = min(LENGTH, config_length(self.config), *limits)
        self.reach = tokens - 1 if limits and tokens > limits[0] else 0
        self.kind = kind_of(model)

    @cached_property
    def reader(self) -> Reader:
        """Return a reader of the copy."""
        return Reader(self.own, self.tokens, self.causal)

    @cached_property
    def stock(self) -> Any:
        """Return a model of the class of transformers."""
        if self.kind is None:
            raise NotApplicableError("transformers has no class of its configuration")
        config = copy.deepcopy(self.own.config)
        config._attn_implementation = _attention(self.own.config._attn_implementation)
        stock: Any = self.kind._from_config(config)
        dtype = next(self.own.parameters()).dtype
        return in_double(stock, lambda m: m(ONE)).to(dtype)

    @cached_property
    def same(self) -> Reader:
        """Return a reader of the class of transformers with the weights of the copy."""
        try:
            self.stock.load_state_dict(self.own.state_dict())
        except RuntimeError as error:
            raise NotApplicableError(
                f"has other weights than {self.kind.__name__} of transformers"
            ) from error
        return Reader(self.stock, self.tokens, self.causal)

    def excuses(self, read: Reading) -> bool:
        """Return whether the class of transformers fails in a reading too."""
        try:
            peer = self._peer
        except Exception:  # there is no such class, or it reads no texts
            return False
        try:
            return not apart(*read(peer)) <= peer.bound
        except NotApplicableError:
            return False
        except Exception:  # as the model may have raised
            return True

    @cached_property
    def _peer(self) -> Reader:
        """Return a reader of the class of transformers in float32, with any weights.

        It rounds as the model does. In float64 its padding may give NaN.
        """
        with suppress(NotApplicableError):
            _ = self.same  # which has the weights of the copy
        plain = copy.deepcopy(self.stock).float()
        return Reader(plain, self.tokens, self.causal)

    @cached_property
    def rotations(self) -> list[Rotation]:
        """Return what the layers of the copy do to queries and keys."""
        return self._measured(self.own)

    @cached_property
    def sought(self) -> list[Rotation]:
        """Return what the layers of the class of transformers do."""
        found = self._measured(self.stock)
        if len(found) != len(self.rotations):
            raise NotApplicableError("has other layers than its configuration")
        return found

    def _measured(self, model: Any) -> list[Rotation]:
        try:
            return rotations(model, self.length, self.reach)
        except UnsupportedModelError as error:
            raise NotApplicableError(str(error).partition("; ")[0]) from error


def _attention(name: str) -> str:
    """Return a name of attention, or eager if the process has added that attention."""
    found = ALL_ATTENTION_FUNCTIONS.get(name)
    is_own = found is None or found.__module__.startswith("transformers.")
    return name if is_own else "eager"


def _check_small(model: torch.nn.Module, small: torch.nn.Module) -> None:
    """Refuse a small copy that lacks modules of a model, which the user has changed."""
    kinds = {type(module) for module in small.modules()}
    for name, module in model.named_modules():
        hooked = hasattr(module, "_hf_hook")  # by accelerate, around the same forward
        if type(module) not in kinds or ("forward" in vars(module) and not hooked):
            raise NotApplicableError(
                f"is large, and a small copy of its configuration lacks the "
                f"{type(module).__name__} of {name or 'the model'}; fewer layers and "
                f"channels would work"
            )


def kind_of(model: Any) -> Any:
    """Return the class in transformers that a model belongs to, or None.

    For a port, it is the class of the same name, or else one that transformers maps
    its configuration to.
    """
    config, kinds = type(model.config), type(model).__mro__
    found: list[Any] = [k for k in kinds if k.__module__.startswith(STOCK)]
    named = [getattr(transformers, kind.__name__, None) for kind in kinds]
    found += [one for one in named if getattr(one, "config_class", None) is config]
    with_head = True
    with suppress(Exception):  # of a port, which may have none
        with_head = model.get_output_embeddings() is not None
    mappings = (CAUSAL, MASKED) if with_head else (MODELS,)
    found += [one.get(config, None) for one in mappings]
    abstract = torch.nn.Module.forward
    found = [k for k in found if k and getattr(k, "forward", abstract) is not abstract]
    return as_released(found[0]) if found else None


def as_released(kind: type) -> type:
    """Return a class of transformers from a new copy of its module.

    Functions that the process has replaced in the module are not replaced there. A
    module that cannot be run twice gives the class itself.
    """
    spec = importlib.util.find_spec(kind.__module__)
    if spec is None or spec.loader is None:
        return kind
    module = importlib.util.module_from_spec(spec)
    try:
        spec.loader.exec_module(module)
        return getattr(module, kind.__name__)
    except Exception:
        return kind


def _transformers(s: Stated) -> Compared:
    made = s.same.full
    return compared(s.reader.full, made, EXACT * float(made.abs().max()))


def _far(s: Stated) -> Compared:
    """Compare a text whose positions grow up to the last one, in geometric steps.

    They go further in a model that rotates longer texts otherwise.
    """
    r, longer = s.reader, [2 * one for one in length_limits(s.own.config)]
    if r.start is None:
        raise NotApplicableError(NO_IDS)
    last = max([config_length(s.config), *longer]) - 1
    steps = torch.linspace(0, 1, r.tokens, dtype=torch.float64)
    places = (r.start - 1 + (last - r.start + 1) ** steps).round().long()
    ids, given = r.ids[:1], {"position_ids": places[None]}
    if "attention_mask" in r.arguments:  # else jumps of ids separate documents
        given["attention_mask"] = torch.ones_like(ids)
    wanted, made = (one.read(ids, **given) for one in (s.same, r))
    most, bound, _ = compared(made, wanted, EXACT * float(wanted.abs().max()))
    wrong = ~((made - wanted).abs().amax(dim=-1)[0] <= bound)
    first = int(places[int(wrong.int().argmax())])
    return most, bound, f"first at position {first} of {last}"


def _axes(s: Stated) -> Compared:
    """Compare a text whose positions differ by axis, as those of images do."""
    if not any(AXES in one for one in stated(s.config)):
        raise NotApplicableError("has no positions of several axes")
    r = s.reader
    places = torch.stack([r.counted[:1] * axis for axis in (1, 2, 3)])
    wanted, made = (one.read(r.ids[:1], position_ids=places) for one in (s.same, r))
    return compared(made, wanted, EXACT * float(wanted.abs().max()))


def _rotated(s: Stated) -> Compared:
    """Compare the pairs of channels of each layer; layers that differ are counted."""
    wrong = [
        f"layer {a.layer} {_pairing(a, b)}, expected: {_pairing(b)}"
        for a, b in zip(s.rotations, s.sought, strict=True)
        if (a.pairs, a.fault, a.width) != (b.pairs, b.fault, b.width)
    ]
    return float(len(wrong)), 0.0, wrong[0] if wrong else ""


def _factors(s: Stated) -> Compared:
    """Compare the factors of cosines and sines."""
    found = []
    for one, other in zip(s.rotations, s.sought, strict=True):
        made, wanted = one.factor, other.factor
        if made is not None and wanted:
            why = f"cosines and sines times {made:.4g}, expected {wanted:.4g}"
            found.append((abs(made / wanted - 1), f"layer {one.layer}: {why}"))
    return largest(found, "no factor can be measured")


def _scale(s: Stated) -> Compared:
    """Compare scores of texts of one token, under equal weights."""
    ids = s.reader.ids[0, :TEXTS, None]
    own, other = (meet(model, ids, 0).scores for model in (s.own, s.same.model))
    found = []
    for layer in sorted(own.keys() & other.keys()):
        made, wanted = own[layer], other[layer]
        if made.shape != wanted.shape:
            continue
        factor = float(made @ wanted / (wanted @ wanted))
        if apart(made, factor * wanted) <= EXACT * float(made.abs().max()):
            why = f"layer {layer}: scores times {factor:.4g} of those of its class"
            found.append((abs(factor - 1), why))
    return largest(found, "scores are not those of its class times a factor")


def _pairing(one: Rotation, wanted: Rotation | None = None) -> str:
    """Return what a layer rotates, in words."""
    if wanted and one.pairs and one.pairs == tuple(p[::-1] for p in wanted.pairs):
        return "rotates backwards"
    if one.fault or not one.pairs:
        return one.fault or "rotates nothing by position_ids"
    (first, second), count = one.pairs[0], len(one.pairs)
    return f"rotates channel {first} towards {second} in the first of {count} pairs"


def _frequencies(s: Stated) -> Compared:
    both = zip(s.rotations, s.sought, strict=True)
    found = [_ratio(a, b) for a, b in both if a.pairs and a.pairs == b.pairs]
    why = "no layer rotates the pairs of channels that the configuration states"
    return largest(found, why)


def largest(found: list[tuple[float, str]], reason: str) -> Compared:
    """Return the largest difference, and the words of the first above the bound.

    If `found` is empty, the check is not applicable, for the `reason` given.
    """
    if not found:
        raise NotApplicableError(reason)
    why = next((words for off, words in found if not off <= EXACT), "")
    return max(off for off, _ in found), EXACT, why


def _ratio(one: Rotation, own: Rotation) -> tuple[float, str]:
    """Return the largest relative difference of frequencies, and the first pair off."""
    made, wanted = one.frequencies, own.frequencies
    noise = 2**-21 / LENGTH  # of angles in float32 at the last position
    off = ((made - wanted).abs() - noise).clamp(min=0) / wanted
    pair = int((off > EXACT).int().argmax())
    why = f"layer {one.layer}, pair {pair}: {made[pair]:.6g} radians per position, "
    return float(off.max()), f"{why}expected {wanted[pair]:.6g}"


def _length(s: Stated) -> Compared:
    """Compare the last position with the one before, if such steps matter at all."""
    r = s.reader
    if r.start is None:
        raise NotApplicableError(NO_IDS)
    last, two = config_length(s.config) - 1, r.ids[:1, :2]

    def read(*positions: int) -> Tensor:
        given = {"position_ids": torch.tensor([positions])}
        if "attention_mask" in r.arguments:  # else ids that restart separate documents
            given["attention_mask"] = torch.ones_like(two)
        return r.read(two, **given)

    try:
        made, same = read(last - 1, last), read(last - 1, last - 1)
    except IndexError as error:  # a table that is too short
        return 1.0, 0.0, f"raises {reason_of(error)}"
    near, still = read(r.start, r.start + 1), read(r.start, r.start)
    unmoved = torch.equal(made, same) and not torch.equal(near, still)
    return float(unmoved), 0.0, f"positions {last - 1} and {last} give equal outputs"


def _bfloat16(s: Stated, *, autocast: bool = False) -> Compared:
    """Compare scores at far positions in bfloat16 with those at near ones.

    With `autocast` the weights are in float32, as in mixed precision.
    """
    if not any(one.pairs for one in s.sought):
        raise NotApplicableError("no layer rotates by fixed frequencies")
    if fault := next((one.fault for one in s.sought if one.fault), ""):
        raise NotApplicableError(f"a layer {fault}")
    if s.reader.start is None:
        raise NotApplicableError(NO_IDS)
    if length_limits(s.own.config):
        raise NotApplicableError("rotates otherwise in longer texts")
    if not takes_positions(s.own):  # each would be a text of so many tokens
        raise NotApplicableError(f"names no position_ids, so {FAR} would take long")
    half, dtype = copy.deepcopy(s.own), torch.float if autocast else torch.bfloat16
    for weight in half.parameters():  # as transformers loads them; tables stay
        weight.data = weight.data.to(dtype)
    ids = s.reader.ids[0, :TEXTS, None]
    still = meet(s.own, ids, 0)
    states = {
        other: [x.to(dtype) for x in still.states[own]]
        for own, other in zip(s.own.modules(), half.modules(), strict=True)
        if own in still.states
    }

    def rounded(position: int) -> dict[Any, Any]:
        with torch.autocast("cpu", torch.bfloat16, enabled=autocast):
            return meet(half, ids, position, states=states).found

    try:
        far = rounded(FAR)
    except IndexError as error:
        raise NotApplicableError(f"has no position {FAR}") from error
    turning = [one.layer for one in s.rotations if one.pairs]
    worst, why = 0.0, ""
    for distance in DISTANCES:
        near = meet(s.own, ids, NEAR + distance, states=still.states).found
        before = meet(s.own, ids, NEAR, states=still.states).found
        back = rounded(FAR - distance)
        for layer in turning:
            own = _scores(near[layer][0][0], before[layer][0][1])
            made = _scores(far[layer][0][0], back[layer][0][1])
            if (off := apart(made, own)) > worst:
                worst, why = off, f"layer {layer}, keys {distance} before the query"
    return worst, HALF, why


def _scores(q: Tensor, k: Tensor) -> Tensor:
    """Return cosines between queries and the keys of the same row and head."""
    q, k = (one.reshape(len(one), -1, one.shape[-1]) for one in (q, k))
    k = k.repeat_interleave(q.shape[1] // k.shape[1], dim=1)
    return (q * k).sum(-1) / (q.norm(dim=-1) * k.norm(dim=-1))


# By name: what is compared, and how.
STATEMENTS: dict[str, tuple[str, Callable[[Stated], Compared]]] = {
    "transformers": ("its class of transformers, same weights", _transformers),
    "rotated channels": ("pairs of channels, as in its class", _rotated),
    "frequencies": ("frequencies of its class", _frequencies),
    "factors": ("factor of cosines and sines of its class", _factors),
    "scale": ("scores before the softmax, as in its class", _scale),
    "length": ("the last position of the configuration", _length),
    "bfloat16": (f"scores in bfloat16 at position {FAR}", _bfloat16),
    "autocast": (
        f"scores under autocast at position {FAR}",
        partial(_bfloat16, autocast=True),
    ),
    "axes": ("its class, at positions that differ by axis", _axes),
    "far": ("its class, at positions up to the last one", _far),
}
