"""What a run does at a lack of memory, a broken context and a kill, and twice.

Schemes of a plugin ask for more memory than there is, or read past the end of a table,
beside good ones. Then a training is killed and goes on, and is run once more whole.
"""

import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from benchmarks.gpu.common import TEXT, Options, shown

PLUGIN = """
import torch
from posenc_compare.schemes import Scheme, register

@register("greedy", family="bias", source="test")
class Greedy(Scheme):
    def offset_bias(self, offsets):
        return torch.zeros(1 << 40, device=offsets.device)[: len(offsets)]

@register("past_the_end", family="bias", source="test")
class PastTheEnd(Scheme):
    def offset_bias(self, offsets):
        table = torch.zeros(8, device=offsets.device)
        return table[offsets + 1000].expand(self.geometry.heads, -1)
"""
SMALL = "steps=300,length=32,width=32,heads=2,batch=4,test_bytes=512,longest=2"
LONG = "steps=1000,length=64,width=64,heads=4,batch=8,test_bytes=512,longest=2"
STARTED = 120.0  # seconds until the first checkpoint at the latest


def run(options: Options) -> None:
    """Print the records beside faults, and whether trainings agree to the last bit."""
    rows: list[dict[str, Any]] = []
    with tempfile.TemporaryDirectory() as folder:
        here = Path(folder)
        (here / "plugin.py").write_text(PLUGIN)
        words = ["--plugin", str(here / "plugin.py"), "--workers", "2"]
        words += ["--schemes", "nope,greedy,past_the_end,rope", "--set", SMALL]
        done = _start(options, here / "beside", "2", words)
        done.wait()
        for record in _records(here / "beside"):
            row = {name: record[name][:TEXT] for name in ("label", "status", "error")}
            rows.append({**row, "seed": record["spec"]["setting"]["seed"]})
        long = LONG.replace("1000", "300") if options.small else LONG
        words = ["--schemes", "rope,t5_bias", "--set", f"{long},checkpoint_every=1"]
        whole = {}
        for name in ("once", "twice"):
            _start(options, here / name, "1", words).wait()
            whole[name] = _values(here / name)
        killed = _start(options, here / "killed", "1", words)
        end = time.monotonic() + STARTED
        while not list((here / "killed").rglob("checkpoint")):
            if time.monotonic() > end or killed.poll() is not None:
                break
            time.sleep(0.1)
        os.killpg(killed.pid, signal.SIGKILL)
        killed.wait()
        _start(options, here / "killed", "1", words).wait()
        resumed = [
            record["provenance"]["resumed_from_step"]
            for record in _records(here / "killed")
        ]
        rows.append({"twice the same": whole["once"] == whole["twice"]})
        equal = whole["once"] == _values(here / "killed")
        rows.append({"killed and resumed the same": equal, "from step": resumed})
        rows.append({"values": whole, "resumed": _values(here / "killed")})
    options.keep("faults", rows)
    for row in rows[:-1]:
        print(shown(row), flush=True)


def _start(
    options: Options, out: Path, seeds: str, words: list[str]
) -> subprocess.Popen[bytes]:
    """Start a run in a process group of its own."""
    command = [sys.executable, "-m", "posenc_compare", "run", "--out", str(out)]
    command += ["--measures", "extrapolation", "--seeds", seeds]
    command += ["--device", options.device, *words]
    null = subprocess.DEVNULL
    return subprocess.Popen(command, stdout=null, stderr=null, start_new_session=True)


def _records(out: Path) -> list[dict[str, Any]]:
    files = sorted((out / "cells").glob("*.json"))
    bodies = [json.loads(file.read_text())["body"] for file in files]
    return [json.loads(body) if isinstance(body, str) else body for body in bodies]


def _values(out: Path) -> dict[str, float]:
    """Return each value that a run found, by scheme, quantity and length."""
    return {
        f"{record['label']} {row['quantity']} {row['case']} {row['x']}": row["value"]
        for record in _records(out)
        for row in record["rows"]
    }
