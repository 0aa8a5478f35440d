"""Extrapolation: how well does a trained network read texts longer than it saw?

A small decoder is trained on a task at one length and tested at lengths up to 16 times
as long; in language, on the same held-out bytes. `docs/training.md` says how and why.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from torch import Tensor

from posenc_compare.errors import ConfigError, PluginError, UndefinedPositionError
from posenc_compare.measures.accuracy import (
    ACCURACY_QUANTITIES,
    ACCURACY_VIEWS,
    EXACT,
    accuracy_rows,
)
from posenc_compare.measures.context import (
    CONTEXT_QUANTITIES,
    CONTEXT_VIEWS,
    SHORTEST,
    STRIDES,
    Scores,
)
from posenc_compare.measures.measure import (
    ByCase,
    Curve,
    Floor,
    Quantity,
    Result,
    Row,
    register_measure,
)
from posenc_compare.registry import TASKS
from posenc_compare.schemes import Scheme, Variant
from posenc_compare.schemes.contract import schemes_for_length
from posenc_compare.settings.training import Training
from posenc_compare.tasks.task import Batch, Task
from posenc_compare.train.evaluation import by_place, exact_match, scores_that_count
from posenc_compare.train.progress import Progress
from posenc_compare.train.token_scores import Tests
from posenc_compare.train.trainer import trainer_of


@dataclass(frozen=True)
class Scoring:
    """The quantities of tasks that report one kind of score."""

    score: Quantity
    read: Quantity
    floor: Quantity
    trained: Quantity
    more: tuple[Quantity, ...] = ()

    @property
    def all(self) -> tuple[Quantity, ...]:
        """Return every quantity."""
        return (self.score, self.read, self.floor, self.trained, *self.more)


BITS = Scoring(
    Quantity(
        "bits_per_byte",
        unit="bits per byte",
        better="lower",
        zero="every held-out byte is predicted; 8 is a uniform guess",
        x="test length, in bytes",
        title="bits per byte",
    ),
    Quantity(
        "read_bits_per_byte",
        unit="bits per byte",
        better="lower",
        zero="every held-out byte is predicted; 8 is a uniform guess",
        x="test length, in bytes",
        title="bits per byte of trained networks, with RoPE scaling",
    ),
    Quantity(
        "floor_bits_per_byte",
        unit="bits per byte",
        better="neither",
        zero="an n-gram model of the training bytes predicts every held-out byte",
        x="test length, in bytes",
        title="bits per byte of n-gram models",
    ),
    Quantity(
        "training_bits",
        unit="bits per byte",
        better="lower",
        zero="every training byte is predicted (mean of the last tenth of the steps)",
    ),
    CONTEXT_QUANTITIES,
)
ACCURACY = Scoring(
    Quantity(
        "accuracy",
        unit="share",
        better="higher",
        zero="no scored token is predicted",
        x="test length, in tokens",
        title="accuracy",
    ),
    Quantity(
        "read_accuracy",
        unit="share",
        better="higher",
        zero="no scored token is predicted",
        x="test length, in tokens",
        title="accuracy of trained networks under other conditions",
    ),
    Quantity(
        "floor_accuracy",
        unit="share",
        better="neither",
        zero="a model without a network predicts no scored token",
        x="test length, in tokens",
        title="accuracy of models without a network",
    ),
    Quantity(
        "training_bits_per_token",
        unit="bits per token",
        better="lower",
        zero="every training token is predicted (mean of the last tenth of the steps)",
    ),
    ACCURACY_QUANTITIES,
)
SCORINGS = {scoring.score.name: scoring for scoring in (BITS, ACCURACY)}


@register_measure(
    "extrapolation",
    quantities=(*BITS.all, *ACCURACY.all),
    views=(
        *CONTEXT_VIEWS,
        Curve(BITS.score),
        ByCase(BITS.read, of=BITS.score),
        Floor(BITS.floor, of=BITS.score),
        Curve(ACCURACY.score),
        ByCase(ACCURACY.read, of=ACCURACY.score),
        Floor(ACCURACY.floor, of=ACCURACY.score),
        *ACCURACY_VIEWS,
    ),
    version=2,
    setting="training",
)
def extrapolation(variant: Variant, setting: Training, progress: Progress) -> Result:
    """Score of a trained decoder, from its training length to 16 times it.

    Args:
        variant: the scheme under test.
        setting: network, training, task and seed.
        progress: called after every step.

    Returns:
        One row per test length; where the scheme defines no such positions, a row
        with the reason. Where the scheme can be read in other ways at a length, as a
        rope under a scaling, a row for each with its name as case. A row for each
        simple model of the task and length. If the task can slide windows, the rows
        of `measures.context`. Arrays: `position_bits` (of other tasks `position_` and
        the score), the score at every position of the longest length that is defined;
        `training_bits` of every step; `document_bits`, by test length, the mean of
        every test window of the longest length, and `window_documents`, which document
        each is from.
    """
    score: str = TASKS.entry(setting.task).facts["score"]
    trainer = trainer_of(variant, setting)
    task, model = trainer.task, trainer.model
    _check_tests(task, setting)
    contexts = _contexts(setting)
    tests = Tests(
        trainer, score, setting.test_bytes, {*contexts, *setting.test_lengths}
    )
    tests.resume(progress)
    losses = trainer.train(progress)
    scoring = SCORINGS[score]
    last = losses[-max(1, len(losses) // 10) :]
    rows = [Row(scoring.trained.name, sum(last) / len(last))]
    scores, notes = Scores(setting.length), dict[int, str]()
    means: dict[int, float | None] = {}
    at_places: list[float] = []
    for length in setting.test_lengths:
        batch = task.test(length)
        others = schemes_for_length(model.own, length) if setting.tests == "all" else {}
        for case, schemes in {"": model.own, **others}.items():
            quantity = scoring.read if case else scoring.score
            found, note = _tested(tests, batch, case, schemes, progress)
            value = None
            if found is not None:
                places = by_place(found, batch)
                value = float(places.mean())
                at_places = at_places if case else places.tolist()
            rows.append(Row(quantity.name, value, length, case, note))
            if not case:
                scores.full[length], notes[length] = found, note
                means[length] = value
                if scoring is ACCURACY:
                    exact = None if found is None else exact_match(found, batch)
                    rows.append(Row(EXACT.name, exact, length, note=note))
        for case, other in task.variations(length).items():
            found, note = _tested(tests, other, case, model.own, progress)
            value = None if found is None else float(by_place(found, other).mean())
            rows.append(Row(scoring.read.name, value, length, case, note))
        for name, floor in task.floors(length).items():
            value = float(by_place(floor, batch).mean())
            rows.append(Row(scoring.floor.name, value, length, name))
    if setting.tests == "all":
        _slide(scores, task, setting, tests, model.own, progress)
    rows += scores.rows(notes) if scoring is BITS else accuracy_rows(means)
    arrays: dict[str, Any] = {
        f"position_{score.removesuffix('_per_byte')}": at_places,
        "training_bits": losses,
    }
    if task.documents:
        arrays["document_bits"] = scores.by_window(len(task.documents))
        arrays["window_documents"] = list(task.documents)
    return Result(rows, arrays, scoring.all)


def _check_tests(task: Task, setting: Training) -> None:
    """Before training, refuse weights if tests are read window by window."""
    slides = type(task).sliding is not Task.sliding
    for length in setting.test_lengths if slides or task.documents else ():
        if task.test(length).weights is not None:
            raise PluginError(
                f"{setting.task}: a task of documents, or one whose windows slide, "
                f"must count every place of a test, got weights for length {length}"
            )


def _tested(
    tests: Tests,
    batch: Batch,
    case: str,
    schemes: Sequence[Scheme],
    progress: Progress,
) -> tuple[Tensor | None, str]:
    """Return the score of every token, or why there is none."""
    try:
        return tests.run(batch, case, schemes, progress), ""
    except UndefinedPositionError as error:
        return None, f"not defined beyond {error.limit}"
    except ConfigError as error:
        if not case:
            raise
        return None, str(error)


def _slide(
    scores: Scores,
    task: Task,
    setting: Training,
    tests: Tests,
    schemes: Sequence[Scheme],
    progress: Progress,
) -> None:
    """Add the scores of sliding windows, if the task has any and is tested beyond L."""
    for context in _contexts(setting) if setting.longest > 1 else ():
        whole = context == setting.length
        most = max(1, context // (STRIDES if whole else 2))
        stride = max(n for n in range(1, most + 1) if setting.length % n == 0)
        batch = task.sliding(context, stride)
        if batch is None:
            return
        found = scores_that_count(tests.run(batch, "sliding", schemes, progress), batch)
        found = found.reshape(-1, setting.length * (setting.longest - 1))
        if whole:
            scores.sliding = found
        else:
            scores.truncated[context] = found


def _contexts(setting: Training) -> list[int]:
    """Return the lengths of windows that slide, up to the training length."""
    halved = (setting.length >> i for i in range(SHORTEST.bit_length()))
    return [context for context in halved if context > 1 or context == setting.length]
