"""Where to compute, with stand-ins for the question whether there is a GPU."""

import json
import os
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from posenc_compare.errors import ConfigError
from posenc_compare.run import devices
from posenc_compare.run.devices import fit_to_machine, graphics, resolve_device
from posenc_compare.settings.table import Work

H200 = "NVIDIA H200"
PLAN = ["--dry-run", "--schemes", "rope", "--seeds", "1", "--format", "json"]
PROBES = ["measure", *PLAN, "--measures", "smoothness"]
TRAINING = ["run", *PLAN, "--measures", "extrapolation", "--set", "tasks=copy"]
LARGE = [*TRAINING, "--set", "width=256"]  # whose networks are faster on a GPU


@pytest.fixture(autouse=True)
def asked_anew() -> Iterator[None]:
    graphics.cache_clear()
    yield
    graphics.cache_clear()


def stand_in(monkeypatch: pytest.MonkeyPatch, text: str) -> None:
    """Let torch be built for CUDA, and a script tell what is there."""
    monkeypatch.setattr(devices, "_built_for_cuda", lambda: True)
    monkeypatch.setattr(devices, "ASK", text)


@pytest.fixture
def present(monkeypatch: pytest.MonkeyPatch) -> None:
    facts = json.dumps(H200)
    stand_in(monkeypatch, f"print('a warning'); print({facts!r})")


def test_what_is_there_is_known_by_name(present: None) -> None:
    assert graphics() == H200


@pytest.mark.parametrize("text", ["", "raise OSError", "print('{}'); raise OSError"])
def test_no_answer_is_no_device(monkeypatch: pytest.MonkeyPatch, text: str) -> None:
    stand_in(monkeypatch, text)
    assert graphics() == ""
    assert resolve_device("auto", on_gpu=True) == "cpu"
    with pytest.raises(ConfigError, match=r"`--device cpu` would work"):
        resolve_device("cuda", on_gpu=False)


def test_the_question_is_asked_once_and_only_for_a_gpu(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    log = tmp_path / "log"
    stand_in(monkeypatch, f"open({str(log)!r}, 'a').write('x')")
    assert resolve_device("cpu", on_gpu=True) == "cpu"
    assert resolve_device("auto", on_gpu=False) == "cpu"
    assert not log.exists()
    for name, trained in (("auto", True), ("auto", False), ("cpu", True)):
        resolve_device(name, on_gpu=trained)
    assert log.read_text() == "x"


def test_nothing_of_the_current_folder_is_imported(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(devices, "_built_for_cuda", lambda: True)
    monkeypatch.chdir(tmp_path)
    for name in ("torch", "json"):
        Path(f"{name}.py").write_text("open('ran', 'w')\n")
    graphics()
    assert not Path("ran").exists()


def keys(posenc: Any, device: str) -> tuple[str, str]:
    """Return the keys of a training and of a measure without one."""
    both = "extrapolation,smoothness"
    done = posenc(*LARGE, "--measures", both, "--device", device)
    assert done.returncode == 0, done
    found = {row["measure"]: row["record"] for row in json.loads(done.stdout)}
    return found["extrapolation on copy"], found["smoothness"]


def test_a_run_trains_on_the_gpu_and_measures_on_the_cpu(posenc, present: None) -> None:
    cpu, cuda = keys(posenc, "cpu"), keys(posenc, "cuda")
    assert not {*cpu} & {*cuda}
    assert keys(posenc, "auto") == (cuda[0], cpu[1])


@pytest.mark.parametrize(
    ("devices", "workers"), [(["cpu"], 16), (["cuda"], 8), (["cpu", "cuda"], 8)]
)
def test_up_to_eight_workers_share_a_gpu(
    devices: list[str], workers: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: range(16))
    cells: Any = [SimpleNamespace(setting=SimpleNamespace(device=d)) for d in devices]
    assert fit_to_machine(Work(), cells).workers == workers


def test_the_miniature_is_trained_on_the_cpu(posenc, present: None) -> None:
    auto, cpu, cuda = (
        posenc(*TRAINING, "--device", device).stdout
        for device in ("auto", "cpu", "cuda")
    )
    assert auto == cpu != cuda


@pytest.mark.parametrize(
    ("words", "code"),
    [
        (PROBES, 0),  # on the CPU
        (LARGE, 2),
        ([*PROBES, "--device", "cuda"], 2),
        ([*TRAINING, "--device", "cpu"], 0),
    ],
)
def test_a_limit_of_memory_is_refused_where_it_would_not_hold(
    posenc, present: None, words: list[str], code: int
) -> None:
    done = posenc(*words, "--memory", "4")
    assert done.returncode == code
    said = "error: memory must be left out for cells on a GPU, whose memory it does not"
    if code:
        assert done.stderr == f"{said} limit, got 4; `--device cpu` would work\n"
