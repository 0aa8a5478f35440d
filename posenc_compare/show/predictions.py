"""Which measure without training predicts what a trained network scores?

Schemes are the points. Every headline quantity of a measure without training is
correlated with the outcomes of a task's curve: the score at the longest length, the
gap between that and the training length, and the score at the training length. Two
controls stand beside the measures: whether a scheme is absolute, and its score at the
training length.
"""

import math
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

import numpy as np
import pandas as pd

from posenc_compare.records.quantities import Curve, Headline, Quantity
from posenc_compare.records.record import Record
from posenc_compare.registry import SCORES
from posenc_compare.show.format import Cell, Table
from posenc_compare.show.means import (
    Floats,
    Frame,
    Mean,
    means_of,
    of_headline,
    of_quantity,
    views_of,
)
from posenc_compare.show.ranking import alike
from posenc_compare.show.tasks import by_task, prefix
from posenc_compare.stats.correlation import correlation, holm

ABSOLUTE = "is absolute"
WHENS = ("longest test", "longest test minus training length", "training length")
"""Where on a trained curve an outcome is."""
HEAD = (
    "quantity",
    "n",
    "rho",
    "95% over schemes",
    "95% over families",
    f"given {ABSOLUTE!r}",
    "p",
    "p (Holm)",
)
COLUMNS = [
    "outcome",
    "quantity",
    "control",
    "n",
    "rho",
    "schemes_low",
    "schemes_high",
    "families_low",
    "families_high",
    "given_absolute",
    "p",
    "p_holm",
]


@dataclass(frozen=True)
class Trained:
    """The trained curve of every scheme.

    Attributes:
        heading: of its task and quantity.
        families: of the schemes; of schemes alike the one published first is there.
        scores: schemes by lengths from the training length up; NaN where one has none.
    """

    heading: str
    families: dict[str, str]
    scores: Frame

    @property
    def absolute(self) -> Floats:
        """Return 1 for an absolute scheme, else 0."""
        return np.array([float(one == "absolute") for one in self.families.values()])

    def outcomes(self) -> Iterator[tuple[str, str, Floats]]:
        """Yield every outcome for every scheme, with its name and one of `WHENS`."""
        first, last = (self.scores.iloc[:, i].to_numpy() for i in (0, -1))
        short, long = (f"{self.scores.columns[i]:g}" for i in (0, -1))
        names = f"at {long}", f"at {long} minus at {short}", f"at {short}"
        for name, when, values in zip(
            names, WHENS, (last, last - first, first), strict=True
        ):
            yield f"{self.heading} {name}", when, values


def predictions(records: Iterable[Record]) -> Frame:
    """Return a row for what each measure without training says of a trained outcome.

    Measures stand in the order of tables, controls behind them. A quantity that too
    few schemes have is left out.

    Returns:
        `outcome` and `quantity` by name; `control`: whether that is a control and no
        measure; `n` schemes; the correlation `rho` and the ends of its intervals;
        `given_absolute`; `p`, and `p_holm`, which is adjusted for all measures of the
        outcome and NaN for a control. `curve` is the heading of the trained curve,
        `when` one of `WHENS`, `of_start` whether the quantity is the same curve's own
        score at its start.
    """
    records = list(records)
    probed = [record for record in records if not record.task]
    found: list[dict[str, object]] = []
    for task, some in by_task(records).items():
        means = means_of(some)
        for quantity, measure in _curves(some):
            heading = f"{prefix(task)}{quantity.heading}"
            trained = _trained(heading, quantity, measure, means)
            if trained is not None:
                measures = dict(_measures(probed, [*trained.families]))
                for outcome, when, values in trained.outcomes():
                    shared = {"curve": heading, "when": when}
                    rows = _of_outcome(outcome, values, measures, trained)
                    found += [{**row, **shared} for row in rows]
    return pd.DataFrame(found, columns=[*COLUMNS, "curve", "when", "of_start"])


def _of_outcome(
    outcome: str, values: Floats, measures: dict[str, Floats], trained: Trained
) -> Iterator[dict[str, object]]:
    """Yield what measures and controls say of one outcome."""
    start = f"{trained.heading} at {trained.scores.columns[0]:g}"
    controls = {ABSOLUTE: trained.absolute}
    if outcome != start:
        controls[start] = trained.scores.iloc[:, 0].to_numpy()
    families = [*trained.families.values()]
    found = {
        (name, control): one
        for control, some in ((False, measures), (True, controls))
        for name, x in some.items()
        if (one := correlation(x, values, trained.absolute, families))
    }
    adjusted = holm([math.nan if key[1] else one.p for key, one in found.items()])
    for ((name, control), one), p in zip(found.items(), adjusted, strict=True):
        ends = (*one.over_schemes, *one.over_families)
        numbers = (one.n, one.rho, *ends, one.given, one.p, float(p))
        row = dict(zip(COLUMNS, (outcome, name, control, *numbers), strict=True))
        yield {**row, "of_start": control and name != ABSOLUTE}


def _curves(records: list[Record]) -> list[tuple[Quantity, str]]:
    """Return the curves of a task's score, each with its measure."""
    return [
        (view.quantity, measure)
        for (measure, name), view in views_of(records).items()
        if isinstance(view, Curve) and name in SCORES
    ]


def _trained(
    heading: str, quantity: Quantity, measure: str, means: list[Mean]
) -> Trained | None:
    """Return the curve of a quantity, or None if it has fewer than two lengths."""
    found = [m for m in of_quantity(means, measure, quantity.name) if not m.case]
    known = [mean for mean in found if mean.values]
    lengths = sorted({mean.x for mean in known})
    if len(lengths) < 2:
        return None
    at = {(mean.scheme, mean.x): mean for mean in known}
    labels = sorted({mean.scheme for mean in known})
    rows = {label: [at.get((label, x)) for x in lengths] for label in labels}
    for same in alike(rows):
        del rows[same]
    family = {mean.scheme: mean.family for mean in known}
    scores = {k: [m.mean if m else math.nan for m in row] for k, row in rows.items()}
    frame = pd.DataFrame.from_dict(scores, orient="index", columns=lengths)
    return Trained(heading, {label: family[label] for label in rows}, frame)


def _measures(probed: list[Record], schemes: list[str]) -> Iterator[tuple[str, Floats]]:
    """Yield every headline quantity without training, for every scheme."""
    means = means_of(probed)
    for (measure, _), view in views_of(probed).items():
        if isinstance(view, Headline):
            of = {m.scheme: m.mean for m in of_headline(means, measure, view)}
            values = [of.get(scheme, math.nan) for scheme in schemes]
            yield view.quantity.heading, np.array(values)


def prediction_tables(found: Frame) -> list[Table]:
    """Return a table for every outcome.

    Args:
        found: as `predictions` returns it.
    """
    return [
        Table(
            f"{outcome}, Spearman's correlation over schemes",
            [*HEAD],
            [_row(**row) for row in some[COLUMNS[1:]].to_dict(orient="records")],
        )
        for outcome, some in found.groupby("outcome", sort=False)
    ]


def _row(control: bool, quantity: str, n: int, **numbers: float) -> list[str | Cell]:
    """Return the cells of a prediction."""
    low, high = (_range(numbers, of) for of in ("schemes", "families"))
    return [
        f"control: {quantity}" if control else quantity,
        str(n),
        _signed(numbers["rho"]),
        low,
        high,
        _signed(numbers["given_absolute"]),
        _share(numbers["p"]),
        _share(numbers["p_holm"]),
    ]


def _signed(value: float) -> str:
    return "n/a" if math.isnan(value) else f"{value:+.2f}"


def _range(numbers: Mapping[str, float], of: str) -> str:
    """Return the interval over schemes or families."""
    low, high = (_signed(numbers[f"{of}_{end}"]) for end in ("low", "high"))
    return low if low == "n/a" else f"{low} to {high}"


def _share(p: float) -> str:
    return "n/a" if math.isnan(p) else f"{p:.4f}"
