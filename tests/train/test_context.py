"""What beyond the training length is made of: the same bytes, read in three ways."""

import math
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from support.trainings import small
from torch import Tensor

from posenc_compare.measures.context import Scores
from posenc_compare.measures.extrapolation import extrapolation
from posenc_compare.schemes import Geometry, Variant
from posenc_compare.settings.training import Training
from posenc_compare.tasks.language import Language
from posenc_compare.train.decoder import Decoder
from posenc_compare.train.evaluation import evaluate, scores_that_count
from posenc_compare.train.progress import Progress

LENGTH, LONGEST, WINDOWS = 8, 4, 3


@pytest.fixture
def setting(tmp_path: Path) -> Training:
    path = tmp_path / "text"
    path.write_bytes(bytes(torch.randint(97, 123, (4000,)).tolist()))
    return small(path, longest=LONGEST, test_bytes=WINDOWS * LENGTH * LONGEST)


@pytest.mark.parametrize(
    ("context", "stride"), [(8, 1), (8, 2), (8, 8), (4, 2), (2, 1)]
)
def test_every_byte_beyond_the_training_length_is_read_once_in_order(
    setting: Training, context: int, stride: int
) -> None:
    task = Language(setting)
    batch = task.sliding(context, stride)
    assert batch is not None
    places = scores_that_count(batch.targets, batch)
    wanted = task.windows[:, LENGTH + 1 :]
    assert places.reshape(WINDOWS, -1).tolist() == wanted.tolist()
    # Each is read with the bytes right before it.
    text = [bytes(w.tolist()) for w in task.windows]
    for tokens, targets in zip(batch.tokens, batch.targets, strict=True):
        read = bytes([*tokens.tolist(), int(targets[-1])])
        assert len(read) == context + 1
        assert any(read in window for window in text)
        assert read[1:] == bytes(targets.tolist())


def test_sliding_windows_give_what_the_network_says_of_each_byte(
    setting: Training,
) -> None:
    task = Language(setting)
    geometry = Geometry(model_dim=16, heads=2, length=LENGTH)
    model = Decoder(Variant("sinusoidal"), 1, geometry, seed=0).eval()
    batch = task.sliding(8, 2)
    assert batch is not None
    found = scores_that_count(evaluate(model, batch, autocast=False), batch).reshape(
        WINDOWS, -1
    )
    for window, bits in zip(task.windows, found, strict=True):
        for place, byte in enumerate(bits, LENGTH):
            start = place - place % 2 + 2 - 8  # windows end behind every second byte
            tokens = window[start : start + 8][None]
            with torch.no_grad():
                logits = model(tokens, torch.arange(8))[0, place - start]
            slow = -float(logits.log_softmax(-1)[window[place + 1]]) / math.log(2)
            assert float(byte) == pytest.approx(slow, rel=1e-4)


def scores(full: Callable[[Tensor], Tensor], sliding: float) -> Scores:
    """Return made scores: `full` of the place in a window, for all test lengths."""
    lengths = [LENGTH << i for i in range(3)]
    read = {
        n: full(torch.arange(n)).double().expand(WINDOWS * 32 // n, n) for n in lengths
    }
    return Scores(LENGTH, dict(read), torch.full((WINDOWS, 24), sliding))


def rows_of(made: Scores) -> dict[tuple[str, float | None], float | None]:
    return {(row.quantity, row.x): row.value for row in made.rows({})}


def test_gain_is_what_a_sliding_window_has_not() -> None:
    made = scores(
        lambda place: 3.0 - 0.5 * (place >= 8) - 0.375 * (place >= 16), sliding=2.75
    )
    fresh = torch.full((4 * WINDOWS, LENGTH), 3.0)
    fresh[::4] = 9.0  # the first bytes of a window of 32, which are not beyond L
    made.full[LENGTH] = fresh
    rows = rows_of(made)
    assert rows["fresh_bits_per_byte", None] == 3
    assert rows["full_bits_per_byte", None] == 2.25
    assert rows["context_gain", None] == 0.5
    assert rows["effective_length", None] == 32
    # The average over all places hides how much of it lies beyond.
    assert rows["beyond_bits_per_byte", 16] == 2.5
    assert rows["beyond_bits_per_byte", 32] == 2.25


@pytest.mark.parametrize(("jump", "reached"), [(8, 8), (16, 16), (99, 32)])
def test_effective_length_ends_where_bytes_beyond_cost_more(
    jump: int, reached: int
) -> None:
    made = scores(lambda place: 2.0 + 0.5 * (place >= jump), sliding=2.0)
    assert made.effective() == reached


def test_a_loss_of_the_margin_itself_is_none(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("posenc_compare.measures.context.MARGIN", 0.25)
    made = scores(lambda place: place * 0 + 2.25, sliding=2.0)
    made.truncated[2] = torch.full((WINDOWS, 24), 2.25)
    assert (made.effective(), made.used()) == (32, 2)


def test_effective_length_ends_at_the_first_that_costs_more() -> None:
    jumps = 2.0, 0.5, -1.0  # at 0, 8 and 16: bytes beyond 8 cost more up to 16 alone
    made = scores(
        lambda n: 0.0 * n + sum(v * (n >= 8 * i) for i, v in enumerate(jumps)), 2.0
    )
    assert made.effective() == 8


def test_effective_length_compares_the_same_bytes() -> None:
    made = scores(lambda place: place * 0 + 2.0, sliding=2.0)
    assert made.sliding is not None
    made.sliding[:, 8:16] = -50.0  # bytes 16 to 23, the first of the second 16
    assert made.effective() == 16


def test_context_used_is_the_least_that_costs_nothing() -> None:
    made = scores(lambda place: place * 0 + 2.0, sliding=2.0)
    for context, bits in ((1, 3.0), (2, 2.019), (3, 2.5), (4, 2.0)):
        made.truncated[context] = torch.full((WINDOWS, 24), bits)
    assert made.used() == 2
    assert rows_of(made)["truncated_bits_per_byte", 3] == 2.5


def test_bits_are_recorded_for_every_window(setting: Training) -> None:
    found = extrapolation(Variant("rope"), setting, Progress())
    values = {(r.quantity, r.x): r.value for r in found.rows if not r.case}
    by_length = found.arrays["document_bits"]
    assert [len(windows) for windows in by_length] == [WINDOWS] * 3
    for length, windows in zip(setting.test_lengths, by_length, strict=True):
        wanted = values["bits_per_byte", length]
        assert sum(windows) / WINDOWS == pytest.approx(wanted)
    assert found.arrays["window_documents"] == list(Language(setting).documents)


def test_windows_slide_by_a_sixteenth_and_shorter_ones_by_half(
    setting: Training, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked, plain = [], Language.sliding
    long = replace(setting, length=32, test_bytes=128)

    def sliding(self: Language, context: int, stride: int) -> object:
        asked.append((context, stride))
        return plain(self, context, stride)

    monkeypatch.setattr(Language, "sliding", sliding)
    extrapolation(Variant("nope"), long, Progress())
    assert sorted(asked) == [(2, 1), (4, 2), (8, 4), (16, 8), (32, 2)]


def test_where_positions_end_there_is_no_gain(setting: Training) -> None:
    found = extrapolation(Variant("learned"), setting, Progress())
    rows = {row.quantity: row for row in found.rows}
    for name in ("full_bits_per_byte", "context_gain"):
        assert (rows[name].value, rows[name].note) == (None, "not defined beyond 8")
    assert rows["sliding_bits_per_byte"].value
    assert rows["effective_length"].value == 8
    assert found.arrays["document_bits"][1:] == [[], []]
