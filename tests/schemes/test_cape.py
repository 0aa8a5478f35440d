"""CAPE against the paper's listing, written with loops."""

import math
from typing import Any

import pytest
import torch
from schemes.reference import Case, EmbedTests
from schemes.tools import close, normal, seeded

from posenc_compare.schemes import Scheme, create


def make(**options: object) -> Scheme:
    return create("cape", options=options, model_dim=16, heads=2, length=64)


def slow_places(
    rows: list[list[int]],
    shift: float,
    own: float,
    scaling: float,
    centred: bool,
    generator: torch.Generator,
) -> list[list[float]]:
    def uniform(most: float, count: int) -> list[float]:
        units = torch.rand(count, generator=generator, dtype=torch.float64).tolist()
        return [most * (2 * unit - 1) for unit in units]

    size = len(rows[0])
    shifts = uniform(shift, len(rows))
    owns = uniform(own, len(rows) * size)
    logs = uniform(math.log(scaling), len(rows))
    out = []
    for b, row in enumerate(rows):
        mean = sum(row) / size if centred else 0.0
        out.append(
            [
                (p - mean + shifts[b] + owns[b * size + i]) * math.exp(logs[b])
                for i, p in enumerate(row)
            ]
        )
    return out


def slow_code(place: float, width: int, base: float, layout: str) -> list[float]:
    angles = [place * base ** (-m / (width // 2)) for m in range(width // 2)]
    if layout == "concatenated":
        return [math.sin(a) for a in angles] + [math.cos(a) for a in angles]
    return [wave(a) for a in angles for wave in (math.sin, math.cos)]


ROWS = [[0, 1, 2, 3, 4, 50], [7, 0, 7, 900, 12, 3]]


@pytest.mark.parametrize("layout", ["interleaved", "concatenated"])
@pytest.mark.parametrize(
    ("shift", "own", "scaling", "centred"),
    [(5.0, 0.5, 1.03, False), (60.0, 1.0, 1.1, True), (0.0, 0.3, 1.0, True)],
)
def test_equals_the_slow_reference(
    shift: float, own: float, scaling: float, centred: bool, layout: str
) -> None:
    scheme = make(
        base=500.0,
        layout=layout,
        global_shift=shift,
        local_shift=own,
        scaling=scaling,
        centred=centred,
    )
    ids = scheme.positions(torch.tensor(ROWS), seeded(3))
    assert ids.dtype == torch.float64
    places = slow_places(ROWS, shift, own, scaling, centred, seeded(3))
    # Moves are kept in steps of 2**-16, so places are right to half a step.
    exact = torch.tensor(places, dtype=torch.float64)
    close(ids, exact, 0.51 * 2.0 ** (-16))
    got = scheme.embed(torch.zeros(2, 6, 16, dtype=torch.float64), ids)
    for b, row in enumerate(ids.tolist()):
        for i, place in enumerate(row):
            expected = torch.tensor(
                slow_code(place, 16, 500.0, layout), dtype=torch.float64
            )
            close(got[b, i], expected)


@pytest.mark.parametrize("centred", [False, True])
def test_testing_only_centres(centred: bool) -> None:
    scheme = make(centred=centred).eval()
    for generator in (None, seeded()):
        ids = scheme.positions(torch.arange(4).expand(2, -1), generator)
        expected = torch.arange(4).double() - (1.5 if centred else 0.0)
        assert torch.equal(ids, expected.expand(2, -1))


def test_without_ranges_it_is_sinusoidal() -> None:
    scheme = make(global_shift=0.0, local_shift=0.0, scaling=1.0)
    x = normal(2, 6, 16, seed=1)
    ids = scheme.positions(torch.tensor(ROWS), seeded())
    plain = create("sinusoidal", model_dim=16, heads=2)
    assert torch.equal(scheme.embed(x, ids), plain.embed(x, torch.tensor(ROWS)))


def test_own_shifts_of_half_a_position_keep_the_order() -> None:
    scheme = make()
    places = scheme.positions(torch.arange(64).expand(50, -1), seeded())
    assert (places.diff(dim=1) > 0).all()
    assert not torch.equal(places[0].diff(), places[1].diff())


def test_the_generator_alone_decides() -> None:
    scheme, rows, before = make(), torch.tensor(ROWS), torch.get_rng_state()
    first = scheme.positions(rows, seeded(1))
    assert torch.equal(first, make().positions(rows, seeded(1)))
    assert not torch.equal(first, scheme.positions(rows, seeded(2)))
    assert torch.equal(scheme.positions(rows), rows.double())
    assert torch.equal(before, torch.get_rng_state())


class TestCape(EmbedTests):
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
        options = {"base": 1e4, "layout": "interleaved", **case.options}
        return slow_code(position, 16, options["base"], options["layout"])


def test_positions_may_lie_anywhere() -> None:
    scheme = make(global_shift=0.0, local_shift=0.0, scaling=1.0, centred=True)
    far = torch.tensor([0, 1 << 33])
    got = scheme.positions(far, seeded())
    assert torch.equal(got, torch.tensor([-(2.0**32), 2.0**32], dtype=torch.float64))
