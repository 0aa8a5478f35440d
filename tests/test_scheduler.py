"""Who computes beside whom: the policy of the scheduler, without processes."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from posenc_compare.errors import ConfigError
from posenc_compare.measures.measure import Quantity, Result, register_measure
from posenc_compare.records.cells import Cell
from posenc_compare.records.store import Store
from posenc_compare.registry import MEASURES
from posenc_compare.run import workers
from posenc_compare.run.scheduler import Scheduler
from posenc_compare.run.workers import Pool
from posenc_compare.settings.probe import ProbeSetting
from posenc_compare.settings.table import Work
from posenc_compare.variants import Variant

SECONDS = Quantity("pass", "seconds", "lower", "no time", repeatable=False)
CELL = Cell(Variant("rope"), "smoothness", ProbeSetting(), threads=1)


class Sink:
    """A worker that takes every request and never answers."""

    def __init__(self, work: Work, path: list[str]) -> None:
        pass

    def send(self, request: dict[str, Any]) -> None:
        pass

    def close(self) -> None:
        pass


def nothing(*_: object) -> Result:
    """Seconds of one pass."""
    return Result([])


@pytest.mark.usefixtures("forgetful")
def test_a_measure_that_times_runs_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    register_measure("timed", quantities=(SECONDS,), exclusive=True)(nothing)
    monkeypatch.setattr(workers, "Worker", Sink)
    cells = [
        replace(CELL, measure=measure, threads=threads)
        for threads in (1, 2, 3)
        for measure in ("timed", "smoothness")
    ]
    store = Store(tmp_path / "run")
    store.create()
    work = Work(workers=3)
    run = Scheduler(cells, store, Pool(work), work)
    seen = []
    while run._assign():
        jobs = [job for job in run.workers.values() if job]
        seen.append(sorted(job.cell.measure for job in jobs))
        run.workers[next(iter(run.workers))] = None  # the eldest has answered
    together = [["smoothness"] * count for count in (3, 2, 1)]
    assert seen == [*together, ["timed"], ["timed"], ["timed"]]


@pytest.mark.parametrize("said", [True, False])
def test_a_measure_says_whether_it_runs_alone(said: bool) -> None:
    quantity = replace(SECONDS, repeatable=said)
    with pytest.raises(ConfigError, match=f"exclusive must be {not said}, got {said}"):
        register_measure("odd", quantities=(quantity,), exclusive=said)(nothing)
    assert "odd" not in MEASURES.entries()
