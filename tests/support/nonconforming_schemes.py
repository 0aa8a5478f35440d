"""Schemes with one subtle fault each; `test_conformance_faults` looks for them."""

import random

import torch
from torch import Tensor, nn

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


@register("faulty_row", family="contextual", source="nobody 2026")
class Row(Distance):
    """Count the keys in the segments of the first row, for all rows."""

    def scores(self, logits: Tensor, call: Call) -> Tensor:
        keep = call.keep()[:1]
        gates = (logits.sigmoid() * keep).flip(-1).cumsum(-1).flip(-1)
        return logits - gates


@register("faulty_first_decodes", family="bias", source="nobody 2026")
class FirstDecodes(Distance):
    """Decode every row at the positions of the first."""

    def ids(self, ids: Tensor, call: Call) -> Tensor:
        return super().ids(ids[:1] if call.past else ids, call)


@register("faulty_overhears", family="contextual", source="nobody 2026")
class Overhears(Distance):
    """Let the second head hear the first, and say nothing of it."""

    def scores(self, logits: Tensor, call: Call) -> Tensor:
        other = logits[:, :1].tanh()
        return torch.cat([logits[:, :1], logits[:, 1:] + other], 1)


@register("faulty_keys", family="contextual", source="nobody 2026")
class Keys(Distance):
    """Weigh the distance by the keys of all heads."""

    def pair_bias(self, call: Call) -> PairBias:
        bias, weight = super().pair_bias(call), 1 + call.k.double().mean((1, 3)).tanh()
        return lambda b, h, i, j: bias(b, h, i, j) * weight[b, j]


@register("faulty_third_head", family="bias", source="nobody 2026")
class ThirdHead(Distance):
    """Let the third head look at the position of the query."""

    def bend(self, distance: Tensor, head: Tensor, q: Tensor, steps: Tensor) -> Tensor:
        return distance + (head > 1) * q / 64


@register("faulty_far", family="bias", source="nobody 2026")
class Far(Distance):
    """Grow with the position at distances beyond twenty."""

    def bend(self, distance: Tensor, head: Tensor, q: Tensor, steps: Tensor) -> Tensor:
        return distance * torch.where(distance > 20, 1 + q / 64, 1.0)


@register("faulty_beyond", family="bias", source="nobody 2026")
class Beyond(Distance):
    """Clamp positions at the length it is built for."""

    def ids(self, ids: Tensor, call: Call) -> Tensor:
        return super().ids(ids, call).clamp(max=self.geometry.length - 1)


@register("faulty_remembers", family="rotary", source="nobody 2026")
class Remembers(Rope):
    """Turn more slowly once it has seen a position beyond those it is built for."""

    longest = 0

    def angles(self, positions: Tensor) -> Tensor:
        if positions.numel():
            self.longest = max(self.longest, int(positions.max()))
        return super().angles(positions) / max(1, self.longest / self.geometry.length)


@register("faulty_caches", family="absolute", source="nobody 2026")
class Caches(Scheme):
    """Keep the codes of positions in the dtype that asks for them first."""

    def __init__(self, geometry: Geometry) -> None:
        super().__init__(geometry)
        self.codes: dict[str, Tensor] = {}

    def embed(self, x: Tensor, positions: Tensor) -> Tensor:
        code = positions.double().sin().to(x.dtype)[..., None]
        return x + self.codes.setdefault(str(positions.tolist()), code)


@register("faulty_half", family="bias", source="nobody 2026")
class Half(Distance):
    """Keep distances in bfloat16, whatever it is given."""

    def bend(self, distance: Tensor, head: Tensor, q: Tensor, steps: Tensor) -> Tensor:
        return distance.bfloat16().double()


@register("faulty_seeds", family="bias", source="nobody 2026")
class Seeds(Alibi):
    """Seed torch when it is built."""

    def __init__(self, geometry: Geometry) -> None:
        torch.manual_seed(0)
        super().__init__(geometry)


@register("faulty_seeds_python", family="bias", source="nobody 2026")
class SeedsPython(Alibi):
    """Seed Python in every call."""

    def offset_bias(self, offsets: Tensor) -> Tensor:
        random.seed(0)
        return super().offset_bias(offsets)


@register("faulty_default", family="bias", source="nobody 2026")
class Default(Alibi):
    """Change the default dtype when it is built."""

    def __init__(self, geometry: Geometry) -> None:
        super().__init__(geometry)
        torch.set_default_dtype(torch.float64)


@register("faulty_once", family="bias", source="nobody 2026")
class Once(Alibi):
    """Change the default dtype when it is built the first time."""

    built = False

    def __init__(self, geometry: Geometry) -> None:
        super().__init__(geometry)
        if not Once.built:
            torch.set_default_dtype(torch.float64)
        Once.built = True


@register("faulty_writes", family="rotary", source="nobody 2026")
class Writes(Rope):
    """Write the rotated queries over those it is given."""

    def query(self, q: Tensor, positions: Tensor, call: Call | None = None) -> Tensor:
        rotated = super().query(q, positions, call)
        return rotated if q.requires_grad else q.copy_(rotated)


@register("faulty_empties", family="contextual", source="nobody 2026")
class Empties(Fox):
    """Empty the state of earlier tokens when it has read it."""

    def token_state(self, x: Tensor, past: Tensor | None = None) -> Tensor:
        state = super().token_state(x, past)
        if past is not None:
            past.zero_()
        return state


@register("faulty_moves", family="bias", source="nobody 2026")
class Moves(Distance):
    """Move the positions of the keys in place while decoding."""

    def pair(self, call: Call) -> tuple[Tensor, Tensor]:
        q, k = (ids.clone() for ids in super().pair(call))
        if call.past:
            call.k_positions.add_(1)
        return q, k


@register("faulty_leaks", family="contextual", source="nobody 2026")
class Leaks(Fox):
    """Take the mean of a long text from its tokens."""

    def token_state(self, x: Tensor, past: Tensor | None = None) -> Tensor:
        mean = x.mean(1, keepdim=True) if x.shape[1] > 200 else 0
        return super().token_state(x - mean, past)


@register("faulty_index", family="bias", source="nobody 2026")
class Index(Distance):
    """Take indices for positions beyond twenty tokens."""

    def bend(self, distance: Tensor, head: Tensor, q: Tensor, steps: Tensor) -> Tensor:
        return torch.where(steps.abs() > 20, steps.abs(), distance)


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


@register("faulty_unmasked", family="contextual", source="nobody 2026")
class Unmasked(Scheme):
    """Take the mean of a row over other documents too, where there is no mask."""

    def scores(self, logits: Tensor, call: Call) -> Tensor:
        keep = call.keep() if call.causal else torch.ones_like(call.keep())
        mean = (logits.sigmoid() * keep).sum(-1, keepdim=True) / keep.sum(-1, True)
        ids = call.q_positions[:, :, None] - call.k_positions[:, None]
        return logits - mean * ids.abs()[:, None]


@register("faulty_padded", family="bias", source="nobody 2026")
class Padded(Distance):
    """Divide the distance by the place of the query among all tokens of its row."""

    def pair_bias(self, call: Call) -> PairBias:
        bias = super().pair_bias(call)
        return lambda b, h, i, j: bias(b, h, i, j) / (1 + i + call.past)


@register("faulty_last", family="bias", source="nobody 2026")
class Last(Distance):
    """Count queries from the first key where there is no mask."""

    def pair(self, call: Call) -> tuple[Tensor, Tensor]:
        q, k = super().pair(call)
        return (q if call.causal else k[:, : q.shape[1]]), k


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


@register("faulty_noisy", family="absolute", source="nobody 2026")
class Noisy(Scheme):
    """Add noise from the global generator."""

    def embed(self, x: Tensor, positions: Tensor) -> Tensor:
        return x + torch.randn_like(x)


@register("faulty_rounds", family="absolute", source="nobody 2026")
class Rounds(Scheme):
    """Compute with positions in the dtype of the tokens."""

    def embed(self, x: Tensor, positions: Tensor) -> Tensor:
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


@register("faulty_gradient", family="rotary", source="nobody 2026")
class Gradient(Rope):
    """Cut the queries off from their gradient, but for one part in two."""

    def query(self, q: Tensor, positions: Tensor, call: Call | None = None) -> Tensor:
        return super().query(q / 2 + q.detach() / 2, positions, call)


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
        raise IndexError("too many\nlines " + "and words " * 100)


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


@register("faulty_whole_rope", family="rotary", source="nobody 2026", real=True)
class WholeRope(Rope):
    """Rotate by whole positions, and declare real ones."""

    def angles(self, positions: Tensor) -> Tensor:
        return super().angles(positions.long())


@register("faulty_whole_alibi", family="bias", source="nobody 2026", real=True)
class WholeAlibi(Alibi):
    """Round the distance, and declare real positions."""

    def offset_bias(self, offsets: Tensor) -> Tensor:
        return super().offset_bias(offsets.double().floor())


@register("faulty_whole_code", family="absolute", source="nobody 2026", real=True)
class WholeCode(Scheme):
    """Add a code of the rounded position, and declare real ones."""

    def embed(self, x: Tensor, positions: Tensor) -> Tensor:
        return x + positions.double().round()[..., None].to(x.dtype) / 100
