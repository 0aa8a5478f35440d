"""Untrusted schemes that raise, lie, hang, die and meddle; each in real workers.

`support/hostile_schemes.py` holds them. They run together, so that few workers are
started, and beside built-in schemes that must not notice.
"""

import csv
import getpass
import json
import platform
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from supervise import ask, cells, computed, forget_plugins
from support.filesystem import result
from support.processes import fields, gone_within
from torch import Tensor

from posenc_compare.attention import attention
from posenc_compare.errors import HookError
from posenc_compare.records.store import SCHEMA, Store
from posenc_compare.run.compute import compute
from posenc_compare.schemes import Call, Geometry, Scheme
from posenc_compare.settings.canonical import parse_strictly
from posenc_compare.train.progress import Progress

HERE = Path(__file__).parent
SUPPORT = HERE.parent / "support"
PLUGIN = str(SUPPORT / "hostile_schemes.py")
ATTACKING = str(SUPPORT / "attacking_schemes.py")
MEBI = 1 << 20
HOOKS = ("embed", "query", "key", "offset_bias", "pair_bias")
ON_CODES = ("embed", "key", "offset_bias")
WRONG = ("scalar", "column", "row", "short", "meta", "sparse", "whole", "bool")
WRONG += ("complex", "none", "tuple", "text")
LIKE_INPUT = ("narrow", "leaf")  # what these are depends on what came in
ADDS_NOTHING = {("offset_bias", "none")}  # which a scheme may say
TYPES = {
    "value": "ValueError: at the bottom of file.txt",
    "deep": "ValueError: at the bottom of file.txt",
    "long": "ValueError: xxx",
    "exit": "SystemExit: 0",
    "interrupt": "KeyboardInterrupt:",
    "own": "Own: mine",
    "unprintable": "MuteError: (its message cannot be shown)",
    "unprintable_runtime": "MuteRuntimeError: (its message cannot be shown)",
}
DEATHS = {"exit": "exit: code 0", "segfault": "SIGSEGV"}
DEATHS |= dict.fromkeys(("kill", "worker"), "SIGKILL")
HANGS = ("deaf", "session", "paused_worker")
SPEECH = ("print", "fork", "close")
# How the schemes of `attacking_schemes.py` end or lie: the status and the error.
WAYS = {
    "store": ("failed", "store of mine"),
    "stopped": ("failed", r"Stopped at \S+\.py:\d+: stopped of mine"),
    "config": ("failed", "config of mine"),
    "shape": ("failed", "shape of mine"),
    "no_code": ("failed", "no_code of mine"),
    "realtime": ("lost", "killed: signal 40"),
    "says_nothing": ("failed", "protocol: unexpected answer None"),
    "says_stopped": ("lost", "killed: another process asked it to stop"),
}

MEDDLE = '''
"""Change all that can be changed in a process."""
import json, os, random, sys
import torch
import torch.nn.functional as F
from posenc_compare.schemes import Scheme, register

@register("NAME", family="absolute")
class Meddle(Scheme):
    "Meddle."
    def embed(self, x, positions):
        if place := os.environ.get("POSENC_TEST_LOG"):
            names = [name for name in sys.modules if "posenc_plugin" in name]
            with open(place, "a") as file:
                file.write(json.dumps({"pid": os.getpid(), "modules": names}) + "\\n")
        os.chdir("/")
        os.environ.clear()
        torch.set_default_dtype(torch.float16)
        torch.set_num_threads(7)
        torch.manual_seed(random.randrange(99))
        torch.randn = torch.zeros
        F.layer_norm = lambda x, *_: x
        torch.Tensor.norm = lambda *_, **__: torch.tensor(1.0)
        return x
'''


def reference(**asked: Any) -> dict[tuple[str, str], bytes]:
    """Return the results of built-in cells, computed here, without any plugin."""
    found = {}
    for cell in cells(asked):
        record = {"schema": SCHEMA, **compute(cell, Progress()).to_json()}
        found[cell.variant.label, cell.measure] = result(record)
    return found


@pytest.fixture(autouse=True)
def registry() -> Iterator[None]:
    """Let no plugin of these tests stay."""
    yield
    forget_plugins()


@pytest.fixture(scope="module")
def zoo(tmp_path_factory: pytest.TempPathFactory):
    """All that comes back at once, in one run beside built-in schemes."""
    folder = tmp_path_factory.mktemp("zoo")
    plugins = [PLUGIN, ATTACKING]
    for name in ("meddle_a", "meddle_b"):
        (folder / f"{name}.py").write_text(MEDDLE.replace("NAME", name))
        plugins.append(str(folder / f"{name}.py"))
    schemes = ["meddle_*"]
    schemes += [f"raises:what={w};where={p}" for w in TYPES for p in ("init", "hook")]
    schemes += [f"dies:how={how}" for how in DEATHS]
    schemes += ["hog"]
    schemes += [f"speaks:how={how}" for how in SPEECH]
    schemes += [*(f"evil:how={how}" for how in WAYS), "refuses"]
    schemes += ["nope", "rope", "alibi"]  # last, where they would meet the others
    more: dict[str, Any] = {"plugins": plugins, "limits": {"workers": 1}}
    return folder, *ask(folder, ",".join(schemes), ["shift_error"], **more)


@pytest.fixture(scope="module")
def records(zoo) -> dict[str, dict[str, Any]]:
    return {label: record for (label, _), record in zoo[3].items()}


def labelled(records: dict[str, Any], scheme: str) -> dict[str, Any]:
    """Return the records of a scheme by the values of its options."""
    return {
        " ".join(map(str, r["spec"]["scheme"]["options"].values())): r
        for r in records.values()
        if r["spec"]["scheme"]["name"] == scheme
    }


# --- F19, F20: what is raised ------------------------------------------------------


def test_every_cell_has_a_record_and_built_in_ones_are_untouched(zoo, records) -> None:
    assert len(records) == len(zoo[3])
    assert zoo[1][0] == ""
    wanted = reference(schemes="nope,rope,alibi", measures=["shift_error"])
    assert {k: result(v) for k, v in zoo[3].items() if k in wanted} == wanted
    assert all(records[name]["status"] == "ok" for name in ("nope", "rope", "alibi"))


def test_what_is_raised_is_a_failed_record_with_type_and_calls(records) -> None:
    found = labelled(records, "raises")
    assert len(found) == 2 * len(TYPES)
    for record in found.values():
        options = record["spec"]["scheme"]["options"]
        assert record["status"] == "failed"
        said, count = re.subn(r" at hostile_schemes\.py:\d+:", ":", record["error"])
        assert said.startswith(TYPES[options.get("what", "value")])
        assert count == 1
        assert len(record["error"].encode()) <= 2048
        assert 1 <= len(record["trace"]) <= 20
        assert record["trace"][-1].startswith("hostile_schemes.py:")
        assert record["provenance"]["attempts"] == 1
    deep = [r for o, r in found.items() if o.startswith("deep")]
    assert [len(record["trace"]) for record in deep] == [20, 20]


@pytest.mark.parametrize("how", WAYS)
def test_an_attack_spoils_its_own_cell(records, how: str) -> None:
    record = records[f"evil:how={how}"]
    status, error = WAYS[how]
    assert record["status"] == status
    assert re.match(error, record["error"])


def test_what_a_scheme_cannot_serve_it_says_while_it_is_built(records) -> None:
    record = records["refuses"]
    assert record["status"] == "unsupported"
    assert record["error"] == "refuses: length must be 7"


def test_nothing_private_is_in_a_record(zoo) -> None:
    folder = zoo[0]
    private = [str(Path.home()) + "/", str(SUPPORT), str(Path.cwd()), sys.prefix]
    private += [str(folder), folder.name]
    private += [name for name in (platform.node(),) if len(name) > 5]
    for path in (folder / "run" / "cells").iterdir():
        text = path.read_text()
        assert not [word for word in private if word in text], path
        facts = json.dumps(json.loads(text)["body"]["provenance"]).lower()
        assert f'"{getpass.getuser()}' not in facts


# --- F21: numbers that are none ----------------------------------------------------

AT = 3
POISONS = {
    "poison:step=3": "the loss became nan at step 3",
    "poison:number=inf;step=3": "the loss became nan at step 3",
    "poison:place=gradient;step=3": "the gradient of embedding.weight",
    "poison:number=inf;place=gradient;step=3": "the gradient of embedding.weight",
    "poison:place=own;step=3": "the gradient of schemes.0.mine",
    "poison:number=inf;place=own;step=3": "the gradient of schemes.0.mine",
}


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory):
    """Records by label and measure, computed in this process, and their folder."""
    folder = tmp_path_factory.mktemp("trained")
    (folder / "text").write_bytes(bytes(range(32, 127)) * 60)
    schemes = ["nope", *POISONS, "poison"]
    schemes += [f"bent:hook={hook};returned=detached" for hook in HOOKS[:3]]
    asked = {"schemes": ",".join(schemes), "measures": ["extrapolation", "smoothness"]}
    asked |= {"corpus": str(folder / "text"), "steps": 6, "plugins": [PLUGIN]}
    (store := Store(folder / "run")).create()
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("POSENC_TEST_LOG", str(folder / "log"))
        for cell in cells(asked):
            store.write(compute(cell, Progress()).to_json())
    return folder, {
        (r["label"], r["spec"]["measure"]["name"]): r for r in store.records()
    }


def test_a_number_that_is_none_stops_a_training_at_once(trained) -> None:
    folder, found = trained
    for label, error in POISONS.items():
        record = found[label, "extrapolation"]
        assert record["status"] == "failed", record
        assert record["error"].startswith("non-finite: ")
        assert error in record["error"]
        assert record["error"].endswith("at step 3")
        assert record["rows"] == []
    logged = map(json.loads, (folder / "log").read_text().splitlines())
    assert max(line["step"] for line in logged if "step" in line) <= AT + 1
    assert found["nope", "extrapolation"]["status"] == "ok"


def test_a_number_that_is_none_without_training_is_no_result(trained) -> None:
    record = trained[1]["poison", "smoothness"]
    assert record["status"] == "failed"
    assert record["error"].startswith("non-finite: ")
    assert "NaN" in record["error"]


def test_no_file_holds_a_number_that_is_none(trained, posenc, tmp_path: Path) -> None:
    folder = trained[0] / "run"
    for path in (folder / "cells").iterdir():
        parse_strictly(path.read_bytes())  # refuses NaN and infinity
    done = posenc("table", folder, "--out", tmp_path, "--format", "json")
    assert done.returncode == 0, done.stderr
    parse_strictly(done.stdout.encode())
    for path in tmp_path.glob("*.csv"):
        with path.open(newline="") as file:
            words = {word.lower() for row in csv.reader(file) for word in row}
        assert not words & {"nan", "inf", "-inf", "infinity", "-infinity"}, path


# --- F22: what a hook returns ------------------------------------------------------


@pytest.mark.parametrize("measure", ["shift_error", "smoothness"])
def test_a_hook_that_returns_what_does_not_fit_is_refused(measure: str) -> None:
    bent = [(hook, word) for hook in HOOKS for word in ("right", *WRONG)]
    bent += [(hook, word) for hook in HOOKS[:3] for word in LIKE_INPUT]
    bent += [("scores", word) for word in ("right", "column", "none")]
    if measure == "smoothness":
        bent = [(hook, word) for hook in ON_CODES for word in WRONG]
    schemes = ",".join(f"bent:hook={hook};returned={word}" for hook, word in bent)
    asked = {"schemes": schemes, "measures": [measure], "plugins": [PLUGIN]}
    for (hook, returned), cell in zip(bent, cells(asked), strict=True):
        record = compute(cell, Progress()).to_json()
        if returned == "right" or (hook, returned) in ADDS_NOTHING:
            assert record["status"] == "ok", record["error"]
            continue
        assert record["status"] == "failed", (hook, returned, record["error"])
        shape = r"must return (\([a-z_, ]+\) \([0-9, ]+\)|a tensor without .*), got \S"
        assert re.match(rf"bent: {hook} {shape}", record["error"]), record["error"]


def test_a_tensor_of_an_odd_layout_is_as_good() -> None:
    asked = {"measures": ["perturbation"], "plugins": [PLUGIN]}
    plain = None
    for hook in HOOKS:
        schemes = f"nope,bent:hook={hook},bent:hook={hook};returned=strided"
        nope, right, odd = (
            compute(cell, Progress()).to_json()["rows"]
            for cell in cells({**asked, "schemes": schemes})
        )
        assert right != nope
        for one, other in zip(right, odd, strict=True):  # sums take another order
            value = pytest.approx(one["value"], rel=1e-12, abs=1e-12)
            assert other == {**one, "value": value}
        assert plain in (None, nope)
        asked, plain = {"measures": ["perturbation"]}, nope


def test_a_gradient_that_is_cut_is_refused(trained) -> None:
    for hook in HOOKS[:3]:
        label = f"bent:hook={hook};returned=detached".replace("hook=embed;", "")
        record = trained[1][label, "extrapolation"]
        assert record["status"] == "failed"
        assert "with the gradient of its input, got one without" in record["error"]


@pytest.mark.parametrize("measure", ["portrait", "uniqueness"])
def test_a_measure_that_excuses_sizes_excuses_no_fault(measure: str) -> None:
    asked = {"schemes": "unsteady", "plugins": [PLUGIN]}
    (cell,) = cells({**asked, "measures": [measure]})
    record = compute(cell, Progress()).to_json()
    assert record["status"] == "failed"
    assert "embed must return" in record["error"]


def test_a_pair_bias_may_lack_batch_and_heads_alone() -> None:
    class Pairs(Scheme):
        returned: Any = None

        def pair_bias(self, call: Call) -> Any:
            return self.returned

    scheme = Pairs(Geometry(model_dim=12, heads=3))
    q = torch.randn(2, 3, 5, 4, generator=torch.Generator().manual_seed(0))
    past = torch.arange(5)[:, None] - torch.arange(5)

    def run(returned: Any) -> Tensor:
        scheme.returned = returned
        return attention(q, q, q, scheme=scheme, positions=torch.arange(5))

    whole = run(lambda b, h, i, j: 0.1 * (i - j + 0 * h + 0 * b))
    for shape in ((5, 5), (1, 5, 5), (3, 5, 5), (1, 1, 5, 5), (2, 1, 5, 5)):
        assert torch.equal(run(lambda *_, s=shape: 0.1 * past.expand(s)), whole)
    for shape in ((), (5,), (5, 1), (1, 5), (2, 5, 5), (3, 1, 5, 5), (1, 2, 3, 5, 5)):
        with pytest.raises(HookError, match=r"\(2, 3, 5, 5\), got \("):
            run(lambda *_, s=shape: torch.zeros(s))
    with pytest.raises(HookError, match="must return a function or None, got str"):
        run("text")


# --- F23: what never comes back ----------------------------------------------------


@pytest.fixture(scope="module")
def hung(tmp_path_factory: pytest.TempPathFactory):
    folder = tmp_path_factory.mktemp("hung")
    schemes = ",".join(f"hangs:how={how}" for how in HANGS)
    limits = {"workers": 3, "timeout": 2.0}
    return ask(folder, schemes, ["smoothness"], plugins=[PLUGIN], limits=limits)


def test_what_hangs_is_killed_in_time_with_its_group(hung) -> None:
    (_, _, written, _), logged, found = hung
    began = {line["hangs"]: line["time"] for line in logged if "hangs" in line}
    ends = {label.partition("=")[2]: t for label, t in written.items()}
    assert began.keys() == ends.keys() == {*HANGS}
    for how, start in began.items():
        assert 1.5 <= ends[how] - start <= 2 + 2
    for record in found.values():
        assert record["status"] == "lost"
        assert record["error"] == "timeout: no progress in 2 s"
        assert record["provenance"]["timeout_seconds"] == 2
        assert record["provenance"]["attempts"] == 1
    (child,) = [line["child"] for line in logged if "child" in line]
    assert not any(map(fields, {child, *(line["pid"] for line in logged)}))


# --- F14, F24: what takes the process along ----------------------------------------


def test_what_dies_is_lost_after_three_starts(zoo, records) -> None:
    found = labelled(records, "dies")
    assert len(found) == len(DEATHS)
    for how, record in found.items():
        assert record["status"] == "lost", record["error"]
        assert DEATHS[how] in record["error"]
        assert record["provenance"]["attempts"] == 3
        starts = [line for line in zoo[2] if line.get("dies") == how]
        assert len(starts) == 3
        assert len({line["pid"] for line in starts}) == 3


def test_what_is_killed_from_outside_names_its_memory(records) -> None:
    record = labelled(records, "dies")["kill"]
    assert re.fullmatch(r"killed: SIGKILL, peak memory 0\.\d\d GiB", record["error"]), (
        record["error"]
    )
    assert record["provenance"]["peak_memory_bytes"] > 50 * MEBI


def test_what_takes_all_memory_is_tried_twice(zoo, records) -> None:
    record = records["hog"]
    assert record["status"] == "lost"
    assert record["error"].startswith("oom: ")
    assert "the setting was {'kind': 'probe', " in record["error"]
    assert "'width': 16, 'heads': 2, 'positions': 64" in record["error"]
    assert record["provenance"]["attempts"] == 2
    assert record["provenance"]["peak_memory_bytes"] > 50 * MEBI
    pids = [line["pid"] for line in zoo[2] if "hog" in line]
    assert len(pids) == len(set(pids)) == 2


# --- F25, F26: what leaves something behind, or writes where it should not ----------


def test_a_child_that_stays_delays_nothing_and_is_ended(zoo, records) -> None:
    (child,) = [line["child"] for line in zoo[2] if "child" in line]
    record = records["speaks:how=fork"]
    assert record["status"] == "ok"
    assert record["provenance"]["seconds"] < 60  # it sleeps for 600
    pids = {child, *(line["pid"] for line in zoo[2])}
    assert gone_within([*pids], 2)


def test_what_writes_on_every_pipe_gives_no_wrong_record(records) -> None:
    found = labelled(records, "speaks")
    assert len(found) == len(SPEECH)
    for how, record in found.items():
        if how in ("print", "fork"):
            assert record["status"] == "ok"
        else:
            assert record["status"] == "failed"
            assert record["error"].startswith("protocol: ")
            assert len(record["error"]) <= 2000
        assert record["provenance"]["attempts"] == 1
    assert [row["value"] for row in records["nope"]["rows"]].count(0.0) > 0


def test_what_a_cell_left_running_costs_no_other_cell(tmp_path: Path) -> None:
    asked = {"measures": ["smoothness"], "plugins": [PLUGIN]}
    schemes = "haunts:how=child,haunts:how=orphan,haunts:how=waits"
    found = computed(tmp_path, schemes=schemes, **asked)
    said = [(record["status"], record["error"]) for record in found.values()]
    assert said == [("ok", "")] * 3


def test_the_scheduler_stays_small_and_imports_no_plugin(zoo) -> None:
    _, grown, _, imported = zoo[1]
    assert grown <= 10 * MEBI
    assert not [name for name in imported if "torch" in name or "plugin" in name]


# --- F27: what changes its process -------------------------------------------------


def test_no_process_meets_two_plugins(zoo) -> None:
    seen: dict[int, set[str]] = {}
    for line in zoo[2]:
        if "modules" in line:
            seen.setdefault(line["pid"], set()).update(line["modules"])
    hostile = {line["pid"] for line in zoo[2] if "imported" in line}
    met = sorted(name[-8:] for names in seen.values() for name in names)
    assert met == ["meddle_a", "meddle_b"]
    assert len(seen) == 2
    assert not hostile & seen.keys()


NEIGHBOURS = '''
"""Two schemes, of which one changes the other, and the numbers of the file."""
from posenc_compare.schemes import Scheme, register

FACTOR = 2.0

@register("patched", family="absolute")
class Patched(Scheme):
    "Add the position."
    def embed(self, x, positions):
        return x + FACTOR * positions[..., None].to(x.dtype)

@register("a_patch", family="absolute")
class Patch(Scheme):
    "Change the other."
    def embed(self, x, positions):
        global FACTOR
        FACTOR = 3.0
        Patched.query = lambda self, q, positions: q * 2
        return x
'''


def test_schemes_of_one_file_do_not_change_each_other(tmp_path: Path) -> None:
    path = tmp_path / "neighbours.py"
    path.write_text(NEIGHBOURS)
    asked: dict[str, Any] = {"measures": ["shift_error", "perturbation"]}
    asked |= {"plugins": [str(path)]}
    alone = reference(schemes="patched", **asked)
    found = computed(tmp_path, schemes="a_patch,patched", **asked)
    assert {key: result(found[*key, 0]) for key in alone} == alone


# --- F28, F29, F31: what is not run, and whose name is whose ------------------------


def test_showing_imports_no_plugin(
    zoo, posenc, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    sentinel = tmp_path / "log"
    monkeypatch.setenv("POSENC_TEST_LOG", str(sentinel))
    run = zoo[0] / "run"
    before = set(sys.modules)
    for words, code in (
        (["--help"], 0),
        (["table", run, "--format", "md"], 0),
        (["plot", run, "--out", tmp_path], 0),
        (["report", run, "--out", tmp_path / "report.html"], 0),
        (["status", run], 1),
        (["diff", run, run], 0),
    ):
        done = posenc(*words)
        assert done.returncode == code, (words, done.stderr)
    assert not sentinel.exists()
    assert not [name for name in {*sys.modules} - before if "posenc_plugin" in name]
