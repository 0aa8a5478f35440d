"""Cells, keys, plans, records, and who computes beside whom."""

import hashlib
import os
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from support.processes import git
from support.records import read
from support.records import record as made

from posenc_compare.errors import ConfigError
from posenc_compare.measures.measure import Quantity, Result, Row, register_measure
from posenc_compare.records.cells import Cell
from posenc_compare.records.labels import label_settings
from posenc_compare.records.load import sound
from posenc_compare.records.quantities import ONE_LAYER, has_note
from posenc_compare.records.record import Record
from posenc_compare.records.store import Store
from posenc_compare.registry import MEASURES
from posenc_compare.run import provenance as module
from posenc_compare.run import workers
from posenc_compare.run.comparison import plan_comparison
from posenc_compare.run.compute import compute
from posenc_compare.run.plan import Settings, in_shard, plan, shuffle_cells
from posenc_compare.run.provenance import provenance
from posenc_compare.run.scheduler import Scheduler
from posenc_compare.run.workers import Pool
from posenc_compare.schemes import Variant
from posenc_compare.settings.canonical import spec_key
from posenc_compare.settings.probe import ProbeSetting
from posenc_compare.settings.table import Work
from posenc_compare.settings.training import Training
from posenc_compare.source import edits
from posenc_compare.tasks.corpus import load_corpus
from posenc_compare.train.progress import Progress

PROBE = ProbeSetting(positions=32, width=16, heads=2, tokens=16)
CELL = Cell(Variant("rope"), "shift_error", PROBE, threads=1)
SIZES_OF_PROBE = ("width", "heads", "positions", "tokens")


CHANGES: list[dict[str, Any]] = [
    {"variant": Variant("alibi")},
    {"variant": Variant("rope", {"base": 5.0})},
    {"measure": "smoothness"},
    {"threads": 2},
    {"graphics": "a card"},
    *({"setting": replace(PROBE, **{name: 8})} for name in SIZES_OF_PROBE),
    {"setting": replace(PROBE, seed=1)},
    {"setting": replace(PROBE, dtype="float32")},
    {"setting": replace(PROBE, device="cuda")},
]


def test_every_field_changes_the_key_and_their_order_does_not() -> None:
    assert spec_key(dict(reversed(CELL.spec().to_json().items()))) == CELL.key()
    cells = [CELL, *(replace(CELL, **change) for change in CHANGES)]
    assert len({cell.key() for cell in cells}) == len(cells)


def test_another_version_of_a_measure_is_another_key(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    before = CELL.key()
    monkeypatch.setitem(MEASURES.entry("shift_error").facts, "version", 99)
    assert CELL.spec().measure.version == 99
    assert CELL.key() != before


@pytest.mark.parametrize("fact", ["NUMBERS", "_torch_version", "shared_edits"])
def test_shared_code_and_torch_are_part_of_the_key(
    fact: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = CELL.key()
    other = 99 if fact == "NUMBERS" else lambda: "99"
    monkeypatch.setattr(f"posenc_compare.records.cells.{fact}", other)
    assert CELL.key() != before


def test_where_the_corpus_lies_does_not_change_the_key_but_its_bytes_do() -> None:
    here = Training(corpus="a", corpus_sha256="1")
    cell = Cell(Variant("rope"), "extrapolation", here, 1)
    moved = replace(cell, setting=replace(here, corpus="b"))
    edited = replace(cell, setting=replace(here, corpus_sha256="2"))
    assert cell.key() == moved.key() != edited.key()


@pytest.mark.parametrize(
    ("options", "mixed"),
    [
        ({}, True),
        ({"first": Variant("rope")}, False),
        ({"first": Variant("rope"), "window": 8}, True),
        ({"every": 1, "first": Variant("alibi"), "window": 8}, False),
        ({"first": Variant("mix"), "second": Variant("mix")}, True),
        ({"every": 1, "first": Variant("mix")}, True),
    ],
)
def test_numbers_of_one_layer_of_several_say_so(options: Any, mixed: bool) -> None:
    cell = replace(CELL, variant=Variant("mix", options))
    record = compute(cell, Progress())
    assert {has_note(row.note, ONE_LAYER) for row in record.rows} == {mixed}
    drawn = compute(replace(cell, measure="portrait"), Progress())
    assert bool(drawn.arrays) == (not mixed)


def test_a_note_of_one_layer_keeps_the_note_of_the_number() -> None:
    record = compute(replace(CELL, variant=Variant("mix")), Progress())
    assert {row.note for row in record.rows} == {f"{ONE_LAYER}; rounding"}


def test_computing_leaves_the_process_as_it_was() -> None:
    state = torch.get_rng_state()
    compute(CELL, Progress()).to_json()
    assert torch.tensor(5e-324, dtype=torch.float64) / 1 > 0  # not flushed to 0
    assert torch.equal(torch.get_rng_state(), state)


@pytest.mark.parametrize(
    ("name", "width", "reason"),
    [
        ("binary", 2, "must hold 5 bits"),
        ("rope", 14, "head_dim must be even, got 7"),
        ("sinusoidal", 7, "width must be even, got 7"),
    ],
)
def test_sizes_that_a_scheme_refuses_are_unsupported(
    name: str, width: int, reason: str
) -> None:
    setting = replace(PROBE, width=width, heads=1 if width % 2 else 2)
    for measure in ("smoothness", "shift_error", "order_sensitivity"):
        record = compute(Cell(Variant(name), measure, setting, 1), Progress())
        assert record.status == "unsupported", record.error
        assert reason in record.error


WIDE = '''
import numpy as np
import torch
from posenc_compare.measures.measure import *

A, C = (Quantity(name, "nats", "lower", "nothing", x="length") for name in "ac")

@register_measure("wide", quantities=(A, C), views=(Headline(A), Curve(C)))
def wide(variant, probe, progress):
    """Rows that tests write."""
    return Result([ROWS])
'''


def measured(rows: str, folder: Path, registered: Any) -> Record:
    """Return what a worker keeps of these rows, read from its file."""
    path = folder / "wide.py"
    path.write_text(WIDE.replace("ROWS", rows))
    registered(path)
    store = Store(folder / "run")
    store.create()
    key = store.write(compute(replace(CELL, measure="wide"), Progress()).to_json())
    return Record.from_json(store.read(key))


@pytest.mark.parametrize(
    "value",
    ["1.5", "np.float32(1.5)", "np.float64(1.5)", "torch.tensor(1.5)", "np.array(1.5)"],
)
def test_numbers_of_any_library_are_kept(
    value: str, tmp_path: Path, registered: Any
) -> None:
    record = measured(f"Row('a', {value}), Row('c', 2, {value})", tmp_path, registered)
    assert record.status == "ok"
    assert [(row.value, row.x) for row in record.rows] == [(1.5, None), (2, 1.5)]


@pytest.mark.parametrize(
    ("rows", "said"),
    [
        ("", "must return rows or arrays, got neither"),
        ("Row('a', '1.5')", "value of a row must be a number, got '1.5'"),
        ("Row('a', np.ones(2))", "value of a row must be a number, got array([1., 1.]"),
        ("Row('a', 1j)", "value of a row must be a number, got 1j"),
        ("Row('a', 1, case=3)", "case of a row must be text, got 3"),
        ("Row('a', 1, 'x')", "x of a row must be a number, got 'x'"),
        ("Row('b', 1)", "row 'b', case '', x None must be of a quantity of the mea"),
        ("Row('c', 1)", "row 'c', case '', x None must have a finite x on a curve"),
        ("Row('c', None)", "row 'c', case '', x None must have a finite x on a curve"),
        ("Row('c', 1, float('nan'))", "row 'c', case '', x nan must have a finite x"),
        ("Row('c', 1, 8), Row('c', 3, 8.0)", "row 'c', case '', x 8.0 must be there o"),
        (
            "Row('a', 1), Row('a', 2, case='k'), Row('a', 3)",
            "row 'a', case '', x None must be there once, not twice",
        ),
    ],
)
def test_rows_that_tables_cannot_show_are_a_failure_of_one_line(
    rows: str, said: str, tmp_path: Path, registered: Any
) -> None:
    record = measured(rows, tmp_path, registered)
    assert (record.status, record.rows) == ("failed", ())
    assert record.error.startswith(f"wide: {said}")
    assert "\n" not in record.error


def test_a_setting_that_a_record_lacks_has_its_default() -> None:
    tests: dict[str, dict[str, Any]] = {"older": {}, "same": {"tests": "all"}}
    tests["other"] = {"tests": "lengths"}
    found = sound(made(name, corpus_sha256="1", **x) for name, x in tests.items())
    assert [one.spec.setting["tests"] for one in found] == ["all", "all", "lengths"]
    labels = {one.label for one in label_settings(found)}
    assert labels == {"older [tests=all]", "same [tests=all]", "other [tests=lengths]"}


@pytest.mark.parametrize(
    ("names", "said"),
    [
        (("prose", "source"), {"corpus=prose", "corpus=source"}),
        (("prose", "prose"), {"corpus=prose 11111111", "corpus=prose 22222222"}),
        (("a, tested on b", "c [d]"), {"corpus=a; tested on b", "corpus=c (d)"}),
        (("a, b", "a; b"), {"corpus=a; b 11111111", "corpus=a; b 22222222"}),
        (("", "source"), {"corpus=11111111", "corpus=source"}),
    ],
)
def test_labels_name_the_text(names: tuple[str, str], said: set[str]) -> None:
    bodies = [made(corpus_sha256=digit * 64) for digit in "12"]
    found = [
        read(body | {"corpus": {"name": name}})
        for body, name in zip(bodies, names, strict=True)
    ]
    labels = {one.label for one in label_settings(found)}
    assert labels == {f"rope [{text}]" for text in said}
    # The same text by another name is no other text.
    again = read(made(corpus_sha256="1" * 64, seed=1) | {"corpus": {"name": "copy"}})
    assert {one.label for one in label_settings([*found, again])} == labels


def test_plan_pairs_seeds_and_checks_the_corpus_first(tmp_path: Path) -> None:
    path = tmp_path / "text"
    path.write_bytes(b"abc" * 2000)
    training = Training(
        length=8, longest=2, test_bytes=64, corpus=str(path), width=16, heads=2
    )
    variants = [Variant("rope"), Variant("nope")]
    settings = Settings(PROBE, (training,), (0, 1))
    cells = plan(variants, ["smoothness", "extrapolation"], settings, 1)
    assert len(cells) == 8
    assert [cell.setting.seed for cell in cells] == [0] * 4 + [1] * 4
    path.write_bytes(b"abc")
    load_corpus.cache_clear()
    with pytest.raises(ConfigError, match="must hold out"):
        plan(variants, ["extrapolation"], settings, 1)


@pytest.mark.parametrize("seeds", [(0, 1, 2), (5, 7)])
def test_a_measure_of_one_seed_has_the_first_that_is_asked_for(
    seeds: Sequence[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    settings = Settings(PROBE, (), tuple(seeds))
    asked = [Variant("rope")], ["portrait", "shift_error"], settings, 1
    monkeypatch.setattr("posenc_compare.run.plan.MOST_CELLS", 1 + len(seeds))
    cells = plan(*asked)
    found = [(cell.measure, cell.setting.seed) for cell in cells]
    wanted = [("portrait", seeds[0]), *(("shift_error", seed) for seed in seeds)]
    assert sorted(found) == wanted
    monkeypatch.setattr("posenc_compare.run.plan.MOST_CELLS", len(seeds))
    with pytest.raises(ConfigError, match=f"at most {len(seeds)} cells, got"):
        plan(*asked)
    fewer = replace(settings, probe_seeds=seeds[:1])  # than trainings have
    assert fewer.seeds_of("shift_error") == seeds[:1]
    assert fewer.seeds_of("extrapolation") == seeds


class Numbered(Cell):
    """A cell whose key takes no file to be read."""

    def key(self) -> str:
        return hashlib.sha256(str(self.threads).encode()).hexdigest()[:32]


@pytest.mark.parametrize("count", [1, 3, 40, 300])
def test_many_shards_hold_each_cell_once(count: int) -> None:
    threads = range(1, 10 * count + 1)
    cells: list[Cell] = [Numbered(CELL.variant, "", PROBE, n) for n in threads]
    shards = [in_shard(cells, f"{i + 1}/{count}") for i in range(count)]
    assert sorted(cell.threads for shard in shards for cell in shard) == [*threads]
    assert all(shards)


def test_each_run_has_an_order_of_its_own_seed_by_seed() -> None:
    probes = [replace(CELL.setting, seed=seed) for seed in (1, 0)]
    cells = [replace(CELL, setting=p, threads=n) for p in probes for n in range(1, 31)]
    one, other = shuffle_cells(cells), shuffle_cells(cells)
    assert one != other  # so that runs which share a folder help each other
    for found in (one, other):
        assert [cell.setting.seed for cell in found] == [0] * 30 + [1] * 30
        assert {cell.threads for cell in found[:30]} == {*range(1, 31)}


def test_a_shard_helps_with_what_has_no_record(tmp_path: Path) -> None:
    asked: dict[str, Any] = {"positions": 8, "seeds": 1}
    names = "nope,rope,alibi,binary,integer,sinusoidal,xpos,cope,shaw,fox,fire,t5_bias"
    words = names, "smoothness"
    first = plan_comparison(*words, shard="1/2", **asked)
    assert 0 < len(first.cells) < 12 == len(first.keys)  # by hashes of code
    assert first.compute(Store(tmp_path), lambda event: None) == ""
    assert Store(tmp_path).keys() == set(first.keys)
    again = plan_comparison(*words, shard="1/2", overwrite=True, **asked)
    assert again.keys == [cell.key() for cell in first.cells]


@pytest.mark.parametrize("value", [torch.inf, -torch.inf, torch.nan])
@pytest.mark.parametrize("dtype", ["float64", "float32", "bfloat16", "float16"])
def test_overflow_is_a_finding_in_both_half_types_alone(
    dtype: Any, value: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    rows = [Row("shift_error", value, 1, "plain"), Row("shift_error", 2.0, 8, "plain")]
    rows.append(Row("shift_error", 3.0, 8, "other"))
    measure = MEASURES.get("shift_error")
    arrays = {"a": [[1.234567, torch.inf], [None, -torch.nan]]}
    changed = replace(measure, compute=lambda *_: Result(rows, arrays))
    monkeypatch.setattr(MEASURES, "get", lambda name: changed)
    record = compute(replace(CELL, setting=replace(PROBE, dtype=dtype)), Progress())
    if dtype in ("float64", "float32"):
        assert record.status == "failed"
        assert record.error == f"non-finite: shift_error plain came out as {value}"
        return
    assert [one.value for one in record.rows] == [None, 2, 3]
    assert record.rows[0].note == f"not finite: {value}"
    assert record.arrays == {"a": [[1.2346, None], [None, None]]}


# --- provenance -------------------------------------------------------------------


@pytest.fixture
def checkout(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return a checkout that this package seems to be run from."""
    (tmp_path / "package").mkdir()
    (tmp_path / "package" / "a.py").write_text("a = 1\n")
    git(tmp_path, "init")
    git(tmp_path, "add", "-A")
    git(tmp_path, "commit", "-m", "Begin")
    for place in (module, edits):
        monkeypatch.setattr(place, "PACKAGE", tmp_path / "package")
    return tmp_path


def test_a_checkout_is_looked_at_and_left_as_it_is(checkout: Path) -> None:
    index = checkout / ".git" / "index"
    os.utime(checkout / "package" / "a.py", (0, 0))  # what git would write down
    before = index.read_bytes(), index.stat().st_ino
    found = module._git()
    assert found["git_dirty"] is False
    assert len(str(found["git_commit"])) == 40
    assert (index.read_bytes(), index.stat().st_ino) == before


def test_a_change_of_the_package_is_noticed(checkout: Path) -> None:
    (checkout / "notes").write_text("x")
    assert module._git()["git_dirty"] is False
    (checkout / "package" / "b.py").write_text("b = 1\n")
    assert module._git()["git_dirty"] is True


def test_the_newer_switches_of_precision_are_recorded(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def refuse() -> str:
        raise RuntimeError("switches of another kind were set")

    own: Any = torch.backends.mkldnn
    monkeypatch.setattr(torch, "get_float32_matmul_precision", refuse)
    known = provenance(CELL)["float32_matmul_precision"]
    assert known == str(own.matmul.fp32_precision)


def test_each_cell_has_its_own_peak_of_the_device(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    peak = [0]
    monkeypatch.setattr(module, "_graphics", lambda: {"device": "H200"})
    monkeypatch.setattr(torch.cuda, "max_memory_allocated", lambda: peak[0])
    monkeypatch.setattr(
        torch.cuda, "reset_peak_memory_stats", lambda: peak.__setitem__(0, 0)
    )
    cell = replace(CELL, setting=replace(PROBE, device="cuda"))
    peak[0] = 7 << 30
    assert provenance(cell)["peak_device_memory_bytes"] == 7 << 30
    peak[0] = max(peak[0], 1 << 20)
    assert provenance(cell)["peak_device_memory_bytes"] == 1 << 20
    assert "peak_device_memory_bytes" not in provenance(CELL)


# --- who computes beside whom ------------------------------------------------------

SECONDS = Quantity("pass", "seconds", "lower", "no time", repeatable=False)


class Sink:
    """A worker that takes every request and never answers."""

    def __init__(self, work: Work, path: list[str]) -> None:
        pass

    def send(self, request: dict[str, Any]) -> None:
        pass

    def close(self) -> None:
        pass


def nothing(*_: object) -> Result:
    """Seconds of one pass."""
    return Result([])


@pytest.mark.usefixtures("forgetful")
def test_a_measure_that_times_runs_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    register_measure("timed", quantities=(SECONDS,), exclusive=True)(nothing)
    monkeypatch.setattr(workers, "Worker", Sink)
    cells = [
        replace(CELL, measure=measure, threads=threads)
        for threads in (1, 2, 3)
        for measure in ("timed", "smoothness")
    ]
    store = Store(tmp_path / "run")
    store.create()
    work = Work(workers=3)
    run = Scheduler(cells, store, Pool(work), work)
    seen = []
    while run._assign():
        jobs = [job for job in run.workers.values() if job]
        seen.append(sorted(job.cell.measure for job in jobs))
        run.workers[next(iter(run.workers))] = None  # the eldest has answered
    together = [["smoothness"] * count for count in (3, 2, 1)]
    assert seen == [*together, ["timed"], ["timed"], ["timed"]]


@pytest.mark.parametrize("said", [True, False])
def test_a_measure_says_whether_it_runs_alone(said: bool) -> None:
    quantity = replace(SECONDS, repeatable=said)
    with pytest.raises(ConfigError, match=f"exclusive must be {not said}, got {said}"):
        register_measure("odd", quantities=(quantity,), exclusive=said)(nothing)
    assert "odd" not in MEASURES.entries()
