"""A training step of every scheme on a pretended GPU: no mixed devices, known waits.

The pretended GPU needs a compiler of C++; `support/pretended/device.py` says what it
sees. What is known of each scheme stands here, so that a new wait fails, and so does
one that is gone.
"""

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from posenc_compare.check import built_in
from posenc_compare.registry import SCHEMES

NAMES = [n for n in built_in() if SCHEMES.entry(n).facts.get("axes", 1) < 3]
WITHIN = {"schemes/scheme: check_positions": 1}
DISTINCT = "schemes/shared/distinct: distinct"
# By scheme: what makes the host wait in every step. All others let it run ahead.
WAITS: Mapping[str, dict[str, int]] = {
    "binary": WITHIN,
    "dape": {DISTINCT: 2},
    "deberta": {DISTINCT: 1},
    "learned": WITHIN,
    "swin": {"schemes/swin: _check": 2},
    "transformer_xl": {DISTINCT: 1},
    "wavelet": {DISTINCT: 1},
    "xpos": {"schemes/xpos: _check_window": 4},
}
# The gradient of torch.matrix_exp makes tensors that the pretended device cannot.
UNSEEN = {"lie_re", "com_rope"}


@pytest.fixture(scope="module")
def noted(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """Return what was noted of every scheme, in a process of its own."""
    if shutil.which("g++") is None:
        pytest.skip("needs g++")
    folder = tmp_path_factory.mktemp("guard")
    command = [sys.executable, "-m", "support.pretended.steps", str(folder)]
    done = subprocess.run(
        command,
        capture_output=True,
        text=True,
        env={**os.environ, "PYTHONPATH": str(Path(__file__).parent)},
        check=False,
    )
    assert done.returncode == 0, done.stderr[-2000:]
    return json.loads(done.stdout.splitlines()[-1])


def test_what_cuda_refuses_is_refused(noted: dict[str, Any]) -> None:
    refused = noted["itself"]
    assert refused.pop("number of the CPU") == ""
    assert refused.pop("array of numpy").startswith("TypeError: a tensor of the GPU")
    for act, error in refused.items():
        assert error.startswith("DeviceMismatchError: "), act


@pytest.mark.parametrize("name", NAMES)
def test_a_step_mixes_no_devices_and_waits_where_it_is_known_to(
    name: str, noted: dict[str, Any]
) -> None:
    if name in UNSEEN:
        assert "aten::empty_strided" in noted[name]["error"]
        return
    assert "error" not in noted[name], noted[name]["error"]
    assert noted[name]["waits of step 1"] == WAITS.get(name, {})
    look = {"train/trainer: _check_finite": 1}  # of the last step
    assert noted[name]["waits of step 2"] == WAITS.get(name, {}) | look
