"""Too little of the machine: one line before work starts."""

import os
import resource
import subprocess
import sys
from pathlib import Path

import pytest
from support.records import record

from posenc_compare.errors import ConfigError
from posenc_compare.records.cells import Cell
from posenc_compare.records.store import Store
from posenc_compare.run.machine import check_machine
from posenc_compare.run.scheduler import PLANNED
from posenc_compare.run.workers import End, Limits, Start, Worker
from posenc_compare.schemes import Variant
from posenc_compare.settings.probe import ProbeSetting

MEASURE = ["measure", "--schemes", "nope", "--measures", "smoothness", "--seeds", "9"]


def without(
    package: str, folder: Path, *words: str | Path, where: str = "True"
) -> tuple[int, str]:
    """Run a command where a package is missing; return its code and stderr."""
    text = f"import sys\nif {where}:\n    sys.modules[{package!r}] = None\n"
    (folder / "sitecustomize.py").write_text(text)
    done = subprocess.run(
        [sys.executable, "-m", "posenc_compare", *words],
        capture_output=True,
        text=True,
        env={**os.environ, "PYTHONPATH": str(folder)},
        check=False,
    )
    return done.returncode, done.stderr


def limited(files: int, *words: str | Path) -> tuple[int, str]:
    """Run a command that may open so many files; return its code and stderr."""
    line = f'ulimit -n {files}; exec "$@"'
    command = ["bash", "-c", line, "-", sys.executable, "-m", "posenc_compare", *words]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    return done.returncode, done.stderr


@pytest.mark.parametrize(
    ("files", "workers", "need", "advice"),
    [
        (8, 2, 16, "ulimit -n 14"),
        (13, 2, 16, "ulimit -n 14"),
        (15, 2, 16, "--workers 1"),
        (20, 8, 28, "--workers 4"),
        (1024, 1024, 2060, "--workers 506"),
    ],
)
def test_too_few_open_files_are_one_line_before_work_starts(
    files: int, workers: int, need: int, advice: str, tmp_path: Path
) -> None:
    words = [*MEASURE, "--workers", str(workers), "--out", tmp_path / "run"]
    assert limited(files, *words) == (
        2,
        f"error: workers must be so few that {files} open files are enough, got "
        f"{workers}, which need {need}; `{advice}` would work\n",
    )
    assert not (tmp_path / "run").exists()


def test_as_many_open_files_as_needed_are_enough(tmp_path: Path) -> None:
    words = [*MEASURE, "--workers", "2", "--out", tmp_path / "run"]
    code, said = limited(16, *words)
    assert code == 0, said


def test_a_cell_computed_again_needs_them_too(tmp_path: Path) -> None:
    code, said = limited(12, "rerun", "0", tmp_path)
    assert (code, "got 1, which need 14;" in said) == (2, True)


def test_no_limit_is_no_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    endless = resource.RLIM_INFINITY, resource.RLIM_INFINITY
    monkeypatch.setattr(resource, "getrlimit", lambda _: endless)
    check_machine(10**6)
    monkeypatch.setattr(resource, "getrlimit", lambda _: (100, 100))
    with pytest.raises(ConfigError, match="which need 20000"):
        check_machine(10**6)


@pytest.mark.parametrize(
    ("package", "words"),
    [("pandas", ["table", "."]), ("einops", ["measure", "--schemes", "nope"])],
)
def test_a_package_that_a_command_lacks_is_one_line(
    package: str, words: list[str], tmp_path: Path
) -> None:
    said = f"error: {package} must be installed, and is not; `pip install {package}`\n"
    assert without(package, tmp_path, *words) == (2, said)


def test_a_worker_that_dies_at_import_says_why(tmp_path: Path) -> None:
    words = ["measure", "--schemes", "nope", "--measures", "smoothness", "--out"]
    words += [str(tmp_path / "run")]
    workers = "sys.flags.safe_path"  # which start with -P
    code, said = without("einops", tmp_path, *words, where=workers)
    assert code == 1
    reason = "without an answer: ModuleNotFoundError: import of einops halted"
    assert f"lost: nope smoothness seed 0: exit: code 1 {reason}" in said


def test_last_words_that_nobody_has_read_yet_are_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "einops.py").write_text("raise ImportError('no such library')\n")
    monkeypatch.syspath_prepend(tmp_path)  # which a worker takes over
    worker = Worker(Start(Limits(1)))
    os.waitid(os.P_PID, worker.process.pid, os.WEXITED | os.WNOWAIT)
    end = worker.receive()
    worker.close()
    assert isinstance(end, End)
    assert end.fault == "exit: code 1 without an answer: ImportError: no such library"


def test_a_current_folder_that_is_gone_is_one_line(
    posenc, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    gone = tmp_path / "gone"
    gone.mkdir()
    monkeypatch.chdir(gone)
    gone.rmdir()
    done = posenc(*MEASURE, "--out", tmp_path / "run")
    said = "error: the current folder must exist, and is gone; `cd` to another would"
    assert (done.returncode, done.stderr) == (2, f"{said} work\n")
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize(
    ("setting", "said"),
    [
        (ProbeSetting(positions=1 << 20, width=1 << 16), "needs at least 1024.0 GiB"),
        (ProbeSetting(device="cuda"), "`--device cpu` would work"),
    ],
)
def test_a_stranger_s_record_that_cannot_be_computed_here_is_refused(
    posenc, tmp_path: Path, setting: ProbeSetting, said: str, monkeypatch
) -> None:
    monkeypatch.setattr("posenc_compare.run.devices.graphics", lambda: None)
    header = Cell(Variant("rope"), "smoothness", setting, 1).record().to_json()
    store = Store(tmp_path)
    store.create()
    key = store.write({**record(), **{name: header[name] for name in PLANNED}})
    done = posenc("rerun", key, tmp_path)
    assert done.returncode == 2
    assert said in done.stderr
