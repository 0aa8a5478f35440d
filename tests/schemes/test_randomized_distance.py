"""Randomized distances against a slow table, pair by pair."""

import pytest
import torch
from schemes.reference import SchemeTests
from schemes.tools import close, content_plus, normal, seeded, vectors
from torch import Tensor

from posenc_compare.attention import Mask, Session, attention, attention_logits
from posenc_compare.errors import UndefinedPositionError
from posenc_compare.schemes import Scheme, create


def make(**options: object) -> Scheme:
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        return create(
            "randomized_distance", options=options, model_dim=16, heads=2, length=64
        ).double()


def table(length: int, longest: int, seed: int) -> list[int]:
    """0, then `length - 1` of the numbers 1 ... longest - 1, in order."""
    shuffled = torch.randperm(longest - 1, generator=seeded(seed)).tolist()
    return [0, *sorted(1 + n for n in shuffled[: length - 1])]


@pytest.mark.parametrize("causal", [True, False])
@pytest.mark.parametrize("longest", [7, 100, 2048])
def test_logits_equal_the_slow_table(longest: int, causal: bool) -> None:
    q, k, _ = vectors(2, 2, 7, 8)
    outer = make(longest=longest)
    plain = torch.arange(7).expand(2, -1) + 3
    session = Session(outer, plain, mask=Mask(causal=causal), generator=seeded(4))
    assert torch.equal(session.ids, plain)
    got = session.logits(0, q, k)
    distances = table(7, longest, 4)

    def bias(_: int, h: int, i: int, j: int) -> float:
        return -(2.0 ** (-4 * (h + 1))) * distances[abs(i - j)]

    close(got, content_plus(q, k, bias, causal))


def test_the_longest_row_decides_how_many_distances_are_drawn() -> None:
    q, outer = torch.zeros(2, 2, 3, 8, dtype=torch.float64), make(longest=100)
    rows = torch.tensor([[0, 1, 2], [0, 10, 40]])
    bias = Session(outer, rows, generator=seeded(4)).logits(0, q, q)
    distances = table(41, 100, 4)
    assert bias[0, 0, 2, 0].item() == -distances[2] / 16
    assert bias[1, 0, 2, 0].item() == -distances[40] / 16


def test_it_is_not_the_bias_of_random_ids() -> None:
    q = torch.zeros(1, 2, 9, 8, dtype=torch.float64)
    outer = create("randomized", options={"scheme": "alibi"}, model_dim=16, heads=2)
    ids = outer.positions(torch.arange(9), seeded())
    bias = attention_logits(q, q, scheme=outer, positions=ids, mask=Mask(causal=False))[
        0
    ]
    assert not torch.equal(bias[:, 1:, 1:], bias[:, :-1, :-1])


def test_every_pass_draws_anew_or_not_at_all() -> None:
    outer, q = make(), normal(1, 2, 5, 8)
    ids, before = torch.arange(5), torch.get_rng_state()

    def read(generator: torch.Generator | None) -> Tensor:
        return Session(outer, ids, generator=generator).attend(0, q, q, q)

    first, second = read(seeded(1)), read(seeded(2))
    assert not torch.equal(first, second)
    outer.eval()
    assert torch.equal(first, read(seeded(1)))
    plain = create("alibi", model_dim=16, heads=2)
    assert torch.equal(read(None), attention(q, q, q, scheme=plain, positions=ids))
    assert torch.equal(before, torch.get_rng_state())


def test_passes_keep_their_draws_apart() -> None:
    outer, q = make(), normal(1, 2, 5, 8)
    first, second = (
        Session(outer, torch.arange(5), generator=seeded(n)) for n in (1, 2)
    )
    before = first.attend(0, q, q, q)
    assert not torch.equal(second.attend(0, q, q, q), before)
    assert torch.equal(first.attend(0, q, q, q), before)
    options = {"scheme": "randomized_distance"}
    inside = create("shape", options=options, heads=2, length=64)
    inside = Session(inside.eval(), torch.arange(5), generator=seeded(1))
    torch.testing.assert_close(inside.attend(0, q, q, q), before, rtol=0, atol=1e-12)


def test_a_sequence_past_the_longest() -> None:
    with pytest.raises(
        UndefinedPositionError,
        match="randomized_distance: positions must be from 0 to 7, got 8",
    ):
        make(longest=8).draw(torch.arange(9), seeded())


class TestRandomizedDistance(SchemeTests):
    name = "randomized_distance"
    sizes = {"model_dim": 16, "heads": 2, "length": 64}
    published = {"longest": (2048, 40, (3277, 6554, 26214))}
    changes = [{"longest": 300}, {"scheme": "kerple_log"}]
    errors = [
        ({"longest": -1}, "longest must be at least 1, got -1"),
        *(
            (
                {"scheme": inside},
                f".*must have a bias of the offset alone .* got {inside}",
            )
            for inside in ("rope", "nope", "deberta")
        ),
        ({"scheme": "mlp_bias"}, ".*one instance for all layers, got mlp_bias"),
    ]

    def output(self, scheme: Scheme) -> Tensor:
        q = normal(1, 2, 9, 8)
        return Session(scheme, torch.arange(9), generator=seeded()).attend(0, q, q, q)
