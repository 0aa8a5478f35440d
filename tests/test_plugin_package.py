"""The worked plugin installs, is listed and works.

It is asked in a fresh process whose only extra is one folder on `PYTHONPATH`, as
`pip install --target` leaves it.
"""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

PACKAGE = Path(__file__).parent.parent / "examples" / "plugin_package"
ASK = """
import json
import sys
import torch
from posenc_compare.attention import attention
from posenc_compare.registry import SCHEMES
from posenc_compare.schemes import create
SCHEMES.get("rope")
assert "posenc_triangle" not in sys.modules  # nobody has asked for it
entry = SCHEMES.entry("triangle")
assert "triangle" in SCHEMES.entries() and not SCHEMES.broken
scheme = create("triangle", heads=2, head_dim=4)
x = scheme.embed(torch.zeros(1, 3, 8), torch.arange(3))
q = x.view(1, 3, 2, 4).transpose(1, 2)
out = attention(q, q, q, scheme=scheme, positions=torch.arange(3))
assert out.isfinite().all()
print(json.dumps([x[0].tolist(), entry.facts, entry.summary, entry.origin]))
"""


def test_the_package_is_installed_listed_and_works(tmp_path: Path) -> None:
    pytest.importorskip("pip")
    pytest.importorskip("hatchling", reason="the plugin is built with hatchling")
    options = ["--no-deps", "--no-build-isolation", "--no-index", "--no-cache-dir"]
    options += ["--disable-pip-version-check", "--target", str(tmp_path)]
    asked = subprocess.run(
        [sys.executable, "-m", "pip", "install", *options, str(PACKAGE)],
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert asked.returncode == 0, asked.stderr
    asked = subprocess.run(
        [sys.executable, "-W", "error", "-c", ASK],
        capture_output=True,
        text=True,
        env={**os.environ, "PYTHONPATH": str(tmp_path)},
        timeout=120,
    )
    assert asked.returncode == 0, asked.stderr
    code, *facts = json.loads(asked.stdout)
    assert facts == [
        {"family": "absolute", "source": "own example"},
        "Add triangle waves of the position. Has no parameters.",
        "posenc-triangle (posenc_triangle:Triangle)",
    ]
    for position, row in enumerate(code):
        for channel, got in enumerate(row):
            turns = position / (2 * 3.141592653589793) / 10_000 ** (channel // 2 / 4)
            turns += 0.25 * (channel % 2)
            assert got == pytest.approx(slow_triangle(turns), abs=1e-6)


def slow_triangle(turns: float) -> float:
    """Go up to 1 in a quarter turn, down to -1 in half a turn, and back."""
    while turns >= 1:
        turns -= 1
    if turns <= 0.25:
        return 4 * turns
    return 2 - 4 * turns if turns <= 0.75 else 4 * turns - 4
