"""Schemes with one subtle fault each; `test_conformance_faults` looks for them."""

import random
from dataclasses import replace

import torch
from torch import Tensor, nn

from posenc_compare.errors import UndefinedPositionError
from posenc_compare.schemes import Call, Facts, Geometry, Scheme, register
from posenc_compare.schemes.alibi import Alibi
from posenc_compare.schemes.fox import Fox
from posenc_compare.schemes.rope import Rope
from posenc_compare.schemes.scheme import PairBias
from posenc_compare.schemes.wrapper import Wrapper


class Distance(Scheme):
    """Subtract a tenth of the distance, as a subclass bends it."""

    def pair_bias(self, call: Call) -> PairBias:
        q_ids, k_ids = (self.ids(ids, call) for ids in self.pair(call))

        def bias(b: Tensor, h: Tensor, i: Tensor, j: Tensor) -> Tensor:
            q, k = q_ids[b, i], k_ids[b, j]
            return -0.1 * self.bend((q - k).abs().double(), h, q, i + call.past - j)

        return bias

    def pair(self, call: Call) -> tuple[Tensor, Tensor]:
        return call.q_positions, call.k_positions

    def ids(self, ids: Tensor, call: Call) -> Tensor:
        return ids.expand(call.q.shape[0], -1)

    def bend(self, distance: Tensor, head: Tensor, q: Tensor, steps: Tensor) -> Tensor:
        return distance


def bent(what: str, distance: Tensor, head: Tensor, q: Tensor, steps: Tensor) -> Tensor:
    """Bend a distance in one wrong way."""
    if what == "third_head":  # looks at the position of the query
        return distance + (head > 1) * q / 64
    if what == "far":  # grows with the position at distances beyond twenty
        return distance * torch.where(distance > 20, 1 + q / 64, 1.0)
    if what == "half":  # keeps distances in bfloat16, whatever it is given
        return distance.bfloat16().double()
    if what == "index":  # takes indices for positions beyond twenty tokens
        return torch.where(steps.abs() > 20, steps.abs(), distance)
    return distance


@register("faulty_distance", family="bias", source="nobody 2026")
class FaultyDistance(Distance):
    """Take the distance with one fault, as `what` says."""

    def __init__(self, geometry: Geometry, *, what: str = "") -> None:
        super().__init__(geometry)
        self.what = what
        start = nn.Parameter(torch.zeros(1))
        if what == "hides":
            self.slopes = [start]
        if what == "hides_more":
            self._nets = {"one": nn.Linear(1, 1)}
        if what == "":  # which is registered, too
            self.near, self.both = start, [start]

    def pair_bias(self, call: Call) -> PairBias:
        bias = super().pair_bias(call)
        if self.what == "stretched":  # by the number of keys beyond the trained length
            rate = min(1.0, self.geometry.length / call.k.shape[2])
            return lambda b, h, i, j: bias(b, h, i, j) * rate
        if self.what == "layer":  # as if each layer had a scheme of its own
            rate = 1 + self.geometry.layer
            return lambda b, h, i, j: bias(b, h, i, j) * rate
        if self.what == "padded":  # divides by the place among all tokens of the row
            return lambda b, h, i, j: bias(b, h, i, j) / (1 + i + call.past)
        if self.what == "keys":  # weighs the distance by the keys of all heads
            weight = 1 + call.k.double().mean((1, 3)).tanh()
            return lambda b, h, i, j: bias(b, h, i, j) * weight[b, j]
        return bias

    def pair(self, call: Call) -> tuple[Tensor, Tensor]:
        q, k = super().pair(call)
        if self.what == "moves" and call.past:  # the positions of the keys, in place
            q, k = q.clone(), k.clone()
            call.k_positions.add_(1)
        if self.what == "last" and not call.causal:  # counts from the first key
            q = k[:, : q.shape[1]]
        return q, k

    def ids(self, ids: Tensor, call: Call) -> Tensor:
        if self.what == "first_decodes" and call.past:  # every row at its positions
            ids = ids[:1]
        if self.what == "beyond":  # clamps positions at the length it is built for
            ids = ids.clamp(max=self.geometry.length - 1)
        if self.what == "before":  # clamps positions at 0
            ids = ids.clamp(min=0)
        return super().ids(ids, call)

    def bend(self, distance: Tensor, head: Tensor, q: Tensor, steps: Tensor) -> Tensor:
        return bent(self.what, distance, head, q, steps)


@register("faulty_slopes", family="bias", source="nobody 2026")
class FaultySlopes(Scheme):
    """Multiply distances by trained slopes, in their dtype or in float32."""

    def __init__(self, geometry: Geometry, *, what: str = "own") -> None:
        super().__init__(geometry)
        self.slopes = nn.Parameter(torch.ones(geometry.heads))
        self.what = what

    def offset_bias(self, offsets: Tensor) -> Tensor:
        slopes = self.slopes.float() if self.what == "float" else self.slopes
        return -slopes[:, None] * offsets.abs()


@register("faulty_trained", family="bias", source="nobody 2026")
class FaultyTrained(Scheme):
    """Subtract a trained multiple of the distance, with one fault, as `what` says."""

    def __init__(self, geometry: Geometry, *, what: str = "infinite") -> None:
        super().__init__(geometry)
        self.what = what
        self.rate = nn.Parameter(torch.zeros(geometry.heads))
        self.other = nn.Parameter(torch.zeros(geometry.heads))

    def offset_bias(self, offsets: Tensor) -> Tensor:
        rate, other = self.rate.double(), self.other.double()
        distances = offsets.abs().double()
        if self.what == "detached":
            slope = rate.exp().detach() * other.exp()
        elif self.what == "starts":
            slope = rate * other
        elif self.what == "unused":
            slope = rate.exp()
        else:
            return -(rate.exp()[:, None] * distances).sqrt()  # infinite slope at 0
        return -slope[:, None] * distances


@register("faulty_process", family="bias", source="nobody 2026")
class FaultyProcess(Alibi):
    """Change the process when it is built, or in every call."""

    built = False

    def __init__(self, geometry: Geometry, *, what: str = "once") -> None:
        if what == "seeds":
            torch.manual_seed(0)
        super().__init__(geometry)
        if what == "default" or (what == "once" and not FaultyProcess.built):
            torch.set_default_dtype(torch.float64)
        FaultyProcess.built = True
        self.what = what

    def offset_bias(self, offsets: Tensor) -> Tensor:
        if self.what == "seeds_python":
            random.seed(0)
        return super().offset_bias(offsets)


@register("faulty_logits", family="contextual", source="nobody 2026")
class FaultyLogits(Distance):
    """Change logits with one fault, as `what` says."""

    def __init__(self, geometry: Geometry, *, what: str = "") -> None:
        super().__init__(geometry)
        self.what = what

    def scores(self, logits: Tensor, call: Call) -> Tensor:
        if self.what == "row":  # counts by the segments of the first row, for all rows
            gates = (logits.sigmoid() * call.keep()[:1]).flip(-1).cumsum(-1).flip(-1)
            return logits - gates
        if self.what == "overhears":  # lets the second head hear the first
            other = logits[:, :1].tanh()
            return torch.cat([logits[:, :1], logits[:, 1:] + other], 1)
        if self.what == "unmasked":  # reads other documents where there is no mask
            keep = call.keep() if call.causal else torch.ones_like(call.keep())
            mean = (logits.sigmoid() * keep).sum(-1, keepdim=True) / keep.sum(-1, True)
            ids = call.q_positions[:, :, None] - call.k_positions[:, None]
            return logits - mean * ids.abs()[:, None]
        return logits


@register("faulty_rope", family="rotary", source="nobody 2026", real=True)
class FaultyRope(Rope):
    """Rotate with one fault, as `what` says."""

    def __init__(self, geometry: Geometry, *, what: str = "") -> None:
        super().__init__(geometry)
        self.what = what
        self.longest = 0
        self.tables: dict[object, Tensor] = {}
        if what == "buffer":  # which `.bfloat16()` rounds
            self.register_buffer("rate", torch.tensor(0.999), persistent=False)
            self.rate: Tensor

    def positions(
        self, positions: Tensor, generator: torch.Generator | None = None
    ) -> Tensor:
        if self.what == "trains" and self.training:  # by the global generator
            positions += int(torch.randint(1000, ()))
        return positions

    def angles(self, positions: Tensor) -> Tensor:
        if self.what == "whole":  # by whole positions, though real ones are declared
            positions = positions.long()
        angles = super().angles(positions)
        if self.what == "remembers" and positions.numel():  # turns more slowly later
            self.longest = max(self.longest, int(positions.max()))
            angles = angles / max(1, self.longest / self.geometry.length)
        if self.what == "buffer":
            angles = angles * self.rate.double()
        if self.what == "keeps" and not positions.is_floating_point():
            # A table for each shape and last position.
            last = int(positions.max()) if positions.numel() else 0
            angles = self.tables.setdefault((positions.shape, last), angles)
        return angles.float() if self.what == "narrow" else angles

    def offset_bias(self, offsets: Tensor) -> Tensor | None:
        if self.what != "buffer":
            return None
        return self.rate.new_zeros(self.geometry.heads, len(offsets))  # not at fault

    def query(self, q: Tensor, positions: Tensor, call: Call | None = None) -> Tensor:
        if self.what == "gradient":  # cuts off one part in two
            q = q / 2 + q.detach() / 2
        rotated = super().query(q, positions, call)
        if self.what == "writes" and not q.requires_grad:  # over what it is given
            return q.copy_(rotated)
        return rotated


@register("faulty_caches", family="absolute", source="nobody 2026")
class Caches(Scheme):
    """Keep the codes of positions in the dtype that asks for them first."""

    def __init__(self, geometry: Geometry) -> None:
        super().__init__(geometry)
        self.codes: dict[str, Tensor] = {}

    def embed(self, x: Tensor, positions: Tensor) -> Tensor:
        code = positions.double().sin().to(x.dtype)[..., None]
        return x + self.codes.setdefault(str(positions.tolist()), code)


@register("faulty_fox", family="contextual", source="nobody 2026")
class FaultyFox(Fox):
    """Empty the state of earlier tokens, or take the mean of a long text from all."""

    def __init__(self, geometry: Geometry, *, what: str = "empties") -> None:
        super().__init__(geometry)
        self.what = what

    def token_state(self, x: Tensor, past: Tensor | None = None) -> Tensor:
        if self.what == "leaks" and x.shape[1] > 200:
            x = x - x.mean(1, keepdim=True)
        state = super().token_state(x, past)
        if self.what == "empties" and past is not None:
            past.zero_()
        return state


@register("faulty_late", family="bias", source="nobody 2026")
class Late(Distance):
    """Decode with the first slope after sixteen tokens."""

    def __init__(self, geometry: Geometry) -> None:
        super().__init__(geometry)
        self.slope = nn.Parameter(torch.ones(geometry.heads))

    def pair_bias(self, call: Call) -> PairBias:
        bias = super().pair_bias(call)
        slope = self.slope if call.past < 16 else torch.ones_like(self.slope)
        return lambda b, h, i, j: bias(b, h, i, j) * slope[h]


@register("faulty_far", family="bias", source="nobody 2026")
class Far(Late):
    """Train the slope by the nearest eight keys alone."""

    def pair_bias(self, call: Call) -> PairBias:
        bias = Distance.pair_bias(self, call)

        def trained(b: Tensor, h: Tensor, i: Tensor, j: Tensor) -> Tensor:
            slope = self.slope[h]
            near = i + call.past - j < 8
            return bias(b, h, i, j) * torch.where(near, slope, slope.detach())

        return trained


@register("faulty_mask", family="bias", source="nobody 2026")
class OwnMask(Distance):
    """Hide later tokens and other documents, and forget windows and prefixes."""

    def weights(self, logits: Tensor, call: Call) -> Tensor:
        keep = replace(call, window=None, prefix=0).keep()
        own = call.q @ call.k.mT * self.scale(call.q.shape[-1])
        return own.masked_fill(~keep, -torch.inf).softmax(-1)


@register("faulty_order", family="bias", source="nobody 2026")
class Order(Distance):
    """Look at positions, and claim to count tokens."""

    facts = Facts(by_order=True)


@register("faulty_rate", family="bias", source="nobody 2026")
class Rate(Scheme):
    """Take the logarithm of what training may make negative."""

    def __init__(self, geometry: Geometry) -> None:
        super().__init__(geometry)
        self.rate = nn.Parameter(torch.full((geometry.heads,), 2.0))

    def offset_bias(self, offsets: Tensor) -> Tensor:
        return -(self.rate[:, None] * offsets.abs().double()).log1p()


@register("faulty_blind", family="bias", source="nobody 2026")
class Blind(Scheme):
    """Add the same to all logits."""

    def offset_bias(self, offsets: Tensor) -> Tensor:
        return torch.zeros(self.geometry.heads, len(offsets)).double()


@register("faulty_code", family="absolute", source="nobody 2026")
class FaultyCode(Scheme):
    """Add noise of the global generator, or positions in the dtype of the tokens."""

    def __init__(self, geometry: Geometry, *, what: str = "noisy") -> None:
        super().__init__(geometry)
        self.what = what

    def embed(self, x: Tensor, positions: Tensor) -> Tensor:
        if self.what == "noisy":
            return x + torch.randn_like(x)
        if self.what == "ends" and (positions >= 100).any():  # whatever the length
            raise UndefinedPositionError(self.name, 100, int(positions.max()))
        if self.what == "relative" and positions.numel():  # 0 / 0 in the shortest text
            return x + (positions / positions.max()).to(x.dtype)[..., None]
        return x + positions.to(x.dtype).sin()[..., None]


@register("faulty_buffers", family="absolute", source="nobody 2026")
class Buffers(Scheme):
    """Keep a table that is no parameter."""

    def __init__(self, geometry: Geometry) -> None:
        super().__init__(geometry)
        self.register_buffer("table", torch.randn(geometry.model_dim))

    def embed(self, x: Tensor, positions: Tensor) -> Tensor:
        turn = positions.double().sin()[..., None]
        return x + (turn * self.get_buffer("table").double()).to(x.dtype)


@register("faulty_misspelt", family="bias", source="nobody 2026")
class Misspelt(Scheme):
    """Override no hook, for it is misspelt."""

    def ofset_bias(self, offsets: Tensor) -> Tensor:
        return -offsets.abs().double().expand(self.geometry.heads, -1)


@register("faulty_hookless", family="bias", source="nobody 2026")
class Hookless(Scheme):
    """Override no hook."""


@register("faulty_raises", family="absolute", source="nobody 2026")
class Raises(Scheme):
    """Raise an error of many lines."""

    def embed(self, x: Tensor, positions: Tensor) -> Tensor:
        raise RuntimeError("too many\nlines " + "and words " * 100)


@register("faulty_unbuilt", family="bias", source="nobody 2026")
class Unbuilt(Scheme):
    """Cannot be built, and mixes heads."""

    facts = Facts(mixes_heads=True)

    def __init__(self, geometry: Geometry) -> None:
        raise RuntimeError("no")


class Claims(Scheme):
    """Claim what is not true."""

    facts = Facts(mixes_heads=True, known_faults={"C05": "it says so"})


@register("faulty_wraps", family="contextual", source="nobody 2026")
class Wraps(Wrapper):
    """Claim what the scheme inside claims."""

    def __init__(self, geometry: Geometry) -> None:
        super().__init__(geometry, Claims(geometry))
