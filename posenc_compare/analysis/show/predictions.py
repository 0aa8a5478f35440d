"""Which measure without training foretells what a trained network scores?

Schemes are the points. Every headline quantity of a measure without training is
correlated with the outcomes of a task's curve: the score at the longest length, the
gap between that and the training length, and the score at the training length. Two
controls stand beside the measures: whether a scheme is absolute, and its score at the
training length.
"""

import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from posenc_compare.analysis.core.quantities import Curve, Headline, Quantity
from posenc_compare.analysis.records.record import Record
from posenc_compare.analysis.show.format import Cell, Table
from posenc_compare.analysis.show.listing import alike
from posenc_compare.analysis.show.means import (
    Mean,
    means_of,
    of_headline,
    of_quantity,
    views_of,
)
from posenc_compare.analysis.show.tasks import by_task, prefix
from posenc_compare.registry import SCORES
from posenc_compare.stats.correlation import Correlation, correlation, holm

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
Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Prediction:
    """What one quantity says of one outcome.

    Attributes:
        outcome: what is foretold.
        quantity: by what.
        control: whether that is a control and no measure.
        found: the correlation.
        p_holm: p value, adjusted for all measures of the outcome; NaN for a control.
        curve: heading of the trained curve that the outcome is of.
        when: where on the curve the outcome is, one of `WHENS`.
    """

    outcome: str
    quantity: str
    control: bool
    found: Correlation
    p_holm: float
    curve: str
    when: str

    @property
    def of_start(self) -> bool:
        """Return whether it is foretold by the same curve's own score at its start."""
        return self.control and self.quantity != ABSOLUTE


@dataclass(frozen=True)
class Trained:
    """The trained curve of every scheme.

    Attributes:
        heading: of its task and quantity.
        schemes: labels; of schemes alike the one published first.
        absolute: 1 for an absolute scheme, else 0.
        families: of the schemes.
        lengths: from the training length up.
        values: `(schemes, lengths)`; NaN where a scheme has none.
    """

    heading: str
    schemes: list[str]
    absolute: Floats
    families: list[str]
    lengths: list[float]
    values: Floats

    def outcomes(self) -> Iterator[tuple[str, str, Floats]]:
        """Yield every outcome for every scheme, with its name and one of `WHENS`."""
        first, last = self.values[:, 0], self.values[:, -1]
        short, long = (f"{self.lengths[i]:g}" for i in (0, -1))
        names = f"at {long}", f"at {long} minus at {short}", f"at {short}"
        for name, when, values in zip(
            names, WHENS, (last, last - first, first), strict=True
        ):
            yield f"{self.heading} {name}", when, values


def predictions(records: Iterable[Record]) -> list[Prediction]:
    """Return what every measure without training says of every trained outcome.

    Measures stand in the order of tables, controls behind them. A quantity that too
    few schemes have is left out.
    """
    records = list(records)
    probed = [record for record in records if not record.task]
    found: list[Prediction] = []
    for task, some in by_task(records).items():
        means = means_of(some)
        for quantity, measure in _curves(some):
            heading = f"{prefix(task)}{quantity.heading}"
            trained = _trained(heading, quantity, measure, means)
            if trained is not None:
                measures = dict(_measures(probed, trained.schemes))
                for outcome, when, values in trained.outcomes():
                    found += _of_outcome(outcome, when, values, measures, trained)
    return found


def _of_outcome(
    outcome: str,
    when: str,
    values: Floats,
    measures: dict[str, Floats],
    trained: Trained,
) -> Iterator[Prediction]:
    """Yield what measures and controls say of one outcome."""
    start = f"{trained.heading} at {trained.lengths[0]:g}"
    controls = {ABSOLUTE: trained.absolute}
    if outcome != start:
        controls[start] = trained.values[:, 0]
    found = {
        (name, control): one
        for control, some in ((False, measures), (True, controls))
        for name, x in some.items()
        if (one := correlation(x, values, trained.absolute, trained.families))
    }
    adjusted = holm([math.nan if key[1] else one.p for key, one in found.items()])
    for (key, one), p in zip(found.items(), adjusted, strict=True):
        yield Prediction(outcome, *key, one, float(p), trained.heading, when)


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
    mine = [m for m in of_quantity(means, measure, quantity.name) if not m.case]
    lengths = sorted({mean.x for mean in mine if mean.values})
    if len(lengths) < 2:
        return None
    at = {(mean.scheme, mean.x): mean for mean in mine if mean.values}
    labels = sorted({scheme for scheme, _ in at})
    rows = {label: [at.get((label, x)) for x in lengths] for label in labels}
    same = alike(rows)
    labels = [label for label in labels if label not in same]
    family = {mean.scheme: mean.family for mean in mine}
    return Trained(
        heading,
        labels,
        np.array([float(family[label] == "absolute") for label in labels]),
        [family[label] for label in labels],
        lengths,
        np.array([[m.mean if m else math.nan for m in rows[k]] for k in labels]),
    )


def _measures(probed: list[Record], schemes: list[str]) -> Iterator[tuple[str, Floats]]:
    """Yield every headline quantity without training, for every scheme."""
    means = means_of(probed)
    for (measure, _), view in views_of(probed).items():
        if isinstance(view, Headline):
            of = {m.scheme: m.mean for m in of_headline(means, measure, view)}
            values = [of.get(scheme, math.nan) for scheme in schemes]
            yield view.quantity.heading, np.array(values)


def prediction_tables(found: Iterable[Prediction]) -> list[Table]:
    """Return a table for every outcome."""
    by_outcome: dict[str, list[list[str | Cell]]] = {}
    for one in found:
        c = one.found
        by_outcome.setdefault(one.outcome, []).append(
            [
                f"control: {one.quantity}" if one.control else one.quantity,
                str(c.n),
                _signed(c.rho),
                _range(c.over_schemes),
                _range(c.over_families),
                _signed(c.given),
                _share(c.p),
                _share(one.p_holm),
            ]
        )
    return [
        Table(f"{outcome}, Spearman's correlation over schemes", [*HEAD], rows)
        for outcome, rows in by_outcome.items()
    ]


def prediction_frame(found: Iterable[Prediction]) -> pd.DataFrame:
    """Return a row for each prediction, with all digits."""
    rows = [
        {
            "outcome": one.outcome,
            "quantity": one.quantity,
            "control": one.control,
            "n": one.found.n,
            "rho": one.found.rho,
            "schemes_low": one.found.over_schemes[0],
            "schemes_high": one.found.over_schemes[1],
            "families_low": one.found.over_families[0],
            "families_high": one.found.over_families[1],
            "given_absolute": one.found.given,
            "p": one.found.p,
            "p_holm": one.p_holm,
        }
        for one in found
    ]
    return pd.DataFrame(rows)


def _signed(value: float) -> str:
    return "n/a" if math.isnan(value) else f"{value:+.2f}"


def _range(ends: tuple[float, float]) -> str:
    low, high = map(_signed, ends)
    return low if low == "n/a" else f"{low} to {high}"


def _share(p: float) -> str:
    return "n/a" if math.isnan(p) else f"{p:.4f}"
