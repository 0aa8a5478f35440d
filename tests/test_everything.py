"""One plugin file with a scheme, a measure, a task and a plot appears everywhere."""

import json
from pathlib import Path

import pytest
from conftest import forgotten, run_here
from support.trainings import WHOLE_RUN

from posenc_compare.errors import PosencError
from posenc_compare.records.cells import Cell, cell_of
from posenc_compare.schemes import Variant
from posenc_compare.settings.probe import ProbeSetting
from posenc_compare.settings.training import Training
from posenc_compare.source import files as sources

PLUGIN = Path(__file__).parent.parent / "examples" / "everything.py"
KINDS = {"gentle_alibi": "bias", "parameters": "measure", "repeat": "task"}


@pytest.fixture
def plugin(tmp_path: Path, registered) -> Path:
    """Declare a copy of the plugin in this process until the test ends."""
    path = tmp_path / "everything.py"
    path.write_text(PLUGIN.read_text())
    registered(path)
    return path


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory):
    folder = tmp_path_factory.mktemp("everything")
    (folder / "small.toml").write_text(f"{WHOLE_RUN}positions = 64\ntasks = 'repeat'\n")
    words = ["run", "--plugin", PLUGIN, "--config", folder / "small.toml"]
    words += ["--schemes", "rope,gentle_alibi:direction=causal"]
    words += ["--measures", "parameters,extrapolation", "--out", folder / "out"]
    with forgotten():
        return folder / "out", words, run_here(*words)


def test_list_and_describe_know_each_kind(posenc) -> None:
    words = ["list", "--format", "json", "--plugin", PLUGIN]
    rows = json.loads(posenc(*words).stdout)
    kinds = {(row["name"], row["kind"]) for row in rows}
    assert kinds >= {*KINDS.items(), ("parameters", "plot"), ("language", "task")}
    assert kinds >= {("rope", "rotary"), ("uniqueness", "measure")}
    assert all(row["what"] for row in rows)
    for name, said in (
        ("gentle_alibi", "direction"),
        ("parameters", "the scheme holds no numbers"),
        ("parameters", "Caption: How many numbers"),
        ("repeat", "Vocabulary: 16"),
        ("repeat", "Only the second half counts"),
    ):
        done = posenc("describe", name, "--plugin", PLUGIN)
        assert done.returncode == 0, done.stderr
        assert said in done.stdout


def test_a_run_shows_all_four(finished, posenc, tmp_path: Path) -> None:
    out, _, done = finished
    assert done.returncode == 0, done.stderr
    for part in ("gentle_alibi:direction=causal", "parameters", "accuracy"):
        assert part in done.stdout
        assert part in (out / "table.md").read_text()
    assert "bits_per_byte" not in (out / "rows.csv").read_text()
    assert (out / "parameters.png").exists()
    words = ("--plots", "parameters", "--format", "svg", "--plugin", PLUGIN)
    posenc("plot", out, *words, "--out", tmp_path)
    assert "gentle_alibi" in (tmp_path / "parameters.svg").read_text()


def test_records_show_the_task_without_a_corpus(finished) -> None:
    out, _, _ = finished
    bodies = [json.loads(path.read_text())["body"] for path in out.glob("cells/*")]
    trained = [one for one in bodies if one["spec"]["setting"].get("task") == "repeat"]
    assert {one["label"] for one in trained} == {
        "rope",
        "gentle_alibi:direction=causal",
    }
    for one in trained:
        assert (one["status"], one["corpus"]) == ("ok", None)
        assert {"accuracy", "exact_match", "floor_accuracy"} <= set(one["quantities"])
        assert one["spec"]["setting"]["corpus_sha256"] == ""


def test_table_and_report_show_it_again(finished, posenc, tmp_path: Path) -> None:
    out, _, _ = finished
    done = posenc("table", out)
    assert "accuracy" in done.stdout
    assert "parameters" in done.stdout
    page = tmp_path / "page.html"
    done = posenc("report", out, "--out", page, "--plugin", PLUGIN)
    assert done.returncode == 0, done.stderr
    assert "How many numbers each scheme holds." in page.read_text()


def test_the_file_of_a_measure_and_of_a_task_is_in_the_key(plugin: Path) -> None:
    trained = Training(task="repeat")
    cells = [
        Cell(Variant("rope"), "parameters", ProbeSetting(), 1),
        Cell(Variant("rope"), "extrapolation", trained, 1),
        Cell(Variant("rope"), "extrapolation", Training(), 1),
    ]
    before = [cell.key() for cell in cells]
    assert cell_of(cells[1].spec(), ("stdlib", "")).setting == trained
    plugin.write_text(plugin.read_text() + "\nassert True\n")
    sources.forget()
    after = [cell.key() for cell in cells]
    changed = [b != a for b, a in zip(before, after, strict=True)]
    assert changed == [True, True, False]


@pytest.mark.parametrize(
    ("line", "message"),
    [
        (
            "@pc.register_plot('odd')",
            "must import cleanly, got TypeError at .*'caption'",
        ),
        (
            "@pc.register_task('odd', vocabulary=2, score='acuracy', chance=0.5)",
            "score must be bits_per_byte or accuracy, got 'acuracy'; did you mean acc",
        ),
    ],
)
def test_facts_that_are_needed_before_a_run_are_checked(
    tmp_path: Path, line: str, message: str, registered
) -> None:
    head = "import posenc_compare as pc\n"
    head += "from posenc_compare.tasks.task import Task\n"
    (tmp_path / "odd.py").write_text(f"{head}{line}\nclass Odd(Task): 'Odd.'\n")
    with pytest.raises(PosencError, match=message):
        registered(tmp_path / "odd.py")
