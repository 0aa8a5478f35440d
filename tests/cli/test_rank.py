"""`rank`: the rank of a scheme among records that come with the package."""

import csv
import re
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import typer
from support.records import curve, fact, record, row

from posenc_compare.cli import rank as command
from posenc_compare.errors import ConfigError
from posenc_compare.records.cells import Cell
from posenc_compare.records.labels import without_settings
from posenc_compare.records.load import load_records, read_folder, sound
from posenc_compare.records.store import Store
from posenc_compare.run.comparison import Comparison, compare
from posenc_compare.settings.training import Training
from posenc_compare.show.format import as_csv
from posenc_compare.show.frame import Numbers
from posenc_compare.variants import Variant

SMALL: dict[str, Any] = {"steps": 4, "longest": 2, "test_bytes": 512, "workers": 1}
SMALL |= {"width": 16, "batch": 4}
DISGUISED = """
import torch
from posenc_compare.schemes import Scheme, register


@register("disguised", family="bias", source="own example")
class Disguised(Scheme):
    '''The bias of `alibi` under another name, for heads that are a power of two.'''

    def offset_bias(self, offsets):
        heads = self.geometry.heads
        powers = torch.arange(1, heads + 1, device=offsets.device).double()
        return -(2 ** (-8 / heads * powers))[:, None] * offsets.abs().double()
"""


@pytest.fixture(scope="module")
def reference(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("reference")
    compare("nope,alibi", "extrapolation", out=folder, **SMALL)
    store = Store(folder)
    setting = next(store.records())["spec"]["setting"]
    for label in ("nope", "alibi"):  # times of another machine, made by hand
        cost = record(label, "cost", **setting)
        cost["quantities"] = {"seconds": fact(["", None], title="seconds a step")}
        cost["quantities"]["seconds"]["name"] = "seconds"
        cost["rows"] = [row(1.5, quantity="seconds")]
        store.write({name: value for name, value in cost.items() if name != "key"})
    return folder


@pytest.fixture
def ranked(
    reference: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> Callable[..., tuple[int, str, str]]:
    """Return a function that ranks a plugin, with its exit code and output."""
    monkeypatch.setattr(command, "reference_of", lambda preset: reference)
    monkeypatch.setattr(command, "MEASURES", "extrapolation")
    monkeypatch.setattr(command, "ALLOWED", command.ALLOWED | SMALL.keys())

    def rank(text: str, seeds: int = 2) -> tuple[int, str, str]:
        given = {**SMALL, "seeds": seeds}
        plugin = tmp_path / "mine.py"
        plugin.write_text(text)
        options = [f"{name}={value}" for name, value in given.items()]
        code = command.rank(str(plugin), "md", out=tmp_path / "out", set=options)
        printed = capsys.readouterr()
        return code, printed.out, printed.err

    return rank


def test_a_disguised_scheme_lands_beside_the_one_it_copies(
    ranked: Any, tmp_path: Path
) -> None:
    code, out, err = ranked(DISGUISED, seeds=6)
    assert code == 0
    assert "disguised: 24 checks passed, 0 failed" in err
    lines = [line for line in out.splitlines() if line.startswith("|")]
    (beside,) = (line for line in lines if "| alibi " in line)
    assert beside.count("| 0.000 ± 0.000, p 1.000 ") == 2
    assert "disguised: rank" in out
    assert "disguised: 2 layers, width 16, " in out
    assert " 4 steps, " in out
    assert "; n = 6 seeds" in out
    folder = tmp_path / "out"
    assert (folder / "rank-disguised.png").read_bytes().startswith(b"\x89PNG")
    assert (folder / "rank-disguised.pdf").read_bytes().startswith(b"%PDF")
    with (folder / "rank-disguised.csv").open() as file:
        rows = [row for row in csv.DictReader(file) if row["row"] == "alibi"]
    assert {(row["value"], row["p"]) for row in rows} == {("0.0", "1.0")}
    assert r"\toprule" in (folder / "table.tex").read_text()
    written = (folder / "table.csv").read_text()  # intervals cover documents
    made = map(without_settings, read_folder(folder, print))
    assert written == as_csv(Numbers(made).summary)
    page = (folder / "rank.html").read_text()
    assert "disguised" in page
    assert "seconds a step" not in page  # those of the reference are of another machine
    assert "data:image/png" in page


def test_a_scheme_that_fails_a_check_is_ranked_and_named_on_any_machine(
    ranked: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where the machine differs, cells of the reference are computed here, too.

    They are no part of the run, and a second command finds them.
    """
    scores, changes = command._scores, iter([0.25])  # of the reference, which is first

    def changed(records: Any) -> dict[tuple[str, float | None], float]:
        by = next(changes, 0.0)
        return {place: score + by for place, score in scores(records).items()}

    monkeypatch.setattr(command, "_differing", lambda known, own: ["torch differs"])
    monkeypatch.setattr(command, "_scores", changed)
    monkeypatch.setattr(command, "CONTROLS", ("nope", "alibi"))
    text = DISGUISED.replace("disguised", "broken").replace("Disguised", "Broken")
    text = text.replace(".abs()", ".abs().clamp(max=offsets.numel() // 2)")
    code, out, err = ranked(text)
    assert code == 1
    assert "broken: check C" in err
    assert "broken: rank" in out
    failed = r"broken failed \d checks?: its scores may mean nothing"
    assert re.match(failed, err.splitlines()[-1])
    files = ("table.md", "table.tex", "rank.html")
    for shown in (out, *((tmp_path / "out" / name).read_text() for name in files)):
        assert re.search(failed, shown)
        assert "torch differs" in shown
        assert "reference cells computed here (nope, alibi, seed 0)" in shown
        assert "4 of 4 scores compared; they differ by 0.25 bits on average" in shown
    for part, labels in ((".", {"broken"}), ("control", {"alibi", "nope"})):
        records = read_folder(tmp_path / "out" / part, print)
        assert {r.label for r in records if r.measure == "extrapolation"} == labels
    monkeypatch.setattr(command, "_check", lambda label, plugins: "")
    _, _, err = ranked(text)
    assert f"2 cells, 0 to compute, records in {tmp_path / 'out' / 'control'}" in err


def test_a_scheme_that_cannot_be_trained_has_no_rank_until_it_is_repaired(
    ranked: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(command, "MEASURES", "extrapolation,uniqueness")
    monkeypatch.setattr(command, "_check", lambda label, plugins: "")
    broken = tmp_path / "broken"  # which no key counts
    broken.touch()
    text = DISGUISED.replace("disguised", "raising").replace("Disguised", "Raising")
    text = text.replace("        heads =", "        self.fail()\n        heads =")
    text += f"""
    def fail(self):
        from pathlib import Path
        if self.geometry.length == 32 and Path({str(broken)!r}).exists():
            raise RuntimeError("x")
"""
    code, out, err = ranked(text)
    assert code == 1
    assert "raising extrapolation seed 0: RuntimeError at mine.py:" in err
    assert "raising uniqueness" not in err  # which has a record
    assert "Scorecard" not in out
    none = "raising: no rank: 2 of 2 trainings failed"
    folder = tmp_path / "out"
    files = [folder / name for name in ("table.md", "table.tex", "rank.html")]
    for shown in (out, *(file.read_text() for file in files)):
        assert none in shown
        assert "RuntimeError at mine.py:" in shown
    page = files[-1].read_text()
    assert "<title>raising among all schemes</title>" in page
    assert "None: every cell has its result." not in page
    broken.unlink()
    code, out, err = ranked(text)
    assert (code, "raising: rank" in out) == (0, True)


@pytest.mark.parametrize("before", [0, 1])
def test_an_interruption_ends_it_and_says_how_to_go_on(
    ranked: Any,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    before: int,
) -> None:
    """Whether cells of the scheme or of the reference are computed."""
    stops = iter([*before * [""], "SIGINT"])
    monkeypatch.setattr(Comparison, "compute", lambda *_: next(stops))
    monkeypatch.setattr(command, "_check", lambda label, plugins: "")
    monkeypatch.setattr(command, "_differing", lambda known, own: ["torch differs"])
    with pytest.raises(typer.Exit) as ended:
        ranked(DISGUISED.replace("disguised", f"stopped_{before}"))
    assert ended.value.exit_code == 130
    *_, stopped, shown, again = capsys.readouterr().err.splitlines()
    assert stopped.startswith("stopped by SIGINT: ")
    assert stopped.endswith(" cells are missing")
    assert shown.endswith("shows the records so far")
    assert again.startswith("to go on: posenc-compare")


@pytest.mark.parametrize("preset", ["quick", "survey", "standard"])
def test_a_scheme_of_the_reference_competes_once(preset: str) -> None:
    records = command.reference_records(preset)
    assert not [one.label for one in records if "[" in one.label]
    trained = [one for one in records if one.measure == "extrapolation"]
    seeds = Counter(one.label for one in trained)
    assert {*seeds.values()} == {6}


def test_labels_of_the_reference_leave_out_the_code() -> None:
    folder, lines = command.reference_of("survey"), list[str]()
    found = load_records([folder], lines.append)
    assert {"alibi", "rope"} <= {record.label for record in found}
    assert not [record.label for record in found if "[" in record.label]
    assert any("several versions of a measure: labels do not" in s for s in lines)


def test_what_differs_from_the_reference_is_named() -> None:
    (known,) = sound([curve("rope", [1.0, 2.0], task="language")])
    spec = replace(known.spec, graphics="NVIDIA H200", threads=8, modified="12345678")
    lines = command._differing([known], [replace(known, spec=spec)])
    assert lines == [
        "device differs from the reference: NVIDIA H200 here, CPU there",
        "number of threads differs from the reference: 8 here, 1 there",
        "package differs from the reference: 12345678 here, unmodified there",
    ]


def test_seeds_that_the_reference_lacks_are_refused(
    capsys: pytest.CaptureFixture[str],
) -> None:
    known = sound([curve("rope", [1.0, 2.0], task="language", seed=3)])
    cells = [Cell(Variant("rope"), "extrapolation", Training(seed=4), 1)]
    with pytest.raises(ConfigError, match="those of the reference, 3 to 3, got 4 to 4"):
        command._check_seeds(known, cells)
    cells.append(replace(cells[0], setting=Training(seed=3)))
    command._check_seeds(known, cells)
    assert "no records of the reference have seed 4: ranks" in capsys.readouterr().err


def test_means_are_over_seeds_that_both_sides_have() -> None:
    own = [curve("mine", [1.0, 2.0], task="language", seed=n) for n in (2, 3, 9)]
    others = [curve("rope", [1.0, 9.0 - n], task="language", seed=n) for n in range(4)]
    untrained = record("mine", seed=0)
    # Another scheme of the same command is no reference.
    beside = [curve("too", [1.0, 2.0], task="language", seed=n) for n in (3, 9)]
    records = sound([*own, *others, *beside, untrained])
    kept = command._of_common_seeds(records, "mine", ["mine", "too"])
    trained = [r.spec.seed for r in kept if r.measure == "extrapolation"]
    assert sorted(trained) == [2, 2, 3, 3, 3]
    assert len(kept) == 6
    apart = sound([*own, *others[:2]])  # no common seed
    assert command._of_common_seeds(apart, "mine", ["mine"]) == apart
