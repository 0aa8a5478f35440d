"""Codes of positions in token vectors against slow formulas, one channel at a time."""

import math
from typing import Any, ClassVar

import pytest
import torch
import torch.nn.functional as F
from schemes.reference import Case, EmbedTests, SchemeTests, combine
from schemes.tools import (
    CLOSE_POSITIONS,
    close,
    dot,
    drawn_codes,
    grid,
    normal,
    seeded,
    sinusoid,
)
from torch import Tensor

from posenc_compare.errors import UndefinedPositionError
from posenc_compare.schemes import Scheme, create


def codes(scheme: Any, places: Any, width: int = 0) -> Tensor:
    """Return the codes (length, width) that a scheme adds to tokens of zeros."""
    width = width or scheme.geometry.model_dim
    zero = torch.zeros(1, len(places), width, dtype=torch.float64)
    return scheme.embed(zero, torch.as_tensor(places))[0]


class TestBilevelPlaces(EmbedTests):
    """Places in segments against reading the table; for segments see `test_rotary`."""

    name = "bilevel"
    sizes = {"model_dim": 6, "heads": 3, "length": 12}
    places = [[[0, 0], [0, 11], [7, 3], [-2, 3]], [[1, 5], [1, 4], [90, 0], [9, 11]]]
    cases = [{}, {"between": "alibi"}, {"places": 20}, Case(head_dim=4)]
    changes = [{"places": 13}, {"std": 0.1}]
    unchanged = {"base", "layout", "steepness"}

    def code(self, scheme: Any, case: Case, position: list[int]) -> list[float]:
        return scheme.table[position[1]].tolist()


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

    def code(self, scheme: Any, case: Case, position: int) -> list[float]:
        bits, signed = case.options.get("bits", 14), case.options.get("signed", False)
        width = scheme.geometry.model_dim
        digits = [float(sign) for sign in reversed(format(position, f"0{bits}b"))]
        if signed:
            digits = [1.0 if digit else -1.0 for digit in digits]
        code = digits * (width // bits)  # whole copies alone
        return code + [0.0] * (width - len(code))


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
    unchanged = {"global_shift", "local_shift", "scaling", "centred"}

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
    name = "fourier_learned"
    sizes = {"model_dim": 6, "heads": 1, "length": 40}
    noise = 1.0
    cases = [
        {"features": features, "hidden": 5, "normalised": normalised}
        for features in (0, 2, 10)
        for normalised in (False, True)
    ]
    changes = [{"features": 4}, {"hidden": 16}, {"gamma": 5.0}, {"spread": "std"}]

    def code(self, scheme: Any, case: Case, position: int) -> list[float]:
        length = scheme.geometry.length if case.options.get("normalised") else 1
        waves = scheme.waves.weight.flatten().tolist()
        angles = [position / length * wave for wave in waves]
        features = [math.cos(a) for a in angles] + [math.sin(a) for a in angles]
        features = [feature / math.sqrt(len(features)) for feature in features]
        # GELU(z) is z times the share of a normal distribution below z.
        z = affine(scheme.rise, features)
        return affine(scheme.fall, [x * (1 + math.erf(x / 2**0.5)) / 2 for x in z])


class TestFourierRandom(EmbedTests):
    name = "fourier_random"
    sizes = {"model_dim": 8, "heads": 1, "length": 50}
    cases = [{}, Case({"sigma": 4.0}, length=7)]
    changes = [{"sigma": 4.0}]

    def trained(self, case: Case) -> Any:
        return self.build(case)

    def code(self, scheme: Any, case: Case, position: int) -> list[float]:
        """cos(2 pi b v) for all b, then sin(2 pi b v), with v = position / length."""
        share = position / scheme.geometry.length
        angles = [2 * math.pi * b * share for b in scheme.frequencies.tolist()]
        return [math.cos(a) for a in angles] + [math.sin(a) for a in angles]


CELLS = [[0, 0], [0, 4], [1, 3], [2, 2], [3, 1], [4, 0]]


class WholeImageTests(EmbedTests):
    """A code of the place in the whole image, whatever its number of cells."""

    places = [CELLS, CELLS[::-1]]
    margin: ClassVar[float]  # cells beyond the places of the first and the last

    def spans(self, side: int) -> list[float]:
        """Return the places of cells, -1 to 1 from edge to edge."""
        whole = max(side - 1 + 2 * self.margin, 1)
        return [2 * (cell + self.margin) / whole - 1 for cell in range(side)]

    def at(self, scheme: Any, row: float, column: float) -> list[float]:
        """Return the code of two places."""
        raise NotImplementedError

    @pytest.mark.parametrize("sides", [(4, 5), (8, 3), (1, 7), (20, 1), (16, 16)])
    def test_coordinates_span_an_image_of_any_sides(
        self, sides: tuple[int, int]
    ) -> None:
        scheme = self.make(0.5, height=4, width=6).requires_grad_(False)
        width = scheme.geometry.model_dim
        zero = torch.zeros(1, math.prod(sides), width, dtype=torch.float64)
        got = scheme.embed(zero, scheme.positions(grid(*sides)))[0]
        rows, columns = map(self.spans, sides)
        slow = [self.at(scheme, row, column) for row in rows for column in columns]
        close(got, torch.tensor(slow, dtype=torch.float64), 1e-11)


class TestFourierRandom2d(WholeImageTests):
    """SAM's random frequencies, one channel at a time."""

    name = "fourier_random_2d"
    margin = 0.5
    sizes = {"model_dim": 8, "heads": 1, "length": 20}
    cases = [{}, {"sigma": 4.0}, {"height": 4, "width": 9}, Case(model_dim=2)]
    changes = [{"sigma": 4.0}]

    def trained(self, case: Case) -> Any:
        return self.build(case)

    def code(self, scheme: Any, case: Case, position: list[int]) -> list[float]:
        sides = [case.options.get(side, 5) for side in ("height", "width")]
        pairs = zip(position, sides, strict=True)
        return self.at(scheme, *(2 * (p + 0.5) / side - 1 for p, side in pairs))

    def at(self, scheme: Any, row: float, column: float) -> list[float]:
        across, down = scheme.frequencies.tolist()  # SAM's points are (x, y)
        both = zip(across, down, strict=True)
        turns = [column * x + row * y for x, y in both]
        angles = [2 * math.pi * turn for turn in turns]
        return [wave(angle) for wave in (math.sin, math.cos) for angle in angles]


class TestInteger(EmbedTests):
    name = "integer"
    sizes = {"model_dim": 5, "heads": 1, "length": 48}
    cases = [{}, {"normalised": True}, {"normalised": False}, Case(length=7)]

    def code(self, scheme: Any, case: Case, position: int) -> list[float]:
        whole = case.options.get("normalised", True)
        return [position / scheme.geometry.length if whole else float(position)] * 5


class TestLearned(EmbedTests):
    name = "learned"
    sizes = {"model_dim": 6, "heads": 1, "length": 12}
    places = [[0, 11, 3, 3], [5, 4, 0, 11]]
    changes = [{"std": 0.1}, {"length": 13}]

    def code(self, scheme: Any, case: Case, position: int) -> list[float]:
        return scheme.table[position].tolist()


class TestLearnedAxial(EmbedTests):
    """Two tables against reading one row of each."""

    name = "learned_axial"
    sizes = {"model_dim": 6, "heads": 1, "length": 12}
    places = [[0, 11, 3, 3], [5, 4, 0, 7]]
    cases = [
        *({}, {"rows": 5}, {"columns": 5}, {"rows": 4, "columns": 7}),
        *({"channels": channels} for channels in (1, 3, 5)),
        *(Case(model_dim=width) for width in (2, 3, 7, 9)),
    ]
    changes = [{"rows": 5}, {"columns": 5}, {"channels": 3}, {"std": 0.1}]

    def code(self, scheme: Any, case: Case, position: int) -> list[float]:
        row = 0
        while position >= len(scheme.columns):
            row, position = row + 1, position - len(scheme.columns)
        return scheme.rows[row].tolist() + scheme.columns[position].tolist()

    @pytest.mark.parametrize(
        ("length", "rows", "columns", "sides"),
        [
            *((1, 0, 0, (1, 1)), (5, 0, 0, (2, 3)), (12, 0, 0, (3, 4))),
            *((16, 0, 0, (4, 4)), (17, 0, 0, (4, 5)), (512, 0, 0, (23, 23))),
            *((12, 5, 0, (5, 3)), (12, 0, 5, (3, 5)), (12, 2, 2, (2, 2))),
            *((12, 30, 0, (30, 1)), (12, 0, 30, (1, 30))),
        ],
    )
    def test_sides_hold_the_length(
        self, length: int, rows: int, columns: int, sides: tuple[int, int]
    ) -> None:
        scheme = self.make(length=length, rows=rows, columns=columns)
        assert (len(scheme.rows), len(scheme.columns)) == sides

    @pytest.mark.parametrize(("width", "own"), [(2, 1), (7, 1), (256, 64), (1024, 256)])
    def test_the_row_has_a_quarter_of_the_channels(self, width: int, own: int) -> None:
        scheme = self.make(model_dim=width)
        assert scheme.rows.shape[1] == own
        assert scheme.columns.shape[1] == width - own


class TestLearnedHierarchical(EmbedTests):
    """Composed vectors against the two formulas of the post."""

    name = "learned_hierarchical"
    sizes = {"model_dim": 6, "heads": 1, "length": 12}
    places = [[0, 11, 12, 13, 24], [23, 5, 4, 19, 0]]
    cases = [{}, {"alpha": 0.7}, {"alpha": 0.05, "length": 5}, Case(length=7)]
    changes = [{"alpha": 0.3}, {"length": 13}, {"std": 0.1}]

    def code(self, scheme: Any, case: Case, position: int) -> list[float]:
        rows, a = scheme.table.tolist(), case.options.get("alpha", 0.4)
        i, j = divmod(position, len(rows))
        u_i, u_j = (
            [
                (p - a * first) / (1 - a)
                for p, first in zip(rows[k], rows[0], strict=True)
            ]
            for k in (i, j)
        )
        return [a * x + (1 - a) * y for x, y in zip(u_i, u_j, strict=True)]

    @pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.bfloat16])
    def test_the_table_itself_is_learned(self, dtype: torch.dtype) -> None:
        scheme, learned = self.drawn().to(dtype), self.make(name="learned").to(dtype)
        learned.load_state_dict(scheme.state_dict())
        scheme.requires_grad_(True)
        x, places = normal(2, 12, 6).to(dtype), torch.arange(12)
        one, other = scheme.embed(x, places), learned.embed(x, places)
        assert torch.equal(one, other)
        for each in (one, other):
            each.double().square().sum().backward()
        grads = scheme.table.grad.double(), learned.table.grad.double()
        close(*grads, 1e-12 if dtype == torch.float64 else 0.1)

    def test_a_rounded_table_is_rounded_once_more(self) -> None:
        scheme = self.drawn(length=7).bfloat16()
        zero, places = torch.zeros(1, 49, 6), torch.arange(49)
        got = scheme.embed(zero.bfloat16(), places).double()
        exact = scheme.double().embed(zero.double(), places)
        assert ((got - exact).abs() <= 2.0**-8 * exact.abs() + 1e-6).all()


def slow_ids(rows: list[list[int]], longest: int, generator: torch.Generator) -> Tensor:
    """The p-th smallest of as many numbers as the row has positions."""
    out = []
    for row in rows:
        shuffled = torch.randperm(longest, generator=generator).tolist()
        sample = sorted(shuffled[: max(row) + 1])
        out.append([sample[p] for p in row])
    return torch.tensor(out)


class TestRandomized(DrawnIdTests):
    """Randomized positions against a slow draw, and the ids themselves."""

    name = "randomized"
    sizes = {"model_dim": 16, "heads": 2, "length": 64}
    changes = [{"longest": 300}, {"shared": True}, {"scheme": "nope"}]

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

    def test_every_sequence_has_its_own_unless_shared(self) -> None:
        rows = torch.arange(9).expand(3, -1)
        own = self.make().positions(rows, seeded())
        assert not torch.equal(own[0], own[1])
        shared = self.make(shared=True).positions(rows, seeded())
        assert torch.equal(shared, own[:1].expand(3, -1))
        assert torch.equal(self.make().positions(rows[0], seeded()), own[0])
        assert torch.equal(self.make().eval().positions(rows, seeded()), own)


class TestShape(DrawnIdTests):
    """SHAPE: the offsets it draws, and what training and testing see."""

    name = "shape"
    sizes = {"model_dim": 16, "heads": 2, "length": 64}
    changes = [{"reach": 9}, {"scheme": "rope"}]
    unchanged = {"test_offset"}

    def output(self, scheme: Scheme) -> Tensor:
        return drawn_codes(scheme)

    @pytest.mark.parametrize("reach", [1, 5, 500])
    def test_training_adds_one_offset_per_sequence(self, reach: int) -> None:
        rows = torch.arange(7).expand(6, -1)
        ids = self.make(reach=reach).positions(rows, seeded(2))
        offsets = torch.randint(reach, (6, 1), generator=seeded(2))
        assert torch.equal(ids - rows, offsets.expand(6, 7))
        assert ids.dtype == torch.int64

    @pytest.mark.parametrize(("test_offset", "expected"), [("reach", 30), ("zero", 0)])
    def test_testing_has_one_offset(self, test_offset: str, expected: int) -> None:
        scheme = self.make(reach=30, test_offset=test_offset).eval()
        for generator in (None, seeded(1), seeded(2)):
            ids = scheme.positions(torch.arange(4).expand(2, -1), generator)
            assert torch.equal(ids, torch.arange(4).expand(2, -1) + expected)


class TestSinusoidal(EmbedTests):
    name = "sinusoidal"
    cases = [
        *(Case({"layout": "t2t"}, model_dim=width) for width in (2, 8, 10)),
        *(
            Case({"base": base}, model_dim=width)
            for base in (10_000.0, 100.0, 500_000.0)
            for width in (2, 6, 16)
        ),
        {"layout": "concatenated"},
    ]

    def code(self, scheme: Any, case: Case, position: int) -> list[float]:
        base, half = case.options.get("base", 1e4), scheme.geometry.model_dim // 2
        if case.options.get("layout") == "t2t":
            # get_timing_signal_1d: timescales from 1 to 10000, both included
            step = math.log(1e4) / max(half - 1, 1)
            angles = [position * math.exp(-m * step) for m in range(half)]
            return [math.sin(a) for a in angles] + [math.cos(a) for a in angles]
        paper = sinusoid(position, 2 * half, base)
        return paper[0::2] + paper[1::2] if "layout" in case.options else paper

    def test_first_channels_of_position_1_at_width_512(self) -> None:
        code = codes(self.make(), torch.tensor([1]), 512)[0, :4].tolist()
        digits = [math.floor(number * 1e4) / 1e4 for number in code]
        assert digits == [0.8414, 0.5403, 0.8218, 0.5696]


LAYOUTS = ["timm", "moco_v3", "big_vision", "t2t"]
PLACES = [[0, 0], [0, 5], [5, 0], [3, 14], [200, 1], [-2, 7]]


class TestSinusoidal2d(EmbedTests):
    name = "sinusoidal_2d"
    sizes = {"model_dim": 16, "heads": 1}
    places = [PLACES, PLACES[::-1]]
    cases = [
        Case({"base": base, "layout": layout}, model_dim=width)
        for width in (4, 8, 16)
        for base in (10_000.0, 100.0)
        for layout in LAYOUTS
    ]

    def code(self, scheme: Any, case: Case, position: list[int]) -> list[float]:
        base, layout = case.options["base"], case.options["layout"]
        quarter = scheme.geometry.model_dim // 4
        last = quarter if layout in ("timm", "moco_v3") else max(quarter - 1, 1)
        sines, cosines = (
            [[wave(p / base ** (m / last)) for m in range(quarter)] for p in position]
            for wave in (math.sin, math.cos)
        )
        blocks = [sines[1], cosines[1], sines[0], cosines[0]]
        if layout == "timm":
            blocks = [*sines, *cosines]
        elif layout == "t2t":
            blocks = [sines[0], cosines[0], sines[1], cosines[1]]
        return [value for block in blocks for value in block]


class TestLearned2d(EmbedTests):
    """A table against reading its cells, and resized ones against torch."""

    name = "learned_2d"
    sizes = {"model_dim": 8, "heads": 1, "length": 25}
    noise = 1.0
    places = [[[0, 0], [4, 1], [2, 3]], [[1, 1], [0, 4], [4, 0]]]
    cases = [{}, {"resize": "bilinear"}, {"height": 7, "width": 5}]
    changes = [{"resize": "bilinear"}, {"height": 6}, {"width": 6}, {"std": 1.0}]

    def output(self, scheme: Any) -> Tensor:
        zero = torch.zeros(1, 6, 8, dtype=torch.float64)
        return scheme.embed(zero, scheme.positions(grid(2, 3)))

    def code(self, scheme: Any, case: Case, position: list[int]) -> list[float]:
        return scheme.table[position[0], position[1]].tolist()

    @pytest.mark.parametrize("resize", ["bicubic", "bilinear"])
    @pytest.mark.parametrize("sides", [(5, 5), (10, 7), (3, 4), (1, 9), (20, 20)])
    def test_a_table_is_resized_to_the_image(
        self, resize: Any, sides: tuple[int, int]
    ) -> None:
        scheme = self.make(0.5, resize=resize).requires_grad_(False)
        zero = torch.zeros(1, math.prod(sides), 8, dtype=torch.float64)
        got = scheme.embed(zero, scheme.positions(grid(*sides)))[0]
        whole = scheme.table.movedim(-1, 0)[None]
        theirs = F.interpolate(whole, sides, mode=resize, align_corners=False)
        close(got, theirs[0].flatten(1).T)

    @pytest.mark.parametrize("cell", [(-1, 0), (5, 0), (0, -2), (0, 7)])
    def test_cells_off_the_table_are_an_error(self, cell: tuple[int, int]) -> None:
        x, places = torch.zeros(1, 2, 8).double(), torch.tensor([[1, 1], cell])
        said = f"learned_2d: positions must be from 0 to 4, got {sum(cell)}; ids from 0"
        with pytest.raises(UndefinedPositionError, match=said):
            self.make().embed(x, places)


class TestLearnedAxes(EmbedTests):
    """DETR's tables, read one cell at a time."""

    name = "learned_axes"
    sizes = {"model_dim": 6, "heads": 1, "length": 20}
    places = [[[0, 0], [4, 1], [2, 3]], [[1, 1], [0, 4], [4, 0]]]
    cases = [{}, {"height": 7, "width": 5}, Case(model_dim=2)]
    changes = [{"height": 6}, {"width": 6}]  # as other numbers are drawn

    def code(self, scheme: Any, case: Case, position: list[int]) -> list[float]:
        row, column = position
        return scheme.columns[column].tolist() + scheme.rows[row].tolist()


class TestPerceiver(WholeImageTests):
    """Perceiver's features, one number at a time."""

    name = "perceiver"
    margin = 0.0
    sizes = {"model_dim": 6, "heads": 1, "length": 20}
    noise = 1.0
    cases = [{}, {"bands": 1}, {"bands": 3, "height": 4, "width": 9}, Case(length=1)]
    changes = [{"bands": 5}]

    def embedded(self, scheme: Any, case: Case, token: Tensor, position: Any) -> Tensor:
        side = 1 if "length" in case.sizes else 5
        sides = [case.options.get(name, side) for name in ("height", "width")]
        bands = case.options.get("bands", 64)
        pairs = zip(position, sides, strict=True)
        places = [2 * p / max(side - 1, 1) - 1 for p, side in pairs]
        return self.read(scheme, token.tolist(), places, sides, bands)

    def read(
        self, scheme: Any, token: Any, places: Any, sides: Any, bands: int
    ) -> Tensor:
        angles = []
        for place, side in zip(places, sides, strict=True):
            for band in range(bands):
                share = band / max(bands - 1, 1)
                angles.append(math.pi * place * (1 + share * (side / 2 - 1)))
        sines, cosines = map(math.sin, angles), map(math.cos, angles)
        weights = torch.cat([scheme.from_token.weight, scheme.from_place.weight], 1)
        both = [*token, *places, *sines, *cosines]
        rows = [dot(row, both) for row in weights.tolist()]
        return torch.tensor(rows, dtype=torch.float64)

    def at(self, scheme: Any, row: float, column: float) -> list[float]:
        return self.read(scheme, [0.0] * 6, [row, column], (4, 6), 64).tolist()

    def test_it_starts_as_the_token_and_a_projection_of_the_features(self) -> None:
        scheme = self.make(model_dim=400, bands=50).requires_grad_(False)
        assert scheme.from_token.weight.equal(torch.eye(400).double())
        spread = scheme.from_place.weight.std().item()
        error = 4 / math.sqrt(400 * 202)  # four standard errors of so many draws
        assert spread * math.sqrt(202) == pytest.approx(1, abs=error)


class TestSinusoidalDetr(WholeImageTests):
    """DETR's sinusoids of the place in sides of the image, one at a time."""

    name = "sinusoidal_detr"
    sizes = {"model_dim": 16, "heads": 1, "length": 20}
    cases = [
        {},
        {"base": 20.0},
        {"height": 4, "width": 9},
        Case(model_dim=4),
        Case(length=1),
    ]

    def code(self, scheme: Any, case: Case, position: list[int]) -> list[float]:
        side = 1 if "length" in case.sizes else 5
        sides = [case.options.get(name, side) for name in ("height", "width")]
        pairs = zip(position, sides, strict=True)
        shares = [(p + 1) / (side + 1e-6) for p, side in pairs]
        width, base = scheme.geometry.model_dim, case.options.get("base", 1e4)
        both = [sinusoid(2 * math.pi * share, width // 2, base) for share in shares]
        return both[0] + both[1]

    def spans(self, side: int) -> list[float]:
        return [(cell + 1) / (side + 1e-6) for cell in range(side)]

    def at(self, scheme: Any, row: float, column: float) -> list[float]:
        both = [sinusoid(2 * math.pi * share, 8) for share in (row, column)]
        return both[0] + both[1]


class TestSinusoidalConcat(EmbedTests):
    name = "sinusoidal_concat"
    sizes = {"model_dim": 6, "heads": 1}
    noise = 1.0
    cases = combine(base=(10_000.0, 100.0), channels=(6, 2, 10))

    def embedded(self, scheme: Any, case: Case, token: Tensor, position: int) -> Tensor:
        channels = case.options.get("channels", scheme.geometry.model_dim)
        code = sinusoid(position, channels, case.options.get("base", 1e4))
        both = token.tolist() + code
        rows = [dot(row, both) for row in scheme.project.weight.tolist()]
        return torch.tensor(rows, dtype=torch.float64)


class TestTime2Vec(EmbedTests):
    name = "time2vec"
    sizes = {"model_dim": 6, "heads": 1, "length": 40}
    cases = [{}, {"normalised": False}, Case(model_dim=1)]

    def code(self, scheme: Any, case: Case, position: int) -> list[float]:
        unit = scheme.geometry.length if case.options.get("normalised", True) else 1
        rows = zip(scheme.frequency.tolist(), scheme.phase.tolist(), strict=True)
        line, *angles = [w * position / unit + b for w, b in rows]
        return [line, *map(math.sin, angles)]


class TestTape(EmbedTests):
    name = "tape"
    sizes = {"model_dim": 8, "heads": 1, "length": 20}
    cases = [
        *(
            Case(model_dim=width, length=length)
            for width in (2, 6)
            for length in (5, 99)
        ),
        {"base": 100.0},
        {"length": 7},
    ]

    def code(self, scheme: Any, case: Case, position: int) -> list[float]:
        width = scheme.geometry.model_dim
        length = case.options.get("length", scheme.geometry.length)
        code = []
        for pair in range(width // 2):
            speed = case.options.get("base", 1e4) ** (-2 * pair / width)
            angle = position * speed * width / length
            code += [math.sin(angle), math.cos(angle)]
        return code


# C17 compares the others: it has no cell beyond 127, and no place beyond the length.
@pytest.mark.parametrize(
    ("name", "places"),
    [
        ("sinusoidal_2d", [[15_962, 0], [15_966, 0], [0, 15_968]]),
        ("time2vec", CLOSE_POSITIONS.tolist()),
    ],
)
def test_bfloat16_rounds_the_code_only(name: str, places: Any) -> None:
    scheme = create(name, model_dim=32, heads=1, length=64).double()
    zero = torch.zeros(1, 3, 32)
    wide, half = (
        scheme.embed(x, torch.tensor(places)) for x in (zero.double(), zero.bfloat16())
    )
    assert torch.equal(half, wide.bfloat16())
