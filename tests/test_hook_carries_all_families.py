"""The hook carries every family of published schemes without a change to attention.

Each scheme here is written through the doors alone and compared with the formula of
its paper, one pair of tokens at a time.
"""

import cmath
import math
import warnings
from collections.abc import Callable

import pytest
import torch
from torch import Tensor, nn

from posenc_compare.attention import Mask, Path, attention
from posenc_compare.errors import ConfigError, ShapeError
from posenc_compare.schemes import SCHEMES, Call, Geometry, Scheme, create
from posenc_compare.schemes.call import PairBias
from posenc_compare.schemes.rope import Rope

BATCH, HEADS, WIDTH, LENGTH = 2, 2, 6, 7
GEOMETRY = Geometry(model_dim=HEADS * WIDTH, heads=HEADS)
RUN = torch.arange(LENGTH)
SEGMENTS = torch.tensor([[0, 0, 0, 1, 1, 1, 1], [4, 4, 4, 4, 4, 4, 9]])


def normal(*shape: int, seed: int = 0) -> Tensor:
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(*shape, generator=generator, dtype=torch.float64)


def vectors() -> tuple[Tensor, Tensor, Tensor]:
    shape = (BATCH, HEADS, LENGTH, WIDTH)
    return normal(*shape), normal(*shape, seed=1), normal(*shape, seed=2)


Pair = Callable[[int, int, int, int], float]


def naive(
    logit: Pair,
    value: Callable[[int, int, int, int], Tensor],
    look: Callable[[int, int, int], bool] = lambda b, i, j: j <= i,
) -> Tensor:
    """Softmax over each row of logits, then the mean of the values, in loops."""
    out = torch.zeros(BATCH, HEADS, LENGTH, WIDTH, dtype=torch.float64)
    for b in range(BATCH):
        for h in range(HEADS):
            for i in range(LENGTH):
                seen = [j for j in range(LENGTH) if look(b, i, j)]
                powers = [math.exp(logit(b, h, i, j)) for j in seen]
                for j, power in zip(seen, powers, strict=True):
                    out[b, h, i] += power / sum(powers) * value(b, h, i, j)
    return out


def dot(a: Tensor, b: Tensor) -> float:
    return sum(x * y for x, y in zip(a.tolist(), b.tolist(), strict=True))


def close(got: Tensor, expected: Tensor, atol: float = 1e-12) -> None:
    torch.testing.assert_close(got, expected, rtol=0, atol=atol)


def own_segment(b: int, i: int, j: int) -> bool:
    return j <= i and bool(SEGMENTS[b, i] == SEGMENTS[b, j])


# --- Shaw et al.: a bias made of the query, and an addition to the values -----------


class Shaw(Scheme):
    """Relative vectors on keys and values, clipped."""

    def __init__(self, geometry: Geometry, clip: int) -> None:
        super().__init__(geometry)
        self.clip = clip
        rows = 2 * clip + 1
        self.on_keys = nn.Parameter(normal(rows, geometry.head_dim, seed=3))
        self.on_values = nn.Parameter(normal(rows, geometry.head_dim, seed=4))

    def row(self, call: Call) -> Tensor:
        offset = call.k_positions[:, None, :] - call.q_positions[:, :, None]
        clipped = offset.clamp(-self.clip, self.clip) + self.clip
        return clipped.expand(call.q.shape[0], -1, -1)  # (batch, query, key)

    def pair_bias(self, call: Call) -> PairBias:
        product = call.q @ self.on_keys.T * self.scale(call.q.shape[-1])
        row = self.row(call)
        return lambda b, h, i, j: product[b, h, i, row[b, i, j]]

    def values(self, weights: Tensor, call: Call) -> Tensor:
        return torch.einsum("bhij,bijd->bhid", weights, self.on_values[self.row(call)])


@pytest.mark.parametrize("positions", [RUN, torch.tensor([0, 2, 3, 9, 4, 4, 1])])
def test_shaw(positions: Tensor) -> None:
    q, k, v = vectors()
    scheme = Shaw(GEOMETRY, clip=2)
    places = positions.tolist()

    def row(i: int, j: int) -> int:
        return max(-2, min(2, places[j] - places[i])) + 2

    expected = naive(
        lambda b, h, i, j: (
            dot(q[b, h, i], k[b, h, j] + scheme.on_keys.data[row(i, j)])
            / math.sqrt(WIDTH)
        ),
        lambda b, h, i, j: v[b, h, j] + scheme.on_values.data[row(i, j)],
    )
    got = attention(q, k, v, scheme=scheme, positions=positions)
    close(got.detach(), expected)
    rows = torch.stack([positions, positions + 5])
    close(attention(q, k, v, scheme=scheme, positions=rows).detach(), expected)


def test_shaw_trains_and_is_nope_with_empty_tables() -> None:
    q, k, v = vectors()
    scheme = Shaw(GEOMETRY, clip=2)

    def run(*_: Tensor) -> Tensor:
        return attention(
            q[:1, :, :4], k[:1, :, :4], v[:1, :, :4], scheme=scheme, positions=RUN[:4]
        )

    assert torch.autograd.gradcheck(run, (scheme.on_keys, scheme.on_values))
    with torch.no_grad():
        scheme.on_keys.zero_()
        scheme.on_values.zero_()
        got = attention(q, k, v, scheme=scheme, positions=RUN)
    close(got, attention(q, k, v, scheme=create("nope"), positions=RUN))


# --- Transformer-XL: two different queries, the bias from the unchanged one ---------


class TransformerXL(Scheme):
    """`(q + u) k + (q + v) W r(i - j)`."""

    def __init__(self, geometry: Geometry) -> None:
        super().__init__(geometry)
        heads, width = geometry.heads, geometry.head_dim
        self.u = nn.Parameter(normal(heads, width, seed=3))
        self.v = nn.Parameter(normal(heads, width, seed=4))
        self.w = nn.Parameter(normal(heads, width, geometry.model_dim, seed=5))

    def query(self, q: Tensor, positions: Tensor) -> Tensor:
        return q + self.u[:, None]

    def pair_bias(self, call: Call) -> PairBias:
        batch, _, queries, width = call.q.shape
        past = call.q_positions[:, :, None] - call.k_positions[:, None, :]
        most = int(past.abs().max())
        sinusoids = create("sinusoidal", options={"layout": "concatenated"})
        distances = torch.arange(-most, most + 1)
        zero = call.q.new_zeros(1, len(distances), self.geometry.model_dim)
        codes = sinusoids.embed(zero, distances)[0]
        projected = torch.einsum("hdm,rm->hrd", self.w, codes)
        product = (call.q + self.v[:, None]) @ projected.mT * self.scale(width)
        row = (past + most).expand(batch, queries, -1)
        return lambda b, h, i, j: product[b, h, i, row[b, i, j]]


def test_transformer_xl() -> None:
    q, k, v = vectors()
    scheme = TransformerXL(GEOMETRY)
    places = [3, 4, 6, 10, 11, 12, 20]
    half = GEOMETRY.model_dim // 2
    u, bias_v, w = (p.data for p in (scheme.u, scheme.v, scheme.w))

    def sinusoid(distance: int) -> Tensor:
        angles = [distance * 10_000 ** (-m / half) for m in range(half)]
        waves = [math.sin(a) for a in angles] + [math.cos(a) for a in angles]
        return torch.tensor(waves, dtype=torch.float64)

    def logit(b: int, h: int, i: int, j: int) -> float:
        content = dot(q[b, h, i] + u[h], k[b, h, j])
        place = w[h] @ sinusoid(places[i] - places[j])
        return (content + dot(q[b, h, i] + bias_v[h], place)) / math.sqrt(WIDTH)

    positions = torch.tensor(places)
    expected = naive(logit, lambda b, h, i, j: v[b, h, j])
    for path in ("auto", "plain"):
        got = attention(q, k, v, scheme=scheme, positions=positions, path=path)
        close(got.detach(), expected, atol=1e-11)
    both = naive(logit, lambda b, h, i, j: v[b, h, j], lambda b, i, j: True)
    got = attention(
        q, k, v, scheme=scheme, positions=positions, mask=Mask(causal=False)
    )
    close(got.detach(), both, atol=1e-11)


# --- xPos: queries and keys change differently ---------------------------------------


class XPos(Rope):
    """A rotation, and a decay that queries gain and keys lose."""

    causal_only = True

    def decay(self, positions: Tensor, sign: int) -> Tensor:
        pairs = self.turned // 2
        zeta = (torch.arange(pairs).double() / pairs + 0.4) / 1.4
        powers = zeta ** (sign * positions[..., None].double() / 512)
        return powers.repeat_interleave(2, dim=-1)[..., None, :, :]

    def query(self, q: Tensor, positions: Tensor) -> Tensor:
        return super().query(q, positions) * self.decay(positions, 1)

    def key(self, k: Tensor, positions: Tensor) -> Tensor:
        return super().key(k, positions) * self.decay(positions, -1)


def test_xpos() -> None:
    q, k, v = vectors()
    places = [0, 1, 5, 40, 300, 301, 900]
    scheme = XPos(GEOMETRY)

    def logit(b: int, h: int, i: int, j: int) -> float:
        distance, total = places[i] - places[j], 0.0
        for m in range(WIDTH // 2):
            one = complex(q[b, h, i, 2 * m], q[b, h, i, 2 * m + 1])
            other = complex(k[b, h, j, 2 * m], k[b, h, j, 2 * m + 1])
            zeta = (2 * m / WIDTH + 0.4) / 1.4
            turn = cmath.exp(1j * distance * 10_000 ** (-2 * m / WIDTH))
            total += (one * other.conjugate() * turn).real * zeta ** (distance / 512)
        return total / math.sqrt(WIDTH)

    expected = naive(logit, lambda b, h, i, j: v[b, h, j])
    positions = torch.tensor(places)
    close(attention(q, k, v, scheme=scheme, positions=positions), expected)
    # Raw keys in the cache: the code of a key does not depend on the piece it is in.
    last = attention(
        q[:, :, 5:],
        k,
        v,
        scheme=scheme,
        positions=positions[5:],
        key_positions=positions,
    )
    close(last, expected[:, :, 5:])
    with pytest.raises(ConfigError, match="needs a causal mask"):
        attention(q, k, v, scheme=scheme, positions=positions, mask=Mask(causal=False))


# --- FoX: a gate of the token, summed along the sequence ------------------------------


class Fox(Scheme):
    """Forgets by the product of gates between key and query."""

    causal_only = True

    def __init__(self, geometry: Geometry) -> None:
        super().__init__(geometry)
        self.gate = nn.Linear(geometry.model_dim, geometry.heads, dtype=torch.float64)
        with torch.no_grad():
            self.gate.weight.copy_(normal(geometry.heads, geometry.model_dim, seed=3))
            self.gate.bias.copy_(normal(geometry.heads, seed=4))

    def token_state(self, x: Tensor, past: Tensor | None = None) -> Tensor:
        total = nn.functional.logsigmoid(self.gate(x)).cumsum(dim=1)
        if past is None:
            return total
        return torch.cat([past, past[:, -1:] + total], dim=1)

    def pair_bias(self, call: Call) -> PairBias:
        total, past = call.state, call.past
        assert total is not None
        return lambda b, h, i, j: total[b, i + past, h] - total[b, j, h]


def fox_logit(scheme: Fox, x: Tensor, q: Tensor, k: Tensor) -> Pair:
    def logit(b: int, h: int, i: int, j: int) -> float:
        kept = 1.0
        for t in range(j + 1, i + 1):
            z = dot(scheme.gate.weight.data[h], x[b, t])
            kept *= 1 / (1 + math.exp(-z - scheme.gate.bias.data[h].item()))
        return dot(q[b, h, i], k[b, h, j]) / math.sqrt(WIDTH) + math.log(kept)

    return logit


def test_fox() -> None:
    q, k, v = vectors()
    x = normal(BATCH, LENGTH, GEOMETRY.model_dim, seed=8)
    scheme = Fox(GEOMETRY).requires_grad_(False)
    expected = naive(fox_logit(scheme, x, q, k), lambda b, h, i, j: v[b, h, j])
    state = scheme.token_state(x)
    paths: list[Path] = ["dense", "plain", "flex"]
    for path in paths:
        with warnings.catch_warnings():
            warnings.filterwarnings(
                "ignore", message=r"flex_attention called without torch\.compile"
            )
            got = attention(
                q, k, v, scheme=scheme, positions=RUN, state=state, path=path
            )
        close(got, expected)


@pytest.mark.parametrize("steps", [[5, 1, 1], [3, 4], [1] * 7])
def test_fox_while_decoding(steps: list[int]) -> None:
    q, k, v = vectors()
    x = normal(BATCH, LENGTH, GEOMETRY.model_dim, seed=8)
    scheme = Fox(GEOMETRY).requires_grad_(False)
    expected = naive(fox_logit(scheme, x, q, k), lambda b, h, i, j: v[b, h, j])
    state, start, outs = None, 0, []
    for step in steps:
        stop = start + step
        state = scheme.token_state(x[:, start:stop], state)
        outs.append(
            attention(
                q[:, :, start:stop],
                k[:, :, :stop],
                v[:, :, :stop],
                scheme=scheme,
                positions=RUN[start:stop],
                key_positions=RUN[:stop],
                state=state,
            )
        )
        start = stop
    close(torch.cat(outs, dim=2), expected)


def test_fox_packed_sums_need_no_reset() -> None:
    q, k, v = vectors()
    x = normal(BATCH, LENGTH, GEOMETRY.model_dim, seed=8)
    scheme = Fox(GEOMETRY).requires_grad_(False)
    expected = naive(
        fox_logit(scheme, x, q, k), lambda b, h, i, j: v[b, h, j], own_segment
    )
    got = attention(
        q,
        k,
        v,
        scheme=scheme,
        positions=RUN,
        mask=Mask(segments=SEGMENTS),
        state=scheme.token_state(x),
    )
    close(got, expected)


# --- CoPE: positions counted by gates over the whole row ------------------------------


class Cope(Scheme):
    """Contextual positions: how many gates are open from the key to the query."""

    causal_only = True

    def __init__(self, geometry: Geometry, most: int) -> None:
        super().__init__(geometry)
        self.table = nn.Parameter(normal(most, geometry.head_dim, seed=3))

    def scores(self, logits: Tensor, call: Call) -> Tensor:
        gates = logits.sigmoid().masked_fill(~call.keep(), 0.0)
        place = gates.flip(-1).cumsum(-1).flip(-1).clamp(max=len(self.table) - 1)
        product = call.q @ self.table.T  # not divided, as in the paper
        low, high = place.floor().long(), place.ceil().long()
        share = place - low
        mixed = (1 - share) * product.gather(-1, low)
        return logits + mixed + share * product.gather(-1, high)


def cope_logit(
    scheme: Cope,
    q: Tensor,
    k: Tensor,
    look: Callable[[int, int, int], bool],
) -> Pair:
    table = scheme.table.data

    def product(b: int, h: int, i: int, j: int) -> float:
        return dot(q[b, h, i], k[b, h, j]) / math.sqrt(WIDTH)

    def logit(b: int, h: int, i: int, j: int) -> float:
        place = 0.0
        for t in range(j, LENGTH):
            if look(b, i, t):
                place += 1 / (1 + math.exp(-product(b, h, i, t)))
        place = min(place, len(table) - 1)
        below = math.floor(place)
        share = place - below
        after = min(below + 1, len(table) - 1)
        entry = (1 - share) * table[below] + share * table[after]
        return product(b, h, i, j) + dot(q[b, h, i], entry)

    return logit


@pytest.mark.parametrize("most", [2, 8])
@pytest.mark.parametrize("packed", [False, True])
def test_cope(most: int, packed: bool) -> None:
    q, k, v = vectors()
    scheme = Cope(GEOMETRY, most)
    look = own_segment if packed else lambda b, i, j: j <= i
    expected = naive(
        cope_logit(scheme, q, k, look), lambda b, h, i, j: v[b, h, j], look
    )
    got = attention(
        q,
        k,
        v,
        scheme=scheme,
        positions=RUN,
        mask=Mask(segments=SEGMENTS if packed else None),
    )
    close(got.detach(), expected)
    if not packed:
        last = attention(
            q[:, :, 4:], k, v, scheme=scheme, positions=RUN[4:], key_positions=RUN
        )
        close(last.detach(), expected[:, :, 4:])
    with pytest.raises(ConfigError, match=r"path 'dense' cannot serve .* plain can"):
        attention(q, k, v, scheme=scheme, positions=RUN, path="dense")


# --- M-RoPE: positions of three axes --------------------------------------------------


class MRope(Rope):
    """A pair turns with time, height or width: two sections of one pair, one of one."""

    axes = 3

    def angles(self, positions: Tensor) -> Tensor:
        per_axis = [
            super(MRope, self).angles(positions[..., axis]) for axis in range(3)
        ]
        pairs = [per_axis[axis][..., axis] for axis in range(3)]
        return torch.stack(pairs, dim=-1)


def test_m_rope_turns_each_pair_with_its_axis() -> None:
    q, k, v = vectors()
    generator = torch.Generator().manual_seed(5)
    ids = torch.randint(0, 50, (BATCH, LENGTH, 3), generator=generator)

    def logit(b: int, h: int, i: int, j: int) -> float:
        total = 0.0
        for m in range(3):
            one = complex(q[b, h, i, 2 * m], q[b, h, i, 2 * m + 1])
            other = complex(k[b, h, j, 2 * m], k[b, h, j, 2 * m + 1])
            offset = int(ids[b, i, m] - ids[b, j, m])
            turn = cmath.exp(1j * offset * 10_000 ** (-2 * m / WIDTH))
            total += (one * other.conjugate() * turn).real
        return total / math.sqrt(WIDTH)

    expected = naive(logit, lambda b, h, i, j: v[b, h, j])
    scheme = MRope(GEOMETRY)
    paths: list[Path] = ["fused", "dense", "plain"]
    for path in paths:
        got = attention(q, k, v, scheme=scheme, positions=ids, path=path)
        close(got, expected)
    last = attention(
        q[:, :, 4:], k, v, scheme=scheme, positions=ids[:, 4:], key_positions=ids
    )
    close(last, expected[:, :, 4:])


def test_m_rope_with_equal_ids_is_rope() -> None:
    q, k, v = vectors()
    ids = RUN[:, None].expand(1, LENGTH, 3)
    got = attention(q, k, v, scheme=MRope(GEOMETRY), positions=ids)
    rope = attention(q, k, v, scheme=Rope(GEOMETRY), positions=RUN)
    assert torch.equal(got, rope)


def test_offsets_need_one_axis() -> None:
    q, k, v = vectors()
    scheme = create("alibi", model_dim=GEOMETRY.model_dim, heads=HEADS)
    ids = torch.zeros(BATCH, LENGTH, 3, dtype=torch.int64)
    with pytest.raises(
        ShapeError, match=r"positions must be \(7,\) or \(2, 7\), got \(2, 7, 3\)"
    ):
        attention(q, k, v, scheme=scheme, positions=ids)


# --- Randomized positions: other ids, once per sequence -------------------------------


class Randomized(Rope):
    """Replace the ids by a sorted sample from a longer range."""

    most = 512

    def positions(
        self, positions: Tensor, generator: torch.Generator | None = None
    ) -> Tensor:
        draws = [
            torch.randperm(self.most, generator=generator)[: len(row)].sort().values
            for row in positions.reshape(-1, positions.shape[-1])
        ]
        return torch.stack(draws).view_as(positions)


def test_randomized_positions() -> None:
    q, k, v = vectors()
    scheme = Randomized(GEOMETRY)
    rows = RUN.expand(BATCH, -1)
    ids = scheme.positions(rows, torch.Generator().manual_seed(3))
    assert torch.equal(ids, scheme.positions(rows, torch.Generator().manual_seed(3)))
    assert not torch.equal(ids[0], ids[1])
    assert scheme.positions(RUN, torch.Generator().manual_seed(3)).equal(ids[0])
    assert (ids.diff(dim=1) > 0).all()
    assert ids.max() > LENGTH

    def logit(b: int, h: int, i: int, j: int) -> float:
        total = 0.0
        for m in range(WIDTH // 2):
            one = complex(q[b, h, i, 2 * m], q[b, h, i, 2 * m + 1])
            other = complex(k[b, h, j, 2 * m], k[b, h, j, 2 * m + 1])
            offset = int(ids[b, i] - ids[b, j])
            turn = cmath.exp(1j * offset * 10_000 ** (-2 * m / WIDTH))
            total += (one * other.conjugate() * turn).real
        return total / math.sqrt(WIDTH)

    expected = naive(logit, lambda b, h, i, j: v[b, h, j])
    close(attention(q, k, v, scheme=scheme, positions=ids), expected)
    last = attention(
        q[:, :, 6:], k, v, scheme=scheme, positions=ids[:, 6:], key_positions=ids
    )
    close(last, expected[:, :, 6:])
    # Attention itself draws nothing: it takes the ids it is given.
    given = attention(q, k, v, scheme=scheme, positions=RUN)
    close(given, attention(q, k, v, scheme=Rope(GEOMETRY), positions=RUN), atol=0)


def test_nothing_here_was_registered() -> None:
    modules = {entry.module for entry in SCHEMES.entries().values()}
    assert __name__ not in modules
