"""Whole runs: killed, stopped, paused, shared, repeated, moved; never a number less.

A worker takes seconds to start, so most tests ask several things of one run. What is
undisturbed is computed in this process, without worker or store.
"""

import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import closing, suppress
from dataclasses import replace
from pathlib import Path
from threading import Thread
from typing import Any

import pytest
from conftest import run_here
from supervise import cells, finish, forget_plugins, start, supervised
from support.filesystem import result
from support.processes import children, gone_within, wait_for

from posenc_compare.records.store import SCHEMA, Store
from posenc_compare.run import worker
from posenc_compare.run.compute import compute
from posenc_compare.run.devices import fit_to_machine
from posenc_compare.run.scheduler import Scheduler
from posenc_compare.run.workers import Pool
from posenc_compare.settings.table import Work
from posenc_compare.tasks.corpus import load_corpus
from posenc_compare.train.progress import Progress

HERE = Path(__file__).parent
SIZES = ["--set=layers=1,width=16,heads=2,length=8,batch=2"]
SIZES += ["--set=longest=2,test_bytes=64,positions=64,learning_rate=0.002,tests=all"]
# 20 cells, 5 of them trained
GRID = {
    "schemes": "nope,rope,alibi,learned,t5_bias",
    "measures": ["smoothness", "shift_error", "uniqueness", "extrapolation"],
    "steps": 5,
}
SLOW = '''
"""A scheme that pauses for the seconds that a file beside it holds."""
import time
from pathlib import Path
from posenc_compare.schemes import Scheme, register

PAUSE = Path(__file__).with_name("pause")

@register("slow", family="absolute")
class Slow(Scheme):
    "Add the position."

    def embed(self, x, positions):
        seconds = float(PAUSE.read_text())
        PAUSE.with_name("begun").touch()
        time.sleep(seconds)
        return x + positions[..., None].to(x.dtype) / 64
'''


@pytest.fixture(autouse=True)
def registry() -> Iterator[None]:
    """Let no plugin of these tests stay."""
    yield
    forget_plugins()


@pytest.fixture(scope="module")
def corpus(tmp_path_factory: pytest.TempPathFactory) -> str:
    path = tmp_path_factory.mktemp("corpus") / "text"
    path.write_bytes(b"the quick brown fox jumps over the lazy dog. " * 200)
    return str(path)


@pytest.fixture(scope="module")
def wanted(corpus: str) -> dict[str, bytes]:
    """What every cell of the grid comes to when nothing happens, by key."""
    return undisturbed({**GRID, "corpus": corpus})


def undisturbed(asked: dict[str, Any]) -> dict[str, bytes]:
    """Return what cells come to in this process, where nothing happens, by key."""
    return {
        cell.key(): result({"schema": SCHEMA, **compute(cell, Progress()).to_json()})
        for cell in cells(asked)
    }


def results(folder: Path) -> dict[str, bytes]:
    """Return the results of a folder by key; none of its records may be damaged."""
    store = Store(folder)
    found = {record["key"]: result(record) for record in store.records()}
    assert not store.damaged
    return found


def state(folder: Path) -> dict[str, tuple[bytes, int]]:
    """Return bytes and time of every record."""
    return {
        path.name: (path.read_bytes(), path.stat().st_mtime_ns)
        for path in (folder / "cells").glob("[!.]*")
    }


def checkpointed(folder: Path) -> dict[str, int]:
    """Return the last step that is safe, of every training under way."""
    steps = {}
    for path in (folder / "ckpt").glob("*/checkpoint"):
        with suppress(OSError):
            steps[path.parent.name] = int.from_bytes(path.read_bytes()[32:40])
    return steps


# --- F01, F54: workers that are killed and paused ----------------------------------


def test_a_training_whose_worker_is_killed_or_paused_ends_the_same(
    corpus: str, tmp_path: Path
) -> None:
    asked = {"schemes": "learned", "measures": ["extrapolation"], "corpus": corpus}
    asked |= {"steps": 24, "seeds": 2}
    expected = undisturbed(asked)
    limits = {"workers": 1, "checkpoint_every": 0.0, "timeout": 5.0}
    process = supervised({**asked, "out": str(tmp_path)}, **limits)
    store, seen = Store(tmp_path), set()
    for step in (10, 6):

        def reached(step: int = step) -> str | None:
            now = checkpointed(tmp_path)
            return next((k for k in now if k not in seen and now[k] >= step), None)

        key = wait_for(reached)
        seen.add(key)
        (worker,) = children(process.pid)
        if len(seen) < 2:
            os.kill(worker, signal.SIGKILL)
        else:  # the whole machine, longer than the timeout
            for pid in (process.pid, worker):
                os.kill(pid, signal.SIGSTOP)
            time.sleep(6)
            for pid in (process.pid, worker):
                os.kill(pid, signal.SIGCONT)
    finish(process)
    assert process.returncode == 0
    assert results(tmp_path) == expected
    facts = [store.read(key)["provenance"] for key in expected]  # type: ignore[index]
    paused, killed = sorted(facts, key=lambda fact: fact["attempts"])
    assert (paused["attempts"], killed["attempts"]) == (1, 2)
    assert 0 < killed["resumed_from_step"] <= 24
    assert not checkpointed(tmp_path)


# --- F02: the run itself is killed -------------------------------------------------


@pytest.fixture(scope="module")
def killed(tmp_path_factory: pytest.TempPathFactory, corpus: str):
    """A run that was killed and goes on, with what was seen."""
    folder = tmp_path_factory.mktemp("killed") / "run"
    words = ["run", "--schemes", GRID["schemes"], "--corpus", corpus, "--seeds=1"]
    words += ["--measures", ",".join(GRID["measures"]), f"--set=steps={GRID['steps']}"]
    words += [*SIZES, "--workers=1", "--out", folder, "--format=json"]
    process = start(*words)
    wait_for(lambda: len(state(folder)) > 2)
    (worker,) = children(process.pid)
    before = state(folder)
    process.kill()
    process.communicate()
    gone = gone_within([worker], 2)
    after = state(folder)
    lost = [name for name in before if after.get(name) != before[name]]
    results(folder)  # none torn
    return folder, words, run_here(*words), lost, gone


def test_a_run_that_is_killed_loses_nothing(killed, wanted: dict[str, bytes]) -> None:
    folder, _, done, lost, gone = killed
    assert done.returncode == 0, done.stderr
    assert not lost
    assert gone
    assert results(folder) == wanted
    assert not list((folder / "ckpt").glob("*"))
    notes = [row["note"] for row in json.loads(done.stdout)]
    assert notes
    assert not [note for note in notes if note.startswith(("failed", "lost"))]


# --- F09, 2.5: many at once, and every other order ---------------------------------


def test_two_runs_share_a_folder_and_order_and_workers_change_nothing(
    corpus: str, wanted: dict[str, bytes], tmp_path: Path
) -> None:
    asked = {**GRID, "corpus": corpus}
    more = {"out": str(tmp_path / "two")}
    pair = [supervised({**asked, **more}, workers=1) for _ in range(2)]
    for process in pair:
        finish(process)
    assert [process.returncode for process in pair] == [0, 0]
    assert results(tmp_path / "two") == wanted
    assert len(list((tmp_path / "two" / "cells").iterdir())) == 20  # and no litter
    store, work = Store(tmp_path / "three"), Work(workers=2)
    store.create()
    with closing(Pool(work)) as pool:
        Scheduler(cells(asked)[::-1], store, pool, work).run()
    assert results(store.folder) == wanted


# --- 2.5: what is added is all that is computed ------------------------------------


def test_what_is_added_is_all_that_is_computed(
    killed, posenc, corpus: str, tmp_path: Path
) -> None:
    shutil.copytree(killed[0], tmp_path / "run", copy_function=shutil.copy2)
    before = state(tmp_path / "run")
    words = ["run", "--corpus", corpus, f"--set=steps={GRID['steps']}", *SIZES]
    words += ["--out", tmp_path / "run", "--workers=1"]
    schemes, measures = GRID["schemes"], ",".join(GRID["measures"])

    def new(schemes: str, measures: str, seeds: int) -> int:
        more = ["--schemes", schemes, "--measures", measures, f"--seeds={seeds}"]
        done = posenc(*words, *more, "--dry-run", "--format=json")
        rows = json.loads(done.stdout)
        return sum(row["state"] == "to compute" for row in rows)

    assert new(schemes, measures, 1) == 0
    assert new(f"{schemes},binary", measures, 1) == 4
    assert new(schemes, f"{measures},distance_decay", 1) == 5
    assert new(schemes, measures, 2) == 20
    words += ["--schemes", "nope,rope,binary", "--measures", "smoothness,shift_error"]
    done = posenc(*words, "--seeds=2")
    assert done.returncode == 0
    assert "12 cells, 8 to compute" in done.stderr
    assert "computed 8 of 8 cells" in done.stderr
    after = state(tmp_path / "run")
    assert {name: after[name] for name in before} == before
    assert len(after) == len(before) + 8


def test_a_shard_is_overwritten_alone(killed, posenc, tmp_path: Path) -> None:
    shutil.copytree(killed[0], tmp_path / "run", copy_function=shutil.copy2)
    before, same = state(tmp_path / "run"), results(tmp_path / "run")
    words = [*killed[1][:-3], "--out", tmp_path / "run", "--format=json"]
    planned = json.loads(posenc(*words, "--shard=1/3", "--dry-run").stdout)
    shard = {row["record"] for row in planned}
    again = posenc(*words, "--overwrite", "--shard=1/3")
    assert again.returncode == 0, again.stderr
    assert f"{len(shard)} cells, {len(shard)} to compute" in again.stderr
    after = state(tmp_path / "run")
    changed = {
        name.removesuffix(".json") for name in after if after[name] != before[name]
    }
    assert 0 < len(changed) < 20
    assert changed == shard
    assert results(tmp_path / "run") == same


# --- provenance --------------------------------------------------------------------


WHOLE = """
started ended seconds attempts resumed_from_step peak_memory_bytes posenc_compare python
torch numpy safetensors system processor instructions cores memory_bytes scheme_origin
flush_denormal deterministic_algorithms float32_matmul_precision
"""


def test_provenance_is_whole_and_private(killed) -> None:
    for record in Store(killed[0]).records():
        facts = record["provenance"]
        assert {*WHOLE.split()} <= facts.keys()
        for name in ("started", "ended"):
            assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\+00:00", facts[name])
        assert facts["seconds"] >= 0
        assert facts["attempts"] >= 1
        assert facts["peak_memory_bytes"] > 1 << 25
        assert not [value for value in facts.values() if "/" in str(value)]
        spec = record["spec"]
        assert {"numbers", "torch", "threads", "scheme", "measure"} < spec.keys()
        assert len(spec["scheme"]["code"]) == 64
        assert spec["measure"]["version"] >= 1
        assert {"seed", "device", "dtype"} < spec["setting"].keys()
        if spec["measure"]["name"] == "extrapolation":
            corpus = record["corpus"]
            assert corpus["sha256"] == spec["setting"]["corpus_sha256"]
            assert (
                sum(n for name, n in corpus.items() if name.endswith("bytes")) == 9000
            )


# --- F11, F12: asked to stop -------------------------------------------------------


@pytest.fixture
def slow(tmp_path: Path) -> Path:
    """Return a plugin that pauses for 0.02 s at each step."""
    path = tmp_path / "slow.py"
    path.write_text(SLOW)
    (tmp_path / "pause").write_text("0.02")
    return path


def process_stopped_by(number: int, words: list[Any], ready: Any) -> tuple[int, str]:
    """Run a process, send it a signal once that is so, and see all of it end."""
    process = start(*words)
    wait_for(ready)
    (worker,) = children(process.pid)
    began = time.monotonic()
    process.send_signal(number)
    _, err = finish(process, 30)
    assert time.monotonic() - began <= 10
    assert gone_within([worker], 0.5)
    return process.returncode, err


def stopped_by(number: int, words: list[Any], ready: Any) -> tuple[int, str]:
    """Run in this process, which gets a signal once that is so."""

    def send() -> None:
        wait_for(ready)
        os.kill(os.getpid(), number)

    before = signal.signal(number, signal.SIG_IGN)  # where no run listens
    (sender := Thread(target=send)).start()
    done = run_here(*words)
    sender.join()
    signal.signal(number, before)
    return done.returncode, done.stderr


def test_a_run_that_is_asked_to_stop_keeps_what_it_has(
    slow: Path, corpus: str, posenc, tmp_path: Path
) -> None:
    words = ["run", "--schemes=slow", "--plugin", slow, "--measures=extrapolation"]
    words += ["--corpus", corpus, "--set=steps=160", "--seeds=1", "--workers=1", *SIZES]
    words += ["--out", tmp_path / "run", "--format=json"]
    reached = 0

    def further() -> bool:
        return any(step > reached for step in checkpointed(tmp_path / "run").values())

    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGUSR1):
        stop = process_stopped_by if number == signal.SIGINT else stopped_by
        code, err = stop(number, [*words, "--set=checkpoint_every=0.2"], further)
        assert code == 130
        assert f"stopped by {number.name}: 1 of 1 cells are missing" in err
        (line,) = [line for line in err.splitlines() if line.startswith("to go on: ")]
        assert line.startswith("to go on: posenc-compare run --schemes=slow")
        (step,) = checkpointed(tmp_path / "run").values()
        assert reached < step < 160
        reached = step
    (tmp_path / "pause").write_text("0")
    done = posenc("status", tmp_path / "run")
    assert done.returncode == 2  # no record yet
    again = posenc(*words)
    assert again.returncode == 0, again.stderr
    asked = {"schemes": "slow", "plugins": [], "measures": ["extrapolation"]}
    expected = undisturbed({**asked, "corpus": corpus, "steps": 160})
    assert results(tmp_path / "run") == expected
    (record,) = Store(tmp_path / "run").records()
    assert record["provenance"]["resumed_from_step"] >= reached


def test_a_second_interrupt_ends_all_at_once(slow: Path, tmp_path: Path) -> None:
    words = ["measure", "--schemes=slow", "--plugin", slow, "--measures=smoothness"]
    (tmp_path / "pause").write_text("600")
    process = start(*words, "--out", tmp_path / "run", "--workers=1")
    wait_for((tmp_path / "begun").exists)  # and its worker hears nothing
    (worker,) = children(process.pid)
    process.send_signal(signal.SIGINT)
    time.sleep(0.3)
    assert process.poll() is None
    began = time.monotonic()
    process.send_signal(signal.SIGINT)
    _, err = finish(process, 10)
    assert time.monotonic() - began < 5  # after one interrupt it would wait for 12
    assert process.returncode == 130
    assert gone_within([worker], 0.2)
    assert "stopped by SIGINT" in err


# --- what failed, and what is tried again ------------------------------------------


def test_what_failed_is_tried_again_if_asked(posenc, tmp_path: Path) -> None:
    plugin, out = HERE.parent / "support" / "hostile_schemes.py", tmp_path / "run"
    words = ["measure", "--schemes=raises", "--plugin", plugin, "--set=positions=8"]
    words += ["--measures=smoothness,uniqueness", "--out", out, "--workers=1"]
    first = posenc(*words, "--set=fail_fast=true")
    assert first.returncode == 1
    (old,) = state(out)  # and nothing more was begun
    assert "of 2 cells: 1 failed" in first.stderr
    assert "--retry failed,lost" in first.stderr
    before = state(out)
    again = posenc(*words, "--retry=failed")
    assert again.returncode == 1
    assert "2 cells, 2 to compute" in again.stderr
    assert len(state(out)) == 2
    assert state(out)[old] != before[old]
    assert posenc(*words, "--retry=ok").returncode == 2
    status = posenc("status", out)
    assert status.returncode == 1
    assert "failed: raises smoothness seed 0 (" in status.stderr
    assert len(re.findall(r"ValueError at hostile\w+\.py:\d+: at", status.stderr)) == 2


# --- F50, F51, F53: the machine around it ------------------------------------------


def test_the_same_bytes_in_another_surrounding(
    corpus: str, wanted: dict[str, bytes], tmp_path: Path
) -> None:
    odd = tmp_path / "a folder, schön 中"
    odd.mkdir()
    shutil.copy(corpus, odd / "text ü")
    asked = {"measures": ["shift_error", "extrapolation"], "schemes": "learned,alibi"}
    asked |= {"steps": GRID["steps"], "limits": {"workers": 1}}
    asked |= {"out": "run é", "corpus": "text ü"}
    bare = {"PATH": os.environ["PATH"], "OMP_NUM_THREADS": "1", "HOME": "/proc/x"}
    bare |= {"PYTHONHASHSEED": "99", "LC_ALL": "C", "TZ": "Asia/Kathmandu"}
    command = [sys.executable, "-O", HERE / "supervise.py", json.dumps(asked)]
    subprocess.run(command, cwd=odd, env=bare, check=True, capture_output=True)
    found = results(odd / "run é")
    assert len(found) == 4
    renamed = {k: v.replace(b'"text \\u00fc"', b'"text"') for k, v in found.items()}
    assert renamed == {key: wanted[key] for key in found}


def test_workers_and_threads_fit_the_cores() -> None:
    cores = len(os.sched_getaffinity(0))
    (cell,) = cells({"schemes": "nope", "measures": ["smoothness"]})
    assert cell.spec().threads == 1
    for threads in range(1, cores + 1):
        limits = fit_to_machine(Work(threads=threads), [cell])
        assert 1 <= limits.workers * threads <= cores
    many = Work(threads=8 * cores)
    assert fit_to_machine(many, [cell]).workers == 1
    assert fit_to_machine(replace(many, workers=7), [cell]).workers == 7  # as asked


@pytest.mark.parametrize("known", [True, False])
def test_a_worker_reads_the_corpus_once_for_its_cells(corpus: str, known: bool) -> None:
    places = (corpus, "")
    sha256 = load_corpus(*places).sha256 if known else "of another text"
    load_corpus.cache_clear()
    spec = {"setting": {"corpus_sha256": sha256}}
    worker._warm({"plugins": [], "spec": spec, "places": places, "reads_corpus": True})
    load_corpus(*places)
    assert load_corpus.cache_info().hits == known
