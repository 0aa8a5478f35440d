"""No false `ok`, nothing foreign executed, no scheme that ends a run.

Each test is an attack that once worked. Those on the scheduler run in real workers.
"""

import json
import re
import shutil
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from supervise import computed, finish, scheduler, supervised
from support.filesystem import result
from support.processes import python, wait_for
from support.trainings import small

from posenc_compare.fresh import search_path
from posenc_compare.records.cells import Cell
from posenc_compare.records.store import Store
from posenc_compare.run.comparison import compare
from posenc_compare.run.compute import compute
from posenc_compare.run.scheduler import Scheduler
from posenc_compare.run.workers import End, Worker
from posenc_compare.settings.canonical import canonical, parse_strictly
from posenc_compare.settings.probe import ProbeSetting
from posenc_compare.settings.table import Work
from posenc_compare.train.checkpoints import Checkpoints, Stopped
from posenc_compare.train.progress import Progress
from posenc_compare.variants import Variant

HERE = Path(__file__).parent
EVIL = str(HERE.parent / "support" / "attacking_schemes.py")


# --- H1, H2: a scheme spoils its own cell; most ways are in `test_hostile_schemes` -

PROBE = ProbeSetting(width=16, heads=2, positions=64)


@pytest.fixture(scope="module")
def corpus(tmp_path_factory: pytest.TempPathFactory) -> str:
    path = tmp_path_factory.mktemp("corpus") / "text"
    path.write_bytes(bytes(range(32, 127)) * 60)
    return str(path)


def test_an_answer_that_is_too_long_is_a_failure(tmp_path: Path) -> None:
    asked: dict[str, Any] = {"measures": ["shift_error"], "plugins": [EVIL]}
    (record,) = computed(tmp_path, schemes="evil:how=long", **asked).values()
    assert record["status"] == "failed"
    assert record["error"].startswith("protocol: ")


def test_a_run_with_a_cell_without_a_record_ends_with_1(
    posenc, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("posenc_compare.run.comparison.Scheduler", Idle)
    words = ["--measures=shift_error", "--schemes=rope", "--out", tmp_path / "out"]
    done = posenc("measure", *words)
    assert done.returncode == 2  # nothing to show at all
    (tmp_path / "out" / "cells").mkdir(exist_ok=True)
    Store(tmp_path / "out").write(compute(CELL, Progress()).to_json())
    done = posenc("measure", *words)
    assert done.returncode == 1
    assert "of 1 cells: 1 without a record" in done.stderr


CELL = Cell(Variant("rope"), "shift_error", PROBE, 1)


class Idle(Scheduler):
    """One that computes nothing."""

    def run(self) -> str:
        return ""


# --- H5: what is changed in the process --------------------------------------------


def test_a_cell_that_changes_its_process_or_leaves_a_thread_costs_no_worker(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    started = []

    class Counted(Worker):
        def __init__(self, work: Work, path: list[str]) -> None:
            started.append(work)
            super().__init__(work, path)

    monkeypatch.setattr("posenc_compare.run.workers.Worker", Counted)
    asked: dict[str, Any] = {"measures": ["shift_error"], "plugins": [EVIL]}
    records = computed(tmp_path, schemes="meddles,lingers", seeds=2, **asked)
    found = [record["provenance"]["attempts"] for record in records.values()]
    assert found == [1] * 4
    assert len(started) == 1


# --- C1: source that changes while it runs -----------------------------------------
# The file is changed by the first cell, which has imported it.
EDITS = '''
"""A scheme that changes its own file."""
from pathlib import Path
from posenc_compare.schemes import Scheme, register

GAIN = 1
FILE = Path(__file__)

@register("edits", family="absolute")
class Edits(Scheme):
    "Add the position."

    def embed(self, x, positions):
        DEED
        return x + positions[..., None].to(x.dtype) * GAIN
'''
DEEDS = {
    "FILE.write_text(FILE.read_text().replace('GAIN = ' + '1', 'GAIN = 2'))": (
        r"plug.py changed since the run was planned; run the command again"
    ),
    "FILE.write_text('(((')": r"plugin \S*plug.py: must import cleanly, got SyntaxErr",
    "FILE.unlink(missing_ok=True)": r"plugin \S*plug.py: must import .* got FileNotFo",
}


@pytest.mark.parametrize(
    ("scheme", "deed"),
    [*(("edits", deed) for deed in DEEDS), ("shape:scheme=edits", next(iter(DEEDS)))],
)
def test_a_plugin_that_changes_while_it_runs_is_not_believed(
    posenc, tmp_path: Path, deed: str, scheme: str
) -> None:
    path, out = tmp_path / "plug.py", tmp_path / "run"
    path.write_text(EDITS.replace("DEED", deed))
    words = ["measure", "--schemes", f"{scheme},rope", "--plugin", path, "--out", out]
    words += ["--measures=perturbation,shift_error"]
    words += ["--set=width=16,heads=2,positions=64"]
    done = posenc(*words, "--workers=1")
    assert done.returncode == 1
    assert "of 4 cells: 3 ok, 1 without a record" in done.stderr
    said = [line for line in done.stderr.splitlines() if re.match(DEEDS[deed], line)]
    assert len(said) == 1
    if deed != next(iter(DEEDS)):
        return
    kept = {record["key"]: result(record) for record in Store(out).records()}
    (first,) = [r for r in Store(out).records() if r["label"] == scheme]
    path.write_text(EDITS.replace("DEED", deed))
    again = posenc(*words, "--workers=1")  # of the same code, the first cell is there
    assert "4 cells, 1 to compute" in again.stderr
    assert again.returncode == 0, again.stderr
    found = {record["key"]: result(record) for record in Store(out).records()}
    assert {key: found[key] for key in kept} == kept
    assert len(found) == 4
    path.write_text(EDITS.replace("DEED", "pass").replace("GAIN = 1", "GAIN = 3"))
    other = posenc(*words, "--dry-run", "--format=json")
    rows = json.loads(other.stdout)
    assert [r["scheme"] for r in rows if r["state"] != "done"] == [scheme] * 2
    assert first["key"] not in {row["record"] for row in rows}


LATE = '''
"""A scheme that imports a module late, which has changed by then."""
import sys
from pathlib import Path
from posenc_compare.schemes import Scheme, register

HELPER = Path(__file__).with_name("posenc_test_late.py")
sys.path.insert(0, str(HELPER.parent))

@register("late", family="absolute")
class Late(Scheme):
    "Add the position."

    def embed(self, x, positions):
        HELPER.write_text("GAIN = 22\\n")
        from posenc_test_late import GAIN
        return x + positions[..., None].to(x.dtype) * GAIN
'''


def test_code_that_changes_before_it_is_imported_is_no_result(
    posenc, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "path", [*sys.path])
    (tmp_path / "plug.py").write_text(LATE)
    (tmp_path / "posenc_test_late.py").write_text("GAIN = 1\n")
    words = ["measure", "--schemes=late,nope", "--plugin", tmp_path / "plug.py"]
    words += ["--measures=smoothness", "--set=width=16,heads=2,positions=64,seeds=1"]
    for made in (["nope"], ["late", "nope"]):
        posenc(*words, "--workers=1", "--out", tmp_path / "run")
        records = Store(tmp_path / "run").records()
        assert sorted(record["label"] for record in records) == made


def test_a_listener_less_comparison_warns_of_a_changed_plugin(
    tmp_path: Path, forgetful: None
) -> None:
    path = tmp_path / "plug.py"
    path.write_text(EDITS.replace("DEED", next(iter(DEEDS))))
    sizes: dict[str, Any] = {"width": 16, "heads": 2, "positions": 64, "seeds": 2}
    with pytest.warns(
        UserWarning, match=r"^plug\.py changed since the run was planned"
    ):
        found = compare("edits", "shift_error", plugins=[path], workers=1, **sizes)
    assert repr(found) == "Results(1 of 1 cells ok)"


def test_a_plugin_may_be_a_file_of_any_name(tmp_path: Path) -> None:
    paths = [tmp_path / "scheme.v2.py", tmp_path / "package" / "__init__.py"]
    paths[1].parent.mkdir()
    for path, name in zip(paths, ("one", "other"), strict=True):
        path.write_text(EDITS.replace("DEED", "pass").replace('"edits"', f'"{name}"'))
    asked: dict[str, Any] = {"measures": ["smoothness"], "seeds": 2}
    plugins = [*map(str, paths)]
    records = computed(tmp_path, schemes="one,other", plugins=plugins, **asked)
    assert [record["status"] for record in records.values()] == ["ok"] * 4


def test_an_answer_is_filed_under_the_cell_that_was_planned(tmp_path: Path) -> None:
    """A clone may be edited meanwhile, and a scheme may name another cell."""
    run = scheduler(tmp_path, {CELL.key(): CELL})
    body = parse_strictly(canonical(compute(CELL, Progress()).to_json()))
    other = {**body, "spec": {**body["spec"], "threads": 7}, "label": "nope"}
    run._finish(run.waiting.popleft(), End("", canonical({"record": other})))
    (record,) = run.store.records()
    assert record["key"] == CELL.key()
    assert {name: record[name] for name in body} == {
        **body,
        "provenance": {**body["provenance"], "attempts": 0},
    }


# --- C3: the folder that a command is called in ------------------------------------

TRAP = "open({sentinel!r}, 'a').write(__name__ + '\\n')\nraise ImportError('trap')\n"
NAMES = ("resource", "torch", "json", "numpy", "einops", "selectors")


def test_nothing_of_the_current_folder_runs(tmp_path: Path, root: Path) -> None:
    folder, sentinel = tmp_path / "untrusted", tmp_path / "sentinel"
    Store(folder).create()
    Store(folder).write(compute(CELL, Progress()).to_json())
    for name in NAMES:
        (folder / f"{name}.py").write_text(TRAP.format(sentinel=str(sentinel)))
    words = ["-m", "posenc_compare", "measure", "--schemes=nope", "--seeds=1"]
    words += ["--measures=smoothness", "--out=../out"]
    # A tree that was never installed runs too.
    done = python(*words, cwd=folder, PYTHONPATH=str(root))
    assert done.returncode == 0, done.stderr
    assert not sentinel.exists(), sentinel.read_text()


def test_a_fresh_process_looks_in_no_current_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    other = str(tmp_path / "other")
    monkeypatch.setattr(sys, "path", ["", ".", str(tmp_path), other])
    assert search_path() == [str(tmp_path), other]  # named by somebody


# --- H3: planted checkpoints --------------------------------------------------


@pytest.fixture
def training(corpus: str) -> Cell:
    return Cell(Variant("learned"), "extrapolation", small(corpus, steps=6), 1)


def interrupted(cell: Cell, folder: Path, steps: int) -> dict[str, torch.Tensor]:
    """Train so many steps and return the checkpoint that is left."""
    done = 0

    def advance(units: int) -> None:
        nonlocal done
        done += units

    stop = Checkpoints(folder, 0.0, lambda: done >= steps)
    with pytest.raises(Stopped):
        compute(cell, Progress(advance, stop)).to_json()
    step, tensors = Checkpoints(folder).load(lambda *_: None, 1 << 30)
    assert step == steps
    return tensors


def plant(folder: Path, step: int, tensors: dict[str, torch.Tensor]) -> None:
    """Leave a checkpoint as anyone could, with checksums that fit."""
    shutil.rmtree(folder)
    folder.mkdir()
    Checkpoints(folder).save(step, tensors)


Tensors = dict[str, torch.Tensor]
# Of a checkpoint of step 4 or 6, of 6: the step that it claims, and how it is changed.
FORGED: dict[str, tuple[int, Callable[[Tensors], Any]]] = {
    "another shape": (
        4,
        lambda t: t.update({"model.final_norm.weight": torch.ones(3)}),
    ),
    "another dtype": (
        4,
        lambda t: t.update({"model.final_norm.bias": torch.ones(16).half()}),
    ),
    "more tensors": (4, lambda t: t.update({"model.mine": torch.ones(3)})),
    "larger": (4, lambda t: t.update({"model.mine": torch.zeros(1 << 20)})),
    "not finite": (4, lambda t: t["model.final_norm.weight"].fill_(torch.nan)),
    "a step beyond the end": (7, lambda t: t.update(losses=torch.zeros(7))),
    "a step far beyond": (10**9, lambda t: None),
    "another test length": (6, lambda t: t.update({"tested.8.": torch.zeros(2, 9)})),
    "an unknown test": (6, lambda t: t.update({"tested.7.": torch.zeros(2, 7)})),
}


@pytest.mark.parametrize("name", FORGED)
def test_a_checkpoint_that_does_not_fit_is_not_used(
    training: Cell, tmp_path: Path, name: str
) -> None:
    whole = compute(training, Progress())
    folder = tmp_path / "ckpt" / training.key()
    step, forge = FORGED[name]
    tensors = interrupted(training, folder, 6 if step == 6 else 4)
    forge(tensors)
    plant(folder, step, tensors)
    again = compute(training, Progress(checkpoints=Checkpoints(folder)))
    assert again.rows == whole.rows
    facts = again.provenance
    assert facts["resumed_from_step"] == 0
    assert str(facts["checkpoints_refused"]).startswith("checkpoint")


# --- H4, M5, M6: records -----------------------------------------------------------


@pytest.fixture
def three(tmp_path: Path) -> Store:
    """Return a store with three records, one of them damaged."""
    store = Store(tmp_path / "three")
    store.create()
    for name in ("rope", "alibi", "nope"):
        cell = Cell(Variant(name), "smoothness", PROBE, 1)
        key = store.write(compute(cell, Progress()).to_json())
    path = store.cells / f"{key}.json"
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 1
    path.write_bytes(data)
    return store


@pytest.mark.parametrize("command", ["status", "table", "plot", "report", "diff"])
def test_every_command_says_that_records_are_damaged(
    three: Store, posenc, command: str
) -> None:
    folders = [three.folder] * (2 if command == "diff" else 1)
    done = posenc(command, *folders)
    assert done.returncode == 0
    assert "1 records left out, which are damaged" in done.stderr


# --- M8: a folder that goes ---------------------------------------------------------


def test_a_folder_that_goes_is_noticed_before_the_next_write(
    tmp_path: Path, corpus: str
) -> None:
    asked = {"corpus": corpus, "steps": 100_000, "out": str(tmp_path / "run")}
    asked |= {"schemes": "nope", "measures": ["extrapolation"]}
    process = supervised(asked, workers=1, checkpoint_every=600.0)
    wait_for((tmp_path / "run" / "cells").is_dir)
    time.sleep(1)
    shutil.rmtree(tmp_path / "run")
    _, said = finish(process, 20)
    assert process.returncode == 1
    assert "cells: must be there, and is gone" in said.splitlines()[-1]
    assert not (tmp_path / "run").exists()
