"""The printed script, run by a stand-in for Slurm that kills jobs."""

import os
import re
import signal
import stat
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from posenc_compare.analysis.engine.comparison import compare
from posenc_compare.analysis.records.store import Store

SCHEMES, MEASURES = "nope,alibi", "smoothness,extrapolation"
SIZES: dict[str, Any] = {"steps": 40, "length": 16, "width": 16, "heads": 2}
SIZES |= {"batch": 2, "test_bytes": 64, "longest": 2, "seeds": 2}
RUN = ["--schemes", SCHEMES, "--measures", MEASURES]
RUN += [f"--{name.replace('_', '-')}={size}" for name, size in SIZES.items()]


def printed(posenc: Any, *words: object) -> str:
    done = posenc("slurm", *words)
    assert done.returncode == 0, done.stderr
    return done.stdout


def jobs(script: Path, folder: Path, path: str = "") -> list[subprocess.Popen[str]]:
    """Start every job of an array, as `sbatch` would."""
    (count,) = re.findall(r"^#SBATCH --array=1-(\d+)$", script.read_text(), re.M)
    given = {"SLURM_SUBMIT_DIR": str(folder), "SLURM_ARRAY_JOB_ID": "7"}
    if path:
        given["PATH"] = f"{path}:{os.environ['PATH']}"
    return [
        subprocess.Popen(
            ["bash", str(script)],
            env={**os.environ, **given, "SLURM_ARRAY_TASK_ID": str(number)},
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )
        for number in range(1, int(count) + 1)
    ]


@pytest.fixture
def corpus(tmp_path: Path) -> str:
    path = tmp_path / "text.txt"
    path.write_text("".join(f"{n * n % 97} and {n}\n" for n in range(4000)))
    return str(path)


@pytest.fixture
def script(posenc: Any, corpus: str, tmp_path: Path) -> Path:
    words = [*RUN, "--corpus", corpus, "--out", "run", "--jobs", 4]
    path = tmp_path / "job.sh"
    path.write_text(printed(posenc, *words))
    return path


def test_two_of_four_jobs_are_killed_and_no_cell_is_missing(
    script: Path, posenc: Any, corpus: str, tmp_path: Path
) -> None:
    subprocess.run(["bash", "-n", script], check=True)
    started = jobs(script, tmp_path)
    store, until = Store(tmp_path / "run"), time.monotonic() + 100
    while not (store.folder.exists() and store.keys()) and time.monotonic() < until:
        time.sleep(0.05)
    for job in started[:2]:
        os.killpg(job.pid, signal.SIGKILL)
    said = [job.communicate(timeout=200)[1] for job in started]
    assert [job.returncode for job in started[2:]] == [0, 0], said
    compare(SCHEMES, MEASURES, out=tmp_path / "alone", corpus=corpus, **SIZES)
    alone = Store(tmp_path / "alone")
    assert len(alone.keys()) == 2 * 2 * 2
    assert store.keys() == alone.keys()
    for one in alone.records():
        other = store.read(one["key"]) or {}
        assert (one["rows"], one["arrays"]) == (other["rows"], other["arrays"])


@pytest.mark.parametrize(
    ("sent", "again"), [(signal.SIGUSR1, True), (signal.SIGTERM, False)]
)
def test_a_job_whose_time_is_up_is_queued_again(
    posenc: Any, corpus: str, tmp_path: Path, sent: signal.Signals, again: bool
) -> None:
    path = tmp_path / "job.sh"
    words = [*RUN, "--corpus", corpus, "--out", "run", "--jobs", 1, "--steps", 99999]
    path.write_text(printed(posenc, *words, "--checkpoint-every", "0.1"))
    stand_in = tmp_path / "scontrol"
    stand_in.write_text(f'#!/bin/sh\necho "$@" > {tmp_path}/asked\n')
    stand_in.chmod(stand_in.stat().st_mode | stat.S_IXUSR)
    (job,) = jobs(path, tmp_path, str(tmp_path))
    until = time.monotonic() + 100
    while not list(tmp_path.glob("run/ckpt/*/*")) and time.monotonic() < until:
        time.sleep(0.05)
    os.kill(job.pid, sent)  # Slurm tells the shell alone
    said = job.communicate(timeout=100)[1]
    assert "to go on: " in said
    asked = tmp_path / "asked"
    if again:
        assert asked.read_text() == "requeue 7_1\n"
    else:
        assert not asked.exists()
        assert job.returncode == 130


def test_a_run_without_options_is_printed(posenc: Any) -> None:
    assert "posenc_compare run --shard" in printed(posenc).replace("-m ", "")


def test_it_prints_what_slurm_reads(posenc: Any) -> None:
    words = ("--jobs", 32, "--time", "1-0", "--partition", "gpu.a", "--gpus", 1)
    text = printed(posenc, "--schemes", "rope:base=5;layout=half", *words, "--cpus", 3)
    lines = text.splitlines()
    assert lines[0] == "#!/bin/bash"
    assert {
        "#SBATCH --array=1-32",
        "#SBATCH --time=1-0",
        "#SBATCH --partition=gpu.a",
        "#SBATCH --gpus-per-task=1",
        "#SBATCH --signal=B:USR1@120",
        "#SBATCH --requeue",
        "#SBATCH --open-mode=append",
    } <= set(lines)
    command = (
        f"{sys.executable} -m posenc_compare run --schemes 'rope:base=5;layout=half'"
    )
    assert f'{command} --shard "$SLURM_ARRAY_TASK_ID/32" --workers 3 &' in lines


@pytest.mark.parametrize("time", ["3", "2:01", "0:02:01", "0-1", "0-0:3", "0-0:2:1"])
def test_times_are_those_of_slurm(posenc: Any, time: str) -> None:
    assert f"#SBATCH --time={time}\n" in printed(posenc, *RUN, "--time", time)


def test_a_job_for_a_gpu_is_planned_where_there_is_none(posenc: Any) -> None:
    words = [*RUN, "--device", "cuda", "--gpus", 1, "--cpus", 6, "--threads", 2]
    text = printed(posenc, *words)
    assert "--device cuda --threads 2 --shard" in text
    assert "--workers 3 &" in text


@pytest.mark.parametrize(
    ("words", "fault"),
    [
        (["--schemes", "rop"], "rope"),
        (["--shcemes", "rope"], "--schemes"),
        (["--shard", "1/2"], "--shard is set by the script"),
        (["--workers=2"], "--workers is set by the script"),
        (["--overwrite"], "--overwrite would begin anew"),
        (["--engine", "ray"], "--engine is for a cluster of its own"),
        (["--threads=3", "--cpus", "2"], "cpus must be at least the 3 threads"),
        (["--time", "1\n#SBATCH --x"], "time must be more than 120 seconds"),
        (["--time", "0:02:00"], "time must be more than 120 seconds"),
        (["--time", "2"], "time must be more than 120 seconds"),
        (["--time", ""], "time must be more than 120 seconds"),
        (["--time", "abc"], "time must be more than 120 seconds"),
        (["--partition", "a b"], "partition must be letters"),
        (["--jobs", "0"], "--jobs"),
    ],
)
def test_wrong_options_are_named_before_any_job(
    posenc: Any, words: list[str], fault: str
) -> None:
    done = posenc("slurm", *words)
    assert done.returncode == 2
    assert done.stdout == ""
    assert fault in done.stderr
    assert done.stderr.count("\n") == 1
