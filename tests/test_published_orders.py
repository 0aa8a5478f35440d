"""Published orders: verdicts of claims, and the command that trains what they take."""

from itertools import pairwise, product
from typing import Any

import numpy as np
import pytest
from conftest import Command
from support.records import curve, fact, labelled, record, row

from posenc_compare.records.labels import without_settings
from posenc_compare.records.record import Record
from posenc_compare.records.store import Store
from posenc_compare.registry import SCHEMES, TASKS
from posenc_compare.show.orders import (
    Claim,
    Outcome,
    PublishedOrder,
    Score,
    order_table,
    outcomes,
    verdict,
)
from posenc_compare.show.published_orders import ORDERS
from posenc_compare.stats.intervals import half_width
from posenc_compare.stats.pairs import adjusted_p_of
from posenc_compare.train.convolution import CONVOLUTIONS
from posenc_compare.variants import parse_variants

SPREAD = np.array([-1.0, 1.0, -2.0, 2.0, -3.0, 3.0])
EDGE = float(half_width(SPREAD))
BETTER = Claim(Score("a"), Score("b"))
AGREES = Outcome(SPREAD + 9, 0.03125, BETTER)
DISAGREES = Outcome(SPREAD - 9, 0.03125, BETTER)
NEITHER = Outcome(SPREAD, 1.0, BETTER)
ABSENT = Outcome(SPREAD[:0], np.nan, BETTER)


@pytest.mark.parametrize(
    ("found", "word"),
    [
        ([NEITHER, DISAGREES, AGREES], "disagrees"),
        ([AGREES, NEITHER], "not separable"),
        ([AGREES, AGREES], "agrees"),
        ([AGREES, ABSENT], "not separable"),
        ([ABSENT, ABSENT], "not measured"),
    ],
    ids=lambda given: given if isinstance(given, str) else "",
)
def test_one_claim_that_disagrees_decides(found: list[Outcome], word: str) -> None:
    assert verdict(found) == word


def test_the_table_says_source_and_verdict() -> None:
    one = PublishedOrder("a says", "a paper", (BETTER,))
    table = order_table("name", one, [AGREES])
    about = "6 seeds, 95% intervals of paired differences; * p ≤ 0.05"
    assert table.title == f"name ({about})"
    claim = "a: bits per byte at 1 L is better than b: bits per byte at 1 L"
    assert table.body == [[claim, f"9.000 ± {EDGE:.3f}, p 0.031 *", "agrees"]]
    assert table.lines == ("published: a says (a paper)", "verdict: agrees")
    (row,) = order_table("name", one, [ABSENT]).body
    assert row[1:] == ["n/a", "not measured"]


GAPS = {  # by seed; in their p values one claim, two and all three differ
    "b": [0.6, 0.2, 0.3, 0.0, -0.1, 0.8, 0.8],
    "c": [1.0, 0.0, 1.2, 0.3, 1.2, 0.2],
    "d": [-0.1, 0.4, 0.8, 0.4, 0.0, -0.4, -0.4],
}


def of_gaps() -> list[Record]:
    """Return records of `a` and others that are worse by so many bits, by seed."""
    bodies = []
    for label, gaps in {"a": [0.0] * 8, **GAPS}.items():
        for seed, gap in enumerate(gaps):
            one = curve(label, [], quantity="bits_per_byte", seed=seed)
            one["rows"] = [
                row(value, quantity="bits_per_byte", x=x, case=case)
                for x, case, value in (
                    (8, "", 2 + gap),
                    (16, "", 2 + 50 * gap),
                    (8, "z", 99 - gap),
                )
            ]
            bodies.append(one)
    return labelled(bodies)


def test_an_order_tests_its_claims_of_better_alone_and_seeds_of_both() -> None:
    a, b, c, d = map(Score, "abcd")
    claims = (Claim(a, b), Claim(a, d, "alike", 0.1), Claim(a, c))
    claims += (Claim(a, d, "no worse", 0.1),)
    claims += (Claim(Score("a", times=2), Score("d", times=2), "alike"),)
    claims += (Claim(Score("d", case="z"), Score("a", case="z"), "alike"),)
    found = outcomes(PublishedOrder("a says", "a paper", claims), of_gaps())
    gaps = [np.array(GAPS[label]) for label in "bdcddd"]
    gaps[4] = 50 * gaps[4]
    for outcome, gap in zip(found, gaps, strict=True):
        assert outcome.values == pytest.approx(gap)
        assert outcome.mean == pytest.approx(gap.mean())
    table = np.full((2, 7), np.nan)
    table[0], table[1, :6] = gaps[0], gaps[2]
    together = adjusted_p_of(table)
    assert [found[0].p, found[2].p] == pytest.approx(together.tolist())
    assert np.isnan([found[1].p, *(one.p for one in found[3:])]).all()
    assert found[2].p > adjusted_p_of(table[1:])[0]
    shown = order_table("name", PublishedOrder("", "", claims), found)
    assert shown.title.startswith("name (7 seeds")


def test_each_score_has_its_own_task_and_ranks_are_over_all() -> None:
    matches = {"copy": (0.0, 0.5, 0.2), "language": (0.9, 0.5, 0.1)}
    bodies = []
    for task, seed in product(matches, range(6)):
        for label, match in zip("abc", matches[task], strict=True):
            one = record(label, corpus_sha256="1", task=task, seed=seed, length=8)
            of = fact(["", None], name="exact_match", better="higher")
            one["quantities"] = {"exact_match": of}
            one["rows"] = [row(match, x=16, quantity="exact_match")]
            one["rows"].append(row(1 - match, x=8, quantity="exact_match"))
            bodies.append(one)
    one, other = (Score(label, "reciprocal_rank", 2) for label in "ba")
    here, there = (Score("a", "exact_match", 2, task=task) for task in matches)
    claims = Claim(one, other), Claim(here, there)
    order = PublishedOrder("", "", claims)
    found = outcomes(order, labelled(bodies))
    # Ranks of b are 1 and 2, those of a 3 and 1.
    for outcome, gap in zip(found, (3 / 4 - 2 / 3, 0.0 - 0.9), strict=True):
        assert outcome.values == pytest.approx([gap] * 6)


@pytest.mark.parametrize(
    ("mean", "margin", "alike", "no_worse"),
    [
        (0.0, EDGE, "agrees", "agrees"),  # up to the margin, and not below it
        (0.0, 0.99 * EDGE, "not separable", "not separable"),
        (3 * EDGE, EDGE, "disagrees", "agrees"),
        (-3 * EDGE, EDGE, "disagrees", "disagrees"),
        (1.5 * EDGE, EDGE, "not separable", "agrees"),
        (-1.5 * EDGE, EDGE, "not separable", "not separable"),
    ],
)
def test_an_interval_may_reach_the_margin(
    mean: float, margin: float, alike: str, no_worse: str
) -> None:
    pair = Score("a"), Score("b")
    found = [
        Outcome(SPREAD + mean, np.nan, Claim(*pair, kind, margin)).verdict
        for kind in ("alike", "no worse")
    ]
    assert found == [alike, no_worse]


@pytest.mark.parametrize("kind", ["alike", "no worse"])
def test_an_interval_that_ends_at_the_margin_does_not_disagree(kind: Any) -> None:
    margin = 9 - half_width(SPREAD - 9)
    claim = Claim(Score("a"), Score("b"), kind, margin)
    assert Outcome(SPREAD - 9, np.nan, claim).verdict == "not separable"


@pytest.mark.parametrize(
    ("p", "mean", "verdict"),
    [
        (0.05, 1.0, "agrees"),
        (0.05, -1.0, "disagrees"),
        (0.0501, 1.0, "not separable"),
        (0.0501, -1.0, "not separable"),
    ],
)
def test_a_claim_of_better_goes_by_its_p_value(
    p: float, mean: float, verdict: str
) -> None:
    claim = Claim(Score("a"), Score("b"))
    outcome = Outcome(SPREAD + mean, p, claim)
    assert (outcome.mean, outcome.verdict) == (pytest.approx(mean), verdict)


# What the papers state: the score, and the schemes from the best to the worst.
BEYOND = "kerple_log, alibi, t5_bias, rope, sinusoidal"
SMALL = "nope, t5_bias, alibi, rope:fraction=0.25, sinusoidal"
CHAINS = [
    ("beyond", "bits per byte at 2 L", "t5_bias, rope, sinusoidal"),
    ("beyond", "bits per byte at 16 L", BEYOND),
    ("algorithmic", "reciprocal rank at 2 L", SMALL),
    ("flip_flop", "flip_flop read accuracy at 1 L", "path + sparse, rope + sparse"),
    ("flip_flop", "flip_flop read accuracy at 16 L", "path + sparse, rope + sparse"),
    ("scalings", "read bits per byte at 2 L", "rope + yarn, rope + ntk, rope + pi"),
    ("scalings", "read bits per byte at 16 L", "rope + yarn, rope + ntk, rope + pi"),
    ("randomized", "copy accuracy at 4 L", "randomized, sinusoidal"),
    ("randomized", "copy accuracy at 4 L", "randomized:scheme=rope, rope"),
    ("randomized", "reverse accuracy at 4 L", "randomized, sinusoidal"),
    ("randomized", "reverse accuracy at 4 L", "randomized:scheme=rope, rope"),
    *(
        ("after_rope", "bits per byte at 16 L", f"{better}, rope")
        for better in ("hope", "fope", "pope", "rope_pp")
    ),
    ("bam", "bits per byte at 16 L", "bam, alibi"),
    ("bam", "bits per byte at 16 L", "bam, nope"),
    *(
        (order, f"bits per byte at {times} L", f"{scheme}, rope")
        for order, scheme in (("ca_rope", "ca_rope"), ("ssmax", "log_length"))
        for times in (1, 16)
    ),
]
AT_L = "bits per byte at 1 L"
AT_8 = "bits per byte at 8 L"
NO_WORSE = [
    *(("nope", "nope", other, AT_L) for other in ("sinusoidal", "learned", "alibi")),
    *(("bam", "bam", other, AT_L) for other in ("nope", "alibi")),
    ("p_rope", "p_rope", "rope", AT_L),
    ("stick_breaking", "stick_breaking", "rope", AT_8),
    ("canon", "nope + convolution canon", "rope", AT_L),
]
OTHERS = [
    *(
        (name, f"{first}: {what} is no worse than {second}: {what} (up to 0.02)")
        for name, first, second, what in NO_WORSE
    ),
    ("stick_breaking", f"stick_breaking: {AT_8} is better than stick_breaking: {AT_L}"),
    ("learned", f"learned: {AT_L} is like sinusoidal: {AT_L} (up to 0.02)"),
    ("sliding", "alibi: full bits per byte is better than alibi: fresh bits per byte"),
    (
        "sliding",
        "alibi: full bits per byte is like alibi: sliding bits per byte (up to 0.02)",
    ),
]
TASKS_OF = {
    "algorithmic": "addition,copy,counting,parity,reverse,sort",
    "flip_flop": "flip_flop",
    "randomized": "copy,reverse",
}


def test_a_score_is_of_networks_with_its_convolution() -> None:
    bodies = []
    for (value, convolution), seed in product(((1, "none"), (3, "canon")), range(2)):
        one = curve("a", [], quantity="bits", seed=seed, convolution=convolution)
        one["rows"] = [row(value, quantity="bits", x=8)]
        bodies.append(one)
    records = [*map(without_settings, labelled(bodies))]
    plain, canon = (Score("a", "bits", convolution=one) for one in ("none", "canon"))
    claims = Claim(plain, canon, "alike"), Claim(canon, canon, "alike")
    found = outcomes(PublishedOrder("", "", claims), records)
    assert [one.values.tolist() for one in found] == [[2.0, 2.0], [0.0, 0.0]]
    assert str(canon) == "a + convolution canon: bits at 1 L"


@pytest.mark.parametrize("name", ORDERS)
def test_claims_are_what_the_papers_state(name: str) -> None:
    stated = [statement for order, statement in OTHERS if order == name]
    for order, what, schemes in CHAINS:
        for first, second in pairwise(schemes.split(", ") if order == name else ()):
            stated.append(f"{first}: {what} is better than {second}: {what}")
    assert sorted(map(str, ORDERS[name].claims)) == sorted(stated)
    assert ORDERS[name].choices.get("tasks") == TASKS_OF.get(name)


@pytest.mark.parametrize("name", ORDERS)
def test_every_order_can_be_run(name: str) -> None:
    published = ORDERS[name]
    tasks = published.choices.get("tasks", "language").split(",")
    scores = [s for claim in published.claims for s in (claim.first, claim.second)]
    runs = {
        (convolution, variant.label)
        for convolution, schemes in published.runs.items()
        for variant in parse_variants(schemes)
    }
    assert {(score.convolution, score.scheme) for score in scores} == runs
    assert {score.convolution for score in scores} <= {*CONVOLUTIONS}
    for claim in published.claims:
        for score in (claim.first, claim.second):
            assert score.task in [*tasks, "language"]
            assert score.scheme.partition(":")[0] in SCHEMES.entries()
    assert set(tasks) <= {*TASKS.entries()}
    assert "arXiv:" in published.source


def test_the_command_trains_and_gives_a_verdict(posenc: Command, tmp_path) -> None:
    sizes = ("--seeds", "2", "--preset", "quick", "--set", "steps=2")
    done = posenc("reproduce", "flip_flop", *sizes, "--out", tmp_path, "--format", "md")
    assert done.returncode == 0, done.stderr
    assert "not separable" in done.stdout
    assert "verdict: not separable" in done.stdout
    store = Store(tmp_path)
    for body in [*store.records()]:  # one seed is of another machine
        if body["spec"]["setting"]["seed"]:
            body["provenance"]["arithmetic"] = "of another machine"
            store.write(body)
    again = posenc(
        "reproduce", "flip_flop", *sizes, "--out", tmp_path, "--format", "md"
    )
    assert "0 to compute" in again.stderr
    assert "processors that calculate differently" in again.stderr
    assert again.stdout == done.stdout


def test_the_command_trains_networks_with_and_without_a_convolution(
    posenc: Command, tmp_path
) -> None:
    sizes = ("--seeds", "2", "--preset", "quick", "--set", "steps=2")
    done = posenc("reproduce", "canon", *sizes, "--out", tmp_path)
    assert done.returncode == 0, done.stderr
    assert "not measured" not in done.stdout
    trained = {
        (body["spec"]["scheme"]["name"], body["spec"]["setting"]["convolution"])
        for body in Store(tmp_path).records()
    }
    assert trained == {("nope", "canon"), ("rope", "none")}


def test_without_a_name_the_command_lists_the_orders(posenc: Command) -> None:
    done = posenc("reproduce", "--format", "md")
    assert done.returncode == 0
    title, _, _, _, *rows = done.stdout.splitlines()
    assert title == "**Published rankings**"
    assert [row.split()[1] for row in rows] == [*ORDERS]
