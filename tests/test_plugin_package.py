"""The worked plugin installs, is listed and works; a plugin may change what it imports.

It is asked in a fresh process whose only extra is one folder on `PYTHONPATH`, as
`pip install --target` leaves it.
"""

import json
import os
from pathlib import Path
from typing import Any

import pytest
from conftest import forgotten
from support.processes import python

import posenc_compare as pc
from posenc_compare.errors import PluginError
from posenc_compare.registry import environment

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
q = torch.ones(1, 2, 3, 4)
out = attention(q, q, q, scheme=scheme, positions=torch.arange(3))
assert out.isfinite().all()
print(json.dumps([entry.facts, entry.summary, entry.origin]))
"""


def test_the_package_is_installed_listed_and_works(tmp_path: Path) -> None:
    pytest.importorskip("pip")
    pytest.importorskip("hatchling", reason="the plugin is built with hatchling")
    options = ["--no-deps", "--no-build-isolation", "--no-index", "--no-cache-dir"]
    options += ["--disable-pip-version-check", "--target", str(tmp_path)]
    done = python("-m", "pip", "install", *options, PACKAGE)
    assert done.returncode == 0, done.stderr
    asked = python("-W", "error", "-c", ASK, PYTHONPATH=str(tmp_path))
    assert asked.returncode == 0, asked.stderr
    assert json.loads(asked.stdout) == [
        {"family": "absolute", "source": "own example"},
        "Add triangle waves of the position. Has no parameters.",
        "posenc-triangle (posenc_triangle:Triangle)",
    ]


BIAS = """
import posenc_compare as pc
from posenc_compare.schemes.alibi import Alibi
GAIN = 1.0
def make():
    @pc.register("posenc_test_made", family="bias")
    class Made(Alibi):
        "A bias, times a gain."
        def offset_bias(self, offsets):
            return super().offset_bias(offsets) * GAIN
"""


def test_a_worker_imports_the_plugin_that_changes_what_it_imports(
    tmp_path: Path, forgetful: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.syspath_prepend(str(tmp_path))
    (tmp_path / "posenc_test_bias.py").write_text(BIAS)
    change = "import posenc_test_bias\nposenc_test_bias.GAIN = 9.0\n"
    change += "posenc_test_bias.make()\n"
    found = []
    for name, text in ("first.py", change), ("second.py", f"{BIAS}GAIN = 9.0\nmake()"):
        with forgotten():
            (tmp_path / name).write_text(text)
            results = pc.compare(
                "posenc_test_made", "distance_decay", plugins=[tmp_path / name]
            )
            found.append([row.value for row in results.records[0].rows])
    assert found[0] == found[1]


def test_plugins_that_share_a_module_are_computed(
    tmp_path: Path, forgetful: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.syspath_prepend(str(tmp_path))
    (tmp_path / "posenc_test_shared.py").write_text(f"{BIAS}make()\n")
    (tmp_path / "posenc_test_beside.py").write_text(
        "import posenc_test_shared\nimport posenc_compare as pc\n"
        "SIZE = pc.Quantity('posenc_test_size', 'share', 'neither', 'nothing')\n"
        "@pc.register_measure('posenc_test_measure', quantities=(SIZE,))\n"
        "def size(variant, probe, progress):\n"
        "    'A number.'\n"
        "    return pc.Result([pc.Row(SIZE.name, 1.0)])\n"
    )
    plugins = ["posenc_test_shared", "posenc_test_beside"]
    results = pc.compare("posenc_test_made", "posenc_test_measure", plugins=plugins)
    assert [record.status for record in results.records] == ["ok"]


def test_a_plugin_sets_variables_for_itself_alone(
    tmp_path: Path, registered: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("POSENC_TEST_GAIN", "1")
    setting = "import os\nos.environ['POSENC_TEST_GAIN'] = '9'\n"
    (tmp_path / "other.py").write_text(f"{setting}{BIAS}make()\n")
    registered(tmp_path / "other.py")
    assert os.environ["POSENC_TEST_GAIN"] == "9"
    assert environment()["POSENC_TEST_GAIN"] == "1"  # that of workers
    monkeypatch.setenv("POSENC_TEST_GAIN", "2")
    assert environment()["POSENC_TEST_GAIN"] == "2"


def test_a_plugin_that_starts_a_comparison_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "own.py"
    path.write_text("import posenc_compare as pc\npc.compare(plugins=[__file__])\n")
    with pytest.raises(PluginError, match=r"must not start .* while it is imported"):
        pc.compare(plugins=[path])
