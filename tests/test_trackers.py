"""Records sent to experiment trackers, and the news of a comparison."""

import re
import sys
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import pytest

import posenc_compare as pc
from posenc_compare.errors import ConfigError
from posenc_compare.records.record import Record
from posenc_compare.records.trackers import TRACKERS, track_record, tracker_of
from posenc_compare.run.scheduler import Event

TRAINED: dict[str, Any] = {
    "measures": "extrapolation", "tasks": "copy",
    "steps": 4, "length": 8, "width": 16, "heads": 2, "layers": 1, "batch": 2,
    "longest": 2, "test_bytes": 64, "tests": "lengths", "seeds": 1,
}  # fmt: skip
SMALL: dict[str, Any] = {"positions": 16, "width": 16, "heads": 2, "seeds": 1}


class Heard:
    """A tracker that keeps what it is sent."""

    def __init__(self) -> None:
        self.runs: dict[str, dict[str, Any]] = {}
        self.logged: dict[str, list[tuple[int, dict[str, float]]]] = {}
        self.open = ""

    def start(self, cell: str, settings: dict[str, Any]) -> None:
        assert not self.open
        self.open, self.runs[cell], self.logged[cell] = cell, settings, []

    def log(self, step: int, values: dict[str, float]) -> None:
        self.logged[self.open].append((step, values))

    def finish(self) -> None:
        assert self.open
        self.open = ""


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> tuple[Any, Heard]:
    heard, out = Heard(), tmp_path_factory.mktemp("run")
    results = pc.compare("rope,alibi", **TRAINED, out=out, track=heard)
    return results, heard


def test_a_comparison_sends_every_new_record(trained: Any) -> None:
    results, heard = trained
    assert not heard.open
    assert {run["scheme"] for run in heard.runs.values()} == {"rope", "alibi"}
    for record in results.records:
        name = next(n for n in heard.runs if n.endswith(record.key[:8]))
        assert heard.runs[name]["steps"] == 4
        assert heard.runs[name]["status"] == "ok"
        *steps, (last, values) = heard.logged[name]
        losses = record.arrays["training_bits"]
        assert steps == [(n, {"training_bits": x}) for n, x in enumerate(losses)]
        assert (last, len(losses)) == (4, 4)
        assert sorted(values.values()) == sorted(r.value for r in record.rows)


def test_a_comparison_sends_no_record_twice(trained: Any) -> None:
    results, _ = trained
    new = Heard()
    pc.compare("rope,alibi", **TRAINED, out=results.folder, track=new)
    assert new.runs == {}


def test_tensorboard_holds_the_losses_and_results(trained: Any, tmp_path: Path) -> None:
    events = "tensorboard.backend.event_processing.event_accumulator"
    reader = pytest.importorskip(events)
    results, _ = trained
    tracker = tracker_of("tensorboard", tmp_path)
    for record in results.records:
        track_record(tracker, record)
    folders = sorted((tmp_path / "tensorboard").iterdir())
    assert len(folders) == 2
    for folder in folders:
        (record,) = (r for r in results.records if folder.name.endswith(r.key[:8]))
        read = reader.EventAccumulator(str(folder))
        read.Reload()
        losses = [e.value for e in read.Scalars("training_bits")]
        assert losses == pytest.approx(record.arrays["training_bits"])
        values = [
            read.Scalars(tag)[0].value
            for tag in read.Tags()["scalars"]
            if tag != "training_bits"
        ]
        expected = sorted(row.value for row in record.rows)
        assert sorted(values) == pytest.approx(expected)
        text = read.Tensors("settings/text_summary")[0].tensor_proto.string_val[0]
        assert f"scheme: {record.label}" in text.decode()


@pytest.mark.parametrize("name", ["wandb", "trackio", "mlflow"])
def test_other_trackers_are_called_by_their_functions(
    trained: Any, name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, name, module := Mock())
    record: Record = trained[0].records[0]
    track_record(tracker_of(name, tmp_path / "mine"), record)
    called = module.method_calls
    order = [one[0] for one in called]
    if name == "mlflow":
        assert order[:3] == ["set_experiment", "start_run", "log_params"]
        assert order[3:] == ["log_metrics"] * 5 + ["end_run"]
        assert called[2][1][0]["scheme"] == record.label
        keys = {key for _, given, _ in called[3:-1] for key in given[0]}
        assert all(re.fullmatch(r"[\w./: -]+", key) for key in keys)
    else:
        assert order == ["init", *["log"] * 5, "finish"]
        assert called[0][2]["config"]["key"] == record.key
        assert called[0][2]["group"] == "mine"
        assert called[1][2] == {"step": 0}


@pytest.mark.parametrize("name", TRACKERS)
def test_a_package_that_is_not_installed_is_named(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    module = "torch.utils.tensorboard" if name == "tensorboard" else name
    monkeypatch.setitem(sys.modules, module, None)
    with pytest.raises(ConfigError) as error:
        pc.compare("rope", "smoothness", track=name, out=tmp_path / "run", **SMALL)
    message = str(error.value)
    assert message.startswith(f"track: {name} must be installed, got import of")
    assert message.endswith(f"; `pip install 'posenc-compare[{name}]'` would work")
    assert not (tmp_path / "run").exists()


def test_a_tracker_that_fails_stops_no_run(tmp_path: Path) -> None:
    class Failing(Heard):
        def finish(self) -> None:
            raise OSError("no route\nto host")

    events: list[Event] = []
    both, listen = "smoothness,uniqueness", events.append
    results = pc.compare("rope", both, track=Failing(), on_event=listen, **SMALL)
    assert len(results.records) == 2
    notes = [str(e) for e in events if e.note.startswith("track: ")]
    assert notes == [
        "track: must take every record, got OSError: no route to host; records are "
        "computed without it"
    ]


def test_every_cell_has_its_news(tmp_path: Path) -> None:
    def kinds(measures: str, **more: Any) -> dict[str, list[str]]:
        found: dict[str, list[str]] = {}
        events: list[Event] = []
        given = {**SMALL, **more}
        results = pc.compare("rope", measures, on_event=events.append, **given)
        for event in events:
            if event.key and event.kind != "progress":
                found.setdefault(event.key, []).append(event.kind)
            assert (event.record is not None) == (event.kind in ("finished", "failed"))
            assert bool(event.note) == (event.kind == "note")
        assert found.keys() == {record.key for record in results.records}
        return found

    first = kinds("smoothness", out=tmp_path / "a")
    assert list(first.values()) == [["started", "finished"]]
    both = kinds("smoothness,uniqueness", out=tmp_path / "a")
    assert [both.pop(key) for key in first] == [["reused"]]
    assert list(both.values()) == [["started", "finished"]]
    copied = kinds("smoothness", out=tmp_path / "b", reuse=str(tmp_path / "a"))
    assert copied == {key: ["reused"] for key in first}
