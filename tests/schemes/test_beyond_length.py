"""Rotated pairs beyond the training length against slow formulas."""

import cmath
import math
from itertools import count, product
from typing import Any

import pytest
import torch
from schemes.reference import Case, Inputs, RotaryTests, SchemeTests
from schemes.tools import drawn_codes, normal, seeded, speeds, vectors
from torch import Tensor

from posenc_compare.attention import attention_logits
from posenc_compare.schemes import Geometry, Scheme, create
from posenc_compare.schemes.dual_chunk import DualChunk
from posenc_compare.schemes.self_extend import SelfExtend
from posenc_compare.schemes.string_rope import StringRope

PLACES = torch.tensor([0, 1, 2, 5, 9, 10, 11, 40])
# Figure 2, with 10 positions of training.
PAPER: dict[str, Any] = {"chunk": 6, "local": 4, "far": 9}


def read_at(i: int, j: int, chunk: int, local: int, far: int) -> int:
    """Return the distance at which query i reads key j, by equations 2, 5 and 7."""
    intra = list(range(chunk))
    successive = [chunk + n if n < local else far for n in range(chunk)]
    lists = [intra, successive, [far] * chunk]
    behind = min(i // chunk - j // chunk, 2)
    return lists[behind][i % chunk] - j % chunk


def released(chunk: int, local: int) -> int:
    """Return where queries of inter-chunk attention stand in the released code."""
    last_of_chunk = chunk - 1
    return min(last_of_chunk + chunk, chunk + local)


class ReadTests(RotaryTests):
    """A scheme that reads far keys at other distances than they have."""

    causal = True
    sizes = {"model_dim": 16, "heads": 2, "length": 64}
    places = [PLACES.tolist(), (PLACES + 7).tolist()]

    def read_at(self, t: Inputs, query: int, key: int) -> float:
        """Return the distance at which a query reads a key."""
        raise NotImplementedError

    def growth(self, t: Inputs, query: int) -> float:
        """Return what logits are multiplied by."""
        return 1.0

    def factors(self, t: Inputs, h: int, query: int, key: int) -> list[complex]:
        past, growth = self.read_at(t, query, key), self.growth(t, query)
        return [growth * cmath.exp(1j * past * 100.0 ** (-m / 4)) for m in range(4)]


class TestDualChunk(ReadTests):
    """Dual chunk attention against the three lists of positions of its paper."""

    name = "dual_chunk"
    cases = [
        {"chunk": chunk, "local": local, "far": far, "layout": layout, "base": 100.0}
        for chunk, local, far in (
            *((6, 4, 9), (6, 4, 0), (4, 1, 0), (5, 2, 20)),
            *((3, 3, 0), (3, 7, 0), (1, 1, 0)),
        )
        for layout in ("adjacent", "half")
    ]
    identities = [({"chunk": 48, "local": 3}, {}, "rope")]

    def read_at(self, t: Inputs, query: int, key: int) -> float:
        chunk, local = t.option("chunk"), t.option("local")
        far = t.option("far") or released(chunk, local)
        return read_at(query, key, chunk, local, far)

    def test_the_figure_of_the_paper(self) -> None:
        rows = [
            [read_at(i, j, **PAPER) for j in range(i + 1)] for i in (5, 6, 9, 10, 11)
        ]
        assert rows[0] == [5, 4, 3, 2, 1, 0]
        assert rows[1] == [6, 5, 4, 3, 2, 1, 0]
        assert rows[2] == [9, 8, 7, 6, 5, 4, 3, 2, 1, 0]
        assert rows[3] == [9, 8, 7, 6, 5, 4, 4, 3, 2, 1, 0]
        assert rows[4] == [9, 8, 7, 6, 5, 4, 5, 4, 3, 2, 1, 0]

    def test_a_key_of_a_later_chunk_is_read_as_rope_reads_it(self) -> None:
        q, k, _ = vectors(1, 2, 3, 8)
        places = torch.tensor([13, 2, 0])
        rope = create("rope", model_dim=16, heads=2)
        expected = attention_logits(q, k, scheme=rope, positions=places)
        got = attention_logits(q, k, scheme=self.make(**PAPER), positions=places)
        assert torch.equal(got, expected)

    @pytest.mark.parametrize("length", [4, 5, 16, 64])
    def test_no_pair_is_read_beyond_the_training_length(self, length: int) -> None:
        scheme = DualChunk(Geometry(length=length, head_dim=8))
        numbers = scheme.chunk, scheme.local, scheme.far
        pairs = product(range(5 * length), repeat=2)
        longest = max(read_at(i, j, *numbers) for i, j in pairs if j <= i)
        assert longest == scheme.far < length
        assert scheme.schemes_for_length(5 * length) == {}

    def test_the_numbers_of_the_paper_go_one_too_far_as_released(self) -> None:
        geometry = Geometry(length=64, head_dim=8)
        assert DualChunk(geometry, chunk=48, local=16).far == 64
        assert DualChunk(geometry, chunk=48, local=16, far=63).far == 63


# Base, training length, and channels of a head.
CASES = [
    (5e5, 8192, 128),  # Llama 3
    (1e4, 1, 16),  # no whole turn: the fastest pair alone stays
    (1e4, 64, 16),  # no pair with 32 turns
    (1e4, 2048, 16),
    (20.0, 4096, 16),  # no pair without; the passage lies beyond all pairs
    (50.0, 1024, 16),  # ends beyond the last pair
    (10.0, 700, 16),  # would end at place 17, beyond the code's bound
]
both_kinds = pytest.mark.parametrize("kind", ["uni", "pro"])


def slow_speeds(width: int, base: float, trained: int, s: float, kind: str) -> Any:
    """Divide each frequency by the product of the radices of all faster pairs."""

    def turns(pair: int) -> float:
        return trained * base ** (-2 * pair / width) / (2 * math.pi)

    low = max((m for m in range(width) if turns(m) >= 32), default=0)
    high = min(next(m for m in count() if turns(m) <= 1), width - 1)
    high = max(high, low + 1)
    n, found, product = high - low, [], 1.0
    for m in range(width // 2):
        found.append(base ** (-2 * m / width) / product)
        if low <= m < high:
            share = 1 / n if kind == "uni" else 2 * (1 + m - low) / ((1 + n) * n)
            product *= s**share
    return found


class TestMrRope(RotaryTests):
    """MrRoPE against products of radices, one pair at a time."""

    name = "mr_rope"
    sizes = {"model_dim": 32, "heads": 2, "length": 64}
    cases = [
        Case({"layout": layout, "kind": kind, "factor": 4.0}, length=length)
        for length, layout in ((64, "adjacent"), (64, "half"), (2048, "half"))
        for kind in ("uni", "pro")
    ]
    identities = [({"kind": kind}, {}, "rope") for kind in ("uni", "pro")]
    changes = [({"factor": 4.0}, {"base": 9e3})]

    def factors(self, t: Inputs, h: int, query: int, key: int) -> list[complex]:
        heat = (1 + 0.1 * math.log(4)) ** 2  # of a query and a key
        found = slow_speeds(16, 1e4, t.scheme.geometry.length, 4.0, t.option("kind"))
        return [heat * cmath.exp(1j * (query - key) * speed) for speed in found]

    @both_kinds
    @pytest.mark.parametrize("factor", [1.7, 16.0])
    @pytest.mark.parametrize(("base", "length", "head_dim"), CASES)
    def test_frequencies_equal_the_slow_reference(
        self, base: float, length: int, head_dim: int, factor: float, kind: str
    ) -> None:
        sizes: dict[str, Any] = {"head_dim": head_dim, "length": length}
        scheme = self.make(**sizes, base=base, factor=factor, kind=kind)
        got = speeds(scheme).tolist()
        # At most 17 products and powers, of 2**-53 each, in a number up to 1.
        expected = slow_speeds(head_dim, base, length, factor, kind)
        assert got == pytest.approx(expected, rel=1e-14, abs=0)

    @both_kinds
    @pytest.mark.parametrize("length", [65, 160])
    def test_a_longer_text_is_read_with_its_own_factor(
        self, length: int, kind: str
    ) -> None:
        options = {"base": 5e3, "layout": "half", "kind": kind}
        scheme = self.make(**options)
        found = scheme.schemes_for_length(length)
        assert list(found) == ["mr_rope"]
        named = self.make(factor=length / 64, **options)
        x, positions = normal(1, 2, 3, 16), torch.tensor([1, 60, length - 1])
        got = found["mr_rope"].query(x, positions)
        assert torch.equal(got, named.query(x, positions))
        # What was trained stays as it was.
        assert torch.equal(
            scheme.query(x, positions), self.make(**options).query(x, positions)
        )
        assert not torch.equal(got, scheme.query(x, positions))

    def test_nothing_else_reads_within_training_or_once_scaled(self) -> None:
        for length in (10, 64):
            assert self.make().schemes_for_length(length) == {}
        assert self.make(factor=2.0).schemes_for_length(128) == {}


ROWS = torch.arange(7).expand(400, -1)


class TestPose(SchemeTests):
    """PoSE: the ids it draws, and what training and testing see."""

    name = "pose"
    sizes = {"model_dim": 16, "heads": 2, "length": 64}
    changes = [{"target": 20}, {"scheme": "nope"}]

    def output(self, scheme: Scheme) -> Tensor:
        return drawn_codes(scheme)

    def test_a_text_as_long_as_the_target_stays(self) -> None:
        for target in (7, 3):
            assert torch.equal(self.make(target=target).positions(ROWS, seeded()), ROWS)

    @pytest.mark.parametrize("count", [0, 1])
    def test_short_sequences(self, count: int) -> None:
        ids = self.make().positions(torch.arange(count), seeded())
        assert ids.shape == (count,)
        assert not ids.any()

    def test_tests_and_no_generator_leave_the_ids(self) -> None:
        scheme = self.make()
        assert torch.equal(scheme.positions(ROWS), ROWS)
        scheme.eval()
        assert torch.equal(scheme.positions(ROWS, seeded()), ROWS)


class TestRerope(ReadTests):
    name = "rerope"
    sizes = {"model_dim": 16, "heads": 2, "length": 8}
    cases = [
        {"window": window, "leak": leak, **options, "base": 100.0}
        for window, leak in (
            (1, 0.0),
            (3, 0.0),
            (3, 0.25),
            (9, 0.5),
            (50, 0.0),
            (2, 1.0),
        )
        for options in ({"layout": "half"}, {"stretched": True})
    ]
    identities = [
        ({"window": 48}, {}, "rope"),
        ({"window": 2, "leak": 1.0}, {}, "rope"),
    ]

    def read_at(self, t: Inputs, query: int, key: int) -> float:
        past, window = query - key, t.option("window")
        return past if past < window else window + t.option("leak") * (past - window)

    def growth(self, t: Inputs, query: int) -> float:
        grown = max(1.0, math.log(query + 1) / math.log(8))
        return grown if t.option("stretched") else 1.0

    def test_stretched_queries_know_where_they_stand(self) -> None:
        assert self.make(length=64).facts.relative
        assert not self.make(length=64, stretched=True).facts.relative
        q = normal(1, 2, 3, 8)
        got = self.make(length=64, stretched=True).query(q, torch.tensor([-7, -1, 0]))
        assert torch.equal(
            got, self.make(length=64).query(q, torch.tensor([-7, -1, 0]))
        )


def read_at_of_self_extend(i: int, j: int, group: int, window: int) -> int:
    """Return the distance at which query i reads key j."""
    if i - j < window:
        return i - j
    return (i // group + window - window // group) - j // group


class TestSelfExtend(ReadTests):
    name = "self_extend"
    cases = [
        {"group": group, "window": window, "layout": layout, "base": 100.0}
        for group, window in ((1, 3), (2, 1), (3, 4), (4, 4), (5, 9), (60, 7), (3, 50))
        for layout in ("adjacent", "half")
    ]
    identities = [
        ({"window": 48}, {}, "rope"),
        ({"group": 1, "window": 3}, {}, "rope"),
        ({"group": 48, "window": 4}, {}, "rerope:window=4"),
    ]

    def read_at(self, t: Inputs, query: int, key: int) -> float:
        return read_at_of_self_extend(query, key, t.option("group"), t.option("window"))

    def test_a_longer_text_has_the_smallest_group_that_is_trained(self) -> None:
        for length, window, text in product((16, 20), (1, 4, 7, 15), (21, 40, 65)):
            pairs = [(i, j) for i in range(text) for j in range(i + 1)]
            fit = (
                group
                for group in range(1, text + 1)
                if max(read_at_of_self_extend(i, j, group, window) for i, j in pairs)
                < length
            )
            trained = self.make(length=length, group=1, window=window)
            found = trained.schemes_for_length(text)
            reader = found["self_extend"]
            assert isinstance(reader, SelfExtend)
            assert found.keys() == {"self_extend"}
            assert reader.group == next(fit)
            assert trained.facts.relative
            assert not reader.facts.relative
            assert reader.schemes_for_length(text) == {}  # it suffices

    def test_no_group_where_none_is_needed_or_suffices(self) -> None:
        assert self.make(group=1).schemes_for_length(64) == {}
        # All are near.
        assert self.make(group=7, window=64).schemes_for_length(64) == {}
        # (64 - 16) * 8 + 16
        assert self.make(group=8).schemes_for_length(400) == {}
        assert self.make(group=8).schemes_for_length(401) != {}
        assert self.make(group=1, window=64).schemes_for_length(100) == {}


def read_at_of_string_rope(past: int, shift: int, window: int) -> int:
    """Return the distance at which a key is read."""
    return past if past < shift else past - shift + window


class TestStringRope(ReadTests):
    name = "string_rope"
    cases = [
        {"shift": shift, "window": window, **options, "base": 100.0}
        for shift, window in ((1, 1), (4, 1), (5, 3), (9, 2), (3, 3), (50, 1))
        for options in ({"layout": "half"}, {"sharpened": True})
    ]
    identities = [({"shift": 48}, {}, "rope"), ({"shift": 3, "window": 3}, {}, "rope")]

    def read_at(self, t: Inputs, query: int, key: int) -> float:
        numbers = t.option("shift"), t.option("window")
        return read_at_of_string_rope(query - key, *numbers)

    def growth(self, t: Inputs, query: int) -> float:
        return (1 + 0.1 * math.log(2)) ** 2 if t.option("sharpened") else 1.0

    @pytest.mark.parametrize("length", [16, 30, 64])
    def test_a_longer_text_has_the_smallest_shift_that_is_trained(
        self, length: int
    ) -> None:
        for window, text in product((1, 3, 5), range(length, 2 * length + 2)):
            fit = [
                shift
                for shift in range(window, length + 1)
                if max(read_at_of_string_rope(r, shift, window) for r in range(text))
                < length
            ]
            trained = StringRope(
                Geometry(length=length, head_dim=8), shift=5, window=window
            )
            found = trained.schemes_for_length(text)
            if 5 in fit or not fit:
                assert found == {}
                continue
            assert found.keys() == {"string_rope"}
            reader = found["string_rope"]
            assert isinstance(reader, StringRope)
            assert (reader.shift, reader.window) == (fit[0], window)
            assert trained.shift == 5
            assert reader.schemes_for_length(text) == {}

    def test_a_shift_beyond_the_training_length_is_brought_back(self) -> None:
        trained = self.make(length=64, shift=100, window=4)
        assert trained.schemes_for_length(64) == {}
        (reader,) = trained.schemes_for_length(80).values()
        assert isinstance(reader, StringRope)
        assert reader.shift == 20
