"""The scorecard of a run: one row a scheme, with a verdict in words.

A scheme holds its level if the 95 % interval of its change from L to 16 L lies below
`MARGIN`, and loses if the interval lies above it. The interval is Student's t over
paired seeds of one scheme. Intervals of different schemes are not adjusted for each
other. A star marks the schemes of a column of scores that may be the best: no other
scheme is significantly better, in a test of all others against each of them.
"""

import math
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from typing import NamedTuple

import numpy as np

from posenc_compare.records.quantities import NEAR, has_note
from posenc_compare.records.record import Record
from posenc_compare.show.format import Cell, Table
from posenc_compare.show.frame import Frame, Mean, Numbers, less, rows_of, values_of
from posenc_compare.show.ranking import twins
from posenc_compare.show.setting import texts_of
from posenc_compare.show.tasks import FIRST, by_task
from posenc_compare.stats.level import ALPHA, FEWEST
from posenc_compare.stats.pairs import adjusted_p_of
from posenc_compare.stats.rounding import difference, rounded_away

MARGIN = 0.05  # bits per byte that count as no loss
VERDICTS = ("holds", "unclear", "loses", "undefined", "one seed", "failed", "n/a", "")
HEAD = ("scheme", "unique", "shift", "added", "at L", "16 L", "change", "time", "level")
COUNTED = (
    ("uniqueness", "distinct_positions_in_bfloat16", ""),
    ("uniqueness", "distinct_distances_in_float32", ""),
)
# Up to version 4 of the measure, which counted codes of distances in bfloat16 as well.
BEFORE = ("uniqueness", "distinct_share_in_bfloat16", "")
WIDE = 19  # characters of a label
# By column; a column without texts is not explained.
LINES = (
    (
        "unique",
        "unique: positions whose codes all differ in bfloat16, or distances whose "
        "codes all differ in float32; else distinct codes of n",
    ),
    ("scheme", "rows: by level, then by the score at the longest test"),
    (
        "shift",
        "shift: linear (one matrix shifts all codes), relative (no logit changes), or "
        "how far off: relative to the spread of codes that are added, else in logits",
    ),
    ("added", "added: norm of what is added to a token, relative to that of the token"),
    ("scheme", "L: training length, {length:g} bytes; scores in bits per byte"),
    ("time", "time: of a step, relative to nope"),
    (
        "level",
        "level: holds if the 95 % interval of the change over seeds lies below "
        f"{MARGIN} bits, loses if above, unclear if {MARGIN} lies inside; undefined "
        "without a score at the end, n/a if the scheme does not support the task",
    ),
)
LEADING = (
    "*: no other scheme is significantly better (max-T test of all others against this "
    f"one, level {ALPHA}); a wide spread over seeds can hide a difference"
)
Found = dict[tuple[str, str, str], list[Mean]]
"""Means of one scheme by measure, quantity and case, along the curve."""


class Card(NamedTuple):
    """A row: label, what sorts it, seeds behind its change or its score, and cells.

    Of some texts the numbers are known, by column.
    """

    name: str
    place: tuple[int, float]
    seeds: int
    texts: dict[str, str]
    numbers: dict[str, Mean]

    def cell(self, column: str) -> str | Cell:
        """Return a text, with its number if that is known."""
        text, own = self.texts[column], self.numbers.get(column)
        if own is None or not text:
            return text
        note = "*" if text.endswith("*") else ""
        widths = {"half_width": own.half_width, "over_documents": own.over_documents}
        return Cell(own.mean, n=own.n, note=note, text=text, **widths)


def scorecard(numbers: Numbers) -> Table | None:
    """Return the scorecard of the trainings on language; None if there are none.

    None also if these have several training lengths, which no column can compare.
    Schemes that hold their level come first; then the score at the longest test counts.
    Measures of one layer of several say nothing of the network.
    """
    networks = by_task(numbers).get(FIRST, [])
    if len({record.spec.setting.get("length") for record in networks}) > 1:
        return None
    means = numbers.of_networks.means
    means = means[means["task"].isin(["", FIRST])]
    schemes, left = _by_row(rows_of(means))
    curves = {
        name: {m.x: m for m in found.get(("extrapolation", "bits_per_byte", ""), [])}
        for name, found in schemes.items()
    }
    points = {x for curve in curves.values() for x in curve}
    if len(points) < 2:  # no change to show
        return None
    # Scores are compared at two lengths, which a scheme may lack.
    lengths = min(points), max(points)
    ends = [
        {name: curve[x] for name, curve in curves.items() if x in curve and curve[x].n}
        for x in lengths
    ]
    texts = texts_of(r for r in numbers if r.label in schemes)
    one_text = len(texts) < 2
    leading = [_leading(end) if one_text else set[str]() for end in ends]
    cards = []
    for name, found in schemes.items():
        card = _card(name, found, *map(curves[name].get, lengths))
        for column, end, some in zip(HEAD[4:6], ends, leading, strict=True):
            if name in end:
                card.texts[column] = f"{end[name].mean:.2f}{'*' * (name in some)}"
                card.numbers[column] = end[name]
        cards.append(card)
    cards.sort(key=lambda card: card.place)
    short = _shortened([card.name for card in cards])
    for card in cards:
        card.texts["scheme"] = short[card.name]
    head = [text.replace("16 L", f"{lengths[1] / lengths[0]:g} L") for text in HEAD]
    filled = {k for card in cards for k, text in card.texts.items() if text}
    lines = [
        line.format(length=lengths[0]) for column, line in LINES if column in filled
    ]
    lines += [LEADING] * any(leading)
    lines += ["no *: scores are of several texts"] * (not one_text)
    lines += [
        f"{name}: no *, for fewer than {FEWEST} seeds have a score of every scheme"
        for name, end, some in zip(head[4:6], ends, leading, strict=True)
        if one_text and not some and len(end) > 1
    ]
    lines += _lacking(cards, networks)
    lines += _no_better(cards, schemes, lengths[0])
    seeds = [{frozenset(mean.values) for mean in end.values()} for end in ends]
    if any(some and len(own) > 1 for some, own in zip(leading, seeds, strict=True)):
        lines.append("stars go by the seeds that every scheme has")
    trained = means[means["measure"] == "extrapolation"]
    lines += _same(trained[trained["scheme"].isin(schemes)])
    untrained = filled & {"unique", "shift", "added", "time"}
    blank = [
        card.texts["scheme"]
        for card in cards
        if card.name in left and not all(card.texts[name] for name in untrained)
    ]
    if blank:
        lines.append(f"blank where measured under other settings: {', '.join(blank)}")
    shown = {k: text for k, text in zip(HEAD, head, strict=True) if k in filled}
    rows = [[card.cell(column) for column in shown] for card in cards]
    return Table("Scorecard", [*shown.values()], rows, lines=tuple(lines))


def _by_row(means: Iterable[Mean]) -> tuple[dict[str, Found], set[str]]:
    """Return the means of each row, by the label of its trainings.

    Other measures may have other settings in their labels. A row takes those of its
    scheme whose settings do not contradict its own, if only one label has them. A
    scheme without trainings has a row for each label.

    Also return the labels of rows without a measure that their scheme has.
    """
    labels: dict[str, dict[str, Found]] = {}
    for mean in means:
        place = (mean.measure, mean.quantity, mean.case)
        scheme = mean.scheme.removesuffix(f" [{', '.join(mean.settings)}]")
        own = labels.setdefault(scheme, {}).setdefault(mean.scheme, {})
        own.setdefault(place, []).append(mean)
    rows: dict[str, Found] = {}
    lacking: set[str] = set()
    for some in labels.values():
        trained = {k: own for k, own in some.items() if any(map(_is_score, own))}
        others = [own for k, own in some.items() if k not in trained]
        for label, own in (trained or some).items():
            agreeing = [other for other in others if _agree(own, other)]
            held = Counter(place for other in agreeing for place in other)
            shared = {
                place: found
                for other in agreeing
                for place, found in other.items()
                if held[place] == 1
            }
            rows[label] = shared | own if trained else own
            places = {place for other in some.values() for place in other}
            if trained and not all(map(_is_score, places - rows[label].keys())):
                lacking.add(label)
    return rows, lacking


def _agree(one: Found, other: Found) -> bool:
    """Return whether two labels name no setting with different values.

    Labels leave out that a package was not modified. The version of a measure is not
    compared with that of another measure.
    """
    first, second = (
        {"modified": "", **dict(text.split("=", 1) for text in mean.settings)}
        for mean in (next(iter(found.values()))[0] for found in (one, other))
    )
    shared = first.keys() & second.keys() - {"version", "measure_code"}
    return all(first[name] == second[name] for name in shared)


def _is_score(place: tuple[str, str, str]) -> bool:
    return place[0] == "extrapolation"


def _lacking(cards: list[Card], networks: list[Record]) -> Iterator[str]:
    """Yield lines on schemes that lack a score, or seeds of one."""
    cells = {(r.label, r.spec.seed) for r in networks if r.measure == "extrapolation"}
    ran = Counter(label for label, _ in cells)
    most = max(ran[card.name] for card in cards)
    few = [
        f"{card.texts['scheme']} ({card.seeds})"
        for card in cards
        if card.texts["level"] and 0 < card.seeds < most
    ]
    if few:
        yield f"fewer seeds than {most}: {', '.join(few)}"
    unknown = [
        card.texts["scheme"]
        for card in cards
        if not card.texts["level"] and ran[card.name]
    ]
    if unknown:
        yield f"no level: no seed has a score at both lengths: {', '.join(unknown)}"


def _no_better(
    cards: list[Card], schemes: Mapping[str, Found], first: float
) -> Iterator[str]:
    """Yield a line on the networks that predict no better than a 2-gram model."""

    def at_first(name: str, quantity: str, case: str) -> float:
        found = schemes[name].get(("extrapolation", quantity, case), [])
        return next((m.mean for m in found if m.x == first and m.values), math.nan)

    behind = {
        n: [
            card.texts["scheme"]
            for card in cards
            if at_first(card.name, "bits_per_byte", "")
            >= at_first(card.name, "floor_bits_per_byte", f"{n}-gram")
        ]
        for n in (2, 3)
    }
    if few := behind[2]:
        yield (
            f"schemes no better at L than a 2-gram model, which reads one byte; their "
            f"level says little: {', '.join(few)}"
        )
    if len(behind[3]) == len(cards) > 1:
        yield (
            "no scheme is better at L than a 3-gram model; longer training (`--preset "
            "survey`) may change the order of the schemes"
        )


def _same(trained: Frame) -> Iterator[str]:
    """Yield lines on schemes that have every score of another one."""
    found: dict[str, list[str]] = {}
    for scheme, other in twins(trained).items():
        found.setdefault(other, []).append(scheme)
    for other, schemes in found.items():
        yield f"the same as {other} in every score: {', '.join(schemes)}"


def _shortened(labels: list[str]) -> dict[str, str]:
    """Return labels that fit their column.

    One is whole if it names options or settings, or where two would be the same.
    """
    whole = {x for x in labels if len(x) <= WIDE or ":" in x or x.endswith("]")}
    short = {x: x if x in whole else f"{x[: WIDE - 1]}…" for x in labels}
    taken = Counter(short.values())
    return {label: text if taken[text] == 1 else label for label, text in short.items()}


def _leading(means: Mapping[str, Mean]) -> set[str]:
    """Return the schemes that may be the best: none is significantly better.

    Each is tested against all others, on the seeds that all of them have. Without
    `FEWEST` of these, or if a scheme with fewer could be the best, there are none.
    """
    if len(means) < 2:
        return set()
    values = values_of(means.values())
    common = np.isfinite(values).all(axis=0)
    if common.sum() < FEWEST:
        return set()
    found = set()
    for label, own in zip(means, values[:, common], strict=True):
        gaps = difference(values[:, common], own)
        behind = (adjusted_p_of(gaps) <= ALPHA) & (gaps.mean(axis=1) < 0)
        found |= set() if behind.any() else {label}
    return found


def _card(name: str, found: Found, first: Mean | None, last: Mean | None) -> Card:
    """Return the row of a scheme but for its scores."""
    change, verdict = _change(first, last)
    text = ""
    if change is not None:
        text = f"{change.mean:+z.2f}"
        text += "" if math.isnan(change.half_width) else f"±{change.half_width:.2f}"
    if not (first or last) and (none := found.get(("extrapolation", "", ""))):
        ran = any(f"{status}: " in none[0].note for status in ("failed", "lost"))
        verdict = "failed" if ran else "n/a"
    steps = found.get(("cost", "step_ratio", ""), [])
    step = next((one for one in steps if one.values), None)
    time = f"{step.mean:.1f}" if step else ""
    texts = (name, _unique(found), _shift(found), _adds(found), "", "", text, time)
    numbers = {"change": change, "time": step}
    ended = last if last and last.n else None
    seeds = first.values.keys() if first else set()
    place = VERDICTS.index(verdict), ended.mean if ended else math.inf
    return Card(
        name,
        place,
        len(seeds & ended.values.keys() if ended else seeds),
        dict(zip(HEAD, (*texts, verdict), strict=True)),
        {column: one for column, one in numbers.items() if one},
    )


def _change(first: Mean | None, last: Mean | None) -> tuple[Mean | None, str]:
    """Return the change from the first to the last length, and what it amounts to."""
    if first is None or last is None or not first.values:
        return None, ""
    if not last.values:
        return None, "undefined"
    change = less(last, first)
    mean, width = change.mean, change.half_width
    if not change.n:
        return None, ""
    if math.isnan(width):
        return change, "one seed"
    verdict = "unclear"
    if mean + width < MARGIN:
        verdict = "holds"
    elif mean - width > MARGIN:
        verdict = "loses"
    return change, verdict


def _unique(found: Found) -> str:
    """Return up to how many positions, or distances, every one has its own code."""
    shares = next((found[place] for place in COUNTED if place in found), [])
    before = found.get(("uniqueness", "distinct_share", "float32"), [])
    if any(has_note(mean.note, "over positions") for mean in before):
        shares = shares or found.get(BEFORE, [])
    whole = [mean.x for mean in shares if mean.values and mean.mean == 1]
    if whole:
        return f"{max(whole):g}"
    some = [mean for mean in shares if mean.values]
    if not some:
        return ""
    n = some[0].x
    return f"{min(round(some[0].mean * n), n - 1):g}/{n:g}"  # not all n


def _shift(found: Found) -> str:
    """Return whether a shift is linear, or has no effect, or the largest error."""
    for word, measure, quantity, case in (
        ("linear", "shift_linearity", "linear_residual", ""),
        ("relative", "shift_error", "shift_error", "plain"),
    ):
        known = [m for m in found.get((measure, quantity, case), []) if m.values]
        if known:
            worst = max(known, key=lambda mean: mean.mean)
            values = [*worst.values.values()]
            more = any(values) and rounded_away(values).any()  # than rounding
            near = any(has_note(mean.note, NEAR) for mean in known)
            return f"{worst.mean:.1g}" if more else "0" if near else word
    return ""


def _adds(found: Found) -> str:
    """Return the size of the code that is added to tokens of size 1."""
    sizes = found.get(("perturbation", "relative_size", "N(0, 1)"), [])
    known = [mean.mean for mean in sizes if mean.values]
    if not known or not known[0]:
        return "0" if known else ""
    return f"{known[0]:.2f}" if known[0] >= 0.005 else f"{known[0]:.0e}"
