"""Floors: models that no scheme is part of, below the schemes that must beat them."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

import numpy as np

from posenc_compare.analysis.show.means import Mean, values_of
from posenc_compare.stats.intervals import half_width
from posenc_compare.stats.pairs import ALPHA, adjusted_p

BELOW = "not shown to be better than the"


def floors_of(means: Iterable[Mean]) -> list[Mean]:
    """Return one mean for each case and x of a floor, under the name of its case.

    Args:
        means: of the floor, of any schemes; those of one seed are the same.
    """
    found: dict[tuple[str, float], Mean] = {}
    for mean in means:
        known = found.get((mean.case, mean.x), mean)
        values = {**known.values, **mean.values}
        found[mean.case, mean.x] = replace(
            mean,
            scheme=mean.case,
            values=dict(sorted(values.items())),
            half_width=half_width([*values.values()]),
            documents=0,
        )
    return list(found.values())


def floor_lines(
    headings: Sequence[str],
    columns: Sequence[Mapping[str, Mean]],
    floors: Sequence[Mapping[str, Mean]],
    *,
    higher: bool,
) -> list[str]:
    """Return, for each column, which schemes are no better than its best floor.

    A scheme is better if its mean over common seeds is, and if the test of all pairs of
    the column, the floor among them, tells them apart where seeds allow it.

    Args:
        headings: of the columns.
        columns: means by scheme.
        floors: means by the name of the floor, for the same columns.
        higher: whether the greater number is the better.
    """
    sign = -1 if higher else 1
    lines: list[str] = []
    for heading, schemes, models in zip(headings, columns, floors, strict=True):
        known = {name: sign * mean.mean for name, mean in models.items() if mean.values}
        if not known:
            continue
        best = min(known, key=lambda name: known[name])
        labels = [name for name, mean in schemes.items() if mean.values]
        array = values_of([*(schemes[name] for name in labels), models[best]])
        p = adjusted_p(array)[-1]
        gaps = np.nansum(sign * (array[-1] - array), axis=1)  # above 0: better
        if not np.isnan(p).all():  # one that has too few seeds is not told apart
            p = np.nan_to_num(p, nan=1.0)
        below = [name for i, name in enumerate(labels) if gaps[i] <= 0 or p[i] > ALPHA]
        if below:
            what = f"{BELOW} {best} at {heading}"
            lines.append(f"{what}: {', '.join(below)}")
    return lines
