"""The benchmark of a GPU, as far as the CPU can run it."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
sys.path.insert(0, str(ROOT))

from benchmarks.gpu.correct import is_wrong  # noqa: E402


def benchmark(*words: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "benchmarks", *words]
    return subprocess.run(
        command, cwd=ROOT, capture_output=True, text=True, check=False
    )


def test_parts_run_small_and_keep_what_they_find(tmp_path: Path) -> None:
    done = benchmark(
        *("gpu", "facts", "correct", "waits", "paths", "steps", "--device", "cpu"),
        *("--small", "--schemes", "rope,kerple_log", "--out", str(tmp_path)),
        *("--processes", "1"),
    )
    assert done.returncode == 0, done.stderr
    found = {path.stem: json.loads(path.read_text()) for path in tmp_path.iterdir()}
    assert found.keys() == {"facts", "correct", "paths", "steps"}
    served = {(row["scheme"], row["path"]) for row in found["correct"]}
    assert {("rope", "fused"), ("kerple_log", "strided")} <= served
    assert not [row for row in found["correct"] if is_wrong(row)]
    assert {row["dtype"] for row in found["correct"]} == {
        "float64",
        "float32",
        "bfloat16",
    }
    assert all(row["both_ms"] > 0 for row in found["paths"])
    assert all(row["step_ms"] > 0 for row in found["steps"])
    assert "correct: " in done.stdout


@pytest.mark.parametrize(
    ("row", "wrong"),
    [
        ({"forward": 1e-7, "gradients": 1e-6, "lost": []}, False),
        ({"forward": 1e-3, "gradients": 1e-6, "lost": []}, True),
        ({"forward": 1e-7, "gradients": 1e-3, "lost": []}, True),
        ({"forward": 1e-7, "gradients": 1e-6, "lost": [2]}, True),
        ({"error": "over the limit"}, True),
    ],
)
def test_what_is_off_or_lost_is_wrong(row: dict[str, object], wrong: bool) -> None:
    assert is_wrong({"dtype": "float32", **row}) == wrong


def test_a_scheme_that_fails_leaves_the_others(tmp_path: Path) -> None:
    words = ("gpu", "correct", "--device", "cpu", "--small", "--out", str(tmp_path))
    done = benchmark(*words, "--schemes", "no_such,nope")
    assert done.returncode == 0, done.stderr
    rows = json.loads((tmp_path / "correct.json").read_text())
    assert {"scheme": "no_such", "error": "exit 1"} in rows
    assert any(row["scheme"] == "nope" and not is_wrong(row) for row in rows)


def test_names_are_listed() -> None:
    done = benchmark("no_such")
    assert done.returncode == 2
    assert "gpu" in done.stdout
