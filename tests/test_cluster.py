"""Cells on the nodes of a Ray cluster."""

import contextlib
import importlib
import importlib.util
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from posenc_compare.errors import ConfigError
from posenc_compare.records.store import Store
from posenc_compare.run.comparison import compare, plan_comparison

SUPPORT = Path(__file__).parent / "support"
SIZES: dict[str, Any] = {"length": 16, "width": 16, "heads": 2, "batch": 2}
SIZES |= {"test_bytes": 64, "longest": 2}
SHORT, LONG = {**SIZES, "steps": 40}, {**SIZES, "steps": 1500}
OPTIONS = {"engine", "out", "seeds", "corpus"}  # the others are settings
needs_ray = pytest.mark.skipif(
    not importlib.util.find_spec("ray"), reason="needs the extra `ray`"
)


@dataclass(frozen=True)
class Nodes:
    """A cluster of two nodes, and the process that holds it."""

    process: "subprocess.Popen[str]"
    address: str

    def remove(self) -> None:
        """Take the second node away."""
        assert self.process.stdin
        assert self.process.stdout
        self.process.stdin.write("\n")
        self.process.stdin.flush()
        assert self.process.stdout.readline() == "removed\n"

    def workers(self, *, cells: bool = False) -> list[int]:
        """Return our worker processes on its nodes, or those that compute cells."""
        parents, ours = {}, []
        for place in Path("/proc").glob("[0-9]*"):
            with contextlib.suppress(OSError):
                stat = (place / "stat").read_text()
                parents[int(place.name)] = int(stat.rpartition(")")[2].split()[1])
                if b"run.worker import main" in (place / "cmdline").read_bytes():
                    ours.append(int(place.name))
        return [
            pid
            for pid in ours
            if self.process.pid in above(pid, parents)
            and (parents[pid] in ours) is cells
        ]


def above(pid: int, parents: dict[int, int]) -> Iterator[int]:
    """Yield the process that started another, the one that started that, and so on."""
    while pid in parents:
        pid = parents[pid]
        yield pid


@contextlib.contextmanager
def cluster() -> Iterator[Nodes]:
    """Start two nodes."""
    process = subprocess.Popen(
        [sys.executable, str(SUPPORT / "nodes.py")],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    )
    assert process.stdin
    assert process.stdout
    try:
        yield Nodes(process, process.stdout.readline().strip())
    finally:
        process.stdin.close()
        process.wait(60)
        process.stdout.close()


@pytest.fixture(scope="module")
def nodes() -> Iterator[Nodes]:
    with cluster() as found:
        yield found


@pytest.fixture
def corpus(tmp_path: Path) -> str:
    path = tmp_path / "text.txt"
    path.write_text("".join(f"{n * n % 97} and {n}\n" for n in range(4000)))
    return str(path)


def options(address: str, folder: Path, sizes: dict[str, Any]) -> list[str]:
    given = {"engine": "ray", "address": address, "out": folder, **sizes}
    return [
        f"--{name}={value}" if name in OPTIONS else f"--set={name}={value}"
        for name, value in given.items()
    ]


def started(*words: object) -> subprocess.Popen[str]:
    """Start a run as a user would."""
    return subprocess.Popen(
        [sys.executable, "-m", "posenc_compare", "run", *map(str, words)],
        stderr=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        text=True,
    )


def found(folder: Path) -> dict[str, Any]:
    """Return by key what records say, without where and when they were made."""
    records = list(Store(folder).records())
    for record in records:
        record.pop("provenance")
    return {record["key"]: record for record in records}


def wait(done: Callable[[], object], seconds: float = 120) -> None:
    end = time.monotonic() + seconds
    while not done():
        assert time.monotonic() < end
        time.sleep(0.05)


@needs_ray
def test_records_are_those_of_a_run_on_one_machine(
    nodes: Nodes, corpus: str, tmp_path: Path
) -> None:
    asked = {**SHORT, "seeds": 2, "corpus": corpus}
    measures = "smoothness,extrapolation"
    compare("rope,alibi", measures, out=tmp_path / "here", **asked)
    words = ["--schemes", "rope,alibi", "--measures", measures]
    run = started(*words, *options(nodes.address, tmp_path / "there", asked))
    _, said = run.communicate(timeout=240)
    assert run.returncode == 0, said
    assert found(tmp_path / "there") == found(tmp_path / "here")
    assert len(found(tmp_path / "here")) == 8


@needs_ray
def test_a_plugin_runs_on_the_nodes_as_it_was_read(
    nodes: Nodes, tmp_path: Path
) -> None:
    plugin = tmp_path / "far.py"
    plugin.write_text(
        "from posenc_compare.schemes import Scheme, register\n"
        "@register('far', family='bias', source='own')\n"
        "class Far(Scheme):\n"
        "    def offset_bias(self, offsets):\n"
        "        return -offsets.abs().double().expand(self.geometry.heads, -1)\n"
    )
    asked = {"positions": 16, "seeds": 1}
    words = ["--schemes", "far", "--measures", "smoothness", "--plugin", plugin]
    run = started(*words, *options(nodes.address, tmp_path / "run", asked))
    _, said = run.communicate(timeout=240)
    assert run.returncode == 0, said
    assert [r["status"] for r in found(tmp_path / "run").values()] == ["ok"]


@needs_ray
def test_a_node_that_is_removed_costs_nothing(corpus: str, tmp_path: Path) -> None:
    asked = {**LONG, "seeds": 2, "corpus": corpus, "checkpoint_every": 0.2}
    words = ["--schemes", "rope,alibi", "--measures", "extrapolation"]
    with cluster() as nodes:
        run = started(*words, *options(nodes.address, tmp_path / "there", asked))
        folder = tmp_path / "there" / "ckpt"
        wait(lambda: len(list(folder.glob("*/checkpoint"))) >= 2)  # both are busy
        nodes.remove()
        _, said = run.communicate(timeout=240)
    assert run.returncode == 0, said
    there = Store(tmp_path / "there")
    attempts = sorted(r["provenance"]["attempts"] for r in there.records())
    assert attempts == [1, 1, 1, 2]
    compare("rope,alibi", "extrapolation", out=tmp_path / "here", **asked)
    assert found(tmp_path / "there") == found(tmp_path / "here")


@needs_ray
def test_a_worker_that_is_killed_begins_again(
    nodes: Nodes, corpus: str, tmp_path: Path
) -> None:
    asked = {**LONG, "seeds": 1, "corpus": corpus, "checkpoint_every": 0.2}
    words = ["--schemes", "rope", "--measures", "extrapolation"]
    run = started(*words, *options(nodes.address, tmp_path / "run", asked))
    folder = tmp_path / "run" / "ckpt"
    wait(lambda: list(folder.glob("*/checkpoint")))
    (worker,) = nodes.workers()
    os.kill(worker, signal.SIGKILL)
    _, said = run.communicate(timeout=240)
    assert run.returncode == 0, said
    (record,) = Store(tmp_path / "run").records()
    assert record["status"] == "ok"
    assert record["provenance"]["attempts"] == 2
    assert record["provenance"]["resumed_from_step"] > 0


@needs_ray
def test_a_run_that_is_stopped_saves_what_it_has(
    nodes: Nodes, corpus: str, tmp_path: Path
) -> None:
    asked = {**LONG, "seeds": 1, "corpus": corpus, "checkpoint_every": 1e6}
    words = ["--schemes", "rope", "--measures", "extrapolation"]
    words += options(nodes.address, tmp_path / "run", asked)
    run = started(*words)
    wait(lambda: nodes.workers(cells=True))
    time.sleep(8)  # until it trains
    run.send_signal(signal.SIGINT)
    _, said = run.communicate(timeout=60)
    assert run.returncode == 130, said
    assert list((tmp_path / "run" / "ckpt").glob("*/checkpoint"))
    assert not nodes.workers()
    run = started(*words)
    _, said = run.communicate(timeout=240)
    assert run.returncode == 0, said
    (record,) = Store(tmp_path / "run").records()
    assert record["provenance"]["resumed_from_step"] > 0


@needs_ray
@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"threads": 64}, "a node of the Ray cluster must have 64 cores and 0 GPUs"),
        ({"address": "127.0.0.1:9"}, "address must be that of a Ray cluster that answ"),
    ],
)
def test_a_cluster_that_cannot_be_used_is_one_line(
    nodes: Nodes, tmp_path: Path, given: dict[str, Any], said: str
) -> None:
    where = {"address": nodes.address, **given}
    words = [
        "--schemes=rope",
        "--measures=smoothness",
        "--set=positions=16",
        "--seeds=1",
    ]
    run = started(*words, *options("", tmp_path / "run", where))
    _, told = run.communicate(timeout=120)
    assert run.returncode == 2
    assert told.startswith(f"error: {said}")
    assert told.count("\n") == 1


@pytest.mark.parametrize(
    "given",
    [
        {"address": "10.0.0.1:6379"},
        {"gpu_share": 0.5},
        {"engine": "slurm"},
        {"engine": "ray", "gpu_share": 1.5},
        {"engine": "ray", "address": "nonsense"},
        {"engine": "ray", "address": ":6379"},
        {"engine": "ray", "address": "127.0.0.1:abc"},
    ],
)
def test_what_is_of_no_use_for_an_engine_is_refused(given: dict[str, Any]) -> None:
    with pytest.raises(ConfigError, match=r"engine|`--engine ray`|gpu_share|address"):
        plan_comparison("rope", "smoothness", **given)


def test_ray_that_is_missing_is_one_line(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    real = importlib.import_module

    def missing(name: str, *more: Any) -> Any:
        if name == "ray":
            raise ImportError(name)
        return real(name, *more)

    monkeypatch.setattr(importlib, "import_module", missing)
    with pytest.raises(ConfigError, match=r"pip install 'posenc-compare\[ray\]'"):
        compare("rope", "smoothness", positions=16, engine="ray", out=tmp_path / "run")
