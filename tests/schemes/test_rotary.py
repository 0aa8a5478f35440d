"""Rotated pairs of channels against slow formulas, mostly of complex numbers."""

import cmath
import math
from collections.abc import Sequence
from itertools import combinations, product
from typing import Any, ClassVar, get_args

import pytest
import torch
from schemes.reference import (
    Case,
    Inputs,
    LogitTests,
    Options,
    RotaryTests,
    combine,
)
from schemes.tools import (
    channels_of_pair,
    close,
    dot,
    grid,
    normal,
    pair_by_pair,
    rotation_by_complex,
    seeded,
    speeds,
    vectors,
)
from scipy.linalg import expm
from torch import Tensor
from torch.func import jvp, vjp

from posenc_compare.attention import Mask, Session, attention, attention_logits
from posenc_compare.errors import ConfigError, HookError, UndefinedPositionError
from posenc_compare.schemes import SCHEMES, Geometry, Scheme, create
from posenc_compare.schemes.fope import identity
from posenc_compare.schemes.shared import rotation
from posenc_compare.schemes.shared.rotation import (
    Layout,
    Rotation,
    rotate,
    rotation_table,
)

KINDS, SIDES = ["ld", "ap"], ["height", "width"]


def ids(batch: int = 2, length: int = 5, axes: int = 2, most: int = 30) -> Tensor:
    return torch.randint(-5, most, (batch, length, axes), generator=seeded(7))


SLOPES = {1: [-8], 2: [-4, -8], 3: [-4, -8, -2]}  # exponents of 2, for heads of ALiBi


@pytest.mark.filterwarnings("ignore:bilevel. adds positions to the tokens")
class TestBilevel(LogitTests):
    """BiPE: segments turned by RoPE, or parted by ALiBi, one pair at a time."""

    name = "bilevel"
    sizes = {"model_dim": 16, "heads": 2, "length": 30}
    places = [
        [[0, 0], [0, 1], [0, 2], [1, 0], [7, 0], [-4, 9]],
        [[3, 0], [3, 1], [9, 0], [9, 29], [300, 0], [4, 2]],
    ]
    cases = [
        *(
            Case({"between": "rope", **options}, head_dim=head_dim)
            for head_dim in (2, 8)
            for options in ({}, {"layout": "adjacent", "base": 100.0})
        ),
        *(
            Case({"between": "alibi", **options}, heads=heads, head_dim=5)
            for heads in (1, 2, 3)
            for options in ({}, {"steepness": 0.7})
        ),
    ]
    identities = [
        ({}, {}, "rope:layout=half"),
        ({"layout": "adjacent", "base": 50.0}, {}, "rope:base=50"),
        ({"between": "alibi", "steepness": 1.0}, {}, "alibi"),
        ({"between": "alibi", "steepness": 0.0}, {}, "nope"),
    ]
    changes = [
        *({"between": "alibi"}, {"layout": "adjacent"}, {"base": 100.0}),
        ({"between": "alibi"}, {"steepness": 1.0}),
    ]
    unchanged = {"places", "std"}

    def logit(self, t: Inputs, b: int, h: int, i: int, j: int) -> float:
        q, k = t.q[b, h, i], t.k[b, h, j]
        segments = (t.positions[b, i, 0] - t.positions[b, j, 0]).item()
        if t.option("between") == "alibi":
            slope = t.option("steepness") * 2.0 ** SLOPES[t.q.shape[1]][h]
            product = dot(q.tolist(), k.tolist()) / math.sqrt(len(q))
            return product - slope * abs(segments)
        width, base = len(q), t.option("base")
        angles = [segments / base ** (2 * m / width) for m in range(width // 2)]
        factors = [cmath.exp(1j * angle) for angle in angles]
        return rotation_by_complex(q, k, factors, t.option("layout"))

    def test_layers_of_other_dtypes_have_turns_of_their_own(self) -> None:
        scheme, ids = self.make(), torch.tensor(self.places)
        q, k, v = vectors(2, 2, 6, 8)
        session, alone = Session(scheme, ids), Session(scheme, ids)
        session.attend(0, q.float(), k.float(), v.float())
        assert torch.equal(session.attend(1, q, k, v), alone.attend(1, q, k, v))

    def test_only_what_is_chosen_acts(self) -> None:
        rope, alibi = self.make(), self.make(between="alibi", head_dim=7)
        acts = [
            [hook for hook in ("embed", "query", "key", "pair_bias") if s.acts_at(hook)]
            for s in (rope, alibi)
        ]
        assert acts == [["embed", "query", "key"], ["embed", "pair_bias"]]

    def test_segments_of_the_released_code(self) -> None:
        """Ids of a text with separators, and its slopes, 96 times those of ALiBi."""
        separators = [0, 0, 1, 0, 1, 1, 0]
        ids, segment, place = [], 0, 0
        for ends in separators:
            ids.append([segment, place])
            segment, place = (segment + 1, 0) if ends else (segment, place + 1)
        assert ids == [[0, 0], [0, 1], [0, 2], [1, 0], [1, 1], [2, 0], [3, 0]]
        scheme = self.make(between="alibi")
        zeros = torch.zeros(1, 2, 7, 8).double()
        bias = attention_logits(
            zeros, zeros, scheme=scheme, positions=torch.tensor(ids)
        )
        assert bias[0, :, 6].tolist() == [
            [-96 * slope * far for far in (3, 3, 3, 2, 2, 1, 0)]
            for slope in (1 / 16, 1 / 256)
        ]


class BlockTests(LogitTests):
    """Blocks of channels that are turned by the exponential of one matrix each."""

    places = ids().tolist()

    def trained(self, case: Case) -> Any:
        return self.build(case).requires_grad_(False)

    def generator(self, t: Inputs, h: int, block: int, place: list[float]) -> Tensor:
        """Return the matrix of a block at the shares of a row and a column."""
        raise NotImplementedError

    def steps(self, t: Inputs) -> list[int]:
        """Return what rows and columns are divided by."""
        return [t.option(name) or 5 for name in SIDES]

    def turned(self, t: Inputs, h: int, x: Tensor, cell: Tensor) -> Tensor:
        steps = self.steps(t)
        place = [at / step for at, step in zip(cell.tolist(), steps, strict=True)]
        parts = [
            torch.from_numpy(expm(self.generator(t, h, block, place).numpy())) @ part
            for block, part in enumerate(x.split(t.scheme.block))
        ]
        return torch.cat(parts)

    def logit(self, t: Inputs, b: int, h: int, i: int, j: int) -> float:
        query = self.turned(t, h, t.q[b, h, i], t.positions[b, i])
        key = self.turned(t, h, t.k[b, h, j], t.positions[b, j])
        return (query @ key).item() / math.sqrt(len(query))


class TestComRope(BlockTests):
    name = "com_rope"
    sizes = {"model_dim": 32, "heads": 2, "length": 25}
    cases = [
        {},
        {"block": 4, "height": 3, "width": 9},
        {"block": 2},
        {"kind": "ap"},
        {"kind": "ap", "block": 4, "height": 1, "width": 9},
        {"kind": "ap", "block": 2},
    ]
    identities = [({"kind": kind}, {"matrix": 0}, "nope") for kind in KINDS]
    changes = [{"kind": "ap"}, {"block": 4}]

    def generator(self, t: Inputs, h: int, block: int, place: list[float]) -> Tensor:
        matrix, at = t.scheme.matrix[h, block], place[block % 2]
        if t.scheme.speeds is not None:
            at = dot(place, t.scheme.speeds[:, block].tolist())
        return at * (matrix - matrix.T)


class TestFope(RotaryTests):
    """FoPE against sums of cosines and sines, one pair at a time."""

    name = "fope"
    sizes = {"model_dim": 32, "heads": 2, "length": 512}
    noise, atol = 0.5, 1e-11
    starts_as = [
        ({"gain": 0.0, "floor": False}, "rope:layout=half"),
        ({"gain": 0.0}, "hope:layout=half"),
    ]
    cases = [
        Case({"floor": floor, "pad": pad, **options}, length=length)
        for pad, floor in product(("paper", "official"), (True, False))
        for length, options in (
            (512, {}),
            (100_000, {}),  # more frequencies than outputs
            (20, {"layout": "adjacent", "base": 100.0}),
        )
    ]
    changes = [{"gain": 0.4}]
    unchanged = {"learned"}

    def turned(self, t: Inputs, x: Tensor, head: int, place: int) -> list[float]:
        """Return the channels of a query or key by sums of cosines and sines."""
        row, width, scheme = x.tolist(), len(x), t.scheme
        speeds = [t.option("base") ** (-2 * m / width) for m in range(width // 2)]
        outputs = width // 2
        if t.option("floor"):
            least = 2 * math.pi / scheme.geometry.length
            speeds = [speed for speed in speeds if speed >= least]
            outputs = min(len(speeds), width // 4)
        out = [0.0] * width
        for m in range(width // 2):
            c, s = 1.0, 1.0 if t.option("pad") == "official" else 0.0
            if m < outputs:
                cosines, sines = scheme.cosines[head, :, m], scheme.sines[head, :, m]
                c = dot((math.cos(place * w) for w in speeds), cosines.tolist())
                s = dot((math.sin(place * w) for w in speeds), sines.tolist())
            one, other = channels_of_pair(m, width, t.option("layout"))
            out[one] = row[one] * c - row[other] * s
            out[other] = row[other] * c + row[one] * s
        return out

    def logit(self, t: Inputs, b: int, h: int, i: int, j: int) -> float:
        query = self.turned(t, t.q[b, h, i], h, int(t.positions[b, i]))
        key = self.turned(t, t.k[b, h, j], h, int(t.positions[b, j]))
        return dot(query, key) / math.sqrt(16)

    def test_shapes_at_the_published_setting(self) -> None:
        # head_dim 64, length 512: 16 of 32 frequencies make a full turn, 16 are read.
        assert self.make(head_dim=64).cosines.shape == (2, 16, 16)
        # At length 2**20 all do; a quarter of the channels is still the most.
        assert self.make(head_dim=64, length=2**20).sines.shape == (2, 32, 16)
        whole = self.make(head_dim=64, length=2**20, floor=False)
        assert whole.sines.shape == (2, 32, 32)

    def test_a_step_of_the_identity_is_rounded_up(self) -> None:
        assert identity(3, 3).tolist() == torch.eye(3).tolist()
        read = identity(5, 3).T.tolist()  # every second input, the third beyond none
        assert read == [[1, 0, 0, 0, 0], [0, 0, 1, 0, 0], [0, 0, 0, 0, 1]]
        assert identity(4, 3).T.tolist() == [[1, 0, 0, 0], [0, 0, 1, 0], [0, 0, 0, 0]]

    def test_noise_is_as_large_as_the_released_code_draws_it(self) -> None:
        scheme = self.make(head_dim=256, length=2**30, gain=0.6)
        heads, inputs, outputs = scheme.sines.shape
        noise = torch.stack([scheme.sines, scheme.cosines]) - identity(inputs, outputs)
        # xavier_normal_ takes a table of three axes for a convolution.
        std = 0.6 * math.sqrt(2 / (outputs * (inputs + heads)))
        assert noise.std().item() == pytest.approx(std, rel=0.02)
        assert (noise[0] - noise[1]).abs().max() > std  # drawn apart


class TestHope(RotaryTests):
    name = "hope"
    sizes = {"model_dim": 32, "heads": 2}
    cases = [
        {"length": length, "base": base, "layout": layout}
        for length in (7, 62, 63, 512, 10**6)
        for base, layout in ((10_000.0, "adjacent"), (100.0, "half"))
    ]
    identities = [
        ({}, {}, "p_rope:fraction=0.5"),  # 4 of 8 pairs have a period of at most 512
        ({"length": 10**6}, {}, "rope"),
    ]

    def factors(self, t: Inputs, h: int, query: int, key: int) -> list[complex]:
        base, length = t.option("base"), t.option("length")
        periods = [2 * math.pi * base ** (2 * m / 16) for m in range(8)]
        turns = [(query - key) / p if p <= length else 0.0 for p in periods]
        return [cmath.exp(2j * math.pi * turn) for turn in turns]


# Generators times positions have norms up to 1000 in the slow test. The exponential is
# known to 1000 * 2 ** -52 then, and a logit sums some.
ROUNDING = 1e-11


class TestLieRe(BlockTests):
    name = "lie_re"
    sizes = {"model_dim": 16, "heads": 2, "length": 25}
    atol = ROUNDING
    cases = [
        {},
        Case({"block": 3}, head_dim=6),
        {"block": 4, "by": "layer"},
        {"block": 2, "height": 3, "width": 11},
        Case({"block": 0, "height": 1, "width": 2}, head_dim=5),
    ]
    identities = [({}, {"entries": 0}, "nope")]
    changes = [{"block": 4}, {"by": "layer"}]

    def steps(self, t: Inputs) -> list[int]:
        return [max(side - 1, 1) for side in super().steps(t)]

    def generator(self, t: Inputs, h: int, block: int, place: list[float]) -> Tensor:
        size, head = t.scheme.block, h if t.option("by") == "head" else 0
        matrix = torch.zeros(size, size, dtype=torch.float64)
        for at, entries in zip(place, t.scheme.entries[:, head, block], strict=True):
            pairs = combinations(range(size), 2)
            for (i, j), entry in zip(pairs, entries.tolist(), strict=True):
                matrix[i, j] += at * entry
                matrix[j, i] -= at * entry
        return matrix

    def test_blocks_of_two_turn_far_without_rounding(self) -> None:
        # Half a million rotations: the squarings of matrix_exp would be off by 1e-10.
        scheme = self.make(head_dim=4, block=2, height=2, width=2).requires_grad_(False)
        scheme.entries.fill_(math.pi)
        turns = scheme.turns(torch.tensor([[1_000_000, 0], [0, 1_000_001]]))
        unit = torch.eye(2).double().expand_as(turns[:, 0])
        # An angle of 3e6 is known to half a unit in its last place.
        close(turns[:, 0], unit, 4e-10)
        close(turns[:, 1], -unit, 4e-10)


def slow_axes(pairs: int, order: str, counts: tuple[int, ...]) -> list[int]:
    if order == "sections":
        edges = (counts[0], counts[0] + counts[1])
        return [sum(m >= edge for edge in edges) for m in range(pairs)]
    if order == "time_last":
        return [0 if m >= pairs - counts[0] else (1, 2)[m % 2] for m in range(pairs)]
    axes = [0] * pairs  # as the released code overwrites them
    for axis in (1, 2):
        for m in range(axis, 3 * counts[axis], 3):
            axes[m] = axis
    return axes


class TestMRope(RotaryTests):
    name = "m_rope"
    sizes = {"model_dim": 32, "heads": 2}
    places = ids(axes=3, most=300).tolist()
    atol = 1e-11
    cases = [
        {"order": "sections", "layout": "adjacent"},
        {"order": "interleaved"},
        {"order": "sections", "sections": "1/2/5", "base": 100.0},
        {"order": "interleaved", "sections": "4/3/1"},
        Case({"order": "interleaved", "layout": "adjacent"}, head_dim=6),
        Case({"order": "sections"}, head_dim=128),
        Case({"order": "interleaved"}, head_dim=128),
        {"order": "time_last"},
        {"order": "time_last", "sections": "1/4/3", "layout": "adjacent"},
        Case({"order": "time_last"}, head_dim=128),
    ]
    # Pairs of each axis where no option gives them.
    counts = {
        ("sections", 8): (2, 3, 3),
        ("interleaved", 8): (4, 2, 2),
        ("interleaved", 3): (1, 1, 1),
        ("sections", 64): (16, 24, 24),
        ("interleaved", 64): (24, 20, 20),
        ("time_last", 8): (2, 3, 3),
        ("time_last", 64): (16, 24, 24),
    }

    def factors(self, t: Inputs, h: int, query: Any, key: Any) -> list[complex]:
        width, order = t.q.shape[-1], t.option("order")
        counts = self.counts[order, width // 2] if width != 16 else None
        if given := t.option("sections"):
            counts = tuple(map(int, given.split("/")))
        counts = counts or self.counts[order, 8]
        axes = slow_axes(width // 2, order, counts)
        return [
            cmath.exp(1j * (query[a] - key[a]) * t.option("base") ** (-2 * m / width))
            for m, a in enumerate(axes)
        ]


class TestPRope(RotaryTests):
    name = "p_rope"
    # How many pairs are kept, by head size and fraction.
    kept = {(16, 0.75): 6, (16, 0.7): 5, (16, 0.25): 2, (6, 0.5): 1, (2, 1.0): 1}
    cases = [
        Case({"fraction": fraction, "base": base, "layout": layout}, head_dim=head_dim)
        for head_dim, fraction in kept
        for base, layout in ((10_000.0, "adjacent"), (100.0, "half"))
    ]
    identities = [({"fraction": 1.0}, {}, "rope"), ({"fraction": 0.0}, {}, "nope")]

    def factors(self, t: Inputs, h: int, query: int, key: int) -> list[complex]:
        width = t.q.shape[-1]
        kept = self.kept[width, t.option("fraction")]
        speeds = [t.option("base") ** (-2 * m / width) for m in range(width // 2)]
        angles = [(query - key) * speed for speed in speeds[:kept]]
        return [cmath.exp(1j * a) for a in angles] + [1] * (len(speeds) - kept)


class TestPope(LogitTests):
    """PoPE against the sum over channels, one cosine at a time."""

    name = "pope"
    sizes = {"model_dim": 16, "heads": 2}
    places = [[3, 0, 7, 100, 4096, 8], [0, 1, 2, 3, 50, 7]]
    atol = 1e-11
    cases = [{}, {"base": 100.0}]
    changes = [{"start": "uniform"}]

    def trained(self, case: Case) -> Any:
        scheme = self.build(case).requires_grad_(False)
        scheme.phase.copy_(-3 + 4 * normal(*scheme.phase.shape, seed=5))
        assert (scheme.phase > 0).any()  # some are beyond both ends of the range
        assert (scheme.phase < -2 * math.pi).any()
        return scheme

    def logit(self, t: Inputs, b: int, h: int, i: int, j: int) -> float:
        """Sum cosines over channels."""
        ahead, width = int(t.positions[b, j] - t.positions[b, i]), t.q.shape[-1]
        both, total = (t.q[b, h, i].tolist(), t.k[b, h, j].tolist()), 0.0
        phase = t.scheme.phase[h, 0].tolist()
        for c, (q, k, turn) in enumerate(zip(*both, phase, strict=True)):
            held = min(0.0, max(-2 * math.pi, turn))
            angle = ahead * t.option("base") ** (-c / width) + held
            sizes = math.log1p(math.exp(q)) * math.log1p(math.exp(k))
            total += sizes * math.cos(angle)
        return total / math.sqrt(width)

    def test_phases_at_zero_can_still_move(self) -> None:
        scheme, q = self.make(), normal(1, 2, 6, 8)
        attention(
            q, q, q, scheme=scheme, positions=torch.arange(6)
        ).square().sum().backward()
        assert scheme.phase.grad is not None
        assert (scheme.phase.grad != 0).all()


def partly_rotated(
    t: Inputs, q: Tensor, k: Tensor, still: Tensor, distance: int
) -> float:
    """Return a logit of which channels `q` and `k` turn; `still` is of the others."""
    width, base = len(q), t.option("base")
    angles = [distance * base ** (-2 * m / width) for m in range(width // 2)]
    factors = [cmath.exp(1j * angle) for angle in angles]
    turned = rotation_by_complex(q, k, factors, t.option("layout")) * math.sqrt(width)
    return (still.item() + turned) / math.sqrt(t.q.shape[-1])


class TestRope(RotaryTests):
    name = "rope"
    cases = [
        Case({"fraction": fraction, "base": base, "layout": layout}, head_dim=head_dim)
        for head_dim, fraction in ((8, 1.0), (8, 0.5), (2, 1.0))
        for base, layout in ((1e4, "adjacent"), (5e5, "half"), (100.0, "half"))
    ]
    # Those of its scalings are changed in test_scaling.py.
    unchanged = {"scaling", "factor", "original", "alpha", "beta", "factors"}
    unchanged |= {"truncate", "attention"}

    def logit(self, t: Inputs, b: int, h: int, i: int, j: int) -> float:
        turned = int(t.option("fraction") * t.q.shape[-1])
        distance = int(t.positions[b, i] - t.positions[b, j])
        parts = t.q[b, h, i, :turned], t.k[b, h, j, :turned]
        still = t.q[b, h, i, turned:] @ t.k[b, h, j, turned:]
        return partly_rotated(t, *parts, still, distance)


class ImageTests(RotaryTests):
    """A rotation by the place in the image, whatever its number of cells.

    Attributes:
        sizes: of a layer that is trained on 5 x 5 cells.
        images: options that an image of other sides is read with.
    """

    sizes = {"model_dim": 32, "heads": 2, "length": 25}
    places = ids().tolist()
    images: ClassVar[Sequence[Options]] = ({},)

    def turned(
        self, t: Inputs, query: Any, key: Any, sides: Any, trained: Any
    ) -> list[complex]:
        """Return the factors of pairs in an image of these sides."""
        raise NotImplementedError

    def factors(self, t: Inputs, h: int, query: Any, key: Any) -> list[complex]:
        side = t.case.sizes.get("length", 25) ** 0.5
        sides = [t.option(name) or side for name in SIDES]
        return self.turned(t, query, key, sides, sides)

    @pytest.mark.parametrize("sides", [(3, 4), (2, 6), (12, 1)])
    def test_an_image_has_its_own_sides(self, sides: tuple[int, int]) -> None:
        cells, (q, k, _) = grid(*sides), vectors(1, 2, 12, 16)
        for options in self.images:
            case = Case({**options, "height": 5, "width": 7})
            t = Inputs(self.trained(case).eval(), case, q, k, k, k, cells)

            def entry(b: int, h: int, i: int, j: int, t: Inputs = t) -> float:
                pair = cells[i].tolist(), cells[j].tolist()
                factors, layout = self.turned(t, *pair, sides, (5, 7)), "layout"
                both = q[b, h, i], k[b, h, j]
                return rotation_by_complex(*both, factors, t.option(layout))

            for ids, atol in ((cells, 1e-12), (cells + 5, 1e-10)):
                session = Session(t.scheme, ids, mask=Mask(causal=False))
                close(session.logits(0, q, k), pair_by_pair(q, entry), atol)


class TestRopeDinov3(ImageTests):
    """DINOv3's rotation against complex numbers, and its draws in training."""

    name = "rope_dinov3"
    cases = [
        {},
        {"base": 7.0, "layout": "adjacent"},
        {"height": 3, "width": 9},
        Case(head_dim=4),
    ]
    changes = [
        ({"rescale": 1.0}, {"rescale": 1.5}),
        ({"rescale": 1.0}, {"jitter": 1.5}),
        ({"rescale": 1.0}, {"shift": 0.5}),
    ]

    def output(self, scheme: Any) -> Tensor:
        """Return attention outside a pass, and the coordinates of a pass."""
        t = self.inputs(Case(), scheme)
        drawn = scheme.train().draw(t.positions, seeded())
        return torch.cat([super().output(scheme).flatten(), drawn.flatten()])

    def turned(
        self, t: Inputs, query: Any, key: Any, sides: Any, trained: Any
    ) -> list[complex]:
        quarter, factors = t.q.shape[-1] // 4, []
        for here, there, side in zip(query, key, sides, strict=True):
            apart = 2 * (here - there) / side
            for m in range(quarter):
                speed = t.option("base") ** (-m / quarter)
                factors.append(cmath.exp(2j * math.pi * apart * speed))
        return factors

    def test_coordinates_run_from_edge_to_edge(self) -> None:
        scheme = self.make().eval()
        drawn = scheme.draw(grid(4, 10), None)
        step, start = drawn.unbind(dim=-2)
        close(step, torch.tensor([0.5, 0.2], dtype=torch.float64))
        close(start, torch.tensor([-0.75, -0.9], dtype=torch.float64))
        later = scheme.draw(grid(4, 10) + 3, None)  # an image that begins at 3, 3
        close(later[1] + 3 * later[0], start)

    def test_training_moves_and_stretches_within_the_ranges(self) -> None:
        scheme = self.make(shift=0.3, jitter=1.2, rescale=1.5)
        cells, generator = grid(4, 10), seeded()
        plain = scheme.eval().draw(cells, generator)
        assert plain.equal(scheme.draw(cells, None))
        draws = torch.stack([scheme.train().draw(cells, generator) for _ in range(400)])
        factors = draws[:, 0] / plain[0]
        most = 1.2 * 1.5
        assert factors.min() > 1 / most
        assert factors.max() < most
        assert factors.min() < 1.1 / most
        assert factors.max() > most / 1.1
        ratio = factors[:, 0] / factors[:, 1]  # of the axes: jitter alone
        assert 1.44 / 1.1 < ratio.max() < 1.44
        moved = draws[:, 1] / factors - plain[1]
        assert 0.29 < moved.max() < 0.3
        assert -0.3 < moved.min() < -0.29


class TestRope2d(RotaryTests):
    name = "rope_2d"
    sizes = {"model_dim": 32, "heads": 2}
    places = ids().tolist()
    noise = 0.3
    cases = [
        Case(rule, head_dim=head_dim)
        for head_dim in (4, 16)
        for rule in (
            {},
            {"first": "h"},
            {"base": 7.0, "layout": "half"},
            {"kind": "mixed"},
            {"kind": "mixed", "layout": "half", "base": 50.0},
        )
    ]
    straight = torch.zeros(2, 1, 8, dtype=torch.float64)
    straight[0, :, 4:] = straight[1, :, :4] = 100.0 ** (-torch.arange(4).double() / 4)
    identities = [({"kind": "mixed"}, {"frequencies": straight}, "rope_2d:base=100")]

    def factors(self, t: Inputs, h: int, query: Any, key: Any) -> list[complex]:
        row, column = (a - b for a, b in zip(query, key, strict=True))
        quarter, angles = t.q.shape[-1] // 4, []
        if t.option("kind") == "mixed":
            down, across = t.scheme.frequencies[:, h].tolist()
            both = zip(down, across, strict=True)
            angles = [row * one + column * other for one, other in both]
        else:
            base = t.option("base") or 100.0
            speeds = [base ** (-m / quarter) for m in range(quarter)]
            first, second = (row, column) if t.option("first") == "h" else (column, row)
            angles = [place * s for place in (first, second) for s in speeds]
        return [cmath.exp(1j * angle) for angle in angles]

    def test_mixed_starts_as_axial_in_a_direction_of_each_head(self) -> None:
        scheme = self.make(head_dim=32, heads=64, kind="mixed")
        rows, columns = scheme.frequencies.detach()
        speeds = torch.tensor([10.0 ** (-m / 8) for m in range(8)] * 2).double()
        close(torch.hypot(rows, columns), speeds.expand(64, 16), 1e-6)
        angle = torch.atan2(rows, columns) % (2 * math.pi)
        ahead = (angle - angle[:, :1] + 1) % (2 * math.pi) - 1
        quarter_turn = torch.tensor([0.0] * 8 + [math.pi / 2] * 8).double()
        close(ahead, quarter_turn.expand(64, 16), 1e-5)
        assert angle[:, 0].sort().values.diff().max() < 1


def slow_speeds(width: int, base: float, clipped: int, clip: str) -> list[float]:
    """A half cosine over the slowest pairs, as the square of a quarter of one."""
    found = []
    for m in range(width // 2):
        speed, place = base ** (-2 * m / width), m - (width // 2 - clipped)
        if place >= 0 and clip == "hard":
            speed = 0.0
        elif place > 0:
            speed *= math.cos(math.pi / 2 * place / (clipped - 1)) ** 2
        found.append(speed)
    return found


class TestRopeGolden(RotaryTests):
    """Golden gate RoPE, one pair at a time."""

    name = "rope_golden"
    sizes = {"model_dim": 32, "heads": 2}
    places = ids().tolist()
    cases = [
        {},
        {"slowest": 0.5, "fastest": 2.0, "layout": "adjacent"},
        {"fraction": 0.5},
        Case(head_dim=2),
    ]
    identities = [({"fraction": 0.0}, {}, "nope")]
    changes = [{"fastest": 1.0}, {"slowest": 0.3}, {"fraction": 0.5}]

    def factors(self, t: Inputs, h: int, query: Any, key: Any) -> list[complex]:
        pairs, golden, factors = t.q.shape[-1] // 2, (5**0.5 - 1) / 2, []
        row, column = (here - there for here, there in zip(query, key, strict=True))
        still = round(pairs * (1 - t.option("fraction")))
        slowest, fastest = t.option("slowest"), t.option("fastest")
        for m in range(pairs):
            turn = math.pi * golden * (h * pairs + m)
            share = (m - still) / max(1, pairs - still - 1)
            speed = slowest * (fastest / slowest) ** share if m >= still else 0.0
            place = row * math.sin(turn) + column * math.cos(turn)
            factors.append(cmath.exp(1j * speed * place))
        return factors


class TestRopePixel(ImageTests):
    """Pixel frequencies against complex numbers, one pair at a time."""

    name = "rope_pixel"
    images = [{"kind": kind} for kind in ("linear", "log", "eva_02")]
    cases = [
        {},
        {"max_freq": 3.0, "layout": "half"},
        {"kind": "log", "height": 3, "width": 9},
        {"kind": "eva_02", "base": 7.0},
        {"kind": "eva_02", "height": 3, "width": 9},
        Case(head_dim=4, length=1),
    ]

    def turned(
        self, t: Inputs, query: Any, key: Any, sides: Any, trained: Any
    ) -> list[complex]:
        quarter, factors = t.q.shape[-1] // 4, []
        fastest, kind = t.option("max_freq") / 2, t.option("kind")
        for axis, side in enumerate(sides):
            apart = 2 * (query[axis] - key[axis]) / max(side - 1, 1) * math.pi
            if kind == "eva_02":
                apart = (query[axis] - key[axis]) / side * trained[axis]
            for m in range(quarter):
                share = m / max(quarter - 1, 1)
                speed = 1 + share * (fastest - 1)
                if kind == "log":
                    speed = math.exp(share * math.log(fastest))
                if kind == "eva_02":
                    speed = t.option("base") ** (-m / quarter)
                factors.append(cmath.exp(1j * apart * speed))
        return factors

    @pytest.mark.parametrize(
        ("kind", "ends"), [("linear", (-1, 1)), ("log", (-1, 1)), ("eva_02", (0, 3.5))]
    )
    def test_coordinates_run_from_end_to_end(self, kind: str, ends: Any) -> None:
        scheme = self.make(kind=kind, height=4, width=4)
        cells = grid(8, 8)
        for ids in (cells, cells + 3):  # an image that begins at 0, 0, or at 3, 3
            step, start = scheme.draw(ids, None).unbind(dim=-2)
            places = ids * step + start
            assert places.amin(dim=0).tolist() == pytest.approx([ends[0]] * 2)
            assert places.amax(dim=0).tolist() == pytest.approx([ends[1]] * 2)


class TestRopeClipped(RotaryTests):
    name = "rope_clipped"
    # How many pairs are clipped, by head size and share.
    clipped = {(16, 0.05): 0, (16, 0.75): 6, (16, 0.7): 6, (16, 0.3): 2}
    clipped |= {(6, 1.0): 3, (2, 1.0): 1}
    cases = [
        Case(
            {"share": share, "clip": clip, "base": base, "layout": layout},
            head_dim=head_dim,
        )
        for head_dim, share in clipped
        for clip in ("soft", "hard")
        for base, layout in ((10_000.0, "adjacent"), (100.0, "half"))
    ]
    identities = [
        ({"share": 0.0}, {}, "rope"),
        ({"share": 0.25, "clip": "hard"}, {}, "p_rope:fraction=0.75"),
    ]

    def factors(self, t: Inputs, h: int, query: int, key: int) -> list[complex]:
        width = t.q.shape[-1]
        clipped = self.clipped[width, t.option("share")]
        found = slow_speeds(width, t.option("base"), clipped, t.option("clip"))
        return [cmath.exp(1j * (query - key) * speed) for speed in found]

    def test_default_clips_twenty_of_64_pairs_as_released(self) -> None:
        got = speeds(self.make(head_dim=128))
        taper = got / speeds(self.make(head_dim=128, name="rope"))
        # 44 and the first of 20
        assert torch.equal(taper[:45], torch.ones(45).double())
        assert (taper[44:].diff() < 0).all()
        assert got[63] == 0
        # A half cosine is odd about its middle, where it is 1/2.
        close(taper[44:] + taper[44:].flip(0), torch.ones(20).double(), 1e-15)
        named = self.make(head_dim=128, share=20 / 64, clip="soft")
        assert torch.equal(got, speeds(named))


HEADS, WIDTH = 3, 8


class TestRopeLearned(RotaryTests):
    name = "rope_learned"
    sizes = {"model_dim": HEADS * WIDTH, "heads": HEADS}
    noise, atol = 0.3, 1e-11
    cases = combine(
        by=("layer", "head"), temperature=(False, True), layout=("adjacent", "half")
    )
    starts_as = [({"by": by, "temperature": True}, "rope") for by in ("layer", "head")]
    changes = [{"base": 9_000.0}, {"by": "head"}]

    def factors(self, t: Inputs, h: int, query: int, key: int) -> list[complex]:
        logs, warmth = t.scheme.frequency.expand(HEADS, -1), 0.0
        if t.option("temperature"):
            warmth = t.scheme.temperature[h].item()
        speeds = [math.exp(log) for log in logs[h].tolist()]
        return [math.exp(warmth) * cmath.exp(1j * (query - key) * s) for s in speeds]


def complex_product(q: Tensor, k: Tensor, distance: int, layout: str) -> complex:
    total = 0j
    for pair in range(WIDTH // 2):
        two = channels_of_pair(pair, WIDTH, layout)
        one, other = complex(*q[two].tolist()), complex(*k[two].tolist())
        turn = cmath.exp(1j * distance * 10_000 ** (-2 * pair / WIDTH))
        total += one * other.conjugate() * turn
    return total / math.sqrt(WIDTH)


class TestRopePp(RotaryTests):
    """RoPE++ against real and imaginary parts of complex products."""

    name = "rope_pp"
    sizes = {"head_dim": WIDTH, "heads": 2}
    cases = [
        Case({"layout": layout}, heads=heads)
        for layout in ("adjacent", "half")
        for heads in (1, 2, 4, 5)
    ]
    changes = [{"base": 9_000.0}]

    def logit(self, t: Inputs, b: int, h: int, i: int, j: int) -> float:
        real = (t.q.shape[1] + 1) // 2
        read, distance = h % real, int(t.positions[b, i] - t.positions[b, j])
        both = t.q[b, read, i], t.k[b, read, j]
        z = complex_product(*both, distance, t.option("layout"))
        return z.real if h < real else z.imag


class TestRopeResonance(RotaryTests):
    name = "rope_resonance"
    cases = [
        Case({"base": base, "layout": layout}, head_dim=head_dim)
        for head_dim in (16, 6, 2)
        for base, layout in (
            (1e4, "adjacent"),
            (1e4, "half"),
            (100.0, "half"),
            (3.0, "adjacent"),
            (0.05, "half"),  # wavelengths below 1
        )
    ]

    def factors(self, t: Inputs, h: int, query: int, key: int) -> list[complex]:
        """Hands that have gone the rest of the distance, of a whole wavelength."""
        found, width = [], t.q.shape[-1]
        for m in range(width // 2):
            exact = 2 * math.pi * t.option("base") ** (2 * m / width)
            below = math.floor(exact)
            wave = max(1, below if exact - below < 0.5 else below + 1)
            found.append(cmath.exp(2j * math.pi * ((query - key) % wave) / wave))
        return found


XPOS_PLACES = [0, 1, 5, 40, 300, 301, 900]


class TestXpos(RotaryTests):
    name = "xpos"
    causal = True
    sizes = {"model_dim": 32, "heads": 2}
    places = [XPOS_PLACES, [3, 4, 5, 9, 50, 51, 52]]
    atol = 1e-11
    cases = [
        {"scale_base": 512.0},
        {"layout": "half", "base": 100.0, "scale_base": 100.0},
        {"gamma": 0.1, "scale_base": 300.0, "centre": 17},
    ]
    changes = [{"centre": 0}]

    def output(self, scheme: Scheme) -> Tensor:
        return scheme.query(normal(1, 2, 3, 16), torch.tensor([5, 50, 400]))

    def factors(self, t: Inputs, h: int, query: int, key: int) -> list[complex]:
        distance, gamma, found = query - key, t.option("gamma"), []
        for m in range(8):
            turn = cmath.exp(1j * distance * t.option("base") ** (-2 * m / 16))
            zeta = (2 * m / 16 + gamma) / (1 + gamma)
            found.append(turn * zeta ** (distance / t.option("scale_base")))
        return found

    def test_the_centre_is_half_the_length(self) -> None:
        x, positions = normal(1, 2, 3, 16), torch.tensor([256, 300, 0])
        assert torch.equal(
            self.make().query(x, positions), self.make(centre=256).query(x, positions)
        )

    @pytest.mark.parametrize(
        ("dtype", "reach"),
        # log(largest / 256) * 512 / log(1.4 / 0.4)
        [(torch.float16, 2266), (torch.float32, 33_994), (torch.bfloat16, 33_992)],
    )
    def test_positions_out_of_range_are_refused(
        self, dtype: torch.dtype, reach: int
    ) -> None:
        x = normal(1, 2, 1, 16).to(dtype)
        scheme = self.make(centre=0, scale_base=512.0)
        assert scheme.key(x, torch.tensor([reach])).isfinite().all()
        assert scheme.query(x, torch.tensor([-reach])).isfinite().all()
        with pytest.raises(
            UndefinedPositionError,
            match=f"xpos: positions must be from -{reach} to {reach}, got {reach + 1}; "
            f"centre={reach + 1} would work",
        ):
            scheme.query(x, torch.tensor([reach + 1]))
        far = self.make(centre=10**6, scale_base=512.0)
        low = 10**6 - reach
        with pytest.raises(
            UndefinedPositionError,
            match=f"xpos: positions must be from {low} to {10**6 + reach}, got 0$",
        ):
            far.query(x.expand(1, 2, 2, 16), torch.tensor([0, 2 * reach + 2]))

    @pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
    def test_what_overflows_in_the_future_is_never_seen(
        self, dtype: torch.dtype
    ) -> None:
        q, k, v = (normal(2, 2, 128, 16, seed=seed).to(dtype) for seed in range(3))
        q.requires_grad_()
        scheme = self.make(scale_base=1.0, centre=64)
        places, segments = torch.arange(128), torch.zeros(2, 128, dtype=torch.long)
        wide = [x.detach().double() for x in (q, k, v)]
        expected = attention(
            *wide, scheme=scheme, positions=places, mask=Mask(segments=segments)
        )
        got = attention(
            q, k, v, scheme=scheme, positions=places, mask=Mask(segments=segments)
        )
        close(got.double(), expected, 16 * torch.finfo(dtype).eps)
        got.sum().backward()
        assert q.grad is not None
        assert q.grad.isfinite().all()


class TestRopeLatent(RotaryTests):
    """rope_latent against its formula, with the key of the first head."""

    name = "rope_latent"
    # How many channels are rotated, by head size and fraction.
    rotated = {(12, 1 / 3): 4, (10, 0.5): 4, (6, 0.1): 2, (2, 1.0): 2}
    cases = [
        Case({"fraction": fraction, "base": base, "layout": layout}, head_dim=head_dim)
        for head_dim, fraction in rotated
        for base, layout in ((10_000.0, "adjacent"), (100.0, "half"))
    ] + [Case({}, heads=3)]
    unchanged = {"scaling", "factor", "original", "alpha", "beta", "factors"}
    unchanged |= {"truncate", "attention"}

    def logit(self, t: Inputs, b: int, h: int, i: int, j: int) -> float:
        width = t.q.shape[-1]
        first = width - self.rotated.get((width, t.option("fraction")), 2)
        distance = int(t.positions[b, i] - t.positions[b, j])
        parts = t.q[b, h, i, first:], t.k[b, 0, j, first:]
        still = t.q[b, h, i, :first] @ t.k[b, h, j, :first]
        return partly_rotated(t, *parts, still, distance)


def latent(**options: Any) -> Any:
    return create("rope_latent", options=options, model_dim=24, heads=2, length=64)


def test_scalings_are_those_of_rope_with_another_attention_factor() -> None:
    scaled = {"scaling": "yarn", "factor": 8.0, "original": 16}
    ours = latent(fraction=1.0, attention=1.0, **scaled)
    rope: Any = create("rope", options=scaled, model_dim=24, heads=2)
    places = torch.arange(50)
    assert torch.equal(ours.angles(places), rope.angles(places))
    assert (ours.attention_factor, latent(**scaled).attention_factor) == (
        1.0,
        rope.attention_factor,
    )
    rules = latent().schemes_for_length(128)
    assert "yarn" in rules
    assert rules["pi"].rotated_dims == latent().rotated_dims


@pytest.mark.parametrize("layout", get_args(Layout))
def test_one_angle_may_serve_all_positions(
    layout: Layout, monkeypatch: pytest.MonkeyPatch
) -> None:
    x, angles = normal(2, 2, 5, 8).bfloat16(), torch.linspace(0, 3, 4).double()
    phasors = torch.polar(torch.ones(1, 1, 1, 4).double(), angles)
    table = rotation_table(phasors, x.dtype, layout)
    whole = rotate(x, table, layout)
    monkeypatch.setattr(rotation, "NUMBERS_AT_ONCE", x[:, :, :1].numel())
    assert torch.equal(rotate(x, table, layout), whole)


@pytest.mark.filterwarnings("ignore:.torch.jit.script. is deprecated")  # of `jvp`
@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.bfloat16])
@pytest.mark.parametrize("pairs", [4, 2])
@pytest.mark.parametrize("layout", get_args(Layout))
def test_blocks_of_rows_change_no_bit(
    layout: Layout, pairs: int, dtype: torch.dtype, monkeypatch: pytest.MonkeyPatch
) -> None:
    angles = torch.arange(5.0).double()[:, None] * torch.logspace(0, -2, pairs)
    phasors = torch.polar(torch.full_like(angles, 1.25), angles)[None, None]
    table = rotation_table(phasors, dtype, layout)
    x, tangent = normal(2, 2, 2, 5, 8).to(dtype)

    def turned(x: Tensor) -> Tensor:
        return rotate(x, table, layout)

    def each() -> list[Tensor]:
        back = vjp(turned, x)[1]
        return [turned(x), back(tangent)[0], jvp(turned, (x,), (tangent,))[1]]

    whole = each()
    monkeypatch.setattr(
        rotation, "NUMBERS_AT_ONCE", 2 * x[:, :, :1].numel()
    )  # two rows
    for got, expected in zip(each(), whole, strict=True):
        assert torch.equal(got, expected)


# Schemes that turn channels, and wrappers whose default does.
TURNING = [
    name
    for name, entry in SCHEMES.entries().items()
    if (entry.facts["family"] == "rotary" or "rope" in name)
    and name != "pope"  # which turns each channel by itself
]


@pytest.mark.parametrize("name", TURNING)
def test_odd_head_dims_are_refused_by_that_name(name: str) -> None:
    with pytest.raises(ConfigError, match=r"^\w+: .*head_dim.*\b7\b") as caught:
        create(name, heads=2, head_dim=7)
    assert "fraction" not in str(caught.value)


@pytest.mark.parametrize(
    ("per_head", "wrong", "said"),
    [
        (False, torch.zeros(1, 8, 4), r"\(1, 8, pair\) .* 3 pairs, got \(1, 8, 4\)"),
        (False, torch.zeros(1, 3, 8), r"\(1, 8, pair\) .*, got \(1, 3, 8\)"),
        (False, torch.zeros(8, 3), r"\(1, 8, pair\) .*, got \(8, 3\)"),
        (False, torch.zeros(1, 8, 0), r"got \(1, 8, 0\)"),
        (False, torch.zeros(1, 2, 8, 3), r"got \(1, 2, 8, 3\)"),
        (False, None, "got NoneType"),
        (True, torch.zeros(1, 8, 3), r"\(1, heads, 8, pair\) .*, got \(1, 8, 3\)"),
        (True, torch.zeros(8, 3), r"\(1, heads, 8, pair\) .*, got \(8, 3\)"),
    ],
)
def test_angles_of_another_shape_are_refused(
    per_head: bool, wrong: Any, said: str
) -> None:
    class Wrong(Rotation):
        name = "wrong"

        def angles(self, positions: Tensor) -> Any:
            return wrong

    Wrong.per_head = per_head
    scheme = Wrong(Geometry(heads=2, head_dim=6), 10.0, "half")
    q = torch.ones(1, 2, 8, 6)
    with pytest.raises(HookError, match=said):
        attention(q, q, q, scheme=scheme, positions=torch.arange(8))
