"""Published orders: verdicts of claims, and the command that trains what they take."""

import json
from itertools import pairwise

import numpy as np
import pytest
from conftest import Command
from support.records import curve, fact, labelled, row

from posenc_compare.records.record import Record
from posenc_compare.registry import SCHEMES, TASKS
from posenc_compare.reproduce.orders import (
    ROW,
    Claim,
    PublishedOrder,
    Score,
    order_table,
    outcomes,
    verdict,
)
from posenc_compare.reproduce.published_orders import ORDERS
from posenc_compare.stats.intervals import half_width
from posenc_compare.stats.pairs import adjusted_p, adjusted_p_of
from posenc_compare.variants import parse_variants

# Of alternating signs, so that the noise of neighbours separates nothing.
NOISE = 0.01 * (-1.0) ** np.add.outer(np.arange(4), np.arange(8))
NOISE += 0.001 * np.arange(8) * [[1], [1], [1], [0]]
BITS = {"a": 1.0, "b": 2.0, "c": 2.001, "d": 3.0}


def records(seeds: int = 6) -> list[Record]:
    made = []
    for i, (label, bits) in enumerate(BITS.items()):
        for seed in range(seeds):
            one = curve(label, [], seed=seed)
            one["quantities"] = {
                "bits_per_byte": {**fact("curve", x="x"), "name": "bits_per_byte"},
                "accuracy": {
                    **fact("curve", x="x"),
                    "name": "accuracy",
                    "better": "higher",
                },
            }
            value = float(bits + NOISE[i, seed])
            for times in (1, 16):
                one["rows"] += [
                    row(value * times, quantity="bits_per_byte", x=8 * times),
                    row(value, quantity="accuracy", x=8 * times, case="sparse"),
                ]
            made.append(one)
    return labelled(made)


def order(*claims: Claim) -> PublishedOrder:
    return PublishedOrder("a says", "a paper", "a,b", claims)


def verdicts(*claims: Claim, seeds: int = 6) -> list[str]:
    return [one.verdict for one in outcomes(order(*claims), records(seeds))]


def test_an_order_agrees_disagrees_or_cannot_be_told() -> None:
    a, b, c = (Score(label) for label in "abc")
    assert verdicts(Claim(a, b), Claim(c, a), Claim(b, c)) == [
        "agrees",
        "disagrees",
        "not separable",
    ]
    assert verdicts(Claim(a, b), seeds=5) == ["not separable"]  # no p value is small


def test_a_higher_accuracy_is_better_at_its_case_and_length() -> None:
    first, second = (
        Score(label, "accuracy", times=16, case="sparse") for label in ("d", "a")
    )
    assert verdicts(Claim(first, second)) == ["agrees"]
    (outcome,) = outcomes(order(Claim(first, second)), records())
    assert outcome.differences == pytest.approx(2 + NOISE[3, :6] - NOISE[0, :6])
    assert outcome.half_width == pytest.approx(half_width(NOISE[3, :6] - NOISE[0, :6]))
    missing = Score("d", "accuracy", times=2, case="sparse")
    (outcome,) = outcomes(order(Claim(missing, second)), records())
    assert (outcome.verdict, len(outcome.differences)) == ("not separable", 0)
    assert order_table("", order(), [outcome]).body[0][1] == "n/a"


def test_one_claim_that_disagrees_decides() -> None:
    a, b, c = (Score(label) for label in "abc")
    for claims, word in (
        ((Claim(a, b), Claim(c, a), Claim(b, c)), "disagrees"),
        ((Claim(a, b), Claim(b, c)), "not separable"),
        ((Claim(a, b), Claim(a, c)), "agrees"),
    ):
        assert verdict(outcomes(order(*claims), records())) == word


def test_claims_are_tested_together() -> None:
    values = np.array([bits + NOISE[i] for i, bits in enumerate(BITS.values())])
    first, second = np.triu_indices(4, 1)
    together = adjusted_p_of(values[first] - values[second])
    assert together == pytest.approx(adjusted_p(values)[first, second])
    differences = np.array([values[1] - values[2], values[0] - values[3]])
    alone = adjusted_p_of(differences[:1])
    assert adjusted_p_of(differences)[0] >= alone[0]
    few = differences.copy()
    few[0, 4:] = np.nan
    assert np.isnan(adjusted_p_of(few)).tolist() == [True, False]


def test_the_table_says_source_and_verdict() -> None:
    one = order(Claim(Score("a"), Score("b")))
    table = order_table("name", one, outcomes(one, records()))
    assert table.title == "name (6 seeds, 95% intervals of paired differences)"
    ((claim, ours, p, said),) = table.body
    assert claim == "a: bits per byte at 1 L is better than b: bits per byte at 1 L"
    assert ours.startswith("1.000 ± ")
    assert (p, said) == ("0.031", "agrees")
    assert table.lines == ("published: a says (a paper)", "verdict: agrees")
    (outcome,) = outcomes(one, records())
    assert dict(zip(ROW, outcome.row, strict=True)) == {
        "claim": claim,
        "difference": pytest.approx(1, abs=0.1),
        "half_width": outcome.half_width,
        "n": 6,
        "p": 0.03125,
        "verdict": "agrees",
    }


# What the papers state: the score, and the schemes from the best to the worst.
BEYOND = "kerple_log, alibi, t5_bias, rope, sinusoidal"
SMALL = "nope, t5_bias, alibi, rope:fraction=0.25, sinusoidal"
CHAINS = [
    ("beyond", "bits per byte at 2 L", "t5_bias, rope, sinusoidal"),
    ("beyond", "bits per byte at 16 L", BEYOND),
    ("algorithmic", "reciprocal rank", SMALL),
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
]
AT_L = "bits per byte at 1 L"
OTHERS = [
    ("learned", f"learned: {AT_L} is like sinusoidal: {AT_L} (up to 0.02)"),
    ("sliding", "alibi: full bits per byte is better than alibi: fresh bits per byte"),
    (
        "sliding",
        "alibi: full bits per byte is like alibi: sliding bits per byte (up to 0.02)",
    ),
    ("p_rope", f"p_rope: {AT_L} is no worse than rope: {AT_L} (up to 0.02)"),
    (
        "p_rope",
        f"p_rope:fraction=0.25: {AT_L} is no worse than rope: {AT_L} (up to 0.02)",
    ),
]
TASKS_OF = {
    "algorithmic": "addition,copy,counting,parity,reverse,sort",
    "flip_flop": "flip_flop",
    "randomized": "copy,reverse",
}


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
    labels = {variant.label for variant in parse_variants(published.schemes)}
    tasks = published.choices.get("tasks", "language").split(",")
    scores = [s for claim in published.claims for s in (claim.first, claim.second)]
    assert {score.scheme for score in scores} == labels
    for claim in published.claims:
        for score in (claim.first, claim.second):
            assert score.task in [*tasks, "language"]
            assert score.scheme.partition(":")[0] in SCHEMES.entries()
    assert set(tasks) <= {*TASKS.entries()}
    assert "arXiv:" in published.source


def test_the_command_trains_and_gives_a_verdict(posenc: Command, tmp_path) -> None:
    sizes = ("--seeds", "2", "--preset", "quick")
    done = posenc("reproduce", "flip_flop", *sizes, "--out", tmp_path, "--format", "md")
    assert done.returncode == 0, done.stderr
    assert "not separable" in done.stdout
    assert "verdict: not separable" in done.stdout
    words = ("reproduce", "flip_flop", *sizes, "--out", tmp_path, "--format", "json")
    again = posenc(*words)
    assert "0 to compute" in again.stderr
    assert [row["p"] for row in json.loads(again.stdout)] == [None, None]


def test_an_unknown_order_is_one_line(posenc: Command) -> None:
    done = posenc("reproduce", "flipflop")
    assert (done.returncode, done.stdout) == (2, "")
    assert "unknown order 'flipflop'; did you mean flip_flop?" in done.stderr
