"""Which measure predicts a trained score: from records to table, plot and command."""

import csv
import io
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from conftest import Command
from support.records import curve, fact, labelled, record, row, stored
from support.shown import refusal

from posenc_compare.records.quantities import ONE_LAYER
from posenc_compare.show.predictions import predictions

RNG = np.random.default_rng(0)
LABELS = [f"scheme{i:02}" for i in range(12)]
FAMILY = dict(zip(LABELS, ["absolute", "bias", "rotary"] * 4, strict=True))
START = dict(zip(LABELS, (2 + RNG.random(12)).tolist(), strict=True))
SIZE = dict(zip(LABELS, RNG.random(12).tolist(), strict=True))
GAP = {label: 3 * SIZE[label] ** 2 for label in LABELS}


def made(labels: list[str] = LABELS, steps: int = 0) -> list[dict[str, Any]]:
    """Return records in which `size` orders schemes as their gap does."""
    found = []
    for label in labels:
        family, start = FAMILY[label], START[label] + steps
        for seed in range(2):
            points = [start, 9.0, start + GAP[label]]
            more = {"seed": seed, "steps": steps}
            trained = curve(label, points, quantity="bits_per_byte", **more)
            other = curve(label, points, quantity="other")  # no score of a task
            trained["quantities"] |= other["quantities"]
            trained["rows"] = other["rows"] + trained["rows"]
            one = record(label, "perturbation", seed=seed)
            one["quantities"] = {
                name: {**fact(["", None], title=f"the {name}"), "name": name}
                for name in ("size", "rounding")
            }
            one["rows"] = [
                row(SIZE[label] + 0.001 * seed, quantity="size"),
                row(SIZE[label] * 1e-15, quantity="rounding"),
            ]
            found += [{**one, "family": family}, {**trained, "family": family}]
    return found


NAN = "the rounding"  # nothing but rounding: it has no correlation


def by_name(records: list[dict[str, Any]]) -> pd.DataFrame:
    return predictions(labelled(records)).set_index(["outcome", "quantity"])


def test_schemes_of_equal_scores_count_once() -> None:
    twins = made()
    for one in made(LABELS[:1]):
        one["label"] = one["spec"]["scheme"]["name"] = "twin"
        one["key"] = one["key"][::-1]
        twins.append(one)
    assert by_name(twins).loc[("bits at 32", "the size"), "n"] == 12


def test_a_measure_of_one_layer_of_several_does_not_count() -> None:
    records = made()
    for one in records:
        if one["label"] == LABELS[0]:
            for each in one["rows"]:
                each["note"] = ONE_LAYER * (each["quantity"] == "size")
    assert by_name(records).loc[("bits at 32", "the size"), "n"] == 11


def test_schemes_without_the_longest_length_count_where_they_can() -> None:
    records = made()
    for one in records:
        if one["label"] == LABELS[0] and len(one["rows"]) == 6:
            one["rows"][5] |= {"value": None, "note": "not defined beyond 8"}
    found = by_name(records)
    assert found.loc[("bits at 32", "the size"), "n"] == 11
    assert found.loc[("bits at 8", "the size"), "n"] == 12
    for one in records:
        for each in one["rows"]:
            each["value"] = None if (each["x"] or 0) > 8 else each["value"]
    assert predictions(labelled(records)).empty  # of one length alone


def test_measures_of_one_heading_are_both_there() -> None:
    records = made()
    for one in made():
        if one["spec"]["measure"]["name"] == "perturbation":
            one["spec"]["measure"]["name"] = "smoothness"
            one["rows"][0]["value"] *= -1
            records.append({**one, "key": one["key"][::-1]})
    found, gap = by_name(records), "bits at 32 minus at 8"
    assert found.loc[(gap, "the size"), "rho"] == pytest.approx(1)
    assert found.loc[(gap, "the size of smoothness"), "rho"] == pytest.approx(-1)


def test_outcomes_begin_at_the_training_length() -> None:
    records = made()
    for one in records:
        if "length" in one["spec"]["setting"]:
            one["spec"]["setting"]["length"] = 16
    outcomes = {outcome for outcome, _ in by_name(records).index}
    assert outcomes == {"bits at 32", "bits at 32 minus at 16", "bits at 16"}


def test_each_training_setting_has_outcomes_of_its_own() -> None:
    every = [*made(), *(one for one in made(steps=1) if "steps" in settings_of(one))]
    found = predictions(labelled(every))
    alone = predictions(labelled(made()))
    for steps in (0, 1):
        own = found[found["outcome"].str.endswith(f" [steps={steps}]")]
        assert own["n"].tolist() == [12] * len(alone)
        assert own["quantity"].tolist()[:2] == alone["quantity"].tolist()[:2]
        assert own["rho"].tolist() == pytest.approx(alone["rho"].tolist(), nan_ok=True)


def settings_of(one: dict[str, Any]) -> dict[str, Any]:
    return one["spec"]["setting"]


def test_a_scheme_of_two_processors_counts_once() -> None:
    records = made()
    for one in records:
        two = one["label"] in LABELS[:6] and settings_of(one)["seed"] == 1
        one["provenance"]["arithmetic"] = "another" if two else "one"
    assert any(one.settings for one in labelled(records))
    pd.testing.assert_frame_equal(by_name(records), by_name(made()))
    for one in records:  # times of two processors are no mean
        for quantity in one["quantities"].values():
            quantity["repeatable"] = one["spec"]["measure"]["name"] != "perturbation"
    names = set(predictions(labelled(records))["quantity"])
    assert {"the size [cpu=another]", "the size [cpu=one]"} <= names


def test_versions_of_a_scheme_are_one_point() -> None:
    records = made()
    for one in records:  # measured by older code than trained
        code = str(one["label"] in LABELS[:6] and "steps" in settings_of(one))
        one["spec"]["scheme"]["code"] = code
    assert any(one.settings for one in labelled(records))
    pd.testing.assert_frame_equal(by_name(records), by_name(made()))
    older = []
    for one in made():  # another score, which newer code has replaced
        one["key"] = one["key"][::-1]
        one["spec"]["scheme"]["code"] = "older"
        one["provenance"]["started"] = "2000-01-01T00:00:00+00:00"
        for each in one["rows"]:
            each["value"] += RNG.random()
        older.append(one)
    pd.testing.assert_frame_equal(by_name([*made(), *older]), by_name(made()))


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return stored(tmp_path_factory.mktemp("one") / "run", made())


def test_every_format_has_all_outcomes(posenc: Command, run: Path) -> None:
    done = posenc("table", run, "--predict")
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.count("Spearman's correlation over schemes") == 3
    assert done.stdout.count("n/a: fewer than 6 schemes, or all alike") == 3
    latex = posenc("table", run, "--predict", "--format", "tex").stdout
    assert latex.count(r"\begin{tabular}") == 3
    assert r"95\% over schemes" in latex
    text = posenc("table", run, "--predict", "--format", "csv").stdout
    rows = list(csv.DictReader(io.StringIO(text)))
    assert len(rows) == 11
    assert {one["rho"] for one in rows if one["quantity"] == NAN} == {""}


def test_a_folder_with_too_little_is_refused_in_one_line(
    posenc: Command, tmp_path: Path
) -> None:
    few = stored(tmp_path / "few", made(LABELS[:3]))
    said = refusal(posenc("table", few, "--predict"))
    assert "must hold 4 schemes or more" in said
