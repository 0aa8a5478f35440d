"""Logits that depend on tokens against slow sums, one pair of tokens at a time."""

import cmath
import math
from fractions import Fraction
from functools import cache
from itertools import product
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from schemes.reference import Case, Inputs, LogitTests, SchemeTests, combine
from schemes.tools import (
    check_float32_holds_over_a_long_text,
    close,
    dot,
    drawn,
    grid,
    normal,
    pair_by_pair,
    rotation_by_complex,
    vectors,
)
from torch import Tensor

from posenc_compare.attention import Mask, Session, attention, attention_logits
from posenc_compare.errors import ConfigError, UndefinedPositionError
from posenc_compare.schemes import Scheme, create
from posenc_compare.schemes.shared.slopes import slopes
from posenc_compare.schemes.wall import BLOCK

BATCH, HEADS, WIDTH, LENGTH, DIM = 2, 2, 6, 9, 10
RUN = torch.arange(LENGTH)
SIZES: dict[str, Any] = {"model_dim": DIM, "heads": HEADS, "head_dim": WIDTH}


def inputs(length: int = LENGTH) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Return queries, keys, values and hidden states."""
    q, k, v = vectors(BATCH, HEADS, length, WIDTH)
    return q, k, v, normal(BATCH, length, DIM, seed=3)


def sigmoid(z: float) -> float:
    return 1 / (1 + math.exp(-z))


def scaled_product(t: Inputs, b: int, h: int, i: int, j: int) -> float:
    total = dot(t.q[b, h, i].tolist(), t.k[b, h, j].tolist())
    return total / math.sqrt(t.q.shape[-1])


def opened(layer: Any, head: int, token: Tensor) -> float:
    """Return one gate that a token makes."""
    return sigmoid(float(layer.weight[head] @ token + layer.bias[head]))


def said(scheme: Any, head: int, token: Tensor) -> float:
    """Return f of one token for one head."""
    z = dot(scheme.say.weight[head].tolist(), token.tolist())
    if scheme.say.bias is not None:
        z += float(scheme.say.bias[head])
    return 1 / (1 + math.log1p(math.exp(z)))


class TestCaRope(LogitTests):
    """CARoPE against angles summed token by token."""

    name = "ca_rope"
    sizes = SIZES
    places = [RUN.tolist(), (RUN + 3).tolist()]
    starts_as = [({"base": base}, f"rope:base={base}") for base in (100.0, 1e9)]
    cases = combine(layout=("adjacent", "half"), start=("rope", "half"))
    changes = [{"base": 100.0}, {"start": "half"}]

    def logit(self, t: Inputs, b: int, h: int, i: int, j: int) -> float:
        """Turn a pair by what the tokens after the key say."""
        tokens = t.x[b, min(i, j) + 1 : max(i, j) + 1]
        sign = 1 if i >= j else -1
        turns = [
            sign * math.fsum(said(t.scheme, h, token) ** pair for token in tokens)
            for pair in range(WIDTH // 2)
        ]
        factors = [cmath.exp(1j * turn) for turn in turns]
        both = t.q[b, h, i], t.k[b, h, j]
        return rotation_by_complex(*both, factors, t.option("layout"))

    def test_without_c_all_tokens_start_alike(self) -> None:
        scheme = self.make(start="half")
        assert scheme.say.bias is None
        state = scheme.token_state(inputs()[3])
        close(state, torch.full_like(state, 1 / (1 + math.log(2))))

    def test_a_token_that_says_nothing_has_a_finite_gradient(self) -> None:
        state = torch.zeros(1, LENGTH, HEADS, dtype=torch.float64, requires_grad=True)
        angles = self.drawn().angles(state)
        assert (angles[..., 1:] == 0).all()
        angles.sum().backward()
        assert state.grad is not None
        assert state.grad.isfinite().all()

    def test_angles_far_into_a_text_are_not_rounded_away(self) -> None:
        scheme = self.make().requires_grad_(False)
        angles = scheme.angles(scheme.token_state(torch.zeros(1, 65_536, DIM)))
        steps = angles[0, 0].diff(dim=0)
        close(steps, steps[:1].expand_as(steps), 1e-9)


class TestCope(LogitTests):
    """CoPE against the paper's sums, one key at a time."""

    name = "cope"
    causal = True
    sizes = {"model_dim": HEADS * WIDTH, "heads": HEADS, "length": 16}
    cases = combine(limit=(1, 2, 4, 0), scaled=(False, True))
    starts_as = [({}, "nope")]
    changes = [{"limit": 3}]

    def logits(self, t: Inputs) -> Tensor:
        table = t.scheme.table.tolist()
        factor = 1 / math.sqrt(WIDTH) if t.option("scaled") else 1.0
        logits = torch.full((*t.q.shape[:3], t.q.shape[2]), -math.inf).double()
        for b, h, i in product(*map(range, t.q.shape[:3])):
            query, place = t.q[b, h, i].tolist(), 0.0
            for j in range(i, -1, -1):
                content = dot(query, t.k[b, h, j].tolist()) / math.sqrt(WIDTH)
                place += 1 / (1 + math.exp(-content))
                clamped = min(place, len(table) - 1)
                below = min(math.floor(clamped), len(table) - 1)
                above = min(below + 1, len(table) - 1)
                share = clamped - below
                low, high = dot(query, table[below]), dot(query, table[above])
                between = (1 - share) * low + share * high
                logits[b, h, i, j] = content + between * factor
        return logits

    def test_bfloat16_counts_in_float32(self) -> None:
        length = 600  # more than the 256 whole numbers that bfloat16 holds
        one = torch.ones(1, HEADS, length, WIDTH, dtype=torch.bfloat16)
        scheme = create(
            "cope", model_dim=HEADS * WIDTH, heads=HEADS, length=length
        ).requires_grad_(False)
        scheme.get_parameter("table").copy_(torch.arange(length + 1.0)[:, None] / WIDTH)
        got = attention_logits(
            one, 40 * one, scheme=scheme, positions=torch.arange(length)
        )
        content = 40 * WIDTH / math.sqrt(WIDTH)
        counted = got[0, 0, -1] - content
        expected = torch.arange(length, 0, -1).float()
        torch.testing.assert_close(counted, expected, rtol=1e-5, atol=1e-3)


class WrapperTests(SchemeTests):
    """A scheme around another; what the pair means is in `test_scheme_pairs.py`."""

    def output(self, scheme: Scheme) -> Tensor:
        sizes = scheme.geometry
        q, k, v = vectors(BATCH, sizes.heads, LENGTH, sizes.head_dim)
        return attention(q, k, v, scheme=scheme, positions=RUN)


class TestDape(WrapperTests):
    name = "dape"
    sizes = {"model_dim": 18, "heads": 3}
    changes = [{"width": 7}, {"base": "t5_bias"}]

    def test_facts_are_those_of_the_base(self) -> None:
        fire = self.drawn(base="fire")
        assert fire.facts.causal_only
        assert not fire.facts.relative
        kerple = self.drawn(base="kerple_log")
        assert kerple.facts.relative
        assert kerple.facts.known_faults.keys() == {"C15"}
        assert not self.drawn().facts.known_faults


def slow_bucket(distance: int, buckets: int, reach: int) -> int:
    """m + ceil(ln(n / m) / ln((reach - 1) / m) * (m - 1)), decided by fractions."""
    middle, n = buckets // 2, abs(distance)
    if n <= middle:
        return distance
    reached, step = Fraction(n, middle) ** (middle - 1), 0
    while Fraction(reach - 1, middle) ** step < reached:
        step += 1
    return (middle + step) * (1 if distance > 0 else -1)


class TestDeberta(LogitTests):
    """DeBERTa's products against the paper's sums, its buckets against fractions."""

    name = "deberta"
    sizes = {"model_dim": DIM, "heads": HEADS, "head_dim": WIDTH, "length": 8}
    cases = [
        {"reach": reach, "buckets": buckets, "p2c_index": index}
        for index in ("code", "paper")
        for reach, buckets in ((2, 0), (5, 0), (40, 0), (20, 8))
    ]

    def logits(self, t: Inputs) -> Tensor:
        """Content to content, content to position, position to content."""
        scheme, places = t.scheme, t.positions.tolist()
        reach, buckets = t.option("reach"), t.option("buckets")
        span, table = buckets or reach, scheme.table.tolist()

        @cache
        def projected(layer: Tensor, head: int, distance: int) -> list[float]:
            step = slow_bucket(distance, buckets, reach) if buckets else distance
            row = table[min(max(step + span, 0), 2 * span - 1)]
            return [dot(w, row) for w in layer.view(HEADS, WIDTH, DIM)[head].tolist()]

        def logit(b: int, h: int, i: int, j: int) -> float:
            distance = places[b][i] - places[b][j]
            turned = distance if t.option("p2c_index") == "code" else -distance
            key_row = projected(scheme.to_keys.weight, h, distance)
            query_row = projected(scheme.to_queries.weight, h, turned)
            query, key = t.q[b, h, i].tolist(), t.k[b, h, j].tolist()
            total = dot(query, key) + dot(query, key_row) + dot(key, query_row)
            return total / math.sqrt(3 * WIDTH)

        return pair_by_pair(t.q, logit)

    @pytest.mark.parametrize(
        ("buckets", "reach"),
        [(4, 4), (8, 20), (16, 10), (32, 128), (256, 512), (10, 100)],
    )
    def test_buckets_equal_exact_fractions(self, buckets: int, reach: int) -> None:
        scheme = self.drawn(reach=reach, buckets=buckets)
        distances = range(-2 * reach, 2 * reach + 1, 1 if reach < 200 else 7)
        got = scheme.rows(torch.tensor(distances)).tolist()
        steps = [slow_bucket(n, buckets, reach) + buckets for n in distances]
        assert got == [min(max(step, 0), 2 * buckets - 1) for step in steps]


class TestErpe(LogitTests):
    """eRPE: weights of the softmax and a number for each offset."""

    name = "erpe"
    sizes = {"heads": 3, "head_dim": 8, "length": 16}
    noise = 1.0
    places = [[0, 1, 2, 10, 7, 15], [33, 34, 35, 36, 40, 44]]
    cases = [Case(heads=heads) for heads in (1, 3)] + [Case({"length": 20})]
    starts_as = [({}, "nope")]

    def logit(self, t: Inputs, b: int, h: int, i: int, j: int) -> float:
        return scaled_product(t, b, h, i, j)

    def read(self, t: Inputs, logits: Tensor) -> Tensor:
        """Add `w_(i - j + L)`, counted from 1, to the weight of every key seen."""
        table, out = t.scheme.table.tolist(), torch.zeros_like(t.v)
        longest, places = t.option("length") or 16, t.positions.tolist()
        for b, h, i in product(*map(range, out.shape[:3])):
            row = logits[b, h, i].tolist()
            seen = [j for j, logit in enumerate(row) if logit > -math.inf]
            total = math.fsum(math.exp(row[j]) for j in seen)
            for j in seen:
                place = places[b][i] - places[b][j] + longest
                weight = math.exp(row[j]) / total + table[place - 1][h]
                out[b, h, i] += weight * t.v[b, h, j]
        return out

    def test_a_window_hides_keys_from_the_table_too(self) -> None:
        scheme, (q, k, v) = self.make(1.0), vectors(1, 3, 6, 8)
        call = {"scheme": scheme, "positions": torch.arange(6)}
        near = attention(q, k, v, mask=Mask(window=2), **call)
        far = v.clone()
        far[:, :, :3] += 1
        again = attention(q, k, far, mask=Mask(window=2), **call)
        assert torch.equal(again[:, :, 4:], near[:, :, 4:])
        assert not torch.equal(again[:, :, 3], near[:, :, 3])

    def test_a_hidden_token_may_be_farther_than_the_table_is_long(self) -> None:
        scheme, (q, k, v) = self.make(1.0), vectors(1, 3, 4, 8)
        places = torch.tensor([0, 1, 900, 901])
        mask = Mask(segments=torch.tensor([[0, 0, 1, 1]]))
        got = attention(q, k, v, scheme=scheme, positions=places, mask=mask)
        reset = attention(q, k, v, scheme=scheme, positions=places % 900, mask=mask)
        close(got, reset)
        with pytest.raises(UndefinedPositionError, match="to 15, got 901"):
            attention(q, k, v, scheme=scheme, positions=places)


class TestFox(LogitTests):
    """FoX against products of gates, one pair of tokens at a time."""

    name = "fox"
    causal = True
    sizes = SIZES
    places = [RUN.tolist(), (RUN + 3).tolist()]
    atol = 1e-13
    # The sigmoid of this bias is exp(-slope).
    slope = torch.tensor(slopes(HEADS), dtype=torch.float64)
    steady = {"gate.weight": 0, "gate.bias": -torch.expm1(slope).log()}
    identities = [({}, {"gate.bias": 100}, "nope"), ({}, steady, "alibi")]
    changes = [{"std": 0.5}, {"bias": 5.0}]

    def logit(self, t: Inputs, b: int, h: int, i: int, j: int) -> float:
        """`q k / sqrt(d) + log` of the product of the gates of j + 1 ... i."""
        tokens = t.x[b, j + 1 : i + 1]
        kept = math.prod(opened(t.scheme.gate, h, token) for token in tokens)
        return scaled_product(t, b, h, i, j) + math.log(kept)

    def test_sums_are_exact_far_into_a_text(self) -> None:
        # In float32 a sum of 14 000 is known to 0.001 only.
        scheme = create("fox", options={"std": 0.0}, model_dim=4, heads=1)
        state = scheme.token_state(torch.zeros(1, 20_000, 4, dtype=torch.bfloat16))
        assert state is not None
        steps = state[0, :, 0].diff()
        expected = torch.full_like(steps, -math.log(2))
        close(steps, expected, 1e-7)


class TestGrapeA(LogitTests):
    name = "grape_a"
    sizes = {"model_dim": 24, "heads": 3}
    places = [[0, 1, 2, 40, 7, 300], [300, 7, 40, 2, 1, 0]]
    atol = 1e-11
    cases = [{"gate": "query"}, {"gate": "key"}]
    # Without a direction, the slope is multiplied by log(2) and this softplus.
    still = {"direction": 0, "steepness": math.log(math.expm1(1 / math.log(2)))}
    identities = [({}, still, "alibi"), ({"gate": "key"}, still, "alibi")]

    def logit(self, t: Inputs, b: int, h: int, i: int, j: int) -> float:
        direction = t.scheme.direction[h].tolist()
        length = math.sqrt(dot(direction, direction))
        x = t.q[b, h, i] if t.option("gate") == "query" else t.k[b, h, j]
        along = dot(direction, x.tolist()) / length / math.sqrt(8)
        steep = math.log1p(math.exp(t.scheme.steepness[h].item()))
        distance = abs(int(t.positions[b, i] - t.positions[b, j]))
        bias = -distance * steep * slopes(3)[h] * math.log1p(math.exp(along))
        return scaled_product(t, b, h, i, j) + bias


PATH = 4


def turned(vector: list[float], angle: int) -> list[float]:
    """Turn channel c and c + 2 of four, every pair by the same angle."""
    cosine, sine = math.cos(angle), math.sin(angle)
    first = [vector[c] * cosine - vector[c + 2] * sine for c in range(2)]
    return first + [vector[c] * sine + vector[c + 2] * cosine for c in range(2)]


class TestGrapeAp(LogitTests):
    """GRAPE-AP against the sum over the path, one pair of tokens at a time."""

    name = "grape_ap"
    causal = True
    sizes = {"model_dim": 12, "heads": 3, "head_dim": 6}
    places = [[3, 4, 5, 9, 10, 30, 31], [0, 1, 2, 3, 4, 50, 51]]
    cases = [{"turned": turned, "width": PATH} for turned in ("tokens", "both")]

    def logits(self, t: Inputs) -> Tensor:
        """`q k / sqrt(d)` and the shares of all tokens after the key."""
        weight, places = t.scheme.path.weight.tolist(), t.positions.tolist()
        logits = torch.full((*t.q.shape[:3], 7), -math.inf).double()
        for b, h, i in product(*map(range, t.q.shape[:3])):
            made = [[dot(row, token.tolist()) for row in weight] for token in t.x[b]]
            p = [vector[PATH * h : PATH * (h + 1)] for vector in made]
            both = t.option("turned") == "both"
            asked, taken = turned(p[i], places[b][i]) if both else p[i], 0.0
            for j in range(i, -1, -1):
                content = scaled_product(t, b, h, i, j)
                logits[b, h, i, j] = content + slopes(3)[h] * taken
                size = math.sqrt(dot(p[j], p[j]) / PATH)
                unit = turned([c / size for c in p[j]], places[b][j])
                taken -= math.log1p(math.exp(-dot(asked, unit) / PATH))
        return logits


SHORT: dict[str, Any] = {"model_dim": HEADS * WIDTH, "heads": HEADS, "length": 4}


class TestInkling(LogitTests):
    name = "inkling"
    sizes = SIZES
    cases = combine(rank=(1, 4), reach=(1, 8, 0), clip=(0.0, 2.0))
    identities = [({}, {"profiles": 0}, "nope"), ({}, {"mix.weight": 0}, "nope")]

    def logit(self, t: Inputs, b: int, h: int, i: int, j: int) -> float:
        """`q k / sqrt(d) + r P`, with nothing of P in the future and far away."""
        made = scaled_product(t, b, h, i, j)
        distance = int(t.positions[b, i] - t.positions[b, j])
        rank, clip = t.option("rank"), t.option("clip")
        reach = t.option("reach") or t.scheme.geometry.length
        if not 0 <= distance < reach:
            return made
        rows = t.scheme.mix.weight[h * rank : (h + 1) * rank].tolist()
        mixture = [dot(row, t.x[b, i].tolist()) for row in rows]
        norm = math.hypot(*mixture)
        if clip and norm > clip:
            mixture = [part * clip / (norm + 1e-6) for part in mixture]
        return made + dot(mixture, t.scheme.profiles[:, distance].tolist())


class TestLogLength(WrapperTests):
    """Logits that grow with the logarithm of the length, one query at a time."""

    name = "log_length"
    sizes = SHORT
    changes = [
        {"rule": "log"},
        {"start": 0.9},
        {"scheme": "alibi"},
        ({"rule": "llama4"}, {"floor": 3}),
    ]

    @pytest.mark.parametrize("floor", [3, 8192])
    def test_llama4_grows_with_the_steps_of_the_position(self, floor: int) -> None:
        q, k, _ = vectors(BATCH, HEADS, LENGTH, WIDTH)
        scheme = self.drawn(rule="llama4", floor=floor)
        rope = create("rope", **SHORT).double()
        for start in (0, 3, 20_000):
            positions = RUN + start
            plain, got = (
                attention_logits(q, k, scheme=one, positions=positions)
                for one in (rope, scheme)
            )
            for i, position in enumerate(positions.tolist()):
                factor = 1 + 0.1 * math.log(1 + (position + 1) // floor)
                close(got[:, :, i, : i + 1], plain[:, :, i, : i + 1] * factor, 1e-12)

    def test_ssmax_alone_is_relative_and_trained(self) -> None:
        found = {rule: self.drawn(rule=rule) for rule in ("ssmax", "log", "llama4")}
        assert [one.facts.relative for one in found.values()] == [True, False, False]
        assert [len(list(one.parameters())) for one in found.values()] == [1, 0, 0]
        for scheme, start in ((self.make(), 0.43), (self.make(start=0.5), 0.5)):
            steepness = scheme.float().steepness
            assert torch.equal(steepness, torch.full((HEADS,), start))
        assert [one.facts.per_layer for one in found.values()] == [True, False, False]

    def test_ssmax_alone_counts_tokens_where_the_scheme_inside_does(self) -> None:
        found = [
            self.drawn(rule=rule, scheme="fox") for rule in ("ssmax", "log", "llama4")
        ]
        assert [one.facts.by_order for one in found] == [True, False, False]

    def test_ssmax_needs_the_call(self) -> None:
        with pytest.raises(ConfigError, match="ssmax needs the call, got none"):
            self.drawn().query(torch.ones(1, HEADS, 2, WIDTH), RUN[:2])

    def test_ids_before_zero_have_the_least_factor(self) -> None:
        q = torch.ones(1, HEADS, 2, WIDTH).double()
        for rule in ("log", "llama4"):
            scheme = self.drawn(rule=rule, scheme="nope")
            close(scheme.query(q, torch.tensor([-9, -1])), q, 0)


def slow_direction(scheme: Any, x: Tensor, t: int) -> list[list[float]]:
    """w of token t in every head."""
    made = []
    for channel in range(HEADS * WIDTH):
        row = scheme.up.weight[channel] @ scheme.down.weight
        if scheme.taps is None:
            made.append(float(row @ x[t]))
            continue
        total = 0.0
        for back in range(3):
            if t >= back:
                total += float(scheme.taps.weight[channel, back] * (row @ x[t - back]))
        made.append(total * sigmoid(total))
    heads = [made[h * WIDTH : (h + 1) * WIDTH] for h in range(HEADS)]
    return [[c / math.hypot(*head) for c in head] for head in heads]


class TestPath(LogitTests):
    """PaTH against products of matrices written out, one pair of tokens at a time."""

    name = "path"
    causal = True
    sizes = SIZES
    cases = [
        {},
        {"convolve": False},
        {"forget": True},
        {"rank": 2},
        {"convolve": False, "forget": True, "rank": 1},
    ]
    identities = [({}, {"strength.bias": -1000}, "nope")]
    changes = [{"rank": 2}, {"convolve": False}, {"forget": True}]

    def logits(self, t: Inputs) -> Tensor:
        """`q_i H_i ... H_{j+1} k_j / sqrt(d)`, with a gate if there is one."""
        scheme, length = t.scheme, t.q.shape[2]
        logits = torch.full((*t.q.shape[:3], length), -math.inf).double()
        for b, x in enumerate(t.x):
            w = [slow_direction(scheme, x, n) for n in range(length)]
            for h in range(HEADS):
                matrices, gates = [], []
                for n in range(length):
                    beta = 2 * opened(scheme.strength, h, x[n])
                    direction = torch.tensor(w[n][h], dtype=torch.float64)
                    outer = direction[:, None] * direction
                    matrices.append(torch.eye(WIDTH).double() - beta * outer)
                    gate = opened(scheme.gate, h, x[n]) if scheme.gate else 1.0
                    gates.append(math.log(gate))
                for i in range(length):
                    product, kept = torch.eye(WIDTH).double(), 0.0
                    for j in range(i, -1, -1):
                        total = float(t.q[b, h, i] @ product @ t.k[b, h, j]) + kept
                        logits[b, h, i, j] = total / math.sqrt(WIDTH)
                        product = product @ matrices[j]
                        kept += gates[j]
        return logits

    def test_a_long_text_stays_finite_in_float32(self) -> None:
        scheme = self.make(heads=1)
        k, x = normal(1, 1, 700, WIDTH).float(), normal(1, 700, DIM).float()
        check_float32_holds_over_a_long_text(scheme, k, x)
        call = {"scheme": scheme.float(), "positions": torch.arange(700)}
        state = scheme.token_state(x.requires_grad_())
        attention(k, k, k, state=state, **call).square().sum().backward()
        assert x.grad is not None
        assert x.grad.isfinite().all()


class TestRepo(LogitTests):
    """RePo against rotations by positions computed token by token."""

    name = "repo"
    sizes = SIZES
    cases = [{"base": 100.0, "hidden": 3}]
    changes = [{"hidden": 3}]

    def logits(self, t: Inputs) -> Tensor:
        scheme = t.scheme

        def places(token: Tensor) -> list[float]:
            units = []
            both = zip(scheme.gate.weight, scheme.content.weight, strict=True)
            for gate, content in both:
                opened = dot(gate.tolist(), token.tolist())
                silu = opened * sigmoid(opened)
                units.append(silu * dot(content.tolist(), token.tolist()))
            return [dot(row.tolist(), units) for row in scheme.place.weight]

        found = [[places(token) for token in row] for row in t.x]

        def logit(b: int, h: int, i: int, j: int) -> float:
            away = found[b][i][h] - found[b][j][h]
            factors = [cmath.exp(1j * away * 100.0 ** (-pair / 3)) for pair in range(3)]
            return rotation_by_complex(t.q[b, h, i], t.k[b, h, j], factors, "half")

        return pair_by_pair(t.q, logit)


def said_by(scheme: Any, token: Tensor) -> tuple[list[float], list[float]]:
    """Return what a token says before the convolution, and its gates."""
    parts = [part.tolist() for part in token.split(DIM // HEADS)]
    unit = [c / math.sqrt(dot(part, part) + 1e-6) for part in parts for c in part]
    thin = [dot(row, unit) for row in scheme.down.weight.tolist()]
    gates = [1.0] * HEADS
    if scheme.gate is not None:
        weights, biases = scheme.gate.weight.tolist(), scheme.gate.bias.tolist()
        logits = [dot(w, unit) + c for w, c in zip(weights, biases, strict=True)]
        gates = [sigmoid(z) for z in logits]
    return [dot(row, thin) for row in scheme.up.weight.tolist()], gates


class TestSelectiveRope(LogitTests):
    """Selective RoPE against angles summed token by token."""

    name = "selective_rope"
    sizes = SIZES
    cases = [{"base": 100.0, "rank": 3, "gate": gate} for gate in (False, True)]
    identities = [({}, {"taps.weight": 0}, "nope")]
    changes = [{"rank": 3}, {"gate": True}]

    def logits(self, t: Inputs) -> Tensor:
        """Logits of pairs turned by what the tokens after the key say."""
        taps, length = t.scheme.taps.weight.tolist(), t.q.shape[2]
        turns = torch.zeros(len(t.x), length, HEADS, 3).double()
        for b, row in enumerate(t.x):
            said = [said_by(t.scheme, token) for token in row]
            for n, h, pair in product(range(length), range(HEADS), range(3)):
                channel, seen = 3 * h + pair, range(max(0, n - 3), n + 1)
                turns[b, n, h, pair] = said[n][1][h] * math.fsum(
                    taps[channel][n - u] * said[u][0][channel] for u in seen
                )

        def logit(b: int, h: int, i: int, j: int) -> float:
            between = turns[b, min(i, j) + 1 : max(i, j) + 1, h].sum(dim=0).tolist()
            signed = [turn if i >= j else -turn for turn in between]
            found = [turn * 100.0 ** (-pair / 3) for pair, turn in enumerate(signed)]
            factors = [cmath.exp(1j * turn) for turn in found]
            return rotation_by_complex(t.q[b, h, i], t.k[b, h, j], factors, "half")

        return pair_by_pair(t.q, logit)

    def test_query_needs_the_call(self) -> None:
        with pytest.raises(
            ConfigError, match="selective_rope: needs the call, got none"
        ):
            self.drawn().query(inputs()[0], RUN)


class TestDecomposed(LogitTests):
    name = "decomposed"
    sizes = {"model_dim": HEADS * WIDTH, "heads": HEADS, "length": 25}
    places = [grid(5, 5)[::4].tolist(), grid(5, 5)[:7].flip(0).tolist()]
    atol = 1e-13
    cases = [{}, {"height": 6, "width": 9}]
    starts_as = [({}, "nope")]

    def logit(self, t: Inputs, b: int, h: int, i: int, j: int) -> float:
        sides = [t.option(name) or 5 for name in ("height", "width")]
        apart = (t.positions[b, i] - t.positions[b, j]).tolist()
        row = t.scheme.rows[apart[0] + sides[0] - 1]
        column = t.scheme.columns[apart[1] + sides[1] - 1]
        return float(t.q[b, h, i] @ (t.k[b, h, j] / math.sqrt(WIDTH) + row + column))

    @pytest.mark.parametrize("sides", [(3, 4), (2, 9), (12, 1)])
    def test_tables_are_resized_to_the_image(self, sides: tuple[int, int]) -> None:
        scheme = self.drawn()
        cells = grid(*sides)
        q, k, _ = vectors(2, HEADS, len(cells), WIDTH)
        whole = Mask(causal=False)
        got = Session(scheme, cells, mask=whole).logits(0, q, k)
        moved = Session(scheme, cells + 3, mask=whole).logits(0, q, k)
        resized = [
            F.interpolate(table.mT[None], 2 * side - 1, mode="linear")[0].mT
            for table, side in zip((scheme.rows, scheme.columns), sides, strict=True)
        ]
        expected = q @ k.mT / math.sqrt(WIDTH)
        for i, j in product(range(len(cells)), repeat=2):
            offsets = (cells[i] - cells[j]).tolist()
            for table, offset, side in zip(resized, offsets, sides, strict=True):
                expected[:, :, i, j] += q[:, :, i] @ table[offset + side - 1]
        close(got, expected)
        close(moved, expected)

    @pytest.mark.parametrize("cell", [(5, 0), (0, 5), (-5, 2)])
    def test_cells_beyond_the_image_are_an_error(self, cell: tuple[int, int]) -> None:
        x, said = normal(1, HEADS, 2, WIDTH), "^decomposed: rows .* got 5; a Session, "
        places = torch.tensor([[0, 0], cell])
        with pytest.raises(UndefinedPositionError, match=said):
            attention(x, x, x, scheme=self.drawn(), positions=places)


def piecewise(x: float, ratio: float) -> int:
    """Equation 18 of iRPE, with alpha, beta and gamma of 1, 2 and 8 times the ratio."""
    alpha, beta, gamma = ratio, 2 * ratio, 8 * ratio
    if abs(x) <= alpha:
        return round(x)
    grown = math.log(abs(x) / alpha) / math.log(gamma / alpha) * (beta - alpha)
    return int(math.copysign(min(beta, round(alpha + grown)), x))


class TestIrpe(LogitTests):
    """iRPE against equations 13 to 25 of its paper, one pair of cells at a time."""

    name = "irpe"
    sizes = {"model_dim": HEADS * WIDTH, "heads": HEADS}
    places = [
        [[0, 0], [0, 1], [1, 1], [-2, 5], [3, 9], [40, -7]],
        [[9, 9], [2, 3], [2, 4], [5, 1], [90, 0], [6, 6]],
    ]
    atol = 1e-12
    cases = combine(
        method=("cross", "product", "euclidean"),  # the first runs on flex
        mode=("contextual", "bias"),
        per_head=(False, True),
        ratio=(0.0, 2.3),
    )
    starts_as = [({}, "nope"), ({"method": "cross", "mode": "bias"}, "nope")]
    changes = [{"method": "cross"}, {"mode": "bias"}, {"ratio": 0.5}]

    def logit(self, t: Inputs, b: int, h: int, i: int, j: int) -> float:
        down, right = (t.positions[b, i] - t.positions[b, j]).tolist()
        method, first = t.option("method"), h if t.option("per_head") else 0
        ratio = t.option("ratio") or {"product": 1.9}.get(method, 20.0)
        last = int(2 * ratio)
        one, other = (piecewise(n, ratio) + last for n in (down, right))
        places = {
            "product": [one * (2 * last + 1) + other],
            "cross": [one, other],
            "euclidean": [piecewise(round(math.hypot(down, right)), ratio)],
        }[method]
        added = 0.0
        for table, place in zip(t.scheme.tables, places, strict=True):
            row = table[first, place].tolist()
            query = t.q[b, h, i].tolist()
            contextual = t.option("mode") == "contextual"
            added += dot(query, row) / math.sqrt(WIDTH) if contextual else row[0]
        return scaled_product(t, b, h, i, j) + added

    @pytest.mark.parametrize(
        ("method", "ratio", "rows"),
        [
            # 50, 56 and 20 rows in the paper, of images of 14 x 14 patches. Each counts
            # one for the class token and leaves out rows that no offset reads.
            ("product", 1.9, 49),
            ("cross", 20.0, 81),
            ("euclidean", 20.0, 41),
            ("product", 0.5, 9),
        ],
    )
    def test_number_of_rows(self, method: str, ratio: float, rows: int) -> None:
        scheme: Any = self.make(method=method, ratio=ratio)
        assert [len(table[0]) for table in scheme.tables] == [rows] * len(scheme.tables)

    def test_rows_that_are_read_on_images_of_the_paper(self) -> None:
        cells, counts = grid(14, 14), {"product": 49, "cross": 54, "euclidean": 19}
        q = torch.ones(1, 1, len(cells), 1).double()
        for method, count in counts.items():
            scheme = self.make(heads=1, head_dim=1, method=method, mode="bias")
            call = {"positions": cells, "mask": Mask(causal=False)}
            scheme.requires_grad_()
            attention_logits(q, q, scheme=scheme, **call).sum().backward()
            found = [table.grad.count_nonzero() for table in scheme.parameters()]
            assert sum(found) == count


class TestShaw(LogitTests):
    """Shaw's vectors against the paper's sums, one pair of tokens at a time."""

    name = "shaw"
    sizes = {"model_dim": HEADS * WIDTH, "heads": HEADS}
    atol = 1e-13
    cases = combine(reach=(1, 3), values=(False, True), per_head=(False, True))
    identities = [({}, {"on_keys": 0, "on_values": 0}, "nope")]
    changes = [{"values": False}, {"per_head": True}]

    def vector(self, t: Inputs, table: Tensor | None, *pair: int) -> Tensor:
        b, h, i, j = pair
        offset = int(t.positions[b, j] - t.positions[b, i])
        if table is None:
            return torch.zeros(WIDTH).double()
        reach, rows = t.option("reach"), table[h] if table.dim() == 3 else table
        return rows[min(max(offset, -reach), reach) + reach]

    def logit(self, t: Inputs, b: int, h: int, i: int, j: int) -> float:
        """`q (k + a) / sqrt(d)`."""
        key = t.k[b, h, j] + self.vector(t, t.scheme.on_keys, b, h, i, j)
        return float(t.q[b, h, i] @ key) / math.sqrt(WIDTH)

    def read(self, t: Inputs, logits: Tensor) -> Tensor:
        """`sum of p (v + b)`."""
        out = torch.zeros_like(t.v)
        for b, h, i in product(*map(range, out.shape[:3])):
            powers = [math.exp(logit) for logit in logits[b, h, i].tolist()]
            for j, power in enumerate(powers):
                value = t.v[b, h, j] + self.vector(t, t.scheme.on_values, b, h, i, j)
                out[b, h, i] += power / sum(powers) * value
        return out


class TestStickBreaking(LogitTests):
    """Stick-breaking against the pieces of a stick, broken off one by one."""

    name = "stick_breaking"
    causal = True
    sizes = SIZES
    atol = 1e-14
    cases = [{"own": False}, {"own": True}]

    def logit(self, t: Inputs, b: int, h: int, i: int, j: int) -> float:
        return scaled_product(t, b, h, i, j)

    def read(self, t: Inputs, logits: Tensor) -> Tensor:
        """Break the stick from the nearest key on, and read values by the pieces."""
        out = torch.zeros_like(t.v)
        for b, h, i in product(*map(range, out.shape[:3])):
            left = 1.0
            for j in range(i if t.option("own") else i - 1, -1, -1):
                share = sigmoid(logits[b, h, i, j].item())
                out[b, h, i] += left * share * t.v[b, h, j]
                left *= 1 - share
        return out

    def test_far_keys_that_take_much_leave_near_ones_exact(self) -> None:
        k = normal(1, 1, 4096, 8).float() / 2 - 1.5
        k[:, :, :2048] += 6  # which alone sum to thousands
        check_float32_holds_over_a_long_text(self.make(heads=1, head_dim=8), k)


class TestTransformerXl(LogitTests):
    name = "transformer_xl"
    sizes = SIZES
    cases = combine(clamp=(0, 1, 5), base=(10_000.0, 50.0))
    identities = [({}, {"u": 0, "v": 0, "project.weight": 0}, "nope")]

    def logit(self, t: Inputs, b: int, h: int, i: int, j: int) -> float:
        """The terms (a) to (d) of the paper."""
        distance, clamp = int(t.positions[b, i] - t.positions[b, j]), t.option("clamp")
        if clamp:
            distance = max(-clamp, min(clamp, distance))
        speeds = [t.option("base") ** (-2 * m / DIM) for m in range(DIM // 2)]
        angles = [distance * speed for speed in speeds]
        wave = [math.sin(a) for a in angles] + [math.cos(a) for a in angles]
        weight = t.scheme.project.weight[h * WIDTH : (h + 1) * WIDTH].tolist()
        place = [dot(row, wave) for row in weight]
        query, key = t.q[b, h, i].tolist(), t.k[b, h, j].tolist()
        u, v = t.scheme.u[h, 0].tolist(), t.scheme.v[h, 0].tolist()
        pairs = ((query, key), (query, place), (u, key), (v, place))
        return sum(dot(*pair) for pair in pairs) / math.sqrt(WIDTH)


TOKENS = BLOCK + 5  # so that there are two blocks
IN_BLOCKS = torch.arange(TOKENS)


class TestWall(LogitTests):
    """Wall attention against products of gates, one channel of one pair at a time."""

    name = "wall"
    causal = True
    sizes = SIZES
    places = [IN_BLOCKS.tolist()] * BATCH
    cases = [{"forget": False}, {"forget": True}]
    identities = [({"forget": True}, {"gates.bias": 100, "gate.bias": 100}, "nope")]
    changes = [{"bias": 1.0}, {"forget": True}]

    def logits(self, t: Inputs) -> Tensor:
        """Sums of `q k` times the gates of j + 1 ... i, channel by channel."""
        tokens = t.x.flatten(0, 1)
        gates = [
            [opened(t.scheme.gates, row, token) for row in range(HEADS * WIDTH)]
            for token in tokens
        ]
        forget = t.scheme.gate
        of_heads = [
            [opened(forget, h, token) if forget else 1.0 for h in range(HEADS)]
            for token in tokens
        ]

        def logit(b: int, h: int, i: int, j: int) -> float:
            between = range(TOKENS * b + j + 1, TOKENS * b + i + 1)
            kept = [
                math.prod(gates[n][WIDTH * h + c] for n in between)
                for c in range(WIDTH)
            ]
            both = t.q[b, h, i].tolist(), t.k[b, h, j].tolist()
            terms = zip(*both, kept, strict=True)
            forgot = math.fsum(math.log(of_heads[n][h]) for n in between)
            return math.fsum(a * c * g for a, c, g in terms) / math.sqrt(WIDTH) + forgot

        return pair_by_pair(t.q, logit, causal=True)

    def test_gates_that_shut_leave_each_token_itself(self) -> None:
        # Their logarithms sum to -1e6: factors of the whole text would be 0 and inf.
        q, k, _, x = inputs(TOKENS)
        scheme = self.drawn()
        scheme.gates.weight.zero_()
        scheme.gates.bias.fill_(-30_000.0)
        state = scheme.token_state(x)
        got = attention_logits(q, k, scheme=scheme, positions=IN_BLOCKS, state=state)
        content = (q * k).sum(dim=-1) / math.sqrt(WIDTH)
        alone = torch.diag_embed(content).masked_fill(
            IN_BLOCKS[:, None] < IN_BLOCKS, -math.inf
        )
        close(got, alone, 1e-14)

    def test_a_sum_far_into_a_text_is_not_rounded_away(self) -> None:
        # The state is float64, so that gates of 2^-30 are told from none after 4096.
        x = torch.zeros(1, 4096, DIM)
        scheme = self.make().float().requires_grad_(False)
        scheme.gates.weight.zero_()
        scheme.gates.bias.fill_(20.0)
        steps = scheme.token_state(x).diff(dim=1)
        close(steps, torch.full_like(steps, -math.log1p(math.exp(-20))), 1e-12)

    @pytest.mark.parametrize("forget", [False, True])
    def test_float32_reads_the_end_of_a_long_text(self, forget: bool) -> None:
        scheme = self.make(heads=1, bias=-1.0, forget=forget)
        scheme = scheme.requires_grad_(False).float()  # the gates sum to thousands
        k, x = 8 * normal(1, 1, 4096, WIDTH).float(), normal(1, 4096, DIM).float()
        check_float32_holds_over_a_long_text(scheme, k, x)

    def test_shut_gates_have_finite_gradients(self) -> None:
        q, k, v, x = inputs(TOKENS)
        scheme = self.drawn().requires_grad_()
        with torch.no_grad():
            scheme.gates.bias.fill_(-30_000.0)
        state = scheme.token_state(x)
        attention(
            q, k, v, scheme=scheme, positions=IN_BLOCKS, state=state
        ).sum().backward()
        for parameter in scheme.parameters():
            assert parameter.grad is not None
            assert parameter.grad.isfinite().all()


def waves(distance: int, width: int, scales: int, wave: str) -> list[float]:
    """Return p of one distance, for every width and place."""
    found = []
    for power in range(scales):
        for shift in range(width // scales):
            u = (distance - shift) / 2**power
            ricker = (1 - u * u) * math.exp(-u * u / 2)
            found.append(ricker if wave == "ricker" else math.exp(-u * u))
    return found


class TestWavelet(LogitTests):
    name = "wavelet"
    sizes = SIZES
    atol = 1e-13
    cases = combine(wave=("ricker", "gaussian"), scales=(1, 2, 3, 6))

    def logit(self, t: Inputs, b: int, h: int, i: int, j: int) -> float:
        distance = int(t.positions[b, i] - t.positions[b, j])
        p = waves(distance, WIDTH, t.option("scales"), t.option("wave"))
        bias = dot(t.q[b, h, i].tolist(), p) / math.sqrt(WIDTH)
        return scaled_product(t, b, h, i, j) + bias

    @pytest.mark.parametrize(
        ("width", "scales"), [(128, 8), (32, 8), (12, 4), (6, 2), (5, 1)]
    )
    def test_a_head_that_eight_does_not_divide_has_fewer_widths(
        self, width: int, scales: int
    ) -> None:
        assert self.make(heads=1, head_dim=width).scales == scales


@pytest.mark.parametrize("name", ["dape", "fire", "log_length"])
def test_blocks_of_queries_change_nothing(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    q, k, _ = vectors(BATCH, HEADS, LENGTH, WIDTH)
    mask = Mask(segments=torch.tensor([[0] * 3 + [1] * 6, [0] * 9]), window=5)
    scheme, found = drawn(create(name, **SIZES).double()), []
    for rows in (512, 4):
        monkeypatch.setattr(f"posenc_compare.schemes.{name}.ROWS", rows)
        call = {"scheme": scheme, "positions": RUN, "mask": mask}
        found.append(attention_logits(q, k, **call))
    close(found[0], found[1], 1e-14)


class TestNope(LogitTests):
    name = "nope"

    def logit(self, t: Inputs, b: int, h: int, i: int, j: int) -> float:
        return scaled_product(t, b, h, i, j)

    def read(self, t: Inputs, logits: Tensor) -> Tensor:
        """One query at a time."""
        out = torch.zeros_like(t.v)
        for b, h, i in product(*map(range, out.shape[:3])):
            powers = [math.exp(logit) for logit in logits[b, h, i].tolist()]
            for power, value in zip(powers, t.v[b, h], strict=True):
                out[b, h, i] += power / math.fsum(powers) * value
        return out


class TestTapa(LogitTests):
    """TAPA against equation 12 of the paper, one pair of tokens at a time."""

    name = "tapa"
    # How many channels make the logit, by head size and share.
    amplitudes = {(8, 0.5): 4, (7, 0.5): 3, (7, 0.8): 5, (2, 0.1): 1, (8, 0.9): 7}
    cases = [
        Case({"share": share, "power": power}, head_dim=head_dim)
        for head_dim, share in amplitudes
        for power in (0.1, 0.3)
    ]

    def logit(self, t: Inputs, b: int, h: int, i: int, j: int) -> float:
        width = t.q.shape[-1]
        first = self.amplitudes[width, t.option("share")]
        q, k = t.q[b, h, i].tolist(), t.k[b, h, j].tolist()
        amplitude = dot(q[:first], k[:first]) / math.sqrt(first)
        phase = dot(q[first:], k[first:]) / math.sqrt(width - first)
        distance = abs(int(t.positions[b, i] - t.positions[b, j]))
        turns = distance ** t.option("power") * phase
        return amplitude * math.cos(2 * math.pi * turns)


class TestSink(WrapperTests):
    name = "sink"
    sizes = SIZES
    changes = [{"start": 1.0}, {"scheme": "alibi"}]
