"""Which measure without training predicts what a trained network scores?

Schemes of one training setting are the points. Every headline quantity of a measure
without training is correlated with the outcomes of a task's curve: the score at the
longest length, the gap between that and the training length, and the score at the
training length. Two controls stand beside the measures: whether a scheme is absolute,
and its score at the training length. Measures have settings of their own, so that
numbers of a scheme are joined by its name and options alone.
"""

import math
from collections.abc import Iterable, Iterator, Mapping

import numpy as np
import pandas as pd

from posenc_compare.records.labels import without_settings
from posenc_compare.records.quantities import Curve, Headline
from posenc_compare.records.record import Record
from posenc_compare.records.selection import newest
from posenc_compare.registry import SCORES
from posenc_compare.show import frame
from posenc_compare.show.format import Table
from posenc_compare.show.frame import Frame
from posenc_compare.show.ranking import twins
from posenc_compare.show.tasks import by_task, prefix
from posenc_compare.stats.correlation import FEWEST as FEWEST
from posenc_compare.stats.correlation import FEWEST_DRAWN, correlation, holm

ABSOLUTE = "is absolute"
HEAD = ("quantity", "n", "rho", "95% over schemes")
HEAD += (f"given {ABSOLUTE!r}", "p", "p (Holm)")
COLUMNS = [
    *("outcome", "quantity", "control", "n", "rho", "schemes_low", "schemes_high"),
    *("given_absolute", "p", "p_holm"),
]


def predictions(records: Iterable[Record]) -> Frame:
    """Return a row for what each measure without training says of a trained outcome.

    Measures stand in the order of tables, controls behind them. A quantity that too
    few schemes have is left out. Several training settings have outcomes of their own,
    and several settings of measures are quantities of their own: names show them.

    Returns:
        `outcome` and `quantity` by name; `control`: whether that is a control and no
        measure; `n` schemes; the correlation `rho` and the ends of its intervals;
        `given_absolute`; `p`, and `p_holm`, which is adjusted for all measures of the
        outcome and NaN for a control.
    """
    records = [*map(frame.of_network, records)]
    latest = {r.key for r in newest(map(without_settings, records))}
    records = [record for record in records if record.key in latest]
    measures: dict[str, dict[str, float]] = {}
    for setting, some in by_setting(r for r in records if not r.task).items():
        means = frame.Numbers(some).means
        for (measure, _), view in frame.views_of(some).items():
            if isinstance(view, Headline):
                own = frame.of_headline(means, measure, view)
                name = f"{view.quantity.heading}{setting}"
                if name in measures:
                    name = f"{view.quantity.heading} of {measure}{setting}"
                measures[name] = {scheme: mean.mean for scheme, mean in own.items()}
    found: list[dict[str, object]] = []
    for task, trained in by_task(records).items():
        for setting, some in by_setting(trained).items():
            means = frame.Numbers(some).means
            for (measure, name), view in frame.views_of(some).items():
                if isinstance(view, Curve) and name in SCORES:
                    heading = f"{prefix(task)}{view.quantity.heading}"
                    own = frame.of_quantity(means, measure, name)
                    own = own[own["case"] == ""]
                    trained_at = {r.spec.setting.get("length") for r in some}
                    begin = own["x"][own["x"].isin(trained_at)].min()
                    own = own[~(own["x"] < begin)]  # all of a length unknown
                    found += _of_curve(heading, setting, own, measures)
    return pd.DataFrame(found, columns=COLUMNS)


def by_setting(records: Iterable[Record]) -> dict[str, list[Record]]:
    """Group records by the settings in their labels, and take these out of the labels.

    A processor is a setting of times alone: other means may be over seeds of several.
    The code of a scheme is none: of several versions `newest` leaves one.
    """
    found: dict[str, list[Record]] = {}
    for record in records:
        timed = len(record.repeatable_rows) < len(record.rows)
        own = [
            text
            for text in record.settings
            if (timed or not text.startswith("cpu="))
            and not text.startswith("scheme_code=")
        ]
        text = f" [{', '.join(own)}]" if own else ""
        found.setdefault(text, []).append(without_settings(record))
    return found


def _of_curve(
    heading: str,
    setting: str,
    means: Frame,
    measures: Mapping[str, Mapping[str, float]],
) -> Iterator[dict[str, object]]:
    """Yield what measures and controls say of the outcomes of one curve."""
    known = means[means["n"] > 0]
    known = known[~known["scheme"].isin(twins(known))]
    if known["x"].nunique() < 2:
        return
    scores = known.pivot_table("mean", index=["scheme", "family"], columns="x")
    schemes, families = (scores.index.get_level_values(i) for i in (0, 1))
    absolute = np.array(families == "absolute", float)
    points = scores.columns[0], scores.columns[-1]
    first, last = (scores[x].to_numpy() for x in points)
    short, long = (f"{x:g}" for x in points)
    start = f"at {short}"
    outcomes = {f"at {long}": last, f"at {long} minus {start}": last - first}
    for name, outcome in {**outcomes, start: first}.items():
        quantities = [
            (measure, False, np.array([of.get(k, math.nan) for k in schemes]))
            for measure, of in measures.items()
        ]
        quantities.append((ABSOLUTE, True, absolute))
        if name != start:
            quantities.append((f"{heading} {start}", True, first))
        rows = []
        for quantity, control, values in quantities:
            if one := correlation(values, outcome, absolute):
                numbers = (one.n, one.rho, *one.over_schemes, one.given, one.p)
                facts = (f"{heading} {name}{setting}", quantity, control, *numbers)
                rows.append(dict(zip(COLUMNS, facts, strict=False)))
        tested = [math.nan if row["control"] else row["p"] for row in rows]
        for row, p in zip(rows, holm(tested), strict=True):
            yield {**row, "p_holm": float(p)}


def prediction_tables(found: Frame) -> list[Table]:
    """Return a table for every outcome in the frame of `predictions`."""
    tables = []
    few = f"n/a: fewer than {FEWEST_DRAWN} schemes, or all alike"
    known = found["schemes_low"].notna().all()
    for outcome, some in found.groupby("outcome", sort=False):
        rows = [
            [
                f"{'control: ' * row.control}{row.quantity}",
                str(row.n),
                _text(row.rho),
                _interval(row.schemes_low, row.schemes_high),
                _text(row.given_absolute),
                _text(row.p, ".4f"),
                _text(row.p_holm, ".4f"),
            ]
            for row in some.itertuples()
        ]
        title = f"{outcome}, Spearman's correlation over schemes"
        tables.append(Table(title, [*HEAD], rows, lines=() if known else (few,)))
    return tables


def _interval(low: float, high: float) -> str:
    return "n/a" if math.isnan(low) else f"{_text(low)} to {_text(high)}"


def _text(value: float, form: str = "+.2f") -> str:
    return "n/a" if math.isnan(value) else format(value, form)
