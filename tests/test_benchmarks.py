"""Benchmarks, run small: what they check, what they keep, and a GPU's on the CPU."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import torch

ROOT = Path(__file__).parent.parent
sys.path.insert(0, str(ROOT))

from benchmarks import aims, attention, models, rotation, rounds  # noqa: E402
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


# --- timings on the CPU ---------------------------------------------------------------


def test_ratios_are_to_the_floor_of_the_same_round(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    clock = [0.0]
    monkeypatch.setattr(rounds.time, "perf_counter", lambda: clock[0])
    paces = iter([9.0, 1.0, 2.0, 4.0, 8.0])  # of the machine, by round; the first warms

    def floor() -> None:
        pace[0] = next(paces)
        clock[0] += pace[0]

    def case() -> None:
        clock[0] += 3 * pace[0]

    pace = [0.0]
    cases = {rounds.FLOOR: floor, "case": case}
    first, second = rounds.timed(cases, 4, memory=False)
    assert (first.ratio, second.ratio, second.low, second.high) == (1, 3, 3, 3)
    assert second.ms == pytest.approx(9000)
    assert second.mib is None


def test_what_was_timed_is_kept_with_the_machine(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(rounds, "RECORDS", tmp_path)
    monkeypatch.setattr(rotation, "ROUNDS", 2)
    monkeypatch.setattr(
        rotation, "PEERS", {"absent, half": (_absent, "half")}, raising=True
    )
    threads = torch.get_num_threads()
    try:
        rotation.main(["64"])
    finally:
        torch.set_num_threads(threads)
    shown = capsys.readouterr().out
    assert "absent, half: not installed" in shown
    assert "| adjacent | " in shown
    kept = json.loads((tmp_path / "rotation.json").read_text())
    assert kept["machine"]["torch"] == torch.__version__
    assert kept["machine"]["processor"]
    timings = kept["columns"]["bfloat16, with gradient"]
    assert [timing["case"] for timing in timings] == ["floor", "adjacent", "half"]
    assert all(timing["low"] <= timing["ratio"] <= timing["high"] for timing in timings)


@pytest.mark.parametrize(
    "name", ["rotation", "attention", "models", "reading", "steps", "measures"]
)
def test_tables_of_the_readme_are_those_of_the_records(name: str) -> None:
    kept = json.loads((rounds.RECORDS / f"{name}.json").read_text())
    columns = {
        title: [rounds.Timing(**timing) for timing in timings]
        for title, timings in kept["columns"].items()
    }
    readme = (ROOT / "benchmarks" / "README.md").read_text()
    assert rounds.shown(columns) in readme


def test_aims_of_the_readme_are_held_against_the_records() -> None:
    assert aims.table() in (ROOT / "benchmarks" / "README.md").read_text()


@pytest.mark.parametrize(
    ("unit", "most", "ends"),
    [
        ("ratio", 1.5, "| 1.5 | 1.50 |  | peer 3.00 |"),
        ("ratio", 1.2, "| 1.2 | 1.50 | 25% | peer 3.00 |"),
        ("s", 0.02, "| 0.02 s | 0.03 s | 50% | peer 0.06 |"),
        ("MiB", 8.0, "| 8 MiB | 7 MiB |  | peer 9.00 |"),
    ],
)
def test_an_aim_says_by_how_much_it_is_missed(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    unit: aims.Unit,
    most: float,
    ends: str,
) -> None:
    rows = [
        rounds.Timing("own", ms=30.0, ratio=1.501, low=1, high=2, mib=7.2),
        rounds.Timing("peer", ms=60.0, ratio=3.0, low=1, high=2, mib=9.0),
    ]
    body = {"columns": {"column": [vars(row) for row in rows]}}
    (tmp_path / "some.json").write_text(json.dumps(body))
    monkeypatch.setattr(rounds, "RECORDS", tmp_path)
    aim = aims.Aim("it", "some", "column", "own", most, unit, ("peer",))
    monkeypatch.setattr(aims, "aims", lambda: [aim])
    assert aims.table().splitlines()[-1] == f"| it {ends}"


def _absent(length: int, dtype: torch.dtype) -> rotation.Rotate:
    raise ImportError


def test_a_wrong_rotation_is_not_timed(monkeypatch: pytest.MonkeyPatch) -> None:
    turned = {"mirror": (lambda x: x.flip(-1), "half")}
    monkeypatch.setattr(rotation, "rotations", lambda length, dtype: turned)
    with pytest.raises(SystemExit, match="mirror: off by"):
        rotation.cases(32, torch.float32, backward=False)


@pytest.mark.parametrize("case", attention.CASES)
def test_every_case_of_attention_is_right(case: tuple[str, Any]) -> None:
    attention.check(*case, length=600)  # two blocks of rows


@pytest.mark.parametrize("what", ["output", "gradient of k"])
def test_a_wrong_case_of_attention_is_not_timed(
    monkeypatch: pytest.MonkeyPatch, what: str
) -> None:
    right = attention.attention

    def wrong(*given: Any, path: Any, **more: Any) -> torch.Tensor:
        if path == "plain":
            return right(*given, path=path, **more)
        if what == "output":
            return right(*given, path=path, **more) * 1.01
        q, k, v = given  # the output is right, and the gradient of half of the keys 0
        half = torch.cat([k[..., :9, :].detach(), k[..., 9:, :]], dim=-2)
        return right(q, half, v, path=path, **more)

    monkeypatch.setattr(attention, "attention", wrong)
    with pytest.raises(SystemExit, match=f"nope on fused: {what} off by"):
        attention.check("nope", "fused", length=64)


def test_models_are_right() -> None:
    with torch.no_grad():
        models.check("alibi")


def test_a_wrong_model_is_not_timed(monkeypatch: pytest.MonkeyPatch) -> None:
    right = models.made

    def wrong(name: str, length: int) -> models.Decoder:
        model = right(name, length)

        def off(_: object, __: object, out: Any) -> torch.Tensor:
            return out * (1.001 if out.dtype == torch.float32 else 1)

        model.register_forward_hook(off)
        return model

    monkeypatch.setattr(models, "made", wrong)
    with torch.no_grad(), pytest.raises(SystemExit, match="rope: off by"):
        models.check("rope")
