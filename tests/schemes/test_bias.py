"""Biases of two positions against slow formulas, one pair at a time."""

import math
from fractions import Fraction
from typing import Any, ClassVar

import pytest
import torch
from schemes.reference import BiasTests, Case, Inputs, SchemeTests
from schemes.tools import (
    CLOSE_POSITIONS,
    close,
    content_plus,
    drawn,
    grid,
    normal,
    seeded,
    vectors,
)
from torch import Tensor

from posenc_compare.attention import Mask, Session, attention, attention_logits
from posenc_compare.errors import UndefinedPositionError
from posenc_compare.schemes import Scheme, create
from posenc_compare.schemes.fire import ROWS
from posenc_compare.schemes.shared.bounds import bounded
from posenc_compare.schemes.shared.slopes import slopes
from posenc_compare.schemes.t5_bias import bucket_edges


def recursive_exponents(heads: int) -> list[Fraction]:
    """Powers of 1/2: those of the power of two below, then every second of the next."""
    if heads & (heads - 1) == 0:
        return [Fraction(8 * i, heads) for i in range(1, heads + 1)]
    below = 1
    while 2 * below < heads:
        below *= 2
    finer = recursive_exponents(2 * below)
    return recursive_exponents(below) + finer[0::2][: heads - below]


class TestAlibi(BiasTests):
    """ALiBi against the recursive slope rule of the paper's released code."""

    name = "alibi"
    sizes = {"heads": 4, "head_dim": 8}
    causal = None
    cases = [
        Case({"direction": direction}, heads=heads)
        for direction in ("symmetric", "causal")
        for heads in (1, 3, 4)
    ]
    changes = [{"direction": "causal"}]
    errors = [
        ({"direction": "back"}, "direction must be symmetric or causal, got 'back'")
    ]

    def bias(self, t: Inputs, h: int, query: int, key: int) -> float:
        exponent = recursive_exponents(t.q.shape[1])[h]
        ahead = query - key
        away = abs(ahead) if t.option("direction") == "symmetric" else ahead
        return -math.pow(0.5, exponent) * away

    def output(self, scheme: Scheme) -> Tensor:
        bias = scheme.offset_bias(torch.arange(-9, 10))
        assert bias is not None
        return bias

    def test_bfloat16_weights_are_rounded_once(self) -> None:
        positions, exponents = CLOSE_POSITIONS, recursive_exponents(4)
        zero = torch.zeros(1, 4, 3, 8, dtype=torch.bfloat16)
        slope = torch.tensor([0.5**exponent for exponent in exponents]).double()
        bias = -slope[:, None, None] * (positions[:, None] - positions).abs()
        # Values that name the key.
        v = torch.eye(3, 8, dtype=torch.bfloat16).expand(1, 4, 3, 8)
        out = attention(
            zero,
            zero,
            v,
            scheme=self.make(),
            positions=positions,
            mask=Mask(causal=False),
        )
        weights = bias.softmax(dim=-1)
        error = (out[0, :, :, :3].double() - weights).abs()
        # A kernel may round the weight, then the output, to bfloat16: 2 * 2**-8.
        assert (error <= 2 * 2.0**-8 * weights + 2.0**-20).all()

    @pytest.mark.parametrize("heads", range(1, 65))
    def test_slopes_equal_the_recursive_rule(self, heads: int) -> None:
        expected = [math.pow(0.5, exponent) for exponent in recursive_exponents(heads)]
        assert slopes(heads) == expected

    def test_slopes_of_the_paper(self) -> None:
        eight = [1 / 2, 1 / 4, 1 / 8, 1 / 16, 1 / 32, 1 / 64, 1 / 128, 1 / 256]
        assert slopes(1) == [1 / 256]
        assert slopes(8) == eight
        more = [2**-0.5, 2**-1.5, 2**-2.5, 2**-3.5]
        assert slopes(12) == eight + more
        assert slopes(16) == [2 ** (-0.5 * i) for i in range(1, 17)]


METRICS = ["l2", "l1", "linf"]


PLACES = [[0, 0], [0, 5], [5, 0], [3, 14], [200, 1], [-2, 7]]


class TestAlibi2d(BiasTests):
    """Two-axis ALiBi against the distance in the plane, one pair at a time."""

    name = "alibi_2d"
    sizes = {"heads": 3, "head_dim": 8}
    places = [PLACES, PLACES[::-1]]
    cases = [
        Case({"metric": metric}, heads=heads)
        for metric in METRICS
        for heads in (1, 3, 4)
    ]
    changes = [{"metric": "l1"}, {"metric": "linf"}]
    errors = [({"metric": "l3"}, "metric must be l2 or l1 or linf, got 'l3'")]

    def bias(self, t: Inputs, h: int, query: list[int], key: list[int]) -> float:
        apart = [abs(a - b) for a, b in zip(query, key, strict=True)]
        metrics = {"l2": math.hypot(*apart), "l1": sum(apart), "linf": max(apart)}
        exponent = recursive_exponents(t.q.shape[1])[h]
        return -math.pow(0.5, exponent) * metrics[t.option("metric")]


class TestBam(BiasTests):
    """BAM against the formula, one pair at a time."""

    name = "bam"
    sizes = {"heads": 6, "head_dim": 8, "model_dim": 48}
    noise = 0.5
    # The bias is up to 300 ** 2 and more, and the rounding error grows with it.
    rtol = 1e-13
    cases = [{}, {"location": True}, {"exponent": 0.0}]
    identities = [({"exponent": 0.0}, {"exponent": 0}, "nope")]
    starts_as = [({}, "alibi")]  # but for a constant
    changes = [{"exponent": 0.5}, {"location": True}]
    errors = [({"exponent": math.nan}, "exponent must be a finite number, got")]

    def bias(self, t: Inputs, h: int, query: int, key: int) -> float:
        factor, exponent, place = (
            0.0 if number is None else number[h].item()
            for number in (t.scheme.factor, t.scheme.exponent, t.scheme.location)
        )
        peak = math.exp(place) - math.exp(-place)
        return -math.exp(factor) * (abs(key - query - peak) + 1e-5) ** exponent


FIRE_PLACES = [0, 1, 2, 19, 25, 400]


def perceptron(scheme: Any, head: int, x: float) -> float:
    """Return the output of a head for one number, unit by unit."""
    bias = scheme.fall.bias
    out = 0.0 if bias is None else bias[head].item()
    for unit in range(scheme.rise.out_features):
        z = scheme.rise.weight[unit, 0].item() * x + scheme.rise.bias[unit].item()
        out += scheme.fall.weight[head, unit].item() * max(z, 0)
    return out


def logits(scheme: Any, positions: Tensor) -> Tensor:
    zero = torch.zeros(1, 3, len(positions), 8, dtype=torch.float64)
    return attention_logits(zero, zero, scheme=scheme, positions=positions)[0]


class TestFire(BiasTests):
    """FIRE against loops over hidden units, one pair at a time."""

    name = "fire"
    causal = True
    published = {"threshold": (512, 2048, (16, 32, 128))}
    sizes = {"heads": 3, "head_dim": 8}
    noise = 1.0
    places = [FIRE_PLACES, [place + 3 for place in FIRE_PLACES]]
    cases = [
        {},
        {"threshold": 512.0},
        {"threshold": 20.0},
        {"c": 2.0, "hidden": 5, "threshold": 3.0},
    ]
    changes = [{"threshold": 20.0}, {"c": 0.5}, {"hidden": 8}]
    errors = [
        ({name: value}, f"{name} must be greater than 0, got {value}")
        for name in ("threshold", "c", "hidden")
        for value in (-1, 0)
        if (name, value) != ("threshold", 0)
    ]

    def bias(self, t: Inputs, h: int, query: int, key: int) -> float:
        """The input is ln(c distance + 1) over ln(c max(query, L) + 1) + 1e-6."""
        c, threshold = t.scheme.c.item(), t.scheme.stretch.item() * t.scheme.threshold
        reach = max(query, abs(threshold))
        top = math.log(abs(c * (query - key)) + 1)
        x = top / (math.log(abs(c * reach) + 1) + 1e-6)
        return perceptron(t.scheme, h, x)

    def test_autocast_keeps_close_positions_apart(self) -> None:
        scheme, zero = self.make(1.0).float(), torch.zeros(1, 3, 3, 8)
        call = {"scheme": scheme, "positions": CLOSE_POSITIONS}
        with torch.autocast("cpu", torch.bfloat16):
            got = attention_logits(zero, zero, **call)
        assert torch.equal(got, attention_logits(zero, zero, **call))
        assert got[0, 0, 2].unique().numel() == 3

    def test_blocks_of_rows_join(self) -> None:
        scheme, count = self.make(0.3, threshold=40.0), 2 * ROWS + 5
        positions = torch.arange(count)[None]
        with torch.no_grad():
            whole = scheme.bias(positions, positions)
            zero = torch.zeros(1, 3, count, 8, dtype=torch.float64)
            got = attention_logits(zero, zero, scheme=scheme, positions=positions)
        seen = got[0].isfinite()
        assert torch.equal(got[0][seen], whole[0].permute(2, 0, 1)[seen])

    def test_a_cast_scheme_computes_in_float32(self) -> None:
        scheme = self.make(0.3).bfloat16()
        bias = scheme.bias(torch.arange(4)[None], torch.arange(4)[None])
        expected = self.make(0.3).bfloat16().double()
        wide = expected.bias(torch.arange(4)[None], torch.arange(4)[None])
        assert bias.dtype == torch.float32
        close(bias.double(), wide, 1e-5)

    def test_the_sign_of_trained_numbers_does_not_matter(self) -> None:
        scheme, places = self.make(0.3, threshold=20.0), torch.tensor(FIRE_PLACES)
        before = logits(scheme, places)
        for number in (scheme.c, scheme.stretch):
            with torch.no_grad():
                number.neg_()
            assert torch.equal(logits(scheme, places), before)


class KerpleTests(BiasTests):
    """A kernel of two numbers a head, drawn from 0 to `starts` and kept in bounds."""

    noise = 2.0
    starts: ClassVar[dict[str, float]]

    def test_the_bounds_are_met_in_the_reference(self) -> None:
        for name in self.starts:
            numbers = self.make(noise=2.0, heads=6).get_parameter(name)
            assert (numbers < 0.01).any()
            assert (numbers > 0.01).any()

    def test_starts_as_released(self) -> None:
        scheme = self.make(heads=4000)
        for name, most in self.starts.items():
            parameter = scheme.get_parameter(name)
            assert 0 <= parameter.min() < 0.01
            assert most - 0.01 < parameter.max() <= most
            assert parameter.mean().item() == pytest.approx(most / 2, rel=0.05)


class TestKerpleLog(KerpleTests):
    """KERPLE's logarithmic kernel against the formula, one pair at a time."""

    name = "kerple_log"
    sizes = {"heads": 3, "head_dim": 8}
    starts = {"steepness": 2.0, "rate": 1.0}

    def bias(self, t: Inputs, h: int, query: int, key: int) -> float:
        steepness, rate = t.scheme.steepness[h].item(), t.scheme.rate[h].item()
        distance = abs(query - key)
        return -max(steepness, 0.01) * math.log(1 + max(rate, 0.01) * distance)

    @pytest.mark.parametrize(("value", "kept"), [(-3.0, 0.01), (0.5, 0.5)])
    def test_bounds_hold_in_the_kernel_and_pass_the_gradient(
        self, value: float, kept: float
    ) -> None:
        scheme = self.make()
        with torch.no_grad():
            scheme.rate.fill_(value)
        scheme.offset_bias(torch.arange(-20, 1)).sum().backward()
        assert torch.equal(scheme.rate.detach(), torch.full((3,), value).double())
        assert scheme.rate.grad is not None
        assert scheme.steepness.grad is not None
        for h in range(3):
            # d/dr and d/ds of -s log(1 + r n)
            steepness = scheme.steepness[h].item()
            by_rate = sum(-steepness * n / (1 + kept * n) for n in range(21))
            by_steepness = sum(-math.log(1 + kept * n) for n in range(21))
            assert scheme.rate.grad[h].item() == pytest.approx(by_rate, rel=1e-12)
            assert scheme.steepness.grad[h].item() == pytest.approx(by_steepness)

    def test_bounded(self) -> None:
        x = torch.tensor([-7.0, 0.0, 0.01, 0.3, 2.0, 5.0], dtype=torch.float64)
        got = bounded(x, 0.01, 2.0)
        assert torch.equal(got[2:5], x[2:5])
        expected = torch.tensor([0.01, 0.01, 0.01, 0.3, 2.0, 2.0], dtype=torch.float64)
        close(got, expected, 1e-15)


class TestKerplePower(KerpleTests):
    """KERPLE's power kernel against the formula, one pair at a time."""

    name = "kerple_power"
    sizes = {"heads": 6, "head_dim": 8}
    starts = {"factor": 1.0, "exponent": 2.0}
    # The bias is up to 300 ** 2, and the rounding error grows with it.
    rtol = 1e-14

    def bias(self, t: Inputs, h: int, query: int, key: int) -> float:
        factor, exponent = t.scheme.factor[h].item(), t.scheme.exponent[h].item()
        return -max(factor, 0.01) * abs(query - key) ** min(max(exponent, 0.01), 2.0)

    def test_the_bounds_are_met_in_the_reference(self) -> None:
        super().test_the_bounds_are_met_in_the_reference()
        assert (self.make(2.0).exponent > 2).any()

    def test_gradients_are_finite_at_distance_zero_and_pass_the_bounds(self) -> None:
        scheme = self.make(heads=3)
        with torch.no_grad():
            scheme.exponent.copy_(torch.tensor([-1.0, 0.5, 7.0]))
        scheme.offset_bias(torch.arange(-9, 1)).sum().backward()
        assert scheme.exponent.grad is not None
        for h, exponent in enumerate((0.01, 0.5, 2.0)):
            factor = scheme.factor[h].item()
            # d/dp of -a n ** p, which is 0 at n = 0
            expected = sum(-factor * n**exponent * math.log(n) for n in range(1, 10))
            assert scheme.exponent.grad[h].item() == pytest.approx(expected, rel=1e-12)
        assert scheme.exponent[2].item() == 7.0


class TestMlpBias(BiasTests):
    """The perceptron of the signed distance against loops over hidden units."""

    name = "mlp_bias"
    sizes = {"heads": 3, "head_dim": 8, "length": 30}
    noise = 0.5
    rtol = 1e-14
    cases = [
        Case({"inputs": inputs, "bounded": bounded, "hidden": 7}, length=length)
        for inputs in ("log", "linear")
        for bounded in (False, True)
        for length in (30, 1)
    ]
    changes = [{"inputs": "linear"}, {"hidden": 64}, {"bounded": False}]
    errors = [({"hidden": 0}, "hidden must be at least 1, got 0")]

    def bias(self, t: Inputs, h: int, query: int, key: int) -> float:
        """Swin V2: sign(d) log2(1 + |8 d / (M - 1)|) / log2(8), then 16 sigmoid."""
        share = (query - key) / max(t.scheme.geometry.length - 1, 1)
        if t.option("inputs") == "log":
            share = math.copysign(math.log2(1 + abs(8 * share)) / math.log2(8), share)
        out = perceptron(t.scheme, h, share)
        return 16 / (1 + math.exp(-out)) if t.option("bounded") else out

    def test_starts_as_released(self) -> None:
        scheme = self.make(hidden=4000)
        assert scheme.rise.weight.std().item() == pytest.approx(0.02, rel=0.05)
        assert scheme.fall.weight.std().item() == pytest.approx(0.02, rel=0.05)
        assert not scheme.rise.bias.any()
        assert scheme.fall.bias is None
        assert self.make().rise.out_features == 512
        middle = self.make().offset_bias(torch.tensor([0]))
        assert torch.equal(middle, torch.full((3, 1), 8.0).double())

    def test_tells_the_past_from_the_future(self) -> None:
        offsets = torch.arange(-9, 10)
        bias = self.make(0.5).offset_bias(offsets)
        assert (bias - bias.flip(1))[:, :9].abs().min() > 1e-6
        assert ((bias > 0) & (bias < 16)).all()


def table(length: int, longest: int, seed: int) -> list[int]:
    """0, then `length - 1` of the numbers 1 ... longest - 1, in order."""
    shuffled = torch.randperm(longest - 1, generator=seeded(seed)).tolist()
    return [0, *sorted(1 + n for n in shuffled[: length - 1])]


class TestMlpBias2d(BiasTests):
    """Swin V2's bias on two axes against one pair at a time."""

    name = "mlp_bias_2d"
    sizes = {"heads": 3, "head_dim": 8, "length": 25}
    noise = 0.3
    places = [PLACES, PLACES[::-1]]
    cases = [{}, {"height": 3, "width": 9}, {"height": 1, "hidden": 5}]
    gradients = [{"hidden": 3}]
    changes = [{"hidden": 5}, {"height": 6}, {"width": 6}]
    errors = [
        ({"hidden": 0}, "hidden must be at least 1, got 0"),
        *(
            ({name: -1}, f"{name} must be at least 1, got -1")
            for name in ("height", "width")
        ),
    ]

    def bias(self, t: Inputs, h: int, query: list[int], key: list[int]) -> float:
        inputs = []
        for here, there, name in zip(query, key, ("height", "width"), strict=True):
            side = t.option(name) or 5
            share = 8 * (here - there) / max(side - 1, 1)
            inputs.append(math.copysign(math.log2(1 + abs(share)) / 3, share))
        rise, total = t.scheme.rise, 0.0
        for unit, weight in enumerate(t.scheme.fall.weight[h].tolist()):
            down, across = rise.weight[unit].tolist()
            risen = down * inputs[0] + across * inputs[1] + rise.bias[unit].item()
            total += weight * max(0.0, risen)
        return 16 / (1 + math.exp(-total))


class TestRandomizedDistance(SchemeTests):
    """Randomized distances against a slow table, pair by pair."""

    name = "randomized_distance"
    sizes = {"model_dim": 16, "heads": 2, "length": 64}
    published = {"longest": (2048, 40, (3277, 6554, 26214))}
    changes = [{"longest": 300}, {"scheme": "kerple_log"}]
    errors = [
        ({"longest": -1}, "longest must be at least 1, got -1"),
        *(
            (
                {"scheme": inside},
                f".*must have a bias of the offset alone .* got {inside}",
            )
            for inside in ("rope", "nope", "deberta")
        ),
        ({"scheme": "mlp_bias"}, ".*one instance for all layers, got mlp_bias"),
    ]

    def output(self, scheme: Scheme) -> Tensor:
        q = normal(1, 2, 9, 8)
        return Session(scheme, torch.arange(9), generator=seeded()).attend(0, q, q, q)

    @pytest.mark.parametrize("causal", [True, False])
    @pytest.mark.parametrize("longest", [7, 100, 2048])
    def test_logits_equal_the_slow_table(self, longest: int, causal: bool) -> None:
        q, k, _ = vectors(2, 2, 7, 8)
        outer = self.make(longest=longest)
        plain = torch.arange(7).expand(2, -1) + 3
        session = Session(outer, plain, mask=Mask(causal=causal), generator=seeded(4))
        assert torch.equal(session.ids, plain)
        got = session.logits(0, q, k)
        distances = table(7, longest, 4)

        def bias(_: int, h: int, i: int, j: int) -> float:
            return -(2.0 ** (-4 * (h + 1))) * distances[abs(i - j)]

        close(got, content_plus(q, k, bias, causal))

    def test_the_longest_row_decides_how_many_distances_are_drawn(self) -> None:
        q, outer = torch.zeros(2, 2, 3, 8, dtype=torch.float64), self.make(longest=100)
        rows = torch.tensor([[0, 1, 2], [0, 10, 40]])
        bias = Session(outer, rows, generator=seeded(4)).logits(0, q, q)
        distances = table(41, 100, 4)
        assert bias[0, 0, 2, 0].item() == -distances[2] / 16
        assert bias[1, 0, 2, 0].item() == -distances[40] / 16

    def test_every_pass_draws_anew_or_not_at_all(self) -> None:
        outer, q = self.make(), normal(1, 2, 5, 8)
        ids, before = torch.arange(5), torch.get_rng_state()

        def read(generator: torch.Generator | None) -> Tensor:
            return Session(outer, ids, generator=generator).attend(0, q, q, q)

        first, second = read(seeded(1)), read(seeded(2))
        assert not torch.equal(first, second)
        outer.eval()
        assert torch.equal(first, read(seeded(1)))
        plain = create("alibi", model_dim=16, heads=2)
        assert torch.equal(read(None), attention(q, q, q, scheme=plain, positions=ids))
        assert torch.equal(before, torch.get_rng_state())

    def test_passes_keep_their_draws_apart(self) -> None:
        outer, q = self.make(), normal(1, 2, 5, 8)
        first, second = (
            Session(outer, torch.arange(5), generator=seeded(n)) for n in (1, 2)
        )
        before = first.attend(0, q, q, q)
        assert not torch.equal(second.attend(0, q, q, q), before)
        assert torch.equal(first.attend(0, q, q, q), before)
        options = {"scheme": "randomized_distance"}
        inside = create("shape", options=options, heads=2, length=64)
        inside = Session(inside.eval(), torch.arange(5), generator=seeded(1))
        torch.testing.assert_close(
            inside.attend(0, q, q, q), before, rtol=0, atol=1e-12
        )

    def test_a_sequence_past_the_longest(self) -> None:
        with pytest.raises(
            UndefinedPositionError,
            match="randomized_distance: positions must be from 0 to 7, got 8",
        ):
            self.make(longest=8).draw(torch.arange(9), seeded())


def slow_of_sandwich(
    head: int, heads: int, distance: int, d_bar: int, base: float, first: int
) -> float:
    """H / (8 h) times the sum of cos(distance / base ** (2 m / d_bar))."""
    indices = range(first, first + d_bar // 2)
    cosines = [math.cos(distance * base ** (-2 * m / d_bar)) for m in indices]
    return heads / (8 * head) * math.fsum(cosines)


class TestSandwich(BiasTests):
    """Sandwich against loops over cosines."""

    name = "sandwich"
    sizes = {"heads": 3, "head_dim": 8}
    atol = 1e-11
    cases = [
        {"d_bar": d_bar, "base": base, "indices": indices}
        for d_bar, base in ((128, 1e4), (16, 1e4), (2, 100.0))
        for indices in ("from_zero", "from_one")
    ]
    changes = [{"d_bar": 64}, {"base": 9_000.0}, {"indices": "from_one"}]
    errors = [
        *(
            ({"d_bar": d_bar}, f"d_bar must be even and at least 2, got {d_bar}")
            for d_bar in (0, 7, -4)
        ),
        ({"base": -1.0}, r"base must be greater than 0, got -1\.0"),
    ]

    def bias(self, t: Inputs, h: int, query: int, key: int) -> float:
        first = int(t.option("indices") == "from_one")
        numbers = t.option("d_bar"), t.option("base"), first
        return slow_of_sandwich(h + 1, 3, query - key, *numbers)


class TestSwin(BiasTests):
    """Swin's bias against reading the table, one pair at a time."""

    name = "swin"
    sizes = {"heads": 3, "head_dim": 8, "length": 12}
    noise = 1.0
    places = [grid(3, 4).tolist(), grid(3, 4).flip(0).tolist()]
    cases = [{"height": height, "width": width} for height, width in ((3, 4), (5, 4))]
    starts_as = [({"start": "zeros"}, "nope")]
    changes = [{"height": 5}, {"width": 5}, {"start": "zeros"}]
    errors = [
        ({name: -1}, f"{name} must be at least 1, got -1")
        for name in ("height", "width")
    ]

    def bias(self, t: Inputs, h: int, query: list[int], key: list[int]) -> float:
        height, width = t.option("height"), t.option("width")
        down, right = query[0] - key[0] + height - 1, query[1] - key[1] + width - 1
        return t.scheme.table[down * (2 * width - 1) + right, h].item()

    @pytest.mark.parametrize(
        ("length", "side"), [(1, 1), (2, 2), (4, 2), (5, 3), (9, 3), (10, 4), (16, 4)]
    )
    def test_window_is_the_smallest_square(self, length: int, side: int) -> None:
        scheme = self.make(length=length)
        assert (scheme.height, scheme.width) == (side, side)
        assert scheme.table.shape == ((2 * side - 1) ** 2, 3)
        mixed = self.make(length=length, width=7)
        assert (mixed.height, mixed.width) == (side, 7)

    def test_offsets_off_the_table_are_an_error(self) -> None:
        scheme, x = self.make(height=3, width=4), normal(1, 3, 2, 8)

        def look(row: int, column: int) -> Tensor:
            places = torch.tensor([[5, 5], [5 + row, 5 + column]])
            return attention(x, x, x, scheme=scheme, positions=places)

        for row, column in ((2, 3), (-2, -3), (2, -3)):
            assert look(row, column).isfinite().all()
        for row, column, limit in ((3, 0, 3), (-4, 0, 3), (0, 4, 4), (1, -6, 4)):
            apart = max(abs(row), abs(column))
            what, option = ("rows", "height") if limit == 3 else ("columns", "width")
            with pytest.raises(
                UndefinedPositionError,
                match=f"swin: {what} between two cells must be from 0 to {limit - 1}, "
                f"got {apart}; `{option}={apart + 1}` would work",
            ):
                look(row, column)


CAUSAL = [*range(16), 16, 19, 21, 24, 27, 31, 35, 40, 46, 52, 59, 67, 77, 87, 99, 113]
HALF = [*range(8), 8, 12, 16, 23, 32, 46, 64, 91]


def slow_bucket(distance: int, buckets: int, max_distance: int) -> int:
    """e + floor(ln(n / e) / ln(max / e) * (buckets - e)), decided by fractions."""
    exact = buckets // 2
    if distance < exact:
        return distance
    rest = buckets - exact
    reached = Fraction(distance, exact) ** rest
    step = 0
    while step + 1 < rest and Fraction(max_distance, exact) ** (step + 1) <= reached:
        step += 1
    return exact + step


def slow_signed(offset: int, buckets: int, max_distance: int, both: bool) -> int:
    if not both:
        return slow_bucket(max(-offset, 0), buckets, max_distance)
    side = buckets // 2
    bucket = slow_bucket(abs(offset), side, max_distance)
    return bucket + side if offset > 0 else bucket


class TestT5Bias(BiasTests):
    """T5's buckets against exact fractions, and the bias against reading the table."""

    name = "t5_bias"
    # A quarter is 16 and 32; no fewer positions than the 32 buckets.
    published = {"max_distance": (128, 512, (32, 32, 128))}
    sizes = {"heads": 3, "head_dim": 8}
    scale = 1.0  # products are not divided
    cases = [
        {"buckets": 8, "max_distance": 12, "bidirectional": both}
        for both in (False, True)
    ]
    changes = [{"buckets": 16}, {"max_distance": 64}, {"bidirectional": True}]
    errors = [
        *(
            (
                {"buckets": buckets, "bidirectional": both},
                f"buckets must be at least 2 a side and split evenly, got {buckets}",
            )
            for buckets, both in (
                *((1, False), (0, False), (-4, False), (3, True), (7, True)),
            )
        ),
        *(
            (
                {"max_distance": most, "bidirectional": both},
                f"max_distance must exceed the {exact} exact buckets, got {most}",
            )
            for most, both, exact in ((16, False, 16), (8, True, 8), (-1, False, 16))
        ),
    ]

    def bias(self, t: Inputs, h: int, query: int, key: int) -> float:
        numbers = (
            t.option(name) for name in ("buckets", "max_distance", "bidirectional")
        )
        return t.scheme.table[slow_signed(key - query, *numbers), h].item()

    def test_edges_of_the_published_settings(self) -> None:
        assert bucket_edges(32, 128) == CAUSAL
        assert bucket_edges(16, 128) == HALF

    @pytest.mark.parametrize("both", [False, True])
    @pytest.mark.parametrize(
        ("buckets", "max_distance"),
        [(32, 128), (64, 512), (32, 256), (16, 20), (8, 100), (4, 3), (16, 9)],
    )
    def test_buckets_equal_exact_fractions(
        self, buckets: int, max_distance: int, both: bool
    ) -> None:
        scheme = self.make(
            buckets=buckets, max_distance=max_distance, bidirectional=both
        )
        offsets = list(range(-4 * max_distance, 4 * max_distance + 1))
        got = scheme.buckets(torch.tensor(offsets)).tolist()
        expected = [slow_signed(n, buckets, max_distance, both) for n in offsets]
        assert got == expected

    def test_an_odd_number_of_causal_buckets(self) -> None:
        scheme = self.make(buckets=7, max_distance=50)
        got = scheme.buckets(-torch.arange(201)).tolist()
        assert got == [slow_bucket(n, 7, 50) for n in range(201)]

    @pytest.mark.parametrize(("both", "exact"), [(False, 16), (True, 8)])
    def test_the_least_max_distance(self, both: bool, exact: int) -> None:
        edges = self.make(max_distance=exact + 1, bidirectional=both).edges
        assert edges[exact:] == [exact] + [exact + 1] * (exact - 1)

    def test_products_are_not_scaled(self) -> None:
        assert self.make().scale(64) == 1.0
        assert (
            self.make().query_init_gain(64) == 1 / 8
        )  # the projection starts smaller instead

    def test_float32_buckets_are_those_of_float64(self) -> None:
        offsets = torch.arange(-600, 1)
        assert torch.equal(
            self.make().float().buckets(offsets), self.make().buckets(offsets)
        )


@pytest.mark.parametrize("name", ["bam", "fire", "shaw", "dape"])
def test_a_bias_is_added_in_float32_to_products_of_bfloat16(name: str) -> None:
    scheme = drawn(create(name, model_dim=16, heads=2, length=64).double())
    row = normal(1, 2, 1, 8).bfloat16().expand(-1, -1, 3, -1)
    low, wide = (
        attention_logits(x, x, scheme=scheme, positions=CLOSE_POSITIONS)
        for x in (row, row.double())
    )
    assert low.dtype == torch.float32
    # The logits are rounded to float32.
    torch.testing.assert_close(low.double(), wide, rtol=2.0**-23, atol=1e-4)
