"""Attacks on what is shown that succeed: each test says what should hold, and fails."""

import hashlib

from posenc_compare.analysis.core.quantities import (
    Curve,
    Quantity,
    Row,
    View,
)
from posenc_compare.analysis.records.record import (
    MeasureSpec,
    Record,
    SchemeSpec,
    Spec,
)
from posenc_compare.analysis.show.tables import display_tables, long_table, summary

LOSS = Quantity("a_loss", "nats", "lower", "nothing is lost", x="length")
SCORE = Quantity("score", "share", "higher", "nothing is found", x="length")
READ = Quantity("read_loss", "nats", "lower", "nothing is lost", x="length")


def record(label: str, rows: list[Row], views: list[View], seed: int = 0) -> Record:
    quantities = {q.name: q for q in (LOSS, SCORE, READ)}
    setting = {"kind": "probe", "seed": seed}
    spec = Spec(SchemeSpec(label, {}, ""), MeasureSpec("m", 1), setting, 1, "0", "0")
    key = hashlib.sha256(f"{label}{seed}".encode()).hexdigest()[:32]
    shown = {view.quantity.name: view for view in views}
    return Record(
        key,
        spec,
        label,
        "bias",
        "",
        quantities=quantities,
        views=shown,
        rows=tuple(rows),
    )


def shown(records: list[Record]) -> str:
    return "\n".join(f"{t.title} {t.head} {t.body}" for t in display_tables(records))


def test_a_curve_without_places_still_shows_its_number() -> None:
    text = shown([record("one", [Row("a_loss", 1.25)], [Curve(LOSS)])])
    assert "1.25" in text, text


def test_rows_of_one_seed_are_not_counted_as_seeds() -> None:
    rows = [Row("a_loss", 1.0, 8), Row("a_loss", 3.0, 8)]
    table = summary(long_table([record("one", rows, [Curve(LOSS)])]))
    assert table["n"].max() <= 1, table[["mean", "sd", "n"]]
