"""The package from Python: its names, a comparison, and what is wrong in one line."""

import ast
import gc
import importlib
import inspect
import signal
import threading
from pathlib import Path
from typing import Any

import pytest
from matplotlib.figure import Figure
from support.processes import python

import posenc_compare as pc
from posenc_compare.errors import ConfigError
from posenc_compare.registry import MEASURES
from posenc_compare.run.comparison import plan_comparison
from posenc_compare.run.scheduler import Event, Scheduler
from posenc_compare.show.plots.paper import COLUMN
from posenc_compare.show.results import Results

SMALL: dict[str, Any] = {"positions": 64, "width": 16, "heads": 2, "seeds": 1}
compare: Any = pc.compare  # for arguments that type checkers refuse
create: Any = pc.create
INLINE = '''
import posenc_compare as pc

@pc.register("inline", family="absolute", source="own test")
class Inline(pc.Scheme):
    """Add nothing."""
'''


# --- names ------------------------------------------------------------------------


def test_the_package_imports_nothing() -> None:
    code = (
        "import importlib, sys, typing; before = set(sys.modules)\n"
        "import posenc_compare as pc; pc.__version__; dir(pc)\n"
        "print(*sorted(set(sys.modules) - before))"
    )
    assert python("-c", code).stdout.split() == [
        "posenc_compare",
        "posenc_compare.version",
    ]


@pytest.mark.parametrize("name", pc.EXPORTS)
def test_every_exported_name_is_there(name: str) -> None:
    assert name in pc.__all__
    assert name in dir(pc)
    found = getattr(pc, name)
    home = importlib.import_module(pc.EXPORTS[name])
    assert found is (home if inspect.ismodule(found) else getattr(home, name))


def test_type_checkers_are_told_the_same_names() -> None:
    tree = ast.parse(Path(pc.__file__).read_text("utf-8"))
    (checked,) = [node for node in tree.body if isinstance(node, ast.If)]
    told = {}
    for node in checked.body:
        assert isinstance(node, ast.ImportFrom)
        for alias in node.names:
            assert alias.name == alias.asname  # which makes it public
            own = node.module == "posenc_compare"
            told[alias.name] = f"{node.module}.{alias.name}" if own else node.module
    assert told == pc.EXPORTS


# --- a comparison -----------------------------------------------------------------


@pytest.fixture(scope="module")
def compared() -> tuple[Results, list[Event]]:
    events: list[Event] = []
    results = pc.compare("rope,alibi", "untrained", on_event=events.append, **SMALL)
    return results, events


def test_a_comparison_has_a_record_for_each_cell(compared) -> None:
    results, events = compared
    cells = 2 * len(MEASURES.select("untrained"))
    assert repr(results) == f"Results({cells} of {cells} cells ok)"
    assert results.failed == []
    assert {record.label for record in results.records} == {"rope", "alibi"}
    frame = results.frame
    assert set(frame["scheme"]) == {"rope", "alibi"}
    assert len(frame) == sum(len(record.rows) for record in results.records)
    assert str(events[0]).startswith(f"{cells} cells, {cells} to compute, ")
    assert (events[-1].done, events[-1].cells) == (cells, cells)
    assert events[-1].units == events[-1].work > 0
    assert str(events[-1]).startswith(f"{cells}/{cells} ")


def test_results_show_themselves(compared, tmp_path: Path) -> None:
    results, _ = compared
    text = repr(results.table())
    assert "Measures without training" in text
    assert "nearest two codes" in text
    one = results.table("uniqueness")._repr_markdown_()
    assert "| alibi" in one
    assert "shift by" not in one
    figure = results.plot("uniqueness")
    assert isinstance(figure, Figure)
    assert figure._repr_png_().startswith(b"\x89PNG")  # type: ignore[attr-defined]
    narrow = results.plot("uniqueness", "alibi", size="column", floors=False)
    assert narrow.get_figwidth() == COLUMN < figure.get_figwidth()
    path = results.report(tmp_path / "report.html")
    assert b"uniqueness" in path.read_bytes()


@pytest.mark.parametrize(
    ("act", "message"),
    [
        (lambda r: r.plot("nothing"), "'nothing'; there are bias_maps, checkpoint, "),
        (lambda r: r.plot("uniquenes"), "unknown plot 'uniquenes'; did you mean uniq"),
        (lambda r: r.plot("extrapolation"), "plot extrapolation: must have records"),
        (lambda r: r.plot("uniqueness", "alib"), "no record has the scheme 'alib'"),
        (lambda r: r.plot("uniqueness", size="wide"), "size must be column or page"),
        (lambda r: r.table("uniquenes"), "no record has the measure 'uniquenes'; did"),
        (lambda r: pc.compare("rop"), "unknown scheme 'rop'; did you mean rope"),
        (lambda r: compare("rope", step=3), "unknown setting 'step'; did you mean"),
        (lambda r: pc.compare("rope", plugins="none.py"), "plugins must be a list"),
        (lambda r: compare("rope", plugins=None), "plugins must be a list of files or"),
        (lambda r: compare(["rope", "alibi"]), "'alibi']; 'rope,alibi' would work"),
        (lambda r: compare("rope", measures=["a"]), "got ['a']; 'all' would work"),
        (lambda r: compare("rope", retry=["a"]), "got ['a']; 'failed,lost' would work"),
        (lambda r: compare("rope", shard=(1, 2)), "got (1, 2); '1/4' would work"),
        (lambda r: create(7), "name of a scheme must be text, got 7; '"),
        (lambda r: create(["rope"]), "scheme must be text, got ['rope']; '"),
        (
            lambda r: compare("rope", plugin="a.py"),
            "setting 'plugin'; did you mean plu",
        ),
        (lambda r: pc.load("nowhere"), "nowhere: must hold records of a run"),
    ],
)
def test_what_is_wrong_is_one_line(compared, act: Any, message: str) -> None:
    with pytest.raises(ConfigError) as error:
        act(compared[0])
    assert message in str(error.value)
    assert "\n" not in str(error.value)


def test_a_folder_is_kept_and_read_again(tmp_path: Path) -> None:
    out, found = tmp_path / "run", []
    thread = threading.Thread(  # any, not the main one alone
        target=lambda: found.append(pc.compare("rope", "smoothness", out=out, **SMALL))
    )
    thread.start()
    thread.join()
    events: list[Event] = []
    again = pc.compare("rope", "smoothness", out=out, on_event=events.append, **SMALL)
    assert "1 cell, 0 to compute" in str(events[0])
    read = pc.load(out)
    assert repr(read) == "Results(1 of 1 cells ok)"
    assert found[0].records == again.records == read.records
    assert read.folder == out


def test_what_is_left_out_is_said_and_a_folder_of_its_own_goes() -> None:
    with pytest.warns(UserWarning, match="left out: swin; their positions"):
        results = pc.compare("rope,swin", "smoothness", **SMALL)
    folder = results.folder
    assert (folder / "cells").is_dir()
    del results
    gc.collect()
    assert not folder.exists()


def test_an_interrupt_is_passed_on(monkeypatch: pytest.MonkeyPatch, tmp_path) -> None:
    monkeypatch.setattr(Scheduler, "run", lambda self: signal.SIGINT.name)
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    # A shell ignores SIGINT in what it starts in the background.
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        with pytest.raises(KeyboardInterrupt):
            pc.compare("rope", "smoothness", **SMALL)
    finally:
        signal.signal(signal.SIGINT, before)
    assert list(tmp_path.iterdir()) == []


# --- schemes of one's own ---------------------------------------------------------


def test_a_file_takes_the_place_of_a_scheme_in_a_notebook(
    tmp_path: Path, forgetful: None
) -> None:
    exec(INLINE, {"__name__": "__main__"})
    path = tmp_path / "my_scheme.py"
    path.write_text(INLINE)
    with pytest.raises(ConfigError) as caught:
        plan_comparison("inline", "smoothness")
    assert str(caught.value) == (
        "scheme 'inline': must stand in a file, which the worker processes import, "
        "and stands in __main__; `plugins=['my_scheme.py']` would work"
    )
    results = pc.compare("inline", "smoothness", plugins=[path], **SMALL)
    assert repr(results) == "Results(1 of 1 cells ok)"


@pytest.mark.parametrize(
    ("sizes", "width"),
    [
        ({"heads": 4, "head_dim": 16}, 64),
        ({"heads": 4, "head_dim": 16, "model_dim": 96}, 96),
        ({"heads": 4}, 512),
        ({"head_dim": 16}, 128),
    ],
)
def test_the_width_of_a_scheme_follows_from_its_heads(
    sizes: dict[str, Any], width: int
) -> None:
    assert pc.create("fox", **sizes).geometry.model_dim == width
