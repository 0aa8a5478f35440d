"""All parts of the benchmark of a GPU, run small on the CPU."""

import json
import sys
from pathlib import Path

from support.processes import python

ROOT = Path(__file__).parent.parent
sys.path.insert(0, str(ROOT))

from benchmarks.gpu.correct import is_wrong  # noqa: E402


def test_parts_run_small_and_keep_what_they_find(tmp_path: Path) -> None:
    command = ["-m", "benchmarks", "gpu", "facts", "correct", "waits"]
    command += ["paths", "steps", "--device", "cpu", "--small", "--processes", "1"]
    command += ["--schemes", "rope,kerple_log", "--out", str(tmp_path)]
    done = python(*command, cwd=ROOT)
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
