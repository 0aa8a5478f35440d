"""Which edits move the keys of records, in this package and in plugins."""

import base64
import hashlib
import json
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from support.processes import git

import posenc_compare
from posenc_compare.records.cells import Cell, entries_of
from posenc_compare.registry import MEASURES, SCHEMES, TASKS
from posenc_compare.settings.probe import ProbeSetting
from posenc_compare.settings.training import Training
from posenc_compare.source import files as sources
from posenc_compare.source import plugin as plugin_source
from posenc_compare.variants import Variant

Keys = Callable[[Path], dict[str, str]]
PACKAGE = Path(posenc_compare.__file__).parent
KEYS = """
from posenc_compare.records.cells import Cell
from posenc_compare.settings.probe import ProbeSetting
from posenc_compare.settings.training import Training
from posenc_compare.variants import Variant

probe = [(s, "smoothness") for s in ("rope", "mix", "alibi")]
cells = {" ".join(c): Cell(Variant(c[0]), c[1], ProbeSetting(), 1) for c in probe}
for task in ("copy", "reverse", "recall"):
    setting = Training(task=task)
    cells[f"alibi {task}"] = Cell(Variant("alibi"), "extrapolation", setting, 1)
print(json.dumps({name: cell.key() for name, cell in cells.items()}), end="")
"""
# A process for each place that it reads of. They share torch, which takes seconds.
PROCESSES = """
import json, os, sys
import torch

for place in sys.stdin:
    if not os.fork():
        os.chdir(place.rstrip("\\n"))
        exec(sys.argv[1])
        sys.stdout.flush()
        os._exit(0)  # to take torch down takes as long again
    os.wait()
    print(flush=True)
"""
SMOOTH = {f"{name} smoothness" for name in ("rope", "mix", "alibi")}
TRAINED = {f"alibi {task}" for task in ("copy", "reverse", "recall")}
ALL = SMOOTH | TRAINED


@pytest.fixture(scope="module")
def keys_of() -> Iterator[Keys]:
    """Return a function that returns the keys of a package, by the names of cells."""
    command, pipe = [sys.executable, "-c", PROCESSES, KEYS], subprocess.PIPE
    process: Any = subprocess.Popen(command, stdin=pipe, stdout=pipe, text=True)

    def ask(place: Path) -> dict[str, str]:
        print(place.parent, file=process.stdin, flush=True)
        return json.loads(process.stdout.readline())

    with process:
        yield ask


@pytest.fixture(scope="module")
def committed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a package in a repository of its own, all of it committed."""
    place = tmp_path_factory.mktemp("clone") / "posenc_compare"
    shutil.copytree(PACKAGE, place, ignore=shutil.ignore_patterns("__pycache__"))
    git(place.parent, "init")
    commit(place.parent)
    git(place.parent, "tag", "first")
    return place


@pytest.fixture(scope="module")
def before(keys_of: Keys, committed: Path) -> dict[str, str]:
    """Return the keys of the package without edits."""
    return keys_of(committed)


@pytest.fixture
def clone(committed: Path) -> Iterator[Path]:
    """Return the committed package; what is done to it is undone."""
    yield committed
    git(committed.parent, "reset", "--hard", "first")
    git(committed.parent, "clean", "-fdx")


def commit(folder: Path) -> None:
    git(folder, "add", "-A")
    git(folder, "commit", "--allow-empty", "-m", "x")


def edit(place: Path, pattern: str, old: str, new: str) -> None:
    """Replace a text in the files in which it stands, or write a new file."""
    if not old:
        (place / pattern).write_text(new)
        return
    paths = [path for path in place.glob(pattern) if old in path.read_text()]
    assert paths
    for path in paths:
        path.write_text(path.read_text().replace(old, new))


ROPE = "schemes/rope.py"
EVERYWHERE = "**/*.py"
ALIBI = TRAINED | {"alibi smoothness"}
ROTARY, COPIED = {"rope smoothness", "mix smoothness"}, {"alibi copy", "alibi reverse"}
STAR = "from math import *\n"
OTHER_CLASS = "train.convolution import CanonA as AdamW, Still as groups"
OTHER_HELPER = "bounds import clamp_straight_through as slopes"
OTHER_STEP = "torch.optim.adam import adam as adamw"
TRAINER = ("train/trainer.py", "backward()", "backward(None)")
CHECK = '        check_not_traced("attention")\n'
Edits = list[tuple[str, str, str]]
EDITS: dict[str, tuple[Edits, set[str]]] = {  # and the cells whose keys they move
    "messages, files and names": (
        [
            ("attention/plan.py", " must be ", " has to be "),
            (EVERYWHERE, "shared.slopes", "shared.steepness"),  # and the file
            (EVERYWHERE, "rotation_angles", "angles_of"),
            (ROPE, "Formula: ", "# Formula: "),
            (ROPE, "    real=True,\n", ""),
            (ROPE, 'checked="paper; ', 'checked="book; '),
        ],
        set(),
    ),
    "a scheme and a task": (
        [
            (ROPE, "10_000.0", "10_001.0"),
            ("tasks/copy.py", "SYMBOLS = 1, 2, 16", "SYMBOLS = 1, 2, 8"),
        ],
        ROTARY | COPIED,
    ),
    "a sign": ([("schemes/alibi.py", "return -slope", "return slope")], ALIBI),
    "a measure": ([("measures/smoothness.py", "largest / mean", "mean / 1")], SMOOTH),
    # All keys, until the edit is committed: then `NUMBERS` has the word.
    "the trainer": ([TRAINER], ALL),
    "a new file": ([("new.py", "", "X = 1\n")], ALL),
    "an import of the trainer": (
        [("train/optimiser.py", "torch.optim.adamw import adamw", OTHER_STEP)],
        ALL,
    ),
    "another optimiser of ours": (
        [("train/trainer.py", "train.optimiser import AdamW, groups", OTHER_CLASS)],
        ALL,
    ),
    "an import of all names": (
        [("train/trainer.py", "\nimport torch\n", "\nimport torch\n" + STAR)],
        ALL,
    ),
    "an import that nothing uses": (
        [("train/trainer.py", "\nimport torch\n", "\nimport bz2\nimport torch\n")],
        set(),
    ),
    "another shared helper": (
        [("schemes/alibi.py", "slopes import slopes", OTHER_HELPER)],
        ALIBI,
    ),
    "a deleted statement": ([("attention/plan.py", CHECK, "")], ALL),
}


@pytest.mark.parametrize("name", EDITS)
def test_an_edit_of_the_package_moves_the_keys_of_what_it_changes(
    name: str, before: dict[str, str], clone: Path, keys_of: Keys
) -> None:
    edits, moves = EDITS[name]
    for pattern, old, new in edits:
        edit(clone, pattern, old, new)
        if old == "shared.slopes":
            shared = clone / "schemes" / "shared"
            (shared / "slopes.py").rename(shared / "steepness.py")
            git(clone.parent, "add", "-A")  # so that git sees a new name
    assert {n for n, key in keys_of(clone).items() if key != before[n]} == moves
    if name == "the trainer":
        commit(clone.parent)
        assert keys_of(clone) == before


def test_an_installed_package_counts_what_its_record_does_not_hold(
    before: dict[str, str], tmp_path: Path, keys_of: Keys
) -> None:
    place, facts = tmp_path / "posenc_compare", tmp_path / "posenc_compare-1.dist-info"
    shutil.copytree(PACKAGE, place, ignore=shutil.ignore_patterns("__pycache__"))
    facts.mkdir()
    (facts / "METADATA").write_text("Name: posenc-compare\nVersion: 1\n")
    lines = []
    for path in place.rglob("*.py"):
        digest = base64.urlsafe_b64encode(hashlib.sha256(path.read_bytes()).digest())
        name = path.relative_to(tmp_path)
        lines.append(f"{name},sha256={digest.decode().rstrip('=')},1\n")
    (facts / "RECORD").write_text("".join(lines))
    assert keys_of(place) == before
    (place / "added.py").write_text("X = 1\n")
    assert ALL == {n for n, key in keys_of(place).items() if key != before[n]}
    (place / "added.py").unlink()
    edit(place, *TRAINER)
    assert ALL == {n for n, key in keys_of(place).items() if key != before[n]}


HELPER = "GAIN = 1\n\n\ndef gain():\n    return GAIN\n"
PLUGIN = """
import functools
import json
import torch
from functools import cached_property
import posenc_compare as pc
from posenc_compare.schemes.alibi import Alibi
from posenc_test_helper import gain

STEEP = 2
UNUSED = 3


def steep():
    return STEEP


@pc.register("posenc_test_one", family="bias", source="a paper")
class One(Alibi):
    \"\"\"One.\"\"\"

    def offset_bias(self, offsets):
        if offsets is None:
            raise ValueError("offsets must be there, got %s" % offsets)
        return super().offset_bias(offsets) * steep() * gain()


@pc.register("posenc_test_two", family="bias")
class Two(pc.Scheme):
    \"\"\"Two, which builds one.\"\"\"

    inner = ["posenc_test_one:x=1"]
    reads = pc.Mask
"""
MEASURE = """
from posenc_compare.measures.measure import *

@register_measure("posenc_test_against", quantities=())
def against(variant, probe, progress):
    \"\"\"Distance from the reference.\"\"\"
    return Result([], {"d": [probe.build(Variant("posenc_test_one:a=1"))]})
"""
TASK = """
from posenc_compare.tasks.task import Task, register_task

@register_task("posenc_test_task", vocabulary=2, score="accuracy", chance=0.5)
class Own(Task):
    \"\"\"A task that reads a scheme.\"\"\"
    reads = ["posenc_test_one"]
"""
ONE, TWO = "posenc_test_one", "posenc_test_two"
BOTH = {ONE, TWO}
PLUGIN_EDITS = {  # old and new text of the plugin, and the schemes whose keys move
    "a constant": ("STEEP = 2", "STEEP = 3", BOTH),
    "another built-in parent": (
        "alibi import Alibi",
        "rope import Rope as Alibi",
        BOTH,
    ),
    "another shared thing": ("pc.Mask", "pc.Session", {TWO}),
    "what is not named": ("UNUSED = 3", "UNUSED = 4", BOTH),
    "an error message": ("must be there", "have to be there", BOTH),
    "a name of a class": ("class Two(", "class Other(", {TWO}),
    "a docstring": ("One.", "Just one.", set()),
    "a paper": ("a paper", "another paper", set()),
    "the text of an attribute": ("pc.Mask\n", "pc.Mask\n    'A mask.'\n", set()),
    "an import": ("import json\n", "import math\n", BOTH),
    "an import of all names": ("import json\n", "from math import *\n", BOTH),
    "an import of a helper": (
        "import json\n",
        "import posenc_test_helper as unused\n",
        BOTH,
    ),
    "another scheme": ("Two, which", "The second, which", set()),
    "the code of another scheme": (":x=1", ":x=2", {TWO}),
    "a third scheme": (
        "",
        "\n@pc.register('posenc_test_third', family='bias')\n"
        "class Third(pc.Scheme):\n    'Third.'\n",
        set(),
    ),
    "a function": ("", "\ndef other():\n    pass\n", BOTH),
    "a scheme with all that runs nothing": (
        "",
        "\n@pc.register('posenc_test_third', family='bias', real=not json)\n"
        "class Third(pc.Scheme):\n    'Third.'\n"
        "    facts = pc.schemes.Facts(relative=False)\n"
        "    published = pc.schemes.Published(STEEP, 9)\n"
        "    sizes: list[int] = [1, -2 * STEEP, float('inf')]\n"
        "    texts = {'a': f'{STEEP}', 'b': ('c', torch.float32)}\n\n"
        "    @staticmethod\n    def a(x: int | None = None) -> None:\n        pass\n\n"
        "    @classmethod\n    def b(cls):\n        pass\n\n"
        "    @property\n    def c(self):\n        pass\n\n"
        "    @torch.no_grad()\n    def d(self):\n        pass\n\n"
        "    @functools.cached_property\n    def e(self):\n        pass\n\n"
        "@pc.register('posenc_test_fourth', family='bias')\n"
        "class Fourth(pc.Scheme):\n    'Fourth.'\n\n"
        "    @cached_property\n    def a(self):\n        pass\n",
        set(),
    ),
    "a measure of a plugin": (
        "",
        "\n@pc.register_measure('posenc_test_size', quantities=(), views=(pc.Headline("
        "pc.Quantity('posenc_test_size', 'share', 'neither', 'nothing')),))\n"
        "def size(variant, probe, progress):\n    'A number.'\n",
        set(),
    ),
    "a plot": (
        "",
        "\n@pc.register_plot('posenc_test_plot', caption='A plot.')\n"
        "def draw(records):\n    'Draw nothing.'\n",
        set(),
    ),
}


@pytest.fixture
def plugin(
    tmp_path: Path, registered: Any, monkeypatch: pytest.MonkeyPatch
) -> Callable[[str, str], Path]:
    """Return a function that writes files and adds the first as a plugin."""
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.delitem(sys.modules, "posenc_test_helper", raising=False)

    def add(text: str, helper: str = HELPER, name: str = "plugin.py") -> Path:
        for file, whole in ((name, text), ("posenc_test_helper.py", helper)):
            (tmp_path / file).write_text(whole)
        registered(tmp_path / name)
        return tmp_path / name

    return add


def key_of(scheme: str) -> str:
    return Cell(Variant(scheme), "smoothness", ProbeSetting(), 1).key()


def test_no_key_of_a_plugin_says_which_shared_files_there_are(
    plugin: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    plugin(PLUGIN)
    before, named = key_of(ONE), plugin_source._built_ins
    more = ["posenc_compare.errors"]
    monkeypatch.setattr(plugin_source, "_built_ins", lambda words: named(words) + more)
    sources.forget()
    assert key_of(ONE) == before


@pytest.mark.parametrize("name", PLUGIN_EDITS)
def test_an_edit_of_a_plugin_moves_the_keys_of_what_it_changes(
    name: str, plugin: Any
) -> None:
    old, new, moves = PLUGIN_EDITS[name]
    plugin(PLUGIN)
    before = {scheme: key_of(scheme) for scheme in BOTH}
    plugin(PLUGIN.replace(old, new) if old else PLUGIN + new)
    assert {scheme for scheme in BOTH if key_of(scheme) != before[scheme]} == moves


# Where a scheme finds `power`, which it does not name.
TABLE = "TABLE = {}\n\ndef kind(f):\n    return TABLE.setdefault(f.__name__, f)\n"
POWER = "def power(x):\n    return x**0.5\n"
TWO_PLAIN = (
    "from posenc_compare import Scheme\nfrom posenc_compare import register\nx = 2\n"
    "TABLE = {}\n\n@register('posenc_test_two', family='bias')\n"
    "class Two(Scheme):\n    'Two.'\n"
)
# A class of which its parent hears, or the type of its parent.
FILED = TWO_PLAIN.replace("\n@", "KIND\n\n@").replace("(Scheme)", "(Kind)")
FILED += "    def power(self, x):\n        return x**0.5\n"
FILES = """
class Kind(Scheme):
    def __init_subclass__(cls, **words):
        TABLE[0] = cls
"""
META = """
class Kinds(type(Scheme)):
    def __init__(cls, *args):
        TABLE[0] = cls

class Kind(Scheme, metaclass=Kinds):
    pass
"""
HIDDEN = {
    "an item that another scheme sets": f"{TWO_PLAIN}    TABLE[0] = x**0.5\n",
    "an attribute that another scheme sets": TWO_PLAIN.replace("{}", "lambda: x")
    + "    TABLE.gain = x**0.5\n",
    "a text with the name of another scheme": TWO_PLAIN.replace(
        "{}", "'posenc_test_two rope'.split()"
    )
    + "    gain = x**0.5\n",
    "a default of another scheme": TWO_PLAIN
    + "    def f(self, x=TABLE.setdefault(0, x**0.5)):\n        pass\n",
    "an annotation of another scheme": TWO_PLAIN
    + "    def f(self, x: TABLE.setdefault(0, x**0.5)):\n        pass\n",
    "an iterator that another scheme reads": TWO_PLAIN.replace("{}", "iter((1, 2))")
    + "    first = [y for y in TABLE if y < x**0.5]\n",
    "a parent of another scheme": TWO_PLAIN.replace(
        "(Scheme)", "(TABLE.setdefault(x**0.5, Scheme))"
    ),
    "a paper of another scheme": TWO_PLAIN.replace(
        "family='bias'", "family='bias', source=TABLE.setdefault(0, str(x**0.5))"
    ),
    "a default": f"{TABLE}def power(x, y=kind(lambda x: x**0.5)):\n    pass\n",
    "a decorator that replaces ours": "from posenc_compare import register\n"
    f"{TABLE}def register(name):\n    return kind\n\n@register('power')\n{POWER}",
    "an imported decorator that replaces ours": "from posenc_compare import register\n"
    f"from atexit import register\nTABLE = {{}}\n\n@register(print)\n{POWER}",
    "another decorator that this package has": "from posenc_compare.registry import "
    f"functools\n{TABLE}@functools.partial(kind)\n{POWER}",
    "an annotation": "def TABLE(x: 'x**0.5'):\n    pass\n",
    "a decorator named as ours": "import types\n"
    f"{TABLE}OWN = types.SimpleNamespace(register=lambda name: kind)\n"
    f"@OWN.register('power')\n{POWER}",
    "a call in a class": f"{TABLE}class Kind:\n    kind(lambda x: x**0.5)\n",
    "a registered class that a base files": FILED.replace("KIND", FILES),
    "an error that holds a value": "class Found(Exception):\n    pass\n\n"
    "def TABLE(x):\n    raise Found(x**0.5)\n",
    "a random state of another scheme": f"import torch\n{TWO_PLAIN}"
    "    noise = torch.rand(int((lambda x: x**0.5)(9)))\nTABLE = torch.rand(2)\n",
    "a metaclass of another scheme": FILED.replace("KIND", META),
    "the else of TYPE_CHECKING": "from typing import TYPE_CHECKING\n"
    "if TYPE_CHECKING:\n    TABLE = {}\nelse:\n    TABLE = {1: lambda x: x**0.5}\n",
}


@pytest.mark.parametrize("way", HIDDEN)
def test_code_that_a_plugin_finds_without_naming_it_counts(
    way: str, plugin: Any
) -> None:
    text = HIDDEN[way] + PLAIN + "    found = TABLE\n"
    plugin(text)
    before = key_of(ONE)
    assert text.count("x**0.5") == 1
    plugin(text.replace("x**0.5", "x**0.7"))
    assert key_of(ONE) != before
    plugin(text + "if __name__ == '__main__':\n    print(1)\n")
    assert key_of(ONE) == before


THIRD = PLUGIN_EDITS["a third scheme"][1].replace("pc.Scheme", "Scheme")
CLASSES = ("__subclasses__", "__init_subclass__", "__set_name__", "metaclass")


@pytest.mark.parametrize("word", ["found", *CLASSES])
def test_code_may_reach_what_it_does_not_name(word: str, plugin: Any) -> None:
    text = f"{PLAIN}    found = lambda self: self.{word}\n"
    plugin(text)
    before = key_of(ONE)
    plugin(text + THIRD.replace("pc.", ""))
    assert (key_of(ONE) != before) is (word in CLASSES)
    plugin(text + POWER)
    assert key_of(ONE) != before


def test_every_statement_has_a_text_of_its_own(plugin: Any) -> None:
    values = ("0", "False", "None", "''", "'0'", "b'0'", "()", "[]", "0.0", "...")
    keys = set()
    for value in values:
        plugin(f"{PLAIN}    found = {value}\n")
        keys.add(key_of(ONE))
    assert len(keys) == len(values)


@pytest.fixture
def edited(monkeypatch: pytest.MonkeyPatch) -> Callable[[str], None]:
    """Return a function after which a built-in scheme has other code."""

    def edit(name: str) -> None:
        code = {True: "edited", False: ""}
        monkeypatch.setattr(plugin_source, "_built_in", lambda path: code[name in path])
        sources.forget()

    return edit


@pytest.mark.parametrize("word", ["T5Bias", "t5_bias", "'t5_bias:x=1 rope'"])
def test_a_built_in_scheme_counts_by_each_of_its_names(
    word: str, plugin: Any, edited: Any
) -> None:
    plugin(f"{PLAIN}    found = lambda self: {word}\n")
    before = key_of(ONE)
    edited("t5_bias")
    assert key_of(ONE) != before


def test_a_plugin_may_be_moved_but_its_helpers_not(
    plugin: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    text = f"from posenc_test_helper import gain\nimport posenc_test_other\n{PLAIN}"
    keys = []
    for name, gains in ("a.py", (1, 2)), ("b.py", (1, 2)), ("a.py", (2, 1)):
        for module in ("posenc_test_helper", "posenc_test_other"):
            monkeypatch.delitem(sys.modules, module, raising=False)
        helper, other = (f"gain = {gain}\n" for gain in gains)
        (tmp_path / "posenc_test_other.py").write_text(other)
        plugin(text, helper, name=name)
        keys.append(key_of(ONE))
        SCHEMES.drop(SCHEMES.entry(ONE).module)
    assert keys[0] == keys[1] != keys[2]


@pytest.mark.parametrize(
    ("files", "entry"),
    [
        ("helpers.py lab.py", "lab"),
        ("helpers.py lab.py", "lab.py"),
        ("utils/helpers.py lab.py", "lab.py"),
        ("helpers.py lab/one.py", "lab/one.py"),
        ("base/helpers.py lab/one.py", "lab.one"),
    ],
)
@pytest.mark.parametrize("what", ["gain", "Base", "*"])
def test_every_file_that_a_plugin_imports_counts_unless_it_is_installed(
    files: str,
    entry: str,
    what: str,
    tmp_path: Path,
    registered: Any,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for module in [m for m in sys.modules if m.startswith("posenc_test_")]:
        monkeypatch.delitem(sys.modules, module)
    (tmp_path / "real").mkdir()
    link = tmp_path / "link"
    link.symlink_to(tmp_path / "real")
    helper, plugin = (link / f"posenc_test_{file}" for file in files.split())
    for path in (helper, plugin):
        path.parent.mkdir(exist_ok=True)
    base = PLAIN.replace("_one", "_base").replace("One", "Base")
    helper.write_text(f"{base}    power = 1\n\n\ndef gain():\n    return 1\n")
    name = ".".join(helper.relative_to(link).with_suffix("").parts)
    own = PLAIN if what == "gain" else PLAIN.replace("(Scheme)", "(Base)")
    plugin.write_text(f"from {name} import {what}\n{own}    found = {what!r}\n")
    monkeypatch.syspath_prepend(str(link))
    entry = f"posenc_test_{entry}"
    registered(link / entry if entry.endswith(".py") else entry)
    before = key_of(ONE)
    helper.write_text(helper.read_text().replace("1", "2"))
    sources.forget()
    assert key_of(ONE) != before


@pytest.mark.parametrize(
    ("old", "new", "moves"),
    [
        ("GAIN = 1", "GAIN = 2", True),
        ("GAIN = 1\n", "GAIN = 1\nOTHER = 2\n", True),  # it counts as a whole
        ("GAIN = 1\n", "type X = = int\n", True),  # of another Python
        ("GAIN = 1\n", "GAIN = 1  # A comment.\n", False),
        ("gain()", "gain_of()", True),
    ],
)
def test_what_a_plugin_imports_from_beside_it_counts_as_a_whole(
    old: str, new: str, moves: bool, plugin: Any
) -> None:
    plugin(PLUGIN)
    before = key_of(ONE)
    plugin(PLUGIN, HELPER.replace(old, new))
    assert (key_of(ONE) != before) is moves


@pytest.mark.parametrize(
    "helper",
    [
        "from math import ONE as gain, OTHER",
        "from math import ONE as gain\nfrom math import OTHER as gain",
        "try:\n    from math import ONE as gain\n"
        "except ImportError:\n    from math import OTHER as gain",
        "from posenc_ONE import *\nfrom posenc_OTHER import *\ngain = 1",
        "import math\n\ndef __getattr__(name):\n    return math.ONE",
    ],
)
def test_what_hands_on_a_name_counts(
    helper: str, plugin: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("posenc_sqrt", "posenc_cbrt"):
        (tmp_path / f"{name}.py").write_text(f"from math import {name[7:]} as root\n")
        monkeypatch.delitem(sys.modules, name, raising=False)
    keys = set()
    for one, other in ("sqrt", "cbrt"), ("cbrt", "sqrt"):
        monkeypatch.delitem(sys.modules, "posenc_test_helper", raising=False)
        plugin(PLUGIN, helper.replace("ONE", one).replace("OTHER", other))
        keys.add(key_of(ONE))
    assert len(keys) == 2


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("from posenc_test_helper import gain\nX = 1\n", "X = 1\n"),
        ("import json\nX = 1\n", "X = 1\nimport json\n"),
    ],
)
def test_a_statement_before_an_import_counts(
    before: str, after: str, plugin: Any
) -> None:
    plugin(before + PLUGIN)
    key = key_of(ONE)
    plugin(after + PLUGIN)
    assert key_of(ONE) != key


@pytest.mark.parametrize("names", ["Alibi", "*"])
def test_a_scheme_that_a_helper_hands_on_counts(
    names: str, plugin: Any, edited: Any
) -> None:
    text = PLAIN.replace("(Scheme)", "(Alibi)").replace("Scheme, ", "")
    helper = f"from posenc_compare.schemes.alibi import {names}\n"
    plugin(f"from posenc_test_helper import {names}\n{text}", helper)
    before = key_of(ONE)
    edited("alibi")
    assert key_of(ONE) != before


@pytest.mark.parametrize("repositories", ["plugins", "plugins .", "."])
def test_a_helper_outside_the_repository_of_a_plugin_counts(
    repositories: str, plugin: Any, tmp_path: Path
) -> None:
    (tmp_path / "plugins").mkdir()
    for place in repositories.split():
        (tmp_path / place / ".git").mkdir()
    inner = tmp_path / f"posenc_test_inner_{len(repositories)}"
    inner.mkdir()
    (inner / "__init__.py").touch()
    (inner / ".#lock.py").symlink_to("nowhere")
    plugin(text := f"import {inner.name}\n{PLUGIN}", name="plugins/plugin.py")
    before = key_of(ONE)
    plugin(text, f"{HELPER}# A comment.\n", name="plugins/plugin.py")
    is_other = repositories == "plugins ."  # which counts to the byte
    assert (key_of(ONE) != before) is is_other
    plugin(text, HELPER.replace("1", "2"), name="plugins/plugin.py")
    assert key_of(ONE) != before


@pytest.mark.parametrize("text", [MEASURE, TASK])
def test_a_scheme_that_a_measure_or_a_task_of_a_plugin_names_counts(
    text: str, plugin: Any
) -> None:
    plugin(PLUGIN)
    plugin(text, name="other.py")
    cell = (
        Cell(Variant("alibi"), "extrapolation", Training(task="posenc_test_task"), 1)
        if text is TASK
        else Cell(Variant("alibi"), "posenc_test_against", ProbeSetting(), 1)
    )
    before = cell.key()
    assert ONE in {entry.name for entry in entries_of(cell)}
    plugin(PLUGIN.replace("STEEP = 2", "STEEP = 3"))
    assert cell.key() != before


@pytest.mark.parametrize("place", [".", "site-packages"])
def test_modules_of_a_package_count_with_all_that_they_import(
    place: str, tmp_path: Path, registered: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    for module in [m for m in sys.modules if m.startswith("posenc_test_")]:
        monkeypatch.delitem(sys.modules, module)
    top = tmp_path / place / "posenc_test_pack"
    (top / "inner").mkdir(parents=True)
    files = {
        "__init__.py": "SET = 1\n",
        "entry.py": "from .inner import deep\n" + PLAIN,
        "inner/__init__.py": "from .. import above\n",
        "inner/deep.py": "def f():\n    import posenc_test_pack.late\n",
        "above.py": "import json\nX = 1\n",
        "late.py": "X = 1\n",
        "unused.py": "X = 1\n",
    }
    for name, text in files.items():
        (top / name).write_text(text)
    monkeypatch.syspath_prepend(str(tmp_path / place))
    registered("posenc_test_pack.entry")
    counted = {str(path.relative_to(top)) for path in SCHEMES.entry(ONE).own_code.files}
    assert counted == {*files} - {"unused.py"}


@pytest.mark.parametrize(
    ("place", "counts"),
    [
        ("source/other.py", True),
        ("source/torch.py", False),  # which counts by its version, wherever it lies
        ("site-packages/other.py", False),
        ("dist-packages/other.py", False),
        ("target/other.py", False),  # of `pip install --target`
        ("link/other.py", False),
    ],
)
def test_installed_packages_do_not_count(
    place: str, counts: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "target" / "other-1.dist-info").mkdir(parents=True)
    (tmp_path / "link").symlink_to(tmp_path / "site-packages")
    path = tmp_path / place
    monkeypatch.setattr(plugin_source, "file_of", lambda name: path)
    sources.forget()
    assert plugin_source.is_own(path.stem, frozenset()) is counts
    sources.forget()


PLAIN = """
from posenc_compare.schemes import Scheme, register

@register("posenc_test_one", family="bias")
class One(Scheme):
    "One."
"""


@pytest.mark.parametrize("init", ["from . import sub\n", ""])
def test_a_name_may_lead_back_to_itself_or_to_a_package_without_a_file(
    init: str, tmp_path: Path, registered: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    package = tmp_path / "posenc_test_loop"
    package.mkdir()
    if init:
        (package / "__init__.py").write_text(init)
    (package / "sub.py").write_text("def kind(f):\n    return f\n")
    plugin = tmp_path / "plugin.py"
    power = f"\n\n@sub.kind\n{POWER}"
    plugin.write_text(
        f"from posenc_test_loop import sub\n{PLAIN}    found = vars(sub){power}"
    )
    monkeypatch.syspath_prepend(str(tmp_path))
    registered(plugin)
    before = key_of(ONE)
    plugin.write_text(plugin.read_text().replace("0.5", "0.7"))
    sources.forget()
    assert key_of(ONE) != before


def test_every_built_in_thing_has_code_of_its_own_alone() -> None:
    found = {}
    for registry in (SCHEMES, MEASURES, TASKS):
        for name, entry in registry.entries().items():
            if entry.path and entry.module.startswith("posenc_compare."):
                code = entry.own_code
                if registry.owns(entry.module):  # plugins name it by either
                    names = entry.definition.lower(), entry.path.stem
                    assert len({name.replace("_", "") for name in names}) == 1
                assert entry.path in code.files
                assert all(sources.parse(path) for path in code.files)
                found[registry.kind, name] = code.sha256
    assert len({*found.values()}) == len(found) > 80
    assert not plugin_source._built_in("posenc_compare.attention.plan")  # is shared
