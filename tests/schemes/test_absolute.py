"""Codes of positions in token vectors against slow formulas, one channel at a time."""

import math
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from schemes.reference import Case, EmbedTests, SchemeTests, combine
from schemes.tools import (
    close,
    dot,
    drawn_codes,
    normal,
    seeded,
)
from torch import Tensor

from posenc_compare.attention import attention
from posenc_compare.errors import ShapeError, UndefinedPositionError
from posenc_compare.schemes import Scheme, create


def codes(scheme: Any, places: Any, width: int = 0) -> Tensor:
    """Return the codes (length, width) that a scheme adds to tokens of zeros."""
    width = width or scheme.geometry.model_dim
    zero = torch.zeros(1, len(places), width, dtype=torch.float64)
    return scheme.embed(zero, torch.as_tensor(places))[0]


def sinusoid(place: float, width: int, base: float = 1e4) -> list[float]:
    """PE(p, 2m) = sin(p / base**(2m / width)), PE(p, 2m + 1) = cos of the same."""
    code = []
    for pair in range(width // 2):
        angle = place / math.pow(base, 2 * pair / width)
        code += [math.sin(angle), math.cos(angle)]
    return code


class TestBinary(EmbedTests):
    """Binary positions against Python's own binary digits."""

    name = "binary"
    sizes = {"model_dim": 8, "heads": 1, "length": 8}
    places = [[0, 1, 2, 3, 4, 5, 6, 7], [7, 3, 3, 2, 0, 1, 6, 5]]
    cases = [
        Case({"bits": bits, "signed": signed}, model_dim=width)
        for bits, width in ((3, 3), (3, 8), (4, 9), (5, 16), (6, 11))
        for signed in (False, True)
    ]
    half = Case(model_dim=16, length=16_384)
    changes = [{"bits": 4}, {"signed": True}]
    errors = [
        *(
            ({"bits": bits}, f"bits must be from 0 to 62, got {bits}")
            for bits in (-1, 63)
        ),
        (Case(length=512), "the width must hold 9 bits, got 8 channels", ShapeError),
    ]

    def code(self, scheme: Any, case: Case, position: int) -> list[float]:
        bits, signed = case.options.get("bits", 14), case.options.get("signed", False)
        width = scheme.geometry.model_dim
        digits = [float(sign) for sign in reversed(format(position, f"0{bits}b"))]
        if signed:
            digits = [1.0 if digit else -1.0 for digit in digits]
        code = digits * (width // bits)  # whole copies alone
        return code + [0.0] * (width - len(code))

    def test_least_significant_bit_comes_first(self) -> None:
        assert codes(self.make(), [1, 2, 4, 6]).tolist() == [
            [1, 0, 0, 1, 0, 0, 0, 0],
            [0, 1, 0, 0, 1, 0, 0, 0],
            [0, 0, 1, 0, 0, 1, 0, 0],
            [0, 1, 1, 0, 1, 1, 0, 0],
        ]

    def test_signed_writes_minus_one_for_zero_and_leaves_the_rest_empty(self) -> None:
        signed = codes(self.make(signed=True), [5])[0].tolist()
        assert signed == [1, -1, 1, 1, -1, 1, 0, 0]

    @pytest.mark.parametrize("position", [-1, 8])
    def test_positions_without_a_code_are_an_error(self, position: int) -> None:
        with pytest.raises(
            UndefinedPositionError, match=f"from 0 to 7, got {position}"
        ):
            codes(self.make(), [0, position])

    def test_every_position_has_its_own_code(self) -> None:
        every = codes(self.make(model_dim=9, length=512), list(range(512)))
        assert every.unique(dim=0).shape == (512, 9)


class DrawnIdTests(SchemeTests):
    """A scheme whose ids in training depend on the generator alone."""

    def test_the_generator_alone_decides(self) -> None:
        scheme, before = self.make(), torch.get_rng_state()
        rows = torch.arange(6).expand(9, -1)
        first = scheme.positions(rows, seeded(1))
        assert torch.equal(first, self.make().positions(rows, seeded(1)))
        assert not torch.equal(first, scheme.positions(rows, seeded(2)))
        assert torch.equal(scheme.positions(rows), rows.to(first.dtype))
        assert torch.equal(before, torch.get_rng_state())


def moved(rows: list[list[int]], generator: torch.Generator, **ranges: Any) -> Tensor:
    """Return the places of CAPE's listing: shifts, own shifts, then scalings."""

    def uniform(most: float, count: int) -> list[float]:
        units = torch.rand(count, generator=generator, dtype=torch.float64).tolist()
        return [most * (2 * unit - 1) for unit in units]

    size, out = len(rows[0]), []
    shifts = uniform(ranges["global_shift"], len(rows))
    owns = iter(uniform(ranges["local_shift"], len(rows) * size))
    logs = uniform(math.log(ranges["scaling"]), len(rows))
    for row, shift, log in zip(rows, shifts, logs, strict=True):
        mean = sum(row) / size if ranges["centred"] else 0.0
        out.append([(p - mean + shift + next(owns)) * math.exp(log) for p in row])
    return torch.tensor(out, dtype=torch.float64)


ROWS = [[0, 1, 2, 3, 4, 50], [7, 0, 7, 900, 12, 3]]


class TestCape(DrawnIdTests, EmbedTests):
    """CAPE against the paper's listing, written with loops."""

    name = "cape"
    sizes = {"model_dim": 16, "heads": 2, "length": 64}
    places = ROWS
    cases = [{}, {"layout": "concatenated", "base": 500.0}]
    changes = [
        {"base": 9_000.0},
        {"layout": "concatenated"},
        {"global_shift": 6.0},
        {"local_shift": 0.4},
        {"scaling": 1.5},
        {"centred": True},
    ]
    errors = [
        (options, "shifts must be at least 0")
        for options in ({"global_shift": -1.0}, {"local_shift": -0.1}, {"scaling": 0.9})
    ]

    def code(self, scheme: Any, case: Case, position: int) -> list[float]:
        return self.interleaved(position, **{"base": 1e4, "layout": "", **case.options})

    def interleaved(self, place: float, base: float, layout: str) -> list[float]:
        code = sinusoid(place, 16, base)
        return code[0::2] + code[1::2] if layout == "concatenated" else code

    @pytest.mark.parametrize("layout", ["interleaved", "concatenated"])
    @pytest.mark.parametrize(
        ("shift", "own", "scaling", "centred"),
        [(5.0, 0.5, 1.03, False), (60.0, 1.0, 1.1, True), (0.0, 0.3, 1.0, True)],
    )
    def test_equals_the_slow_reference(
        self, shift: float, own: float, scaling: float, centred: bool, layout: str
    ) -> None:
        ranges: dict[str, Any] = {"global_shift": shift, "local_shift": own}
        ranges |= {"scaling": scaling, "centred": centred}
        scheme = self.make(base=500.0, layout=layout, **ranges)
        ids = scheme.positions(torch.tensor(ROWS), seeded(3))
        # Moves are kept in steps of 2**-16, so places are right to half a step.
        close(ids, moved(ROWS, seeded(3), **ranges), 0.51 * 2.0**-16)
        got = scheme.embed(torch.zeros(2, 6, 16, dtype=torch.float64), ids)
        slow = [
            [self.interleaved(p, 500.0, layout) for p in row] for row in ids.tolist()
        ]
        close(got, torch.tensor(slow, dtype=torch.float64))

    @pytest.mark.parametrize("centred", [False, True])
    def test_testing_only_centres(self, centred: bool) -> None:
        scheme = self.make(centred=centred).eval()
        for generator in (None, seeded()):
            ids = scheme.positions(torch.arange(4).expand(2, -1), generator)
            expected = torch.arange(4).double() - (1.5 if centred else 0.0)
            assert torch.equal(ids, expected.expand(2, -1))

    def test_without_ranges_it_is_sinusoidal(self) -> None:
        scheme = self.make(global_shift=0.0, local_shift=0.0, scaling=1.0)
        x = normal(2, 6, 16, seed=1)
        ids = scheme.positions(torch.tensor(ROWS), seeded())
        plain = create("sinusoidal", model_dim=16, heads=2)
        assert torch.equal(scheme.embed(x, ids), plain.embed(x, torch.tensor(ROWS)))

    def test_own_shifts_of_half_a_position_keep_the_order(self) -> None:
        scheme = self.make()
        places = scheme.positions(torch.arange(64).expand(50, -1), seeded())
        assert (places.diff(dim=1) > 0).all()
        assert not torch.equal(places[0].diff(), places[1].diff())

    def test_positions_may_lie_anywhere(self) -> None:
        scheme = self.make(global_shift=0.0, local_shift=0.0, scaling=1.0, centred=True)
        far = torch.tensor([0, 1 << 33])
        got = scheme.positions(far, seeded())
        assert torch.equal(
            got, torch.tensor([-(2.0**32), 2.0**32], dtype=torch.float64)
        )


def affine(layer: Any, x: list[float]) -> list[float]:
    rows, biases = layer.weight.tolist(), layer.bias.tolist()
    return [bias + dot(row, x) for row, bias in zip(rows, biases, strict=True)]


class TestFourierLearned(EmbedTests):
    """Learned Fourier features against loops over waves and hidden units."""

    name = "fourier_learned"
    sizes = {"model_dim": 6, "heads": 1, "length": 40}
    noise = 1.0
    cases = [
        {"features": features, "hidden": 5, "normalised": normalised}
        for features in (0, 2, 10)
        for normalised in (False, True)
    ]
    half = Case({"gamma": 0.5}, model_dim=32)
    wrong_width = 8, r"the width must be 6, .* 8"
    changes = [
        {"features": 4},
        {"hidden": 16},
        {"gamma": 5.0},
        {"spread": "std"},
        {"normalised": True},
    ]
    errors = [
        ({"features": 3}, "features must be even and at least 2, got 3"),
        ({"features": -2}, "features must be even and at least 2, got -2"),
        ({"hidden": 0}, "hidden must be at least 1, got 0"),
        ({"gamma": 0.0}, "gamma must be greater than 0, got 0.0"),
    ]

    def code(self, scheme: Any, case: Case, position: int) -> list[float]:
        length = scheme.geometry.length if case.options.get("normalised") else 1
        waves = scheme.waves.weight.flatten().tolist()
        angles = [position / length * wave for wave in waves]
        features = [math.cos(a) for a in angles] + [math.sin(a) for a in angles]
        features = [feature / math.sqrt(len(features)) for feature in features]
        # GELU(z) is z times the share of a normal distribution below z.
        z = affine(scheme.rise, features)
        return affine(scheme.fall, [x * (1 + math.erf(x / 2**0.5)) / 2 for x in z])

    def test_readings_of_gamma(self) -> None:
        for spread, std in (("variance", 1 / 10), ("std", 1 / 100)):
            scheme = self.make(model_dim=4000, spread=spread)
            # 2000 draws: the spread is known to 1 / sqrt(4000) = 1.6 %.
            assert scheme.waves.weight.std().item() == pytest.approx(std, rel=0.08)
        one, other = (
            self.make(gamma=1.0, spread=spread) for spread in ("variance", "std")
        )
        assert torch.equal(one.waves.weight, other.waves.weight)


class TestFourierRandom(EmbedTests):
    """Random Fourier features against one cosine and one sine at a time."""

    name = "fourier_random"
    sizes = {"model_dim": 8, "heads": 1, "length": 50}
    cases = [{}, Case({"sigma": 4.0}, length=7)]
    half = Case({"sigma": 1000.0}, model_dim=32, length=16_000)
    wrong_width = 6, r"the width must be 8, .* 6"
    changes = [{"sigma": 4.0}]
    errors = [
        (Case(model_dim=7), "model_dim must be even, got 7"),
        *(
            ({"sigma": sigma}, f"sigma must be greater than 0, got {sigma}")
            for sigma in (0.0, -1.0)
        ),
    ]

    def trained(self, case: Case) -> Any:
        return self.build(case)

    def code(self, scheme: Any, case: Case, position: int) -> list[float]:
        """cos(2 pi b v) for all b, then sin(2 pi b v), with v = position / length."""
        share = position / scheme.geometry.length
        angles = [2 * math.pi * b * share for b in scheme.frequencies.tolist()]
        return [math.cos(a) for a in angles] + [math.sin(a) for a in angles]

    @pytest.mark.parametrize("sigma", [1.0, 10.0])
    def test_inner_products_are_near_a_gaussian(self, sigma: float) -> None:
        pairs = 20_000
        scheme = self.make(model_dim=2 * pairs, sigma=sigma, length=100)
        code = scheme.embed(torch.zeros(1, 40, 2 * pairs).double(), torch.arange(40))[0]
        products = code @ code.T / pairs
        for p in range(0, 40, 3):
            for q in range(0, 40, 5):
                distance = (p - q) / 100
                gaussian = math.exp(-2 * (math.pi * sigma * distance) ** 2)
                # A mean of cosines: standard deviation at most 1 / sqrt(2 pairs).
                assert products[p, q].item() == pytest.approx(gaussian, abs=0.025)

    def test_frequencies_are_drawn_kept_and_not_trained(self) -> None:
        scheme, other = (self.make(model_dim=2000, seed=seed) for seed in (0, 1))
        assert scheme.frequencies.std().item() == pytest.approx(10, rel=0.1)
        assert abs(scheme.frequencies.mean().item()) < 1.5
        assert not torch.equal(scheme.frequencies, other.frequencies)
        assert list(scheme.state_dict()) == ["frequencies"]
        assert not any(p.requires_grad for p in scheme.parameters())
        other.load_state_dict(scheme.state_dict())
        x, positions = normal(1, 4, 2000), torch.arange(4)
        assert torch.equal(other.embed(x, positions), scheme.embed(x, positions))


class TestInteger(EmbedTests):
    """Integer positions against a loop, and what LayerNorm leaves of them."""

    name = "integer"
    sizes = {"model_dim": 5, "heads": 1, "length": 48}
    cases = [{}, {"normalised": True}, {"normalised": False}, Case(length=7)]
    half = Case(length=10_007)
    # Near 15 962 a bfloat16 is 1/64 of its size wide.
    half_places = [15_962, 16_090, 3]
    changes = [{"normalised": False}]
    errors = [({"normalised": 3}, "^.*normalised must be true or false, got 3")]

    def code(self, scheme: Any, case: Case, position: int) -> list[float]:
        whole = case.options.get("normalised", True)
        return [position / scheme.geometry.length if whole else float(position)] * 5

    @pytest.mark.parametrize("normalised", [True, False])
    def test_float64_keeps_close_positions_apart(self, normalised: bool) -> None:
        positions = torch.arange(15_900, 16_000)
        scheme = self.make(model_dim=8, length=10_007, normalised=normalised)
        code = scheme.embed(torch.zeros(1, 100, 8).double(), positions)[0, :, 0]
        assert code.unique().numel() == 100
        # On a zero token there is one rounding: the very number torch rounds to.
        rounded = scheme.embed(torch.zeros(1, 100, 8).bfloat16(), positions)[0, :, 0]
        assert torch.equal(rounded, code.bfloat16())

    @pytest.mark.parametrize("normalised", [True, False])
    def test_layer_norm_removes_the_whole_code(self, normalised: bool) -> None:
        x = normal(2, 8, 16)
        scheme = self.make(model_dim=16, length=8, normalised=normalised)
        positions = torch.arange(8)
        changed = scheme.embed(x, positions)
        assert (changed - x).abs().max() > 0.8
        # Adding p <= 7 rounds each channel by at most 8 * 2**-53.
        norm = F.layer_norm(changed, (16,)), F.layer_norm(x, (16,))
        torch.testing.assert_close(*norm, rtol=0, atol=1e-13)


class TestLearned(EmbedTests):
    """Learned positions against reading the table row by row."""

    name = "learned"
    sizes = {"model_dim": 6, "heads": 1, "length": 12}
    places = [[0, 11, 3, 3], [5, 4, 0, 11]]
    half = Case(length=16_000)
    wrong_width = 8, "the width must be 6, as the table's, got 8"
    changes = [{"std": 0.1}, {"length": 13}]
    errors = [
        ({"length": -4}, "length must be at least 1, got -4"),
        ({"std": -1.0}, "std"),
    ]

    def code(self, scheme: Any, case: Case, position: int) -> list[float]:
        return scheme.table[position].tolist()

    def test_the_table_has_as_many_rows_as_the_length(self) -> None:
        assert self.make(length=12).table.shape == (12, 6)
        scheme = self.build(Case({"length": 7}, length=5))
        assert scheme.table.shape == (7, 6)

    @pytest.mark.parametrize(("position", "length"), [(12, 12), (-1, 12), (5, 5)])
    def test_positions_off_the_table_are_an_error(
        self, position: int, length: int
    ) -> None:
        scheme, last = self.make(length=length), length - 1
        with pytest.raises(
            UndefinedPositionError,
            match=f"learned: positions must be from 0 to {last}, got {position}",
        ) as caught:
            scheme.embed(normal(1, 2, 6), torch.tensor([0, position]))
        assert caught.value.limit == last + 1

    def test_permuting_rows_is_permuting_positions(self) -> None:
        scheme, other, x = self.make(), self.make(), normal(1, 12, 6)
        order = torch.randperm(12, generator=torch.Generator().manual_seed(1))
        with torch.no_grad():
            other.table.copy_(scheme.table[order])
        assert torch.equal(other.embed(x, torch.arange(12)), scheme.embed(x, order))


def slow_ids(rows: list[list[int]], longest: int, generator: torch.Generator) -> Tensor:
    """The p-th smallest of as many numbers as the row has positions."""
    out = []
    for row in rows:
        shuffled = torch.randperm(longest, generator=generator).tolist()
        sample = sorted(shuffled[: max(row) + 1])
        out.append([sample[p] for p in row])
    return torch.tensor(out)


class TestRandomized(SchemeTests):
    """Randomized positions against a slow draw, and the ids themselves."""

    name = "randomized"
    sizes = {"model_dim": 16, "heads": 2, "length": 64}
    published = {"longest": (2048, 40, (3277, 6554, 26214))}
    changes = [{"longest": 300}, {"shared": True}, {"scheme": "nope"}]
    errors = [
        ({"longest": -1}, "longest must be at least 1, got -1"),
        ({"scheme": "rop"}, "scheme: unknown scheme 'rop'; did you mean rope"),
        ({"scheme": "rope_2d"}, "needs positions of 2 axes"),
    ]

    def output(self, scheme: Scheme) -> Tensor:
        return drawn_codes(scheme)

    @pytest.mark.parametrize("longest", [10, 64, 2048])
    def test_ids_equal_the_slow_draw(self, longest: int) -> None:
        rows = [
            list(range(10)),
            [0, 1, 2, 0, 1, 2, 3, 4, 5, 6],
            [3, 0, 9, 1, 2, 2, 2, 4, 5, 6],
        ]
        got = self.make(longest=longest).positions(torch.tensor(rows), seeded(3))
        assert torch.equal(got, slow_ids(rows, longest, seeded(3)))

    @pytest.mark.parametrize("length", [1, 2, 60, 64])
    def test_ids_are_sorted_distinct_and_below_the_longest(self, length: int) -> None:
        for seed in range(20):
            ids = self.make(longest=64).positions(
                torch.arange(length).expand(4, -1), seeded(seed)
            )
            assert ids.dtype == torch.int64
            assert (ids.diff(dim=1) > 0).all()
            assert ids.min() >= 0
            assert ids.max() < 64

    def test_every_id_is_drawn_as_often_as_any_other(self) -> None:
        ids = self.make(longest=8).positions(torch.arange(3).expand(8000, -1), seeded())
        counts = ids.flatten().bincount(minlength=8)
        assert (counts - 3000).abs().max() < 250  # five standard deviations
        smallest = (ids[:, 0] == 0).double().mean().item()
        assert smallest == pytest.approx(3 / 8, abs=0.03)

    def test_ids_are_a_function_of_the_generator_alone(self) -> None:
        before = torch.get_rng_state()
        rows = torch.arange(9).expand(3, -1)
        one, other = self.make(), self.make()
        first = one.positions(rows, seeded(5))
        one.positions(rows, seeded(6))
        one.eval()
        assert torch.equal(first, one.positions(rows, seeded(5)))  # also in testing
        assert torch.equal(first, other.positions(rows, seeded(5)))
        assert not torch.equal(first, other.positions(rows, seeded(6)))
        assert torch.equal(before, torch.get_rng_state())

    def test_every_sequence_has_its_own_unless_shared(self) -> None:
        rows = torch.arange(9).expand(3, -1)
        own = self.make().positions(rows, seeded())
        assert not torch.equal(own[0], own[1])
        shared = self.make(shared=True).positions(rows, seeded())
        assert torch.equal(shared, own[:1].expand(3, -1))
        assert torch.equal(self.make().positions(rows[0], seeded()), own[0])

    def test_without_a_generator_ids_stay(self) -> None:
        assert torch.equal(self.make().positions(torch.arange(5)), torch.arange(5))

    def test_a_position_past_the_longest(self) -> None:
        with pytest.raises(
            UndefinedPositionError,
            match="randomized: positions must be from 0 to 7, got 8",
        ):
            self.make(longest=8).positions(torch.arange(9), seeded())

    def test_the_scheme_inside_refuses_in_its_own_name(self) -> None:
        outer = self.make(scheme="learned", longest=2048)
        ids = outer.positions(torch.arange(9), seeded())
        with pytest.raises(UndefinedPositionError, match="learned: positions must be"):
            outer.embed(normal(1, 9, 16), ids)


class TestShape(DrawnIdTests):
    """SHAPE: the offsets it draws, and what training and testing see."""

    name = "shape"
    sizes = {"model_dim": 16, "heads": 2, "length": 64}
    changes = [{"reach": 9}, {"scheme": "rope"}]
    unchanged = {"test_offset"}
    errors = [({"reach": 0}, "reach must be at least 1, got 0")]

    def output(self, scheme: Scheme) -> Tensor:
        return drawn_codes(scheme)

    @pytest.mark.parametrize("reach", [1, 5, 500])
    def test_training_adds_one_offset_per_sequence(self, reach: int) -> None:
        rows = torch.arange(7).expand(6, -1)
        ids = self.make(reach=reach).positions(rows, seeded(2))
        offsets = torch.randint(reach, (6, 1), generator=seeded(2))
        assert torch.equal(ids - rows, offsets.expand(6, 7))
        assert ids.dtype == torch.int64

    def test_offsets_are_uniform_below_the_reach(self) -> None:
        ids = self.make(reach=5).positions(
            torch.zeros(10_000, 1, dtype=torch.int64), seeded()
        )
        counts = ids.flatten().bincount()
        assert len(counts) == 5
        assert (counts - 2000).abs().max() < 200  # five standard deviations

    @pytest.mark.parametrize(("test_offset", "expected"), [("reach", 30), ("zero", 0)])
    def test_testing_has_one_offset(self, test_offset: str, expected: int) -> None:
        scheme = self.make(reach=30, test_offset=test_offset).eval()
        for generator in (None, seeded(1), seeded(2)):
            ids = scheme.positions(torch.arange(4).expand(2, -1), generator)
            assert torch.equal(ids, torch.arange(4).expand(2, -1) + expected)

    def test_the_code_is_that_of_the_moved_position(self) -> None:
        scheme = self.make(reach=40)
        ids = scheme.positions(torch.arange(5).expand(3, -1), seeded())
        got = scheme.embed(torch.zeros(3, 5, 16, dtype=torch.float64), ids)
        slow = [
            [sinusoid(first + p, 16) for p in range(5)] for first in ids[:, 0].tolist()
        ]
        close(got, torch.tensor(slow, dtype=torch.float64))

    def test_the_scheme_inside_refuses_in_its_own_name(self) -> None:
        scheme = self.make(scheme="learned").eval()
        ids = scheme.positions(torch.arange(4))
        with pytest.raises(
            UndefinedPositionError, match=r"learned: .* 0 to 63, got 503"
        ):
            scheme.embed(normal(1, 4, 16), ids)


class TestSinusoidal(EmbedTests):
    """Sinusoids against the formula of the paper, one channel at a time."""

    name = "sinusoidal"
    cases = [
        *(
            Case({"base": base}, model_dim=width)
            for base in (10_000.0, 100.0, 500_000.0)
            for width in (2, 6, 16)
        ),
        {"layout": "concatenated"},
    ]
    half = Case(model_dim=16)
    wrong_width = 7, "the width must be even, got 7"
    changes = [{"base": 1000.0}, {"layout": "concatenated"}, {"layout": "t2t"}]
    errors = [
        ({"base": -1.0}, r"base must be greater than 0, got -1\.0"),
        (
            {"layout": "half"},
            "layout must be interleaved or concatenated or t2t, got 'half'",
        ),
    ]

    def code(self, scheme: Any, case: Case, position: int) -> list[float]:
        base = case.options.get("base", 1e4)
        paper = sinusoid(position, scheme.geometry.model_dim, base)
        return paper[0::2] + paper[1::2] if "layout" in case.options else paper

    @pytest.mark.parametrize("width", [2, 8, 10])
    def test_t2t_reaches_the_base(self, width: int) -> None:
        # get_timing_signal_1d: timescales from 1 to 10000, both included
        code = codes(self.make(layout="t2t"), torch.tensor([5, 63]), width)
        half = width // 2
        for row, position in zip(code.tolist(), (5, 63), strict=True):
            step = math.log(1e4) / max(half - 1, 1)
            angles = [position * math.exp(-m * step) for m in range(half)]
            expected = [math.sin(a) for a in angles] + [math.cos(a) for a in angles]
            assert row == pytest.approx(expected, abs=1e-12)
        if width == 8:  # sinusoids of the paper and of tensor2tensor differ much
            paper = codes(self.make(layout="concatenated"), torch.tensor([5]), width)
            assert paper[0, 1].item() == pytest.approx(0.4794, abs=5e-5)
            assert code[0, 1].item() == pytest.approx(0.2300, abs=5e-5)

    def test_worked_table_of_4_positions_and_8_channels(self) -> None:
        code = codes(self.make(), torch.arange(4), 8)
        assert code[0].tolist() == [0, 1, 0, 1, 0, 1, 0, 1]
        norms = code.norm(dim=1)
        close(norms, torch.full((4,), 2.0).double(), 1e-15)
        # sin and cos of 1, 0.1, 0.01, 0.001
        first = [0.8415, 0.5403, 0.0998, 0.9950, 0.0100, 1.0000, 0.0010, 1.0000]
        assert code[1].tolist() == pytest.approx(first, abs=5e-5)

    def test_first_channels_of_position_1_at_width_512(self) -> None:
        code = codes(self.make(), torch.tensor([1]), 512)[0, :4].tolist()
        digits = [math.floor(number * 1e4) / 1e4 for number in code]
        assert digits == [0.8414, 0.5403, 0.8218, 0.5696]

    def test_a_shift_is_one_rotation_for_all_positions(self) -> None:
        width, shift = 12, 29
        turn = torch.zeros(width, width, dtype=torch.float64)
        for pair in range(width // 2):
            angle = shift / 10_000 ** (2 * pair / width)
            s, c = 2 * pair, 2 * pair + 1
            # sin(a + b) = sin a cos b + cos a sin b,
            # cos(a + b) = cos a cos b - sin a sin b
            turn[s, s] = turn[c, c] = math.cos(angle)
            turn[s, c], turn[c, s] = math.sin(angle), -math.sin(angle)
        positions = torch.arange(100)
        here = codes(self.make(), positions, width)
        there = codes(self.make(), positions + shift, width)
        close(here @ turn.T, there)

    def test_products_of_codes_depend_on_the_distance_alone(self) -> None:
        positions = torch.arange(40)
        here = codes(self.make(), positions, 16)
        there = codes(self.make(), positions + 1000, 16)
        close(here @ here.T, there @ there.T, 1e-11)


LAYOUTS = ["timm", "moco_v3", "big_vision", "t2t"]
PLACES = [[0, 0], [0, 5], [5, 0], [3, 14], [200, 1], [-2, 7]]


def slow_of_sinusoidal_2d(
    row: int, column: int, width: int, base: float, layout: str
) -> list[float]:
    quarter = width // 4
    last = quarter if layout in ("timm", "moco_v3") else max(quarter - 1, 1)

    def block(wave: str, place: int) -> list[float]:
        f = math.sin if wave == "sin" else math.cos
        return [f(place / base ** (m / last)) for m in range(quarter)]

    if layout == "timm":
        order = [("sin", row), ("sin", column), ("cos", row), ("cos", column)]
    elif layout == "t2t":
        order = [("sin", row), ("cos", row), ("sin", column), ("cos", column)]
    else:
        order = [("sin", column), ("cos", column), ("sin", row), ("cos", row)]
    return [value for wave, place in order for value in block(wave, place)]


class TestSinusoidal2d(EmbedTests):
    """Two-axis sinusoids against loops over the four blocks."""

    name = "sinusoidal_2d"
    sizes = {"model_dim": 16, "heads": 1}
    places = [PLACES, PLACES[::-1]]
    cases = [
        Case({"base": base, "layout": layout}, model_dim=width)
        for width in (4, 8, 16)
        for base in (10_000.0, 100.0)
        for layout in LAYOUTS
    ]
    half = Case(model_dim=32)
    half_places = [[15_962, 0], [15_966, 0], [0, 15_966], [0, 15_968]]
    wrong_width = 6, "the width must be divisible by 4, got 6"
    changes = [{"base": 9_000.0}, *({"layout": layout} for layout in LAYOUTS[1:])]
    errors = [({"base": 0.0}, r"base must be greater than 0, got 0\.0")]

    def code(self, scheme: Any, case: Case, position: list[int]) -> list[float]:
        options = {"base": 1e4, "layout": "timm", **case.options}
        width = scheme.geometry.model_dim
        row, column = position
        return slow_of_sinusoidal_2d(
            row, column, width, options["base"], options["layout"]
        )

    def test_blocks_are_sinusoids_of_one_axis(self) -> None:
        options = {"layout": "concatenated"}
        one_axis = create("sinusoidal", options=options, model_dim=8, heads=1)
        zero = torch.zeros(1, 6, 8, dtype=torch.float64)
        rows, columns = (
            one_axis.embed(zero, torch.tensor(PLACES)[:, axis])[0] for axis in (0, 1)
        )
        got = codes(self.make(layout="moco_v3"), PLACES)
        close(got[:, :8], columns, 1e-14)
        close(got[:, 8:], rows, 1e-14)
        sin_row, sin_column, cos_row, cos_column = codes(self.make(), PLACES).chunk(
            4, -1
        )
        torch.testing.assert_close(torch.cat([sin_row, cos_row], -1), rows)
        torch.testing.assert_close(torch.cat([sin_column, cos_column], -1), columns)

    def test_layouts_of_one_exponent_hold_the_same_channels(self) -> None:
        for one, other in (("timm", "moco_v3"), ("big_vision", "t2t")):
            first, second = (
                codes(self.make(layout=name), PLACES) for name in (one, other)
            )
            assert torch.equal(first.sort(-1).values, second.sort(-1).values)
            assert not torch.equal(first, second)
        slowest = codes(self.make(layout="t2t"), [[7, 0]])[0, 3]
        assert slowest.item() == pytest.approx(math.sin(7 / 10_000), rel=1e-12)

    def test_positions_have_two_axes_in_attention(self) -> None:
        scheme, x = self.make(), normal(1, 1, 6, 16)
        places = torch.tensor(PLACES)
        out = attention(x, x, x, scheme=scheme, positions=places)
        assert torch.equal(
            out, attention(x, x, x, scheme=scheme, positions=places[None])
        )
        with pytest.raises(ShapeError, match=r"positions must be \(6, 2\) or"):
            attention(x, x, x, scheme=scheme, positions=torch.arange(6))

    def test_inner_products_depend_on_both_offsets_alone(self) -> None:
        here = codes(self.make(), [[2, 3], [4, 9]])
        there = codes(self.make(), [[12, 103], [14, 109]])
        assert (here @ here.T - there @ there.T).abs().max() < 1e-12
        other = codes(self.make(), [[2, 3], [4, 8]])
        assert (here @ here.T - other @ other.T).abs().max() > 1e-3


class TestSinusoidalConcat(EmbedTests):
    """Concatenated sinusoids against loops over channels."""

    name = "sinusoidal_concat"
    sizes = {"model_dim": 6, "heads": 1}
    noise = 1.0
    cases = combine(base=(10_000.0, 100.0), channels=(6, 2, 10))
    half = Case(model_dim=32)
    wrong_width = 8, r"the width must be 6, .* got 8"
    changes = [{"channels": 4}, {"base": 9_000.0}]
    errors = [
        (
            {"channels": channels},
            f"channels must be even and at least 2, got {channels}",
        )
        for channels in (3, 1, -2)
    ]

    def embedded(self, scheme: Any, case: Case, token: Tensor, position: int) -> Tensor:
        channels = case.options.get("channels", scheme.geometry.model_dim)
        code = sinusoid(position, channels, case.options.get("base", 1e4))
        both = token.tolist() + code
        rows = [dot(row, both) for row in scheme.project.weight.tolist()]
        return torch.tensor(rows, dtype=torch.float64)

    def test_the_identity_as_projection_is_the_sinusoidal_scheme(self) -> None:
        scheme, x, positions = self.make(), normal(2, 5, 6), torch.arange(5) * 17
        with torch.no_grad():
            scheme.project.weight[:, 6:] = torch.eye(6)
        expected = create("sinusoidal", model_dim=6, heads=1).embed(x, positions)
        close(scheme.embed(x, positions), expected, 1e-14)
