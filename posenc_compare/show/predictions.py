"""Which measure without training predicts what a trained network scores?

Schemes are the points. Every headline quantity of a measure without training is
correlated with the outcomes of a task's curve: the score at the longest length, the
gap between that and the training length, and the score at the training length. Two
controls stand beside the measures: whether a scheme is absolute, and its score at the
training length.
"""

import math
from collections.abc import Iterable, Iterator, Mapping

import numpy as np
import pandas as pd

from posenc_compare.records.quantities import Curve, Headline
from posenc_compare.records.record import Record
from posenc_compare.registry import SCORES
from posenc_compare.show.format import Table
from posenc_compare.show.frame import (
    Floats,
    Frame,
    by_scheme,
    means_of,
    of_headline,
    of_quantity,
    views_of,
)
from posenc_compare.show.ranking import twins
from posenc_compare.show.tasks import by_task, prefix
from posenc_compare.stats.correlation import FEWEST_DRAWN, correlation, holm

ABSOLUTE = "is absolute"
WHENS = ("longest test", "longest test minus training length", "training length")
"""Where on a trained curve an outcome is."""
HEAD = {
    "quantity": "quantity",
    "n": "n",
    "rho": "rho",
    "schemes": "95% over schemes",
    "families": "95% over families",
    "given_absolute": f"given {ABSOLUTE!r}",
    "p": "p",
    "p_holm": "p (Holm)",
}
COLUMNS = [
    *("outcome", "quantity", "control", "n", "rho", "schemes_low", "schemes_high"),
    *("families_low", "families_high", "given_absolute", "p", "p_holm"),
]


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
    measures = _measures(probed)
    found: list[dict[str, object]] = []
    for task, some in by_task(records).items():
        means = means_of(some)
        for (measure, name), view in views_of(some).items():
            if isinstance(view, Curve) and name in SCORES:
                heading = f"{prefix(task)}{view.quantity.heading}"
                own = of_quantity(means, measure, name)
                found += _of_curve(heading, own[own["case"] == ""], measures)
    return pd.DataFrame(found, columns=[*COLUMNS, "curve", "when", "of_start"])


def _of_curve(
    heading: str, means: Frame, measures: Mapping[str, Mapping[str, float]]
) -> Iterator[dict[str, object]]:
    """Yield what measures and controls say of the outcomes of one curve."""
    known = means[means["n"] > 0]
    known = known[~known["scheme"].isin(twins(known))]
    if known["x"].nunique() < 2:
        return
    scores = known.pivot_table("mean", index=["scheme", "family"], columns="x")
    schemes, families = (scores.index.get_level_values(i) for i in (0, 1))
    absolute = np.array(families == "absolute", float)
    first, last = (
        scores[x].to_numpy() for x in (scores.columns[0], scores.columns[-1])
    )
    short, long = (f"{x:g}" for x in (scores.columns[0], scores.columns[-1]))
    names = (f"at {long}", f"at {long} minus at {short}", f"at {short}")
    start = f"{heading} at {short}"
    for name, when, values in zip(
        names, WHENS, (last, last - first, first), strict=True
    ):
        found = {
            (quantity, False): np.array([of.get(k, math.nan) for k in schemes])
            for quantity, of in measures.items()
        }
        found[ABSOLUTE, True] = absolute
        if when != WHENS[-1]:
            found[start, True] = first
        for row in _correlations(found, values, absolute, list(families)):
            outcome = {"outcome": f"{heading} {name}", "curve": heading, "when": when}
            yield {**row, **outcome, "of_start": row["quantity"] == start}


def _correlations(
    quantities: Mapping[tuple[str, bool], Floats],
    outcome: Floats,
    absolute: Floats,
    families: list[str],
) -> Iterator[dict[str, object]]:
    """Yield the correlation of every quantity and control with an outcome."""
    found = {
        key: one
        for key, x in quantities.items()
        if (one := correlation(x, outcome, absolute, families))
    }
    tested = [math.nan if control else one.p for (_, control), one in found.items()]
    for ((name, control), one), p in zip(found.items(), holm(tested), strict=True):
        ends = (*one.over_schemes, *one.over_families)
        numbers = (one.n, one.rho, *ends, one.given, one.p, float(p))
        yield dict(zip(COLUMNS[1:], (name, control, *numbers), strict=True))


def _measures(probed: list[Record]) -> dict[str, dict[str, float]]:
    """Return every headline quantity without training, by heading and scheme."""
    means = means_of(probed)
    return {
        view.quantity.heading: {
            scheme: mean.mean
            for scheme, mean in by_scheme(of_headline(means, measure, view)).items()
        }
        for (measure, _), view in views_of(probed).items()
        if isinstance(view, Headline)
    }


def prediction_tables(found: Frame) -> list[Table]:
    """Return a table for every outcome.

    Args:
        found: as `predictions` returns it.
    """
    texts = found.assign(
        quantity=found["quantity"].mask(
            found["control"], "control: " + found["quantity"]
        ),
        n=found["n"].astype(str),
        schemes=_interval(found, "schemes"),
        families=_interval(found, "families"),
        rho=found["rho"].map(_signed),
        given_absolute=found["given_absolute"].map(_signed),
        p=found["p"].map(_share),
        p_holm=found["p_holm"].map(_share),
    )
    few = f"n/a: fewer than {FEWEST_DRAWN} schemes or families, or all alike"
    none = "n/a" in {*texts["schemes"], *texts["families"]}
    return [
        Table(
            f"{outcome}, Spearman's correlation over schemes",
            [*HEAD.values()],
            some[[*HEAD]].to_numpy().tolist(),
            lines=(few,) if none else (),
        )
        for outcome, some in texts.groupby("outcome", sort=False)
    ]


def _interval(found: Frame, over: str) -> list[str]:
    """Return the intervals over schemes or families."""
    ends = zip(found[f"{over}_low"], found[f"{over}_high"], strict=True)
    return [
        "n/a" if math.isnan(low) else f"{_signed(low)} to {_signed(high)}"
        for low, high in ends
    ]


def _signed(value: float) -> str:
    return "n/a" if math.isnan(value) else f"{value:+.2f}"


def _share(p: float) -> str:
    return "n/a" if math.isnan(p) else f"{p:.4f}"
