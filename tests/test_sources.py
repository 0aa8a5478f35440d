"""What code a number depends on: its closure, its hash, and whose text runs."""

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import posenc_compare
from posenc_compare import sources
from posenc_compare.analysis.records.cells import (
    Cell,
    entries_of,
    modules,
    schemes_of,
)
from posenc_compare.analysis.settings.probe import ProbeSetting
from posenc_compare.analysis.settings.training import Training
from posenc_compare.registry import MEASURES, SCHEMES, add_plugin
from posenc_compare.sources import WITHOUT_EFFECT, closure, code_sha256, module_path
from posenc_compare.variants import Variant

PACKAGE = Path(posenc_compare.__file__).parent
EDIT = b"\nEDITED = 1\n"
TRAINED = Cell(Variant("mix"), "extrapolation", ProbeSetting(), 1)
UNTRAINED = Cell(Variant("rope"), "perturbation", ProbeSetting(), 1)


def cell_of(scheme: str, measure: str) -> Cell:
    return Cell(Variant(scheme), measure, ProbeSetting(), 1)


@pytest.fixture(autouse=True)
def text_of_files() -> Iterator[None]:
    """Read all source anew after a test."""
    yield
    for path in list(sources._texts):
        sources._kept.discard(path)
        sources.forget(path)


def edit(module: str, more: bytes = EDIT) -> None:
    """Let a file of the package read as if it ended in more."""
    path = module_path(f"posenc_compare.{module}")
    sources.keep({str(path): (path.read_bytes() + more).decode("latin-1")})


SHARED = (
    "attention",
    "variants",
    "schemes",
    "schemes.scheme",
    "analysis.engine.compute",
)
OF_MEASURES = (
    "analysis.measures.measure",
    "analysis.measures.probe",
    "analysis.core.seeds",
)
OF_TRAININGS = ("trainer", "decoder", "corpus")
OF_MIX = (
    "mix",
    "wrapper",
    "rope",
    "nope",
    "shared.frequencies",
    "shared.rotation",
    "shared.scaling",
)


@pytest.mark.parametrize(
    "module",
    [
        *SHARED,
        *OF_MEASURES,
        "analysis.core.settings",
        "analysis.settings.training",
        "analysis.measures.extrapolation",
        *(f"analysis.training.{name}" for name in OF_TRAININGS),
        *(f"schemes.{name}" for name in OF_MIX),
    ],
)
def test_an_edit_of_what_a_training_depends_on_changes_its_key(module: str) -> None:
    before = TRAINED.key()
    edit(module)
    assert TRAINED.key() != before


@pytest.mark.parametrize(
    ("module", "changes"),
    [
        *((module, True) for module in (*SHARED, *OF_MEASURES)),
        ("schemes.rope", True),
        ("schemes.shared.scaling", True),
        ("analysis.measures.perturbation", True),
        ("schemes.alibi", False),
        ("schemes.mix", False),
        ("analysis.measures.extrapolation", False),
        ("analysis.training.trainer", False),
        ("analysis.settings.training", False),
        ("analysis.show.tables", False),
        ("analysis.engine.scheduler", False),
        ("cli.app", False),
    ],
)
def test_an_edit_changes_the_keys_of_what_depends_on_it(
    module: str, changes: bool
) -> None:
    before = UNTRAINED.key()
    edit(module)
    assert (UNTRAINED.key() != before) is changes


@pytest.mark.parametrize("name", sorted(WITHOUT_EFFECT))
def test_an_edit_of_what_cannot_change_a_number_changes_no_key(name: str) -> None:
    before = TRAINED.key()
    edit(name.removeprefix("posenc_compare").removeprefix(".") or "__init__")
    assert TRAINED.key() == before


def test_comments_docstrings_and_layout_change_no_key() -> None:
    before = TRAINED.key()
    for module in ("attention", "schemes.rope", "analysis.training.trainer"):
        edit(module, b"\n\n# A comment.\n")
    assert TRAINED.key() == before
    path = module_path("posenc_compare.schemes.nope")
    text = path.read_text().replace('"""', '"""Another docstring. ', 1)
    sources.keep({str(path): text})
    assert TRAINED.key() == before


def test_every_scheme_that_is_inside_counts() -> None:
    given = Variant("mix", {"first": "alibi", "second": "dape"})
    assert Variant("mix").schemes == ["mix", "nope", "rope"]
    assert given.schemes == ["alibi", "dape", "mix"]  # dape is around alibi
    assert Variant("shape").schemes == ["shape", "sinusoidal"]
    assert Variant("cape").schemes == ["cape", "sinusoidal"]  # by its name alone
    cell = Cell(given, "perturbation", ProbeSetting(), 1)
    before = cell.key()
    edit("schemes.shared.slopes")  # which alibi imports
    assert cell.key() != before


def test_every_scheme_and_measure_has_its_own_file_in_its_closure() -> None:
    for name in SCHEMES.entries():
        entry = SCHEMES.entry(name)
        if entry.path and entry.module.startswith("posenc_compare"):
            found = modules(cell_of(name, "perturbation"))
            assert found[entry.module] == entry.path
            assert {f"posenc_compare.{part}" for part in SHARED} <= found.keys()
    for name in MEASURES.entries():
        entry = MEASURES.entry(name)
        assert entry.module in modules(cell_of("nope", name))


def test_what_python_imports_is_in_the_closure() -> None:
    """Nothing of the package that a training imports is missed, or left out unnamed."""
    import_all = (
        "import sys, posenc_compare.analysis.engine.compute; "
        "import posenc_compare.analysis.measures.extrapolation; "
        "import posenc_compare.schemes.mix; "
        "print(*(m for m in sys.modules if m.startswith('posenc_compare')))"
    )
    done = subprocess.run(
        [sys.executable, "-c", import_all], capture_output=True, text=True, check=True
    )
    found = set(modules(TRAINED))
    assert set(done.stdout.split()) <= found | WITHOUT_EFFECT


def package(folder: Path) -> Path:
    """Write a package of plugins whose modules import one another in all ways."""
    top = folder / "posenc_test_pack"
    (top / "inner").mkdir(parents=True)
    files = {
        "__init__.py": "",
        "entry.py": "from .inner import deep\nimport posenc_compare.schemes.rope\n",
        "inner/__init__.py": "from .. import above\n",
        "inner/deep.py": "def f():\n    import posenc_test_pack.late\n",
        "above.py": "import json\n",
        "late.py": "",
        "unused.py": "",
    }
    for name, text in files.items():
        (top / name).write_text(text)
    return top


def test_the_closure_of_a_package_follows_imports_of_all_kinds(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    top = package(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    found = closure("posenc_test_pack.entry", top / "entry.py")
    own = {name for name in found if name.startswith("posenc_test_pack")}
    parts = {"", ".entry", ".inner", ".inner.deep", ".above", ".late"}
    assert own == {f"posenc_test_pack{part}" for part in parts}
    assert {"posenc_compare.schemes.rope", "posenc_compare.schemes.scheme"} <= {*found}
    assert "json" not in found


def test_the_packages_around_a_module_are_in_its_closure(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Python runs them first, whether or not the module imports anything."""
    top = package(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    assert {*closure("posenc_test_pack.late", top / "late.py")} == {
        "posenc_test_pack",
        "posenc_test_pack.late",
    }


def test_the_hash_of_code_knows_names_and_not_folders(tmp_path: Path) -> None:
    one, other = tmp_path / "a.py", tmp_path / "b" / "a.py"
    other.parent.mkdir()
    for path in (one, other):
        path.write_text("x = 1\n")
    assert code_sha256({"m": one}) == code_sha256({"m": other})
    assert code_sha256({"m": one}) != code_sha256({"n": one})
    assert code_sha256({"posenc_plugin_1_a": one}) == code_sha256(
        {"posenc_plugin_2_a": other}
    )


def test_a_file_is_read_once_until_it_is_forgotten(tmp_path: Path) -> None:
    path = tmp_path / "a.py"
    path.write_text("x = 1\n")
    assert sources.read(path) == b"x = 1\n"
    path.write_text("x = 2\n")
    assert sources.read(path) == b"x = 1\n"
    sources.forget(path)
    assert sources.read(path) == b"x = 2\n"


def test_given_text_is_never_forgotten(tmp_path: Path) -> None:
    path = tmp_path / "a.py"
    path.write_text("x = 1\n")
    sources.keep({str(path): "x = 2\n"})
    sources.forget(path)
    assert sources.read(path) == b"x = 2\n"


def test_given_text_is_what_runs(tmp_path: Path) -> None:
    """Whatever the file holds, and though it is gone."""
    path = tmp_path / "posenc_test_given.py"
    path.write_text("x = 'file'\n")
    finder = sources.PlannedFinder({"posenc_test_given": path})
    sources.keep({str(path): "x = 'given'\n"})
    path.unlink()
    sys.meta_path.insert(0, finder)
    try:
        import posenc_test_given  # type: ignore[import-not-found]

        assert posenc_test_given.x == "given"
        assert finder.others() == []
        del posenc_test_given.__loader__
        assert finder.others() == ["posenc_test_given"]
    finally:
        sys.meta_path.remove(finder)
        sys.modules.pop("posenc_test_given", None)


def test_bytes_of_any_kind_travel(tmp_path: Path) -> None:
    path = tmp_path / "a.py"
    path.write_bytes(bytes(range(256)))
    sources.read(path)
    sent = {name: text for name, text in sources.texts().items() if name == str(path)}
    sources.keep(sent)
    path.unlink()
    assert sources.read(path) == bytes(range(256))


NAMES = {
    "a constant": "INNER = 'alibi'\n{}    def inner(self): return Variant(INNER)\n",
    "options behind it": "{}    inner = 'alibi:slopes=1'\n",
    "a list": "{}    inner = ['nope', 'alibi']\n",
}
PLAIN = (
    "@register('posenc_test_outer', family='bias', source='own')\n"
    "class Outer(Scheme):\n    'Outer.'\n"
)


@pytest.fixture
def plugin(tmp_path: Path) -> Iterator[Path]:
    yield tmp_path / "outer.v2.py"
    for name in [name for name in SCHEMES.entries() if name.startswith("posenc_test")]:
        SCHEMES._known.pop(name)


@pytest.mark.parametrize("how", NAMES)
def test_a_scheme_that_a_plugin_names_in_any_way_counts(plugin: Path, how: str) -> None:
    plugin.write_text(NAMES[how].format(PLAIN))
    add_plugin(str(plugin))
    cell = Cell(Variant("posenc_test_outer"), "smoothness", ProbeSetting(), 1)
    assert "alibi" in schemes_of(cell.variant)
    before = cell.key()
    edit("schemes.shared.slopes")
    assert cell.key() != before


SCHEME = '''
from posenc_compare.schemes import Scheme, register
FACTOR = 1

@register("posenc_test_reference", family="bias")
class Reference(Scheme):
    """What others are compared with."""
'''
MEASURE = '''
from posenc_compare.analysis.measures.measure import *

@register_measure("posenc_test_against", quantities=())
def against(variant, probe, progress):
    """Distance from the reference."""
    return Result([], {"d": [probe.build(Variant("posenc_test_reference:a=1"))]})
'''
TASK = '''
from posenc_compare.analysis.training.tasks.task import Task, register_task

@register_task("posenc_test_task", vocabulary=2, score="accuracy", chance=0.5)
class Own(Task):
    """A task that reads a scheme."""
    reads = ["posenc_test_reference"]
'''


@pytest.mark.parametrize(("name", "text"), [("against", MEASURE), ("task", TASK)])
def test_a_scheme_that_the_measure_of_a_plugin_names_counts(
    name: str, text: str, tmp_path: Path, registered: Any
) -> None:
    scheme, other = tmp_path / "reference.py", tmp_path / f"{name}.py"
    scheme.write_text(SCHEME)
    other.write_text(text)
    registered(scheme)
    registered(other)
    cell = Cell(Variant("alibi"), "posenc_test_against", ProbeSetting(), 1)
    if name == "task":
        cell = Cell(
            TRAINED.variant, "extrapolation", Training(task=f"posenc_test_{name}"), 1
        )
    before = cell.key()
    assert {str(scheme), str(other)} <= {entry.origin for entry in entries_of(cell)}
    assert {scheme, other} <= {*modules(cell).values()}
    scheme.write_text(SCHEME.replace("1", "2"))
    sources.forget(scheme)
    assert cell.key() != before


def test_what_lies_beside_a_plugin_and_is_imported_counts(
    plugin: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.syspath_prepend(str(plugin.parent))
    helper = plugin.with_name("posenc_test_helper.py")
    helper.write_text("GAIN = 1\n")
    plugin.write_text("import json\nfrom posenc_test_helper import GAIN\n" + PLAIN)
    add_plugin(str(plugin))
    cell = Cell(Variant("posenc_test_outer"), "smoothness", ProbeSetting(), 1)
    before = cell.key()
    assert "json" not in modules(cell)
    helper.write_text("GAIN = 2\n")
    sources.forget(helper)
    assert cell.key() != before


def test_the_file_of_a_package_may_be_given(tmp_path: Path) -> None:
    top = package(tmp_path)
    found = closure("posenc_plugin_1___init__", top / "__init__.py")
    assert list(found) == ["posenc_plugin_1___init__"]
    (top / "__init__.py").write_text("from .late import x\n")
    sources.forget(top / "__init__.py")
    found = closure("posenc_plugin_1___init__", top / "__init__.py")
    assert found["posenc_plugin_1___init__.late"] == top / "late.py"


def test_source_of_another_python_counts_with_its_bytes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    top = package(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    late = top / "late.py"
    late.write_text("type X = = int\n")
    found = closure("posenc_test_pack.entry", top / "entry.py")
    before = code_sha256(found)
    late.write_text("type Y = = int\n")
    sources.forget(late)
    assert code_sha256(found) != before


def test_text_that_cannot_be_written_out_again_has_a_hash(tmp_path: Path) -> None:
    one, other = tmp_path / "a.py", tmp_path / "b.py"
    one.write_text("x = f\"{chr(65)}{'\u00a0'.join('ab')}\"\n")
    other.write_text("x = f\"{chr(66)}{'\u00a0'.join('ab')}\"\n")
    assert code_sha256({"m": one}) != code_sha256({"m": other})


def test_the_order_of_files_does_not_change_their_hash(tmp_path: Path) -> None:
    one, other = tmp_path / "a.py", tmp_path / "b.py"
    one.write_text("x = 1\n")
    other.write_text("x = 2\n")
    hashes = {
        code_sha256({"posenc_plugin_1_a": one, "posenc_plugin_2_b": other}),
        code_sha256({"posenc_plugin_2_a": one, "posenc_plugin_1_b": other}),
    }
    assert len(hashes) == 1
