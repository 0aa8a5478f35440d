"""The worked plugin installs, is listed and works; a rival of one name is refused.

Each check runs in a fresh process whose only extra is one folder on `PYTHONPATH`, as
`pip install --target` leaves it.
"""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

PACKAGE = Path(__file__).parent.parent / "examples" / "plugin_package"

SCHEME = '''
from posenc_compare.schemes import Scheme, register


@register("{name}", family="bias", source="test")
class Other(Scheme):
    """Add nothing."""
'''


@pytest.fixture(scope="module")
def installed(tmp_path_factory) -> Path:
    """Install the plugin package, as a user would, without any network."""
    pytest.importorskip("pip")
    pytest.importorskip("hatchling", reason="the plugin is built with hatchling")
    folder = tmp_path_factory.mktemp("site")
    options = ["--no-deps", "--no-build-isolation", "--no-index", "--no-cache-dir"]
    command = ["-m", "pip", "install", *options, "--target", folder, PACKAGE]
    done = subprocess.run(
        [sys.executable, *map(str, command)],
        capture_output=True,
        text=True,
        env={**os.environ, "PIP_DISABLE_PIP_VERSION_CHECK": "1"},
        timeout=300,
    )
    assert done.returncode == 0, done.stderr
    return folder


def distribute(
    folder: Path,
    project: str,
    module: str,
    name: str,
    source: str,
    kind: str = "schemes",
) -> None:
    """Write an installed distribution by hand: one module, one entry point."""
    folder.mkdir(exist_ok=True)
    (folder / f"{module}.py").write_text(source, "utf-8")
    facts = folder / f"{project.replace('-', '_')}-1.0.dist-info"
    facts.mkdir()
    head = f"Metadata-Version: 2.1\nName: {project}\nVersion: 1.0\n"
    (facts / "METADATA").write_text(head, "utf-8")
    point = f"[posenc_compare.{kind}]\n{name} = {module}:Other\n"
    (facts / "entry_points.txt").write_text(point, "utf-8")


def ask(script: str, *folders: Path) -> Any:
    """Run a script that sees the folders; return what it leaves in `answer`."""
    ending = "\nimport json\nprint(json.dumps(answer))"
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", script + ending],
        capture_output=True,
        text=True,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(map(str, folders))},
        timeout=120,
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


USE = """
import torch
from posenc_compare.attention import attention
from posenc_compare.schemes import create
scheme = create("triangle", heads=2, head_dim=4)
x = scheme.embed(torch.zeros(1, 3, 8), torch.arange(3))
q = x.view(1, 3, 2, 4).transpose(1, 2)
out = attention(q, q, q, scheme=scheme, positions=torch.arange(3))
answer = {"x": x[0].tolist(), "finite": bool(out.isfinite().all())}
"""


def test_package_is_listed_with_its_facts(installed):
    script = """
import sys
from posenc_compare.registry import SCHEMES
SCHEMES.get("rope")
assert "posenc_triangle" not in sys.modules  # nobody has asked for it
entry = SCHEMES.entry("triangle")
assert "triangle" in SCHEMES.entries() and not SCHEMES.broken
answer = [entry.facts, entry.summary, entry.origin]
"""
    assert ask(script, installed) == [
        {"family": "absolute", "source": "own example"},
        "Add triangle waves of the position. Has no parameters.",
        "posenc-triangle (posenc_triangle:Triangle)",
    ]


def test_package_works_through_the_hook(installed):
    answer = ask(USE, installed)
    assert answer["finite"]
    for position, row in enumerate(answer["x"]):
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
    if turns <= 0.75:
        return 2 - 4 * turns
    return 4 * turns - 4


def test_two_packages_with_one_scheme_name_is_an_error_that_names_both(
    installed, tmp_path
):
    source = SCHEME.format(name="triangle")
    distribute(tmp_path, "posenc-rival", "posenc_rival", "triangle", source)
    script = """
from posenc_compare.errors import ConfigError
from posenc_compare.registry import SCHEMES
try:
    answer = list(SCHEMES.entries())
except ConfigError as error:
    answer = str(error)
"""
    answer = ask(script, installed, tmp_path)
    assert "'triangle' is declared twice" in answer
    assert "posenc-triangle (posenc_triangle:Triangle)" in answer
    assert "posenc-rival (posenc_rival:Other)" in answer


ALL = """
from posenc_compare.registry import REGISTRIES
entries = {r.kind: r.entries() for r in REGISTRIES}
answer = {
    "names": {kind: list(found) for kind, found in entries.items()},
    "broken": {r.kind: r.broken for r in REGISTRIES if r.broken},
}
"""


FACTS = {
    "measure": "quantities=()",
    "task": "vocabulary=2, score='accuracy', chance=0.5",
    "plot": "caption='More.'",
}


@pytest.mark.parametrize("kind", FACTS)
def test_each_kind_is_found_by_its_entry_points(tmp_path: Path, kind: str) -> None:
    source = f"""
import posenc_compare as pc
from posenc_compare.tasks.task import Task
@pc.register_{kind}('more', {FACTS[kind]})
class Other(Task): 'More.'
"""
    distribute(tmp_path, "posenc-more", "posenc_more", "more", source, f"{kind}s")
    distribute(tmp_path, "posenc-gone", "posenc_gone", "gone", "", f"{kind}s")
    answer = ask(ALL, tmp_path)
    assert [k for k, names in answer["names"].items() if "more" in names] == [kind]
    assert list(answer["broken"]) == [kind]
    (reason,) = answer["broken"][kind].values()
    assert "got AttributeError: module 'posenc_gone' has no attribute" in reason
