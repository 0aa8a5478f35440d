"""Biases of two positions against slow formulas, one pair at a time."""

import math
from fractions import Fraction
from typing import Any, ClassVar

import pytest
import torch
from schemes.reference import BiasTests, Case, Inputs, SchemeTests
from schemes.tools import CLOSE_POSITIONS, close, dot, drawn, grid, normal, seeded
from torch import Tensor

from posenc_compare.attention import Mask, Session, attention, attention_logits
from posenc_compare.schemes import Scheme, create


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
        for heads in (1, 3, 4, 12)
    ]

    def bias(self, t: Inputs, h: int, query: int, key: int) -> float:
        exponent = recursive_exponents(t.q.shape[1])[h]
        ahead = query - key
        away = abs(ahead) if t.option("direction") == "symmetric" else ahead
        return -math.pow(0.5, exponent) * away


PLACES = [[0, 0], [0, 5], [5, 0], [3, 14], [200, 1], [-2, 7]]


class TestAlibi2d(BiasTests):
    name = "alibi_2d"
    sizes = {"heads": 3, "head_dim": 8}
    places = [PLACES, PLACES[::-1]]
    cases = [
        Case({"metric": metric}, heads=heads)
        for metric in ("l2", "l1", "linf")
        for heads in (1, 3, 4)
    ]

    def bias(self, t: Inputs, h: int, query: list[int], key: list[int]) -> float:
        apart = [abs(a - b) for a, b in zip(query, key, strict=True)]
        metrics = {"l2": math.hypot(*apart), "l1": sum(apart), "linf": max(apart)}
        exponent = recursive_exponents(t.q.shape[1])[h]
        return -math.pow(0.5, exponent) * metrics[t.option("metric")]


class TestBam(BiasTests):
    name = "bam"
    sizes = {"heads": 6, "head_dim": 8, "model_dim": 48}
    noise = 0.5
    # The bias is up to 300 ** 2 and more, and the rounding error grows with it.
    rtol = 1e-13
    cases = [{}, {"location": True}, {"exponent": 0.0}]
    identities = [({"exponent": 0.0}, {"exponent": 0}, "nope")]
    starts_as = [({}, "alibi")]  # but for a constant
    changes = [{"exponent": 0.5}, {"location": True}]

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
    name = "fire"
    causal = True
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

    def test_the_sign_of_trained_numbers_does_not_matter(self) -> None:
        scheme, places = self.make(0.3, threshold=20.0), torch.tensor(FIRE_PLACES)
        before = logits(scheme, places)
        for number in (scheme.c, scheme.stretch):
            with torch.no_grad():
                number.neg_()
            assert torch.equal(logits(scheme, places), before)


class KerpleTests(BiasTests):
    """A kernel of two numbers a head that are kept in bounds.

    Attributes:
        bounds: numbers out of bounds, and the bound of each, by parameter.
    """

    noise = 2.0
    bounds: ClassVar[dict[str, list[tuple[float, float]]]]

    def test_the_bounds_are_met_in_the_reference(self) -> None:
        for name, pairs in self.bounds.items():
            numbers = self.make(noise=2.0, heads=6).get_parameter(name)
            for outside, bound in pairs:
                beyond = numbers > bound if outside > bound else numbers < bound
                assert beyond.any()
                assert not beyond.all()

    def test_what_is_out_of_bounds_has_the_gradient_of_the_bound(self) -> None:
        for name, pairs in self.bounds.items():
            for pair in pairs:
                found = []
                for number in pair:
                    scheme = self.make()
                    scheme.get_parameter(name).data.fill_(number)
                    scheme.offset_bias(torch.arange(-20, 1)).sum().backward()
                    assert (scheme.get_parameter(name) == number).all()
                    found.append(torch.stack([p.grad for p in scheme.parameters()]))
                assert found[0].isfinite().all()
                assert (found[0] != 0).all()
                close(found[0], found[1])


class TestKerpleLog(KerpleTests):
    name = "kerple_log"
    sizes = {"heads": 3, "head_dim": 8}
    bounds = {"steepness": [(-3.0, 0.01)], "rate": [(-3.0, 0.01)]}

    def bias(self, t: Inputs, h: int, query: int, key: int) -> float:
        steepness, rate = t.scheme.steepness[h].item(), t.scheme.rate[h].item()
        distance = abs(query - key)
        return -max(steepness, 0.01) * math.log(1 + max(rate, 0.01) * distance)


class TestKerplePower(KerpleTests):
    name = "kerple_power"
    sizes = {"heads": 6, "head_dim": 8}
    bounds = {"factor": [(-3.0, 0.01)], "exponent": [(-1.0, 0.01), (7.0, 2.0)]}
    # The bias is up to 300 ** 2, and the rounding error grows with it.
    rtol = 1e-14

    def bias(self, t: Inputs, h: int, query: int, key: int) -> float:
        factor, exponent = t.scheme.factor[h].item(), t.scheme.exponent[h].item()
        return -max(factor, 0.01) * abs(query - key) ** min(max(exponent, 0.01), 2.0)


class TestMep(BiasTests):
    """MEP against the average of kernels as they are written."""

    name = "mep"
    sizes = {"heads": 4, "head_dim": 8}
    noise = 2.0
    cases = [
        Case({"kernels": kernels}, heads=heads)
        for kernels in ("fixed", "trained")
        for heads in (1, 3, 4, 12)
    ]

    def bias(self, t: Inputs, h: int, query: int, key: int) -> float:
        exponent = recursive_exponents(t.q.shape[1])[h]
        slope, distance = math.pow(0.5, exponent), abs(query - key)
        if t.option("kernels") == "fixed":
            second = math.exp(-0.5 * slope * distance)
        else:
            steepness, rate = t.scheme.steepness[h].item(), t.scheme.rate[h].item()
            second = (1 + max(rate, 0.01) * distance) ** -max(steepness, 0.01)
        first, third = math.exp(-slope * distance), math.exp(-slope * distance**2)
        return math.log((first + second + third) / 3)

    def test_far_distances_are_finite(self) -> None:
        far = torch.tensor([-(10**6), -(10**7), 0])
        got = self.make().offset_bias(far)[0]
        wanted = torch.tensor([-125_000, -1_250_000, math.log(3)], dtype=got.dtype)
        close(got + math.log(3), wanted, 1e-9)

    def test_bounds_pass_the_gradient(self) -> None:
        scheme = self.make(kernels="trained")
        for parameter in scheme.parameters():
            parameter.data.fill_(-3.0)
        scheme.offset_bias(torch.arange(-20, 1)).sum().backward()
        for parameter in scheme.parameters():
            assert parameter.grad.isfinite().all()
            assert (parameter.grad != 0).all()


class TestLevit(BiasTests):
    name = "levit"
    sizes = {"heads": 3, "head_dim": 8, "length": 12}
    places = [grid(3, 4).tolist(), (grid(3, 4).flip(0) + 7).tolist()]
    cases = [{}, {"height": 3, "width": 5}, {"height": 6, "width": 4}]
    starts_as = [({}, "nope")]

    def bias(self, t: Inputs, h: int, query: list[int], key: list[int]) -> float:
        """The table goes by distances in the order of the cells of a grid."""
        down, right = (abs(a - b) for a, b in zip(query, key, strict=True))
        distances = grid(t.option("height") or 4, t.option("width") or 4).tolist()
        return t.scheme.table[h, distances.index([down, right])].item()


# Where cones point: degrees from the right, counterclockwise; the row grows downwards.
CONES = {
    "180": [90, 270, 180, 0, 45, 135, 315, 225],
    "90": [90, 270, 180, 0, 135, 45, 225, 315],
    "45": [112.5, 247.5, 157.5, 22.5, 67.5, 292.5, 202.5, 337.5],
}
WHOLE_VIEW = {1: 1, 2: 1, 3: 1, 4: 1, 6: 2, 8: 3, 12: 4, 30: 10}  # heads of so many
AROUND = [[0, 0], [0, 5], [5, 0], [4, 4], [-3, 3], [-7, 0], [2, -1], [-1, -2]]


class TestLookHere(BiasTests):
    """LookHere against angles, one pair of cells at a time."""

    name = "lookhere"
    sizes = {"heads": 3, "head_dim": 8}
    places = [AROUND, AROUND[::-1]]
    cases = [
        {},
        *(
            Case({"view": view}, heads=heads)
            for view in ("180", "90", "45")
            for heads in (1, 2, 4, 12)
        ),
        *(Case({"slope": 0.3}, heads=heads) for heads in (6, 8, 30)),
        *(Case({}, heads=12, layer=layer, layers=5) for layer in (0, 1, 4)),
    ]

    def bias(self, t: Inputs, h: int, query: list[int], key: list[int]) -> float:
        heads, view, sizes = t.q.shape[1], t.option("view"), t.case.sizes
        by_layer = 1.5
        if sizes.get("layers", 1) > 1:
            by_layer -= sizes["layer"] / (sizes["layers"] - 1)
        down, right = (b - a for a, b in zip(query, key, strict=True))
        far = t.option("slope") * by_layer * math.hypot(down, right)
        cones = heads - WHOLE_VIEW[heads]
        if h >= cones:
            return -far / [2, 8, 32, 128][(h - cones) % 4]
        angle = math.degrees(math.atan2(-down, right)) - CONES[view][h % 8]
        aside = abs((angle + 180) % 360 - 180)
        if far > 0 and aside > int(view) / 2 + 1e-9:
            return -(2.0**100)
        return -far / 2 ** (h // 8)

    @pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float64])
    def test_hidden_cells_have_no_weight(self, dtype: torch.dtype) -> None:
        cells = grid(3, 5)
        x = normal(1, 3, 15, 8).to(dtype)
        scheme: Any = self.make()
        call: dict[str, Any] = {"scheme": scheme, "positions": cells}
        call["mask"] = Mask(causal=False)
        down = cells[:, 0] - 1  # from the middle; heads look up, down and all around
        hidden = torch.stack([down > 0, down < 0, down > 9])[None, ..., None]
        before = attention(x, x, x, **call)[:, :, 7]
        other = torch.where(hidden, -5 * x, x)
        assert torch.equal(attention(x, other, other, **call)[:, :, 7], before)


class TestMlpBias(BiasTests):
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
    changes = [{"hidden": 64}]

    def bias(self, t: Inputs, h: int, query: int, key: int) -> float:
        """Swin V2: sign(d) log2(1 + |8 d / (M - 1)|) / log2(8), then 16 sigmoid."""
        share = (query - key) / max(t.scheme.geometry.length - 1, 1)
        if t.option("inputs") == "log":
            share = math.copysign(math.log2(1 + abs(8 * share)) / math.log2(8), share)
        out = perceptron(t.scheme, h, share)
        return 16 / (1 + math.exp(-out)) if t.option("bounded") else out


def table(length: int, longest: int, seed: int) -> list[int]:
    """0, then `length - 1` of the numbers 1 ... longest - 1, in order."""
    shuffled = torch.randperm(longest - 1, generator=seeded(seed)).tolist()
    return [0, *sorted(1 + n for n in shuffled[: length - 1])]


class TestMlpBias2d(BiasTests):
    name = "mlp_bias_2d"
    sizes = {"heads": 3, "head_dim": 8, "length": 25}
    noise = 0.3
    places = [PLACES, PLACES[::-1]]
    cases = [{}, {"height": 3, "width": 9}, {"height": 1, "hidden": 5}]
    changes = [{"hidden": 5}]

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
    """Randomized distances: what a pass draws, and what it keeps."""

    name = "randomized_distance"
    sizes = {"model_dim": 16, "heads": 2, "length": 64}
    changes = [{"longest": 300}, {"scheme": "kerple_log"}]

    def output(self, scheme: Scheme) -> Tensor:
        q = normal(1, 2, 9, 8)
        return Session(scheme, torch.arange(9), generator=seeded()).attend(0, q, q, q)

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


class TestSandwich(BiasTests):
    name = "sandwich"
    sizes = {"heads": 3, "head_dim": 8}
    atol = 1e-11
    cases = [
        {"d_bar": d_bar, "base": base, "indices": indices}
        for d_bar, base in ((128, 1e4), (16, 1e4), (2, 100.0))
        for indices in ("from_zero", "from_one")
    ]

    def bias(self, t: Inputs, h: int, query: int, key: int) -> float:
        """H / (8 h) times the sum of cos(distance / base ** (2 m / d_bar))."""
        first, d_bar = int(t.option("indices") == "from_one"), t.option("d_bar")
        speeds = [
            t.option("base") ** (-2 * m / d_bar)
            for m in range(first, first + d_bar // 2)
        ]
        cosines = [math.cos((query - key) * speed) for speed in speeds]
        return 3 / (8 * (h + 1)) * math.fsum(cosines)


class TestSwin(BiasTests):
    name = "swin"
    sizes = {"heads": 3, "head_dim": 8, "length": 12}
    noise = 1.0
    places = [grid(3, 4).tolist(), grid(3, 4).flip(0).tolist()]
    cases = [{"height": height, "width": width} for height, width in ((3, 4), (5, 6))]
    starts_as = [({"start": "zeros"}, "nope")]
    changes = [{"start": "zeros"}]

    def bias(self, t: Inputs, h: int, query: list[int], key: list[int]) -> float:
        height, width = t.option("height"), t.option("width")
        down, right = query[0] - key[0] + height - 1, query[1] - key[1] + width - 1
        return t.scheme.table[down * (2 * width - 1) + right, h].item()

    @pytest.mark.parametrize(("length", "side"), [(1, 1), (2, 2), (9, 3), (10, 4)])
    def test_window_is_the_smallest_square(self, length: int, side: int) -> None:
        scheme = self.make(length=length)
        assert (scheme.height, scheme.width) == (side, side)
        # LeViT's sides are found as those of all other images are.
        assert self.make(name="levit", length=length).table.shape == (3, side**2)


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
    sizes = {"heads": 3, "head_dim": 8}
    scale = 1.0  # products are not divided
    cases = [
        {"buckets": 8, "max_distance": 12, "bidirectional": both}
        for both in (False, True)
    ]

    def bias(self, t: Inputs, h: int, query: int, key: int) -> float:
        numbers = (
            t.option(name) for name in ("buckets", "max_distance", "bidirectional")
        )
        return t.scheme.table[slow_signed(key - query, *numbers), h].item()

    @pytest.mark.parametrize(
        ("buckets", "max_distance", "both"),
        [
            *((32, 128, both) for both in (False, True)),
            *((64, 512, both) for both in (False, True)),
            *((8, 100, both) for both in (False, True)),
            (7, 50, False),
            # The least distances: one more than the exact buckets.
            *((32, 17, False), (16, 9, False), (4, 3, False), (32, 9, True)),
        ],
    )
    def test_buckets_equal_exact_fractions(
        self, buckets: int, max_distance: int, both: bool
    ) -> None:
        options: Any = {"buckets": buckets, "max_distance": max_distance}
        scheme = self.make(**options, bidirectional=both)
        offsets = list(range(-4 * max_distance, 4 * max_distance + 1))
        got = scheme.buckets(torch.tensor(offsets)).tolist()
        expected = [slow_signed(n, buckets, max_distance, both) for n in offsets]
        assert got == expected


class TestLayoutLm(BiasTests):
    """Buckets against exact fractions, and the bias against reading the tables."""

    name = "layoutlm"
    sizes = {"heads": 3, "head_dim": 8}
    places = [[*PLACES, [12, 40]], [*PLACES[::-1], [-300, 20]]]
    cases = [
        {},
        Case({"buckets": 8, "max_distance": 12}, head_dim=16),
        {"buckets": 4, "max_distance": 2, "scaled": False},
    ]
    identities = [({}, {"rows": 0, "columns": 0}, "nope")]
    changes = [{"scaled": False}]

    def bias(self, t: Inputs, h: int, query: list[int], key: list[int]) -> float:
        numbers = t.option("buckets"), t.option("max_distance"), True
        down, right = (
            slow_signed(there - here, *numbers)
            for here, there in zip(query, key, strict=True)
        )
        added = t.scheme.rows[down, h].item() + t.scheme.columns[right, h].item()
        return added / math.sqrt(t.q.shape[-1]) if t.option("scaled") else added

    @pytest.mark.parametrize(
        ("buckets", "max_distance"),
        [(64, 256), (64, 1000), (64, 17), (32, 128), (8, 100), (6, 40), (4, 2)],
    )
    def test_buckets_equal_exact_fractions(
        self, buckets: int, max_distance: int
    ) -> None:
        options: Any = {"buckets": buckets, "max_distance": max_distance}
        offsets = list(range(-4 * max_distance, 4 * max_distance + 1))
        got = self.make(**options).buckets(torch.tensor(offsets)).tolist()
        assert got == [slow_signed(n, buckets, max_distance, True) for n in offsets]


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


class TestTisa(BiasTests):
    """TISA against its bumps, one after the other."""

    name = "tisa"
    sizes = {"heads": 3, "head_dim": 8}
    noise = 1.0
    cases = [Case({"kernels": n}, heads=heads) for n in (1, 5) for heads in (1, 3)]
    identities = [({}, {"height": 0}, "nope"), ({}, {"sharpness": 0}, "nope")]

    def bias(self, t: Inputs, h: int, query: int, key: int) -> float:
        scheme, total = t.scheme, 0.0
        for s in range(t.option("kernels")):
            height, sharpness, centre = (
                number[s, h].item()
                for number in (scheme.height, scheme.sharpness, scheme.centre)
            )
            total += height * math.exp(-abs(sharpness) * (key - query - centre) ** 2)
        return total


class TestTupe(BiasTests):
    name = "tupe"
    sizes = {"model_dim": 6, "heads": 2, "head_dim": 4, "length": 4200}
    noise = 1.0
    scale = 1 / math.sqrt(2 * 4)
    places = [[0, 1, 2, 40, 7, 30], [3, 4, 5, 9, 103, 11]]
    cases = [
        {},
        {"relative": "t5_bias:bidirectional=true;max_distance=128"},
        {"relative": "alibi"},
    ]
    changes = [{"length": 4201}]

    def bias(self, t: Inputs, h: int, query: int, key: int) -> float:
        one = self.projected(t, "to_queries", h, query)
        other = self.projected(t, "to_keys", h, key)
        return dot(one, other) / math.sqrt(2 * 4) + self.added(t, h, key - query)

    def projected(self, t: Inputs, name: str, h: int, position: int) -> list[float]:
        """Return the layer's channels of a head, from the normed vector."""
        normed = t.scheme.norm(t.scheme.table[position])
        return getattr(t.scheme, name)(normed).unflatten(0, (2, -1))[h].tolist()

    def added(self, t: Inputs, h: int, offset: int) -> float:
        if t.option("relative") == "nope":
            return 0.0
        return t.scheme.offsets.offset_bias(torch.tensor([offset]))[h].item()
