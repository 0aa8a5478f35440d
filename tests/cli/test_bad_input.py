"""Wrong input: one line that says what is wrong, an exit code, and nothing computed."""

import errno
import json
import os
import shutil
from itertools import product
from pathlib import Path
from typing import Any

import pytest
from conftest import run_here
from support.filesystem import within
from support.records import record, stored
from support.shown import refusal

from posenc_compare.errors import ConfigError
from posenc_compare.run.compute import compute
from posenc_compare.run.plan import Settings, plan
from posenc_compare.schemes import Variant
from posenc_compare.settings.probe import ProbeSetting
from posenc_compare.settings.training import Training
from posenc_compare.tasks.corpus import load_corpus
from posenc_compare.train.progress import Progress

DRY = ["run", "--dry-run", "--schemes", "rope", "--measures", "smoothness"]
SCHEME = (
    "from posenc_compare.schemes import Scheme, register\n"
    "@register({name!a}, family='bias')\nclass Mine(Scheme):\n    'Mine.'\n"
)
HUGE = "0x" + "f" * 4000  # which Python does not show in decimal digits
HOSTILE = ["\x1b[31mred\u202e", "two\nlines\udcff", "nul\0", "x" * 10_000, ""]


# --- numbers ----------------------------------------------------------------------


@pytest.mark.parametrize(
    ("size", "value"),
    [
        *product(["test-bytes", "positions", "workers"], ["-1", str(2**63)]),
        *(("width", value) for value in ("1.5", "true", "x", "", "nan")),
    ],
)
def test_sizes_are_whole_numbers_in_their_range(posenc, size: str, value: str) -> None:
    line = refusal(posenc(*DRY, f"--set={size}={value}"))
    assert f"{size.replace('-', '_')} must be a whole number from " in line
    assert f"got {value}" in line or f"got {value!r}" in line


@pytest.mark.parametrize(
    "grid",
    ["", "16", "1x16", "-2x8", "33x32", "16x", "x16", "016x16", "16X16", "16x16x16"],
)
def test_grids_are_sizes_that_fit(posenc, grid: str) -> None:
    line = refusal(posenc("measure", "--dry-run", f"--set=grid={grid}"))
    assert line.startswith("error: grid must be ROWSxCOLUMNS, each at least 2, with ")
    assert line.endswith(f"got {grid!r}; 16x16 would work")


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (
            ["--schemes", "rope,alibi"],
            "schemes must have positions of 2 axes for a grid of 16x16, got rope of 1, "
            "alibi of 1; a run without a grid would work",
        ),
        (["--set", "steps=3"], "steps must be left out on a grid, where no network "),
        (["--set", "dtype=bfloat16"], "dtype must be left out on a grid"),
        (["--measures", "extrapolation"], "must be without training, got 'extrap"),
        (["--set", "positions=512"], "positions must be 256 on a grid of 16x16, "),
    ],
)
def test_what_has_no_place_on_a_grid(posenc, words: list[str], said: str) -> None:
    assert said in refusal(posenc("run", "--dry-run", "--set", "grid=16x16", *words))


LONG = pytest.param(10**5000, id="too long to be shown")


@pytest.mark.parametrize("value", [-1, 10**400, float("nan"), True, "8", None, LONG])
@pytest.mark.parametrize(
    ("setting", "name", "said"),
    [
        (ProbeSetting, "positions", "a whole number from 2"),
        (Training, "length", "a whole number from 1"),
        (ProbeSetting, "seed", "a whole number from 0"),
        (Training, "seed", "a whole number from 0"),
        (Training, "learning_rate", "a number from"),
    ],
)
def test_numbers_given_in_python(
    setting: Any, name: str, said: str, value: Any
) -> None:
    with pytest.raises(ConfigError, match=f"{name} must be {said}"):
        setting(**{name: value})


@pytest.mark.parametrize("value", [8.0, 2**63])
def test_seeds_are_whole_and_up_to_the_largest_that_torch_takes(value: Any) -> None:
    for setting in (ProbeSetting, Training):
        assert setting(seed=2**63 - 1).seed == 2**63 - 1
        with pytest.raises(ConfigError, match="seed must be a whole number from 0"):
            setting(seed=value)


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--shard", "0/3"], "shard must be I/N with I from 1 to N, of six digits"),
        (["--shard", "4/3"], "got '4/3'; 1/4 would work"),
        (["--retry", "faild"], "got 'faild'; did you mean failed?"),
        (["--timeout", "0"], "timeout must be a number from 0.1"),
        (["--preset", "qiuck"], "got 'qiuck'; did you mean quick?"),
        (["--device", "tpu"], "device must be auto or cpu or cuda, got 'tpu'"),
        (["--format", "jsn"], "'jsn' is not one of 'table', 'json'"),
        (["--format", "latex"], "'csv', 'md', 'tex'. 'tex' would work"),
        (["--schemes", "yarn"], "yarn is an option: rope:scaling=yarn"),
        (["--set", "longest=3"], "longest must be 1 or 2 or 4"),
        (["--set", "test_bytes=5"], "of length * longest, 32 * 16, got 5"),
        (["--stepz", "1"], "--stepz; did you mean --set steps=VALUE?"),
        (["--wrkers", "1"], "--wrkers; did you mean --workers?"),
        (["--steps", "1"], "--steps is a setting: --set steps=VALUE"),
        (["--test-bytes=1"], "--test-bytes is a setting: --set test_bytes=VALUE"),
        (["--not-compiled"], "--not-compiled is a setting: --set compiled=VALUE"),
        (["--set", "lr=1"], "unknown setting 'lr'; did you mean learning_rate?"),
        (["--set", "steps"], "--set must be NAME=VALUE, got 'steps'; steps=300 would"),
        (["--set", "stepz=1"], "unknown setting 'stepz'; did you mean steps?"),
        (["--set", "steps=1,steps=2"], "steps must be given once, got 1 and 2"),
        (["--seeds=1", "--set", "seeds=1"], "seeds must be given once, got 1 and 1"),
        (["--set", "drop=1e-9"], "drop must be 0 or a step of 300 at least"),
        (["--track", "nothing"], "track must be tensorboard or wandb or mlflow or tr"),
        (["--reuse", "runs/quick", "--overwrite"], "reuse must be left out"),
        (["--engine", "slurm"], "engine must be local or ray, got 'slurm'"),
        (["--set", "gpu_share=0.5"], "gpu_share must be left out on this machine alo"),
        (["--set", "address=10.0.0.1:6379"], "address must be left out on this mach"),
        (["--engine=ray", "--set=gpu_share=1.5"], "must be whole if it is above 1"),
        (["--measures=all", "--corpus=none"], "a file or a folder, but does not exist"),
        (["--measures=all", "--corpus="], "a file or a folder, got an empty name"),
        (["--schemes", "zz*"], "no scheme matches 'zz*'"),
        (["--schemes", "randomized:scheme=(rope:base=-3)"], "must be greater than 0"),
        (["--set", "steps=1e3"], "got '1e3'; 300 would work"),
        (["--zzzzz", "1"], "No such option: --zzzzz"),
        (["--set"], "'--set' requires an argument"),
        (["extra"], "unexpected extra argument"),
        (["mine.py"], "argument(s) (mine.py); --plugin FILE adds a file"),
        (["--set", "width=9,heads=10"], "width must be a multiple of heads"),
        (
            ["--schemes", "swin,m_rope"],
            "error: schemes must have positions of 1 axis for a text, got swin of 2, "
            "m_rope of 3; `--set grid=16x16` would work",
        ),
        (["--measures", ","], "no measure named"),
        (["--measures", "unique"], "did you mean uniqueness"),
    ],
)
def test_wrong_options(posenc, words: list[str], message: str) -> None:
    assert message in refusal(posenc(*DRY, *words))


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ("show sinusoid", "unknown scheme 'sinusoid'; did you mean sinusoidal"),
        ("show fox", "fox: has no code of a position or distance alone"),
        ("show learned --length 4", "positions must be from 0 to 3, got 15"),
        (
            "show rope_2d --positions 16",
            "must be 2 sides of at least 2, with at most 1",
        ),
        ("show m_rope --positions 1x4x4", "got 1x4x4; `--positions 4x4x4` would work"),
        ("show learned_2d --positions 32x32 --width 65536", "`--width 16384` would wo"),
        ("show rope --positions 4x4", "positions must be a whole number from 2"),
        ("show nope --positions 1", "positions must be a whole number from 2"),
        ("show nope --positions 1000000", "`--positions 524288` would work"),
        ("show rope --steps 3", "No such option: --steps"),
        ("describe yarn", "yarn is an option: rope:scaling=yarn"),
        ("describe rop", "no scheme, measure, task or plot is 'rop'; did you mean"),
        ("describe rope:layout=hal", "rope: layout must be adjacent or half"),
        ("describe uniqueness:x=1", "no scheme, measure, task or plot is 'uniqueness"),
        ("recommend extnd", "must be one of language"),
        ("recommend extnd", "did you mean extend?"),
        ("recommend images", "did you mean grid?"),
        ("reproduce flipflop", "got 'flipflop'; did you mean flip_flop?"),
        ("rank rope --preset gpu", "preset must have reference records, got gpu"),
        ("measure --set steps=3", "steps must be left out of this command; "),
        ("cost --set grid=4x4", "grid must be left out of this command; "),
        ("status a --set steps=3", "No such option: --set"),
        ("compare", "unknown command 'compare'; did you mean run"),
        ("tabel", "unknown command 'tabel'; did you mean table"),
        ("convert", "unknown command 'convert'; did you mean hf convert"),
    ],
)
def test_wrong_words_of_other_commands(posenc, words: str, message: str) -> None:
    assert message in refusal(posenc(*words.split()))


def test_no_arguments_show_the_help(posenc) -> None:
    done = posenc()
    assert (done.returncode, done.stderr) == (0, "")
    assert "Usage: " in done.stdout


MANY = ",".join(f"rope:base={base}" for base in range(2, 127))
# --- the grid ---------------------------------------------------------------------


def test_cells_that_are_named_twice_are_computed_once(posenc) -> None:
    words = ["measure", "--dry-run", "--format", "json", "--schemes"]
    words += ["rope,rop?,rope:base=1e4,nope,none,rope:layout=adjacent;base=10000"]
    words += ["--measures", "smoothness,smoothness,smooth*"]
    assert len(json.loads(posenc(*words).stdout)) == 2


def test_ten_million_cells_are_counted_and_refused(posenc) -> None:
    measures = "uniqueness,shift_linearity,smoothness,perturbation,shift_error,far_keys"
    measures += ",distance_decay,attention_reach,portrait"  # that last for one seed
    words = ["measure", "--schemes", MANY, "--measures", measures, "--seeds", "10000"]
    line = refusal(posenc(*words, "--dry-run"))
    assert "at most 100000 cells, got 10000125" in line


# --- a file of settings -----------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (b"steps = \n", "x.toml:1: must be readable TOML, got Invalid value"),
        (b"\n\nsteps 3\n", "x.toml:3: must be readable TOML"),
        (b"steps = 1\nsteps = 2\n", "x.toml:2: must be readable TOML"),
        (b"\xff\xfe", "x.toml: must be readable TOML"),
        (b"seeds = 1\nstepz = 7\n", "x.toml:2: unknown key 'stepz'; did you mean step"),
        (b"seed = 1\n", "x.toml:1: unknown key 'seed'; did you mean seeds"),
        (b"# b\n[train]\nsteps = 1\n", "x.toml:2: unknown key 'train'"),
        (b"a.b = 1\n", "x.toml:1: unknown key 'a'"),
        (b"'two\\nlines' = 1\n", r"unknown key 'two\\nlines'"),
        (b"test-bytes = 1\ntest_bytes = 1\n", "x.toml:2: repeated key 'test_bytes'"),
        (b"\nsteps = 'x'\n", "x.toml:2: steps must be a whole number from 1"),
        (b"learning-rate = nan\n", "x.toml:1: learning_rate must be a number"),
        (b"weight_decay = 1" + b"0" * 400, "x.toml:1: weight_decay must be a number"),
        (b"steps = 1" + b"0" * 5000, "x.toml: must be readable TOML"),
        *(
            (
                f"seeds = 1\n{name} = {value}\n".encode(),
                f"x.toml:2: {name} must have numbers of fewer digits, got Exceeds",
            )
            for name in ("steps", "schemes", "plugins")
            for value in (HUGE, f"[{HUGE}]", f"{{a = {HUGE}}}")
        ),
        (b"steps = 0x" + b"f" * 3000, "x.toml:1: steps must be a whole number from 1"),
        (b"\nschemes = 3\n", "x.toml:2: schemes must be text, got 3"),
        (b"compiled = 1\n", "x.toml:1: compiled must be true or false, got 1"),
        (b"dtype = 'float32'\nprobe_dtype = 1\n", "x.toml:2: probe_dtype must be"),
        (b"preset = 'huge'\n", "x.toml:1: preset must be quick or survey or stan"),
        (b"plugin = 'a.py'\n", "x.toml:1: plugins must be a list of files"),
        (b"plugin = []\nplugins = []\n", "x.toml:2: repeated key 'plugins'"),
        (b"format = 'xml'\n", "x.toml:1: format must be table or json"),
        (b"config = 'y.toml'\n", "x.toml:1: unknown key 'config'"),
        (b"\nschemes = 'ropee'\n", "x.toml:2: unknown scheme 'ropee'; did you mean"),
        (b"\nmeasures = 'smooth'\n", "x.toml:2: unknown measure 'smooth'; did you mea"),
        (b"\ntasks = 'coppy'\n", "x.toml:2: unknown task 'coppy'; did you mean copy"),
        (b"#" * (1 << 20) + b"\n", "1048577 bytes, more than 1048576"),
    ],
)
def test_wrong_settings_in_a_file(
    posenc, tmp_path: Path, text: bytes, message: str
) -> None:
    (tmp_path / "x.toml").write_bytes(text)
    chosen = text.startswith((b"\nschemes", b"\nmeasures"))  # which flags would hide
    words = ["run", "--dry-run"] if chosen else DRY
    assert message in refusal(posenc(*words, "--config", tmp_path / "x.toml"))


def test_a_file_of_settings_may_be_a_link_with_a_mark_and_any_line_ends(
    posenc, tmp_path: Path
) -> None:
    (tmp_path / "x.toml").write_bytes(b"\xef\xbb\xbfseeds = 2\r\nheads = 0\r\n")
    (tmp_path / "link").symlink_to("x.toml")
    words = [*DRY, "--config", tmp_path / "link"]
    assert "link:2: heads must be" in refusal(posenc(*words))
    assert "2 cells" in posenc(*words, "--set", "heads=2").stdout
    line = refusal(posenc(*words, "--set", "heads=-1"))  # not the value of the file
    assert line.startswith("error: heads must be")


# --- the corpus -------------------------------------------------------------------


TRAIN = ["run", "--dry-run", "--schemes", "nope", "--measures", "extrapolation"]


def test_what_is_no_document_in_a_folder_is_passed_over(tmp_path: Path) -> None:
    folder = tmp_path / "folder"
    folder.mkdir()
    for i in range(12):
        (folder / f"{i}").write_bytes(bytes([i]) * 100)
    plain = load_corpus(str(folder))
    os.mkfifo(folder / "pipe")
    (folder / "loop").symlink_to("loop")
    (folder / "up").symlink_to("..")
    (folder / "gone").symlink_to("none")
    (folder / "zero").symlink_to("/dev/zero")
    (folder / "empty").touch()
    load_corpus.cache_clear()
    assert load_corpus(str(folder)).sha256 == plain.sha256


def test_a_corpus_larger_than_memory_is_refused_unread(posenc, tmp_path: Path) -> None:
    folder = tmp_path / "folder"
    folder.mkdir()
    (folder / "small").write_bytes(b"x" * 100)
    for i in range(4):
        with (folder / f"{i}").open("wb") as file:
            file.truncate(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") // 7)
    assert "must fit twice in" in refusal(posenc(*TRAIN, "--corpus", folder))
    line = refusal(posenc(*DRY, "--measures", "all", "--corpus", folder))
    assert "must fit twice in" in line


def test_a_corpus_that_changes_under_a_run_is_noticed(tmp_path: Path) -> None:
    path = tmp_path / "text"
    path.write_bytes(b"ab" * 2000)
    setting = Training(
        length=8, longest=1, test_bytes=64, steps=1, width=16, corpus=str(path)
    )
    settings = Settings(ProbeSetting(), (setting,), (0,))
    (cell,) = plan([Variant("nope")], ["extrapolation"], settings, 1)
    for change in (lambda: path.write_bytes(b"ac" * 2000), path.unlink):
        change()
        load_corpus.cache_clear()
        record = compute(cell, Progress()).to_json()
        assert record["status"] == "failed"
        assert record["rows"] == []
        assert "corpus" in record["error"]


# --- folders of records -----------------------------------------------------------


@pytest.fixture(scope="module")
def records(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder with twenty records."""
    made = [record(seed=seed) for seed in range(20)]
    return stored(tmp_path_factory.mktemp("records"), made)


@pytest.mark.parametrize(
    "words",
    [
        *([command, "PLACE"] for command in ("table", "plot", "report", "status")),
        ["diff", "RECORDS", "PLACE"],
        ["diff", "PLACE", "RECORDS"],
    ],
)
def test_folders_that_hold_no_records(
    posenc, tmp_path: Path, records: Path, words: list[str]
) -> None:
    (tmp_path / "empty").mkdir()
    (tmp_path / "file").write_text("x")

    def command(place: str) -> Any:
        given = {"PLACE": tmp_path / place, "RECORDS": records}
        return posenc(*(given.get(word, word) for word in words))

    for name in ("none", "empty"):
        line = refusal(command(name))
        assert f"{name}: must hold records of a run" in line
    assert "must be a folder" in refusal(command("file"), 3)


def test_places_that_cannot_be_written(posenc, records: Path, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("x")
    for command in ("table", "plot", "report"):
        done = posenc(command, records, "--out", tmp_path / "file" / "below")
        assert done.returncode == 3
        (line,) = [x for x in done.stderr.splitlines() if x.startswith("error: ")]
        assert "below" in line


MEASURED = ["measure", "--schemes", "rope", "--measures", "portrait"]
MEASURED += ["--set", "positions=48,width=16,heads=2", "--out"]


@pytest.fixture(scope="module")
def measured(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder with a record that there are plots of."""
    folder = tmp_path_factory.mktemp("measured") / "run"
    assert run_here(*MEASURED, folder).returncode == 0
    return folder


@pytest.mark.parametrize("command", ["table", "plot", "report", "measure"])
def test_a_disk_that_fills_up_is_no_wrong_option(
    posenc,
    measured: Path,
    tmp_path: Path,
    command: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    run = shutil.copytree(measured, tmp_path / "run")
    words = MEASURED if command == "measure" else [command]
    words = [*words, run, *(["--out", run] if command == "table" else [])]
    for name in ("table.tex", "clock_hands.png"):  # else there is nothing to write
        (run / name).unlink()
    whole = os.replace

    def full(source: Path, target: Path) -> None:
        if target.parent.name == "run":
            raise OSError(errno.ENOSPC, "No space left on device")
        whole(source, target)

    monkeypatch.setattr(os, "replace", full)
    done = posenc(*words)
    assert done.returncode == 3
    assert done.stderr.endswith("got [Errno 28] No space left on device\n")
    assert str(words[-1]) in done.stderr.splitlines()[-1]


@pytest.mark.parametrize("command", ["table", "plot", "measure"])
def test_a_new_folder_with_the_name_of_a_file_is_refused(
    posenc, measured: Path, tmp_path: Path, command: str
) -> None:
    out = tmp_path / "by.tex"
    words = MEASURED if command == "measure" else [command, measured, "--out"]
    line = refusal(posenc(*words, out))
    assert f"out must be a folder, got '{out}'; '{tmp_path}/by' would work" in line
    assert not out.exists()


READS = {  # what takes a file: the words before it, and what is said of another thing
    "--config": (DRY, "must be readable TOML, got"),
    "--plugin": (DRY, "must be readable Python source, got"),
    "--corpus": (TRAIN, "corpus "),
    "--test-corpus": (TRAIN, "corpus "),
    "check": ([], "must be readable Python source, got"),
}


@pytest.mark.parametrize("option", READS)
@pytest.mark.parametrize("kind", ["device", "pipe", "sparse", "folder"])
def test_only_regular_files_of_some_length_are_read(
    posenc, tmp_path: Path, option: str, kind: str
) -> None:
    place = tmp_path / "file.py"
    if kind == "device":
        place.symlink_to("/dev/zero")
    elif kind == "pipe":
        os.mkfifo(place)
    elif kind == "sparse":
        with place.open("wb") as file:
            file.truncate(1 << 42)
    else:
        place.mkdir()
    words, said = READS[option]
    with within(30):
        line = refusal(posenc(*words, option, place))
    assert place.name in line
    assert said in line


# --- plugins ----------------------------------------------------------------------

OPTION = "    def __init__(self, geometry, {option}): ...\n"
TYPES = "must be annotated as int, float, bool, str, Variant or Literal"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (b"", "must declare a scheme or a measure"),
        (b"x = 1\nclass (:\n", "got SyntaxError at line 2: invalid syntax"),
        (b"x = '\xff'\n", "must be readable Python source, got SyntaxError"),
        (b"(" * 5000, "must be readable Python source"),
        (b"x = " + b"-" * 4000 + b"1", "must be readable Python source, got "),
        (b"x = " + b"-" * 200 + b"1", "got ValueError: nested more than 200 levels"),
        (b"@" + b"a." * 500 + b"register('x')\nclass X: ...\n", "more than 200 levels"),
        (SCHEME.format(name="rope").encode(), "scheme 'rope' is declared twice, by"),
        (SCHEME.format(name="\x1b[31m").encode(), "a name must be 1 to 64"),
    ],
)
def test_files_that_are_no_plugins(
    posenc, tmp_path: Path, text: bytes, message: str
) -> None:
    (tmp_path / "plugin.py").write_bytes(text)
    line = refusal(posenc(*DRY, "--plugin", tmp_path / "plugin.py"))
    assert message in line
    assert "plugin" in line


@pytest.mark.parametrize(
    ("option", "message"),
    [
        ("*, size = 1", TYPES),
        ("*, size: list = []", TYPES),
        ("*, size: int", TYPES),
        ("*, size: int | None = None", TYPES),
        ("size: int = 1", "must be keyword-only, got a positional one; `*` before it"),
    ],
)
def test_options_of_a_plugin_must_have_a_type_and_a_default(
    posenc, tmp_path: Path, option: str, message: str
) -> None:
    text = SCHEME.format(name="mine") + OPTION.format(option=option)
    (tmp_path / "plugin.py").write_text(text)
    words = [*DRY, "--plugin", tmp_path / "plugin.py", "--schemes"]
    line = refusal(posenc(*words, "mine:size=1"))
    assert message in line
    assert posenc(*words, "mine").returncode == 0


def test_a_plugin_may_be_given_twice_and_be_just_not_too_deep(
    posenc, tmp_path: Path
) -> None:
    path = tmp_path / "plugin.py"
    path.write_text(f"{SCHEME.format(name='mine')}x = {'-' * 196}1\n")
    words = ["--plugin", path, "--plugin", path, "--schemes", "mine"]
    assert posenc(*DRY, *words).returncode == 0


# --- hostile text -----------------------------------------------------------------


TAKES_TEXT = ("--schemes", "--measures", "--preset", "--shard", "--set", "--device")
TAKES_TEXT += ("--format", "--config", "--plugin", "--corpus")


@pytest.mark.parametrize("text", HOSTILE)
@pytest.mark.parametrize(
    "words",
    [
        *(["run", "--measures", "extrapolation", option] for option in TAKES_TEXT),
        *([command] for command in ("describe", "table", "status")),
    ],
)
def test_hostile_text_stays_in_one_line(
    posenc, words: list[str], text: str, tmp_path: Path, monkeypatch
) -> None:
    monkeypatch.chdir(tmp_path)
    done = posenc(*words, text)
    refusal(done, 3 if done.returncode == 3 else 2)


# --- hostile names of folders and plugins -------------------------------------------

NAME = "\x1b]0;pwn\x07\x9b31m\u202e"
SHOWN = r"\x1b]0;pwn\x07\x9b31m\u202e"


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return a folder with records, of a name that a terminal would act on."""
    monkeypatch.chdir(tmp_path)
    for place, seeds in ((Path(NAME), (0, 1)), (Path("other"), (1, 2))):
        stored(place, [record(seed=seed) for seed in seeds])
    return Path(NAME)


@pytest.mark.parametrize("format", ["table", "csv", "md", "json"])
def test_a_path_is_shown_as_text(posenc, folder: Path, format: str) -> None:
    shown = posenc("diff", NAME, "other", "--format", format).stdout
    assert all(c.isprintable() for line in shown.split("\n") for c in line)
    assert SHOWN in shown.replace("\\\\", "\\")


def test_a_plugin_is_shown_as_text(posenc, folder: Path) -> None:
    head = "from posenc_compare.schemes import Scheme, register\n"
    text = SCHEME.format(name="mine").replace("'Mine.'", "'''Mine \x1b[31m.\n\n\x07'''")
    plugin = folder / f"{NAME}.py"
    plugin.write_text(f"{head}{text}")
    for words in (["list"], ["list", "--format", "csv"], ["describe", "mine"]):
        done = posenc(*words, "--plugin", plugin)
        assert done.returncode == 0, done
        assert r"\x1b[31m" in done.stdout
        assert all(c.isprintable() for line in done.stdout.split("\n") for c in line)
