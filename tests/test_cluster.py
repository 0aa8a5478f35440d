"""Cells on the nodes of a Ray cluster."""

import contextlib
import importlib.util
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from support.processes import children, fields, wait_for

from posenc_compare.errors import ConfigError
from posenc_compare.records.store import Store
from posenc_compare.run.comparison import compare

SUPPORT = Path(__file__).parent / "support"
PLUGIN = Path(__file__).parent.parent / "examples" / "my_scheme.py"
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
        ours = [pid for pid in descendants(self.process.pid) if is_worker(pid)]
        return [pid for pid in ours if (int(fields(pid)[1]) in ours) is cells]


def descendants(pid: int) -> list[int]:
    """Return the processes that a process has started, and those they have."""
    started = children(pid)
    return [*started, *(pid for one in started for pid in descendants(one))]


def is_worker(pid: int) -> bool:
    with contextlib.suppress(OSError):
        return b"run.worker import main" in Path(f"/proc/{pid}/cmdline").read_bytes()
    return False


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
def asked(tmp_path: Path) -> dict[str, Any]:
    """Return the settings of a training that is long enough to be disturbed."""
    path = tmp_path / "text.txt"
    path.write_text("".join(f"{n * n % 97} and {n}\n" for n in range(4000)))
    return {**LONG, "corpus": str(path), "checkpoint_every": 0.2}


def started(
    address: str, folder: Path, schemes: str, *words: object, **sizes: Any
) -> subprocess.Popen[str]:
    """Start a run on the cluster as a user would."""
    given = {"engine": "ray", "address": address, "out": folder, **sizes}
    options = [
        f"--{name}={value}" if name in OPTIONS else f"--set={name}={value}"
        for name, value in given.items()
    ]
    return subprocess.Popen(
        [
            *(sys.executable, "-m", "posenc_compare", "run", "--schemes", schemes),
            *("--measures", "extrapolation", *map(str, words), *options),
        ],
        stderr=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        text=True,
    )


def end(run: subprocess.Popen[str], code: int = 0) -> str:
    """Wait for the end of a run, and return what it said."""
    _, said = run.communicate(timeout=240)
    assert run.returncode == code, said
    return said


def found(folder: Path) -> dict[str, Any]:
    """Return by key what records say, without where and when they were made."""
    records = list(Store(folder).records())
    for record in records:
        record.pop("provenance")
    return {record["key"]: record for record in records}


@needs_ray
def test_records_are_those_of_a_run_on_one_machine(
    nodes: Nodes, asked: dict[str, Any], tmp_path: Path
) -> None:
    """Also of a plugin, which nodes read as it was when the run began."""
    asked |= {**SHORT, "seeds": 2}
    here, there, schemes = tmp_path / "here", tmp_path / "there", "rope,log_bias"
    compare(schemes, "extrapolation", plugins=[PLUGIN], out=here, **asked)
    end(started(nodes.address, there, schemes, "--plugin", PLUGIN, **asked))
    assert found(there) == found(here)
    assert [record["status"] for record in found(there).values()] == ["ok"] * 4


@needs_ray
def test_a_node_that_is_removed_costs_nothing(
    asked: dict[str, Any], tmp_path: Path
) -> None:
    there = tmp_path / "there"
    with cluster() as nodes:
        run = started(nodes.address, there, "rope,alibi", **asked, seeds=2)
        wait_for(lambda: len(list(there.glob("ckpt/*/checkpoint"))) >= 2, 120)
        nodes.remove()  # while both are busy
        end(run)
    facts = [record["provenance"] for record in Store(there).records()]
    assert sorted(fact["attempts"] for fact in facts) == [1, 1, 1, 2]
    (again,) = (fact for fact in facts if fact["attempts"] == 2)
    assert again["resumed_from_step"] > 0
    here = tmp_path / "here"
    compare("rope,alibi", "extrapolation", out=here, **asked, seeds=2)
    assert found(there) == found(here)


@needs_ray
def test_a_run_that_is_stopped_saves_what_it_has(
    nodes: Nodes, asked: dict[str, Any], tmp_path: Path
) -> None:
    asked |= {"seeds": 1, "checkpoint_every": 1e6}
    run = started(nodes.address, tmp_path / "run", "rope", **asked)
    wait_for(lambda: nodes.workers(cells=True), 120)
    time.sleep(8)  # until it trains
    run.send_signal(signal.SIGINT)
    end(run, 130)
    assert list(tmp_path.glob("run/ckpt/*/checkpoint"))
    assert not nodes.workers()
    end(started(nodes.address, tmp_path / "run", "rope", **asked))
    (record,) = Store(tmp_path / "run").records()
    assert record["provenance"]["resumed_from_step"] > 0


@needs_ray
@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"threads": 64}, "a node of the Ray cluster must have 64 cores and 0 GPUs"),
        *(
            ({"address": address}, "address must be that of a Ray cluster that answers")
            for address in ("127.0.0.1:9", "nonsense", ":6379", "127.0.0.1:abc")
        ),
    ],
)
def test_a_cluster_that_cannot_be_used_is_one_line(
    nodes: Nodes, tmp_path: Path, given: dict[str, Any], said: str
) -> None:
    sizes = {"address": nodes.address, "seeds": 1, **given}
    told = end(started(sizes.pop("address"), tmp_path / "run", "rope", **sizes), 2)
    assert told.startswith(f"error: {said}")
    assert told.count("\n") == 1


def test_ray_that_is_missing_is_one_line(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setitem(sys.modules, "ray", None)
    with pytest.raises(ConfigError, match=r"pip install 'posenc-compare\[ray\]'"):
        compare("rope", "smoothness", positions=16, engine="ray", out=tmp_path / "run")
