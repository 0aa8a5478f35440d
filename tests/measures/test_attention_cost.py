"""Time and memory of attention by length, with a clock that the tests hold."""

import time
from dataclasses import replace
from pathlib import Path as File

import pytest
import torch
import torch.nn.functional as F
from conftest import Command
from torch import Tensor

from posenc_compare.attention import Path, Session, backends, session
from posenc_compare.attention.backends import ORDER
from posenc_compare.measures import attention_cost as module
from posenc_compare.measures.attention_cost import attention_cost
from posenc_compare.measures.measure import Row
from posenc_compare.measures.memory import peak_memory
from posenc_compare.measures.probe import Probe
from posenc_compare.registry import MEASURES
from posenc_compare.schemes import Variant
from posenc_compare.train.progress import Progress

PROBE = Probe(width=32, heads=4, positions=64, dtype="float32")


def rows_of(name: str, probe: Probe = PROBE) -> dict[tuple[str, float | None], Row]:
    found = attention_cost(Variant(name, {}), probe, Progress()).rows
    return {(row.quantity, row.x): row for row in found}


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """Return the seconds that have passed: 3 for the scheme, 2 for the kernel alone."""
    now, plain, inside = [0.0], Session.attend, [False]
    kernel = F.scaled_dot_product_attention

    def attend(self: Session, *given: object, **named: object) -> Tensor:
        now[0] += 3.0
        inside[0] = True
        try:
            return plain(self, *given, **named)  # type: ignore[arg-type]
        finally:
            inside[0] = False

    def bare(*given: object, **named: object) -> Tensor:
        now[0] += 0.0 if inside[0] else 2.0
        return kernel(*given, **named)  # type: ignore[arg-type]

    monkeypatch.setattr(Session, "attend", attend)
    monkeypatch.setattr(F, "scaled_dot_product_attention", bare)
    monkeypatch.setattr(time, "perf_counter", lambda: now[0])
    return now


def test_what_takes_long_has_fewer_rounds(
    clock: list[float], monkeypatch: pytest.MonkeyPatch
) -> None:
    rounds = [0]
    plain = module._seconds

    def counted(run: object, device: str) -> float:
        rounds[0] += 1
        return plain(run, device)  # type: ignore[arg-type]

    monkeypatch.setattr(module, "_seconds", counted)
    rows_of("nope", replace(PROBE, positions=2))  # one length, three kinds
    assert rounds[0] == 3 * 2 * (module.LEAST + 1)
    monkeypatch.setattr(module, "ENOUGH", 1e9)
    rounds[0] = 0
    rows_of("nope", replace(PROBE, positions=2))
    assert rounds[0] == 3 * 2 * (module.ROUNDS + 1)


def test_a_decoding_step_gives_what_the_whole_pass_gives(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    outs: list[Tensor] = []
    plain = Session.attend

    def kept(self: Session, *given: object, **named: object) -> Tensor:
        outs.append(plain(self, *given, **named))  # type: ignore[arg-type]
        return outs[-1]

    monkeypatch.setattr(Session, "attend", kept)
    for name in ("rope", "alibi", "fox", "cope", "deberta"):
        outs.clear()
        rows_of(name, replace(PROBE, positions=2))
        whole = [out for out in outs if out.shape[2] == 2]
        steps = [out for out in outs if out.shape[2] == 1]
        assert whole
        assert steps
        torch.testing.assert_close(steps[0], whole[0][:, :, -1:])


@pytest.mark.parametrize(
    ("name", "path"),
    [
        ("nope", "path fused"),
        ("alibi", "path strided; fused: alibi adds a bias"),
        (
            "fox",
            "path dense; fused: fox adds a bias; strided: fox adds no bias of the "
            "offset",
        ),
    ],
)
def test_a_row_notes_the_path_and_why_no_faster_one(name: str, path: str) -> None:
    assert rows_of(name)["forward_ms", 64].note == path


@pytest.mark.parametrize("last", ["fused", "dense"])
def test_faster_paths_are_those_that_come_before_in_the_order(
    last: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    order = [path for path in ORDER if path not in (last, "plain")] + [last, "plain"]
    for reader in (backends, session):
        monkeypatch.setattr(reader, "ORDER", tuple(order))
    taken, *faster = rows_of("fox")["forward_ms", 64].note.split("; ")
    path = taken.removeprefix("path ")
    named = [reason.partition(": ")[0] for reason in faster]
    assert named == order[: order.index(path)]  # type: ignore[arg-type]


def test_parameters_are_those_of_one_layer() -> None:
    assert rows_of("rope")["parameters", None].value == 0
    assert rows_of("learned")["parameters", None].value == 64 * 32


def test_memory_is_the_most_that_is_held_at_a_time() -> None:
    def run() -> None:
        for _ in range(3):
            a = torch.empty(1000, dtype=torch.float64)
            b = torch.empty(500, dtype=torch.float64)
            del a, b

    assert peak_memory(run, "cpu") == 12_000


def test_a_scheme_that_writes_all_logits_takes_their_memory() -> None:
    # Four heads of 64 x 64 logits in float32 and their softmax, kept for the gradient.
    least = 2 * 4 * 64 * 64 * 4 / 2**20
    plain, fused = rows_of("shaw"), rows_of("nope")
    assert plain["gradient_mib", 64].value > least  # type: ignore[operator]
    assert fused["gradient_mib", 64].value < least  # type: ignore[operator]


def test_it_runs_alone_and_where_it_is_named() -> None:
    measure = MEASURES.get("attention_cost")
    assert measure.exclusive
    assert MEASURES.entry("attention_cost").facts["extra"]


def test_the_command_uses_float32_and_writes_rows(
    posenc: Command, tmp_path: File
) -> None:
    sizes = ("--set", "positions=32,width=16,heads=2")
    done = posenc("cost", "--schemes", "nope,alibi", *sizes, "--out", tmp_path)
    assert done.returncode == 0, done.stderr
    assert "attention with gradient / kernel" in done.stdout
    assert "no order" not in done.stdout
    rows = (tmp_path / "rows.csv").read_text()
    assert "path strided; fused: alibi adds a bias" in rows
    (record, *_) = (tmp_path / "cells").iterdir()
    assert '"dtype":"float32"' in record.read_text().replace(" ", "")
