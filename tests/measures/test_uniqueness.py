"""Uniqueness against counting and comparing all pairs."""

import itertools

import pytest
import torch
from support.schemes import SEQUENCE
from torch import Tensor

from posenc_compare.attention import Session
from posenc_compare.errors import NoCodeError
from posenc_compare.measures.codes import code_of
from posenc_compare.measures.probe import Probe
from posenc_compare.measures.uniqueness import (
    DTYPES,
    distinct_rows,
    nearest_distance,
    parts_of,
    uniqueness,
)
from posenc_compare.registry import SCHEMES
from posenc_compare.schemes import Call, Variant
from posenc_compare.schemes.scheme import PairBias
from posenc_compare.train.progress import Progress

PROBE = Probe(positions=64)


def rows_of(name: str, positions: int = 64, **options: object) -> dict:
    result = uniqueness(Variant(name, options), Probe(positions=positions), Progress())
    return {(row.quantity, row.case): row.value for row in result.rows}


@pytest.mark.parametrize("count", [2, 3, 50])
@pytest.mark.parametrize("width", [1, 7])
def test_nearest_distance_equals_all_pairs(count: int, width: int) -> None:
    codes = torch.randn(count, width, dtype=torch.float64).cumsum(dim=0)
    slow = min(
        sum((a - b) ** 2 for a, b in zip(p, q, strict=True)) ** 0.5
        for p, q in itertools.combinations(codes.tolist(), 2)
    )
    assert nearest_distance(codes) == pytest.approx(slow, rel=1e-12)


@pytest.mark.parametrize("left_out", [1, 64, 1 << 20])
@pytest.mark.parametrize("place", [33, 4, 39])
@pytest.mark.parametrize("gap", [1e-6, 0.01])
def test_nearest_distance_crosses_tiles(
    monkeypatch: pytest.MonkeyPatch, left_out: int, place: int, gap: float
) -> None:
    generator = torch.Generator().manual_seed(0)
    codes = torch.randn(40, 5, dtype=torch.float64, generator=generator)
    codes[place] = codes[2] + gap
    whole = nearest_distance(codes)
    for name, value in (("TILE", 8), ("FEW_AXES", 2), ("LEFT_OUT", left_out)):
        monkeypatch.setattr(f"posenc_compare.measures.uniqueness.{name}", value)
    assert nearest_distance(codes) == whole == pytest.approx(gap * 5**0.5, rel=1e-6)


def test_a_pair_nearer_than_float32_sees_is_found(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("posenc_compare.measures.uniqueness.LEFT_OUT", 1)
    for place in range(4, 40):
        generator = torch.Generator().manual_seed(place)
        codes = torch.randn(40, 5, dtype=torch.float64, generator=generator)
        codes[1] = codes[0] + 1e-4  # neighbours, which are known from the start
        codes[place] = codes[2] + 0.9e-4
        assert nearest_distance(codes) == pytest.approx(0.9e-4 * 5**0.5, rel=1e-6)


def test_the_nearest_codes_are_seen_beside_the_distance_of_all() -> None:
    probe = Probe(positions=24, width=16, heads=2)
    result = uniqueness(Variant("sinusoidal"), probe, Progress())
    found = {row.quantity: row.value for row in result.rows}
    codes = code_of(probe.build(Variant("sinusoidal")), probe).values
    pairs = itertools.combinations(codes, 2)
    gaps = torch.stack([(one - other).norm() for one, other in pairs])
    wanted = float(gaps.min() / gaps.square().mean().sqrt())
    assert found["nearest_distance_relative"] == pytest.approx(wanted)


def test_pairs_of_very_many_codes_are_not_compared(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("posenc_compare.measures.uniqueness.COMPARED", 63)
    result = uniqueness(Variant("sinusoidal"), PROBE, Progress())
    notes = {row.quantity: row.note for row in result.rows if row.value is None}
    assert set(notes) == {"nearest_distance", "nearest_distance_relative"}
    assert set(notes.values()) == {"pairs of more than 63 codes are not compared"}


def test_distinct_rows_counts_signed_zero_once() -> None:
    codes = torch.tensor([[0.0, 1.0], [-0.0, 1.0], [0.0, 2.0]])
    assert distinct_rows([codes]) == distinct_rows(codes.split(1)) == 2 / 3


@pytest.mark.parametrize(
    "name", ["sinusoidal", "learned", "integer", "rope", "alibi", "shape", "cape"]
)
def test_codes_in_parts_are_those_at_once(
    monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    monkeypatch.setattr("posenc_compare.measures.uniqueness.PART", 7)
    scheme = PROBE.build(Variant(name))
    parts = list(parts_of(scheme, PROBE))
    assert torch.equal(torch.cat(parts), code_of(scheme, PROBE).values)
    in_parts = name in ("sinusoidal", "learned", "integer")
    assert len(parts) == (10 if in_parts else 1)


@pytest.mark.parametrize("name", SEQUENCE)
def test_distances_with_one_code_are_those_with_equal_logits(name: str) -> None:
    """The logits are those of random queries and keys, the same at every distance."""
    scheme = PROBE.build(Variant(name))
    try:
        code = code_of(scheme, PROBE)
    except NoCodeError:
        return
    if code.of == "position":
        return
    draw = torch.Generator().manual_seed(0)
    shape = (64, PROBE.heads, 1, PROBE.geometry.head_dim)
    q, k = torch.randn(2, *shape, generator=draw).double().expand(-1, -1, -1, 64, -1)
    session = Session(scheme, torch.arange(64))
    x = torch.randn(64, 1, PROBE.width, generator=draw).double().expand(-1, 64, -1)
    last = session.logits(0, q, k, x=x)[:, :, -1].flip(-1).flatten(0, 1).T
    alike, same = (
        torch.cdist(x, x, compute_mode="donot_use_mm_for_euclid_dist") < 1e-9
        for x in (last, code.values)
    )
    assert torch.equal(alike, same)


def test_keys_are_no_code_beside_a_bias_that_is_not_read() -> None:
    class Both(SCHEMES.get("rope_2d")):
        def pair_bias(self, call: Call) -> PairBias:
            return lambda b, h, i, j: (call.q_positions[b, i, 0] % 3).double()

    probe = Probe(positions=16, tokens=16, grid="4x4")
    assert code_of(SCHEMES.get("rope_2d")(probe.geometry).double(), probe).sides
    with pytest.raises(NoCodeError):
        code_of(Both(probe.geometry).double(), probe)


def test_queries_that_stand_somewhere_are_in_no_code_of_a_distance() -> None:
    class Here(SCHEMES.get("alibi")):
        def query(self, q: Tensor, positions: Tensor, call: object = None) -> Tensor:
            return q * positions.to(q).cos()[..., None]

    with pytest.raises(NoCodeError):
        code_of(Here(PROBE.geometry).double(), PROBE)


def test_nope_has_one_code_and_t5_as_many_as_buckets() -> None:
    assert rows_of("nope")["distinct_share", "float32"] == 1 / 64
    # 16 exact buckets and 11 more begin at distances up to 63, the last at 59.
    rows = rows_of("t5_bias", max_distance=128)
    assert rows["distinct_share", "float32"] == 27 / 64


def test_normalised_integers_depend_on_the_length_they_are_built_for() -> None:
    assert rows_of("integer")["depends_on_length", "build"] == 1
    assert rows_of("integer", normalised=False)["depends_on_length", "build"] == 0
    assert rows_of("sinusoidal")["depends_on_length", "build"] == 0


def test_a_refused_double_length_costs_one_row_alone() -> None:
    probe = Probe(positions=256, width=8, heads=2)
    rows = uniqueness(Variant("binary"), probe, Progress()).rows
    notes = {(row.case, row.x): row.note for row in rows if row.value is None}
    assert notes == {
        ("build", None): "binary: the width must hold 9 bits, got 8 channels",
        ("", 512): "binary: the width must hold 9 bits, got 8 channels",
        ("", 1024): "binary: the width must hold 10 bits, got 8 channels",
    }


def test_lengths_beyond_the_longest_probe_cost_their_rows_alone() -> None:
    probe = Probe(positions=(1 << 19) + 1, width=2, heads=1)
    rows = uniqueness(Variant("integer"), probe, Progress()).rows
    counted = [row for row in rows if row.quantity == "distinct_positions_in_bfloat16"]
    assert [row.value is None for row in counted] == [False, True, True]
    assert "positions must be a whole number" in counted[1].note


def test_distinct_codes_are_counted_at_three_lengths() -> None:
    probe = Probe(positions=300)
    rows = uniqueness(Variant("integer", {"normalised": False}), probe, Progress()).rows
    name = "distinct_positions_in_bfloat16"
    found = {r.x: r.value for r in rows if r.quantity == name}
    for n in (300, 600, 1200):
        # Eight bits of a number are kept: steps of 1 below 256, of 2 below 512, ...
        kept = {p.bit_length() - 8: set() for p in range(n)}
        for p in range(n):
            step = 2.0 ** max(0, p.bit_length() - 8)
            kept[p.bit_length() - 8].add(round(p / step) * step)
        assert found[n] == len(set().union(*kept.values())) / n
    (case,) = (r.value for r in rows if r.case == "bfloat16")
    assert case == found[300] != 1


def test_a_number_added_to_all_codes_tells_none_apart(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def far_away(self: object, offsets: torch.Tensor) -> torch.Tensor:
        return (2.0**24 + offsets.double() / 64).expand(4, -1)

    monkeypatch.setattr("posenc_compare.schemes.alibi.Alibi.offset_bias", far_away)
    rows = uniqueness(Variant("alibi"), PROBE, Progress()).rows
    shares = [r.value for r in rows if r.quantity.startswith("distinct")]
    assert shares == [1] * 4  # also of longer ones


@pytest.mark.parametrize(
    ("label", "quantity", "dtypes"),
    [
        ("sinusoidal", "distinct_positions_in_bfloat16", [*DTYPES]),
        ("alibi", "distinct_distances_in_float32", ["float32"]),
        ("rope", "distinct_distances_in_float32", ["float32"]),
    ],
)
def test_only_what_is_added_to_tokens_is_rounded_to_half_precision(
    label: str, quantity: str, dtypes: list[str]
) -> None:
    rows = uniqueness(Variant(label), PROBE, Progress()).rows
    counted = [row for row in rows if row.quantity.startswith("distinct_")]
    places = {(row.quantity, row.case, row.x) for row in counted}
    assert places == {
        *((quantity, "", n) for n in (64, 128, 256)),
        *(("distinct_share", dtype, None) for dtype in dtypes),
    }


def test_codes_of_distances_are_counted_in_float32(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def tiny(self: object, offsets: torch.Tensor) -> torch.Tensor:
        """float32 tells 1 from 1 + 2 ** -23, and no number between."""
        return (offsets.sign() * (1 + offsets.abs() * 2.0**-25)).expand(4, -1)

    monkeypatch.setattr("posenc_compare.schemes.alibi.Alibi.offset_bias", tiny)
    rows = uniqueness(Variant("alibi"), PROBE, Progress()).rows
    name = "distinct_distances_in_float32"
    found = {row.x: row.value for row in rows if row.quantity == name}
    for n in (64, 128, 256):
        numbers = [0, *(round((2**25 + i) / 4) for i in range(1, n))]
        assert found[n] == len({*numbers}) / n


def test_codes_on_a_grid_are_relative_to_the_offset_of_nothing() -> None:
    here = Probe(grid="4x6", positions=24, tokens=24, width=32)
    for name, zero in (("alibi_2d", 3 * 11 + 5), ("sinusoidal_2d", 0)):
        code = code_of(here.build(Variant(name)), here)
        assert code.origin == zero
    assert code_of(PROBE.build(Variant("alibi")), PROBE).origin == 0
