"""What every scheme must do: tested the day it is registered, by its name alone."""

from dataclasses import dataclass

import pytest
import torch
from torch import Tensor

from posenc_compare.attention import attention, attention_logits
from posenc_compare.schemes import SCHEMES, Scheme, create

NAMES = list(SCHEMES.entries())
FAMILY = {name: entry.facts["family"] for name, entry in SCHEMES.entries().items()}
RELATIVE = SCHEMES.select("relative")
ABSOLUTE = SCHEMES.select("absolute")
DTYPES = [torch.bfloat16, torch.float32, torch.float64]

HEADS, WIDTH, DIM, LENGTH = 2, 8, 16, 256

every_scheme = pytest.mark.parametrize("name", NAMES)


def normal(*shape: int, seed: int = 0) -> Tensor:
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(*shape, generator=generator, dtype=torch.float64)


def build(name: str, *, seed: int = 0, noise: float = 0.0) -> Scheme:
    """Make a scheme in float64, its parameters moved by noise if wanted."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        scheme = create(name, model_dim=DIM, heads=HEADS, length=LENGTH).double()
    with torch.no_grad():
        for number, parameter in enumerate(scheme.parameters()):
            parameter += noise * normal(*parameter.shape, seed=100 + number)
    return scheme


@dataclass(frozen=True)
class Layer:
    """One attention layer: embed, project, attend. The same weights for all."""

    scheme: Scheme

    def heads(self, x: Tensor, role: int) -> Tensor:
        weight = normal(DIM, DIM, seed=10 + role) / DIM**0.5
        return (x @ weight.to(x.dtype)).unflatten(-1, (HEADS, WIDTH)).transpose(1, 2)

    def ids(self, positions: Tensor) -> Tensor:
        return self.scheme.positions(positions, torch.Generator().manual_seed(0))

    def __call__(
        self,
        x: Tensor,
        positions: Tensor,
        segments: Tensor | None = None,
        causal: bool = True,
    ) -> Tensor:
        ids = self.ids(positions)
        x = self.scheme.embed(x, ids)
        return attention(
            *(self.heads(x, role) for role in range(3)),
            scheme=self.scheme,
            positions=ids,
            segments=segments,
            causal=causal,
            state=self.scheme.token_state(x),
        )

    def logits(self, x: Tensor, positions: Tensor) -> Tensor:
        ids = self.ids(positions)
        x = self.scheme.embed(x, ids)
        q, k = self.heads(x, 0), self.heads(x, 1)
        state = self.scheme.token_state(x)
        return attention_logits(q, k, scheme=self.scheme, positions=ids, state=state)

    def decode(
        self,
        x: Tensor,
        positions: Tensor,
        steps: list[int],
        segments: Tensor | None = None,
    ) -> Tensor:
        """Feed the tokens in pieces; cache raw keys, values, positions, state."""
        ids = self.ids(positions)
        embedded = self.scheme.embed(x, ids)
        keys, values, state, outs, start = [], [], None, [], 0
        for step in steps:
            piece = embedded[:, start : start + step]
            keys.append(self.heads(piece, 1))
            values.append(self.heads(piece, 2))
            state = self.scheme.token_state(piece, state)
            outs.append(
                attention(
                    self.heads(piece, 0),
                    torch.cat(keys, 2),
                    torch.cat(values, 2),
                    scheme=self.scheme,
                    positions=ids[..., start : start + step],
                    key_positions=ids[..., : start + step],
                    segments=None if segments is None else segments[:, : start + step],
                    state=state,
                )
            )
            start += step
        return torch.cat(outs, 2)


def close(got: Tensor, expected: Tensor, atol: float = 1e-10) -> None:
    torch.testing.assert_close(got, expected, rtol=0, atol=atol)


def test_there_are_schemes_of_every_kind() -> None:
    assert len(NAMES) >= 8
    assert {"none", "absolute", "rotary", "bias"} <= set(FAMILY.values())


@every_scheme
def test_facts_and_class_agree(name: str) -> None:
    entry, scheme = SCHEMES.entry(name), build(name)
    assert entry.name == name == scheme.name == entry.module.rpartition(".")[2]
    assert entry.facts == {"family": scheme.family, "source": scheme.source}
    assert entry.summary.endswith(".")
    assert scheme.source


@every_scheme
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("cast", [False, True], ids=["float32 scheme", "cast scheme"])
def test_shapes_and_dtypes(name: str, dtype: torch.dtype, cast: bool) -> None:
    scheme = build(name).to(dtype if cast else torch.float32)
    x, positions = normal(3, 5, DIM).to(dtype), torch.arange(5)
    layer = Layer(scheme)
    embedded = scheme.embed(x, positions)
    assert (embedded.shape, embedded.dtype) == (x.shape, dtype)
    q = layer.heads(x, 0)
    assert 0 < scheme.query_start(WIDTH) <= 1
    for door in (scheme.query, scheme.key):
        assert (door(q, positions).shape, door(q, positions).dtype) == (q.shape, dtype)
    out = layer(x, positions)
    assert (out.shape, out.dtype) == ((3, HEADS, 5, WIDTH), dtype)
    assert out.isfinite().all()
    logits = layer.logits(x, positions)
    assert logits.shape == (3, HEADS, 5, 5)
    # Logits are float32 even for bfloat16 queries.
    assert logits.dtype == torch.promote_types(dtype, torch.float32)
    assert torch.equal(
        logits.isinf(), torch.ones(5, 5).triu(1).bool().expand_as(logits)
    )


@every_scheme
def test_low_precision_is_close_to_high(name: str) -> None:
    x, positions = normal(2, 24, DIM), torch.arange(24)
    x = x.bfloat16().double()
    exact = Layer(build(name, noise=0.1))(x, positions)
    single = Layer(build(name, noise=0.1).float())(x.float(), positions)
    close(single.double(), exact, atol=2e-5)


@every_scheme
@pytest.mark.parametrize("length", [1, 2, 3, 7, 64])
def test_a_prefix_is_the_start_of_the_whole(name: str, length: int) -> None:
    layer = Layer(build(name, noise=0.1))
    x, positions = normal(2, 65, DIM), torch.arange(65)
    got = layer(x[:, :length], positions[:length])
    assert got.shape == (2, HEADS, length, WIDTH)
    close(got, layer(x, positions)[:, :, :length], atol=1e-12)


@every_scheme
def test_one_row_of_positions_serves_the_whole_batch(name: str) -> None:
    layer = Layer(build(name, noise=0.1))
    x, positions = normal(3, 7, DIM), torch.arange(7) * 3 + 2
    close(layer(x, positions), layer(x, positions.expand(3, 7)), atol=1e-12)


@every_scheme
@pytest.mark.parametrize("shuffled", [False, True])
def test_every_row_may_have_its_own_positions(name: str, shuffled: bool) -> None:
    layer = Layer(build(name, noise=0.5))
    x = normal(3, 7, DIM)
    positions = torch.arange(7) + torch.tensor([[0], [5], [100]])
    if shuffled:
        positions = positions[:, torch.tensor([3, 0, 6, 1, 5, 2, 4])]
    got = layer(x, positions)
    for row in range(3):
        close(got[row : row + 1], layer(x[row : row + 1], positions[row]), atol=1e-12)


@every_scheme
def test_a_batch_of_one_equals_its_row(name: str) -> None:
    layer = Layer(build(name, noise=0.1))
    x, positions = normal(4, 9, DIM), torch.arange(9)
    whole = layer(x, positions)
    for row in range(4):
        close(whole[row : row + 1], layer(x[row : row + 1], positions), atol=1e-12)


@every_scheme
def test_strided_input_equals_contiguous(name: str) -> None:
    scheme = build(name, noise=0.1)
    layer = Layer(scheme)
    wide, spread = normal(9, 2, 2 * DIM), torch.arange(18)
    x, positions = wide.transpose(0, 1)[..., ::2], spread[::2]
    assert not x.is_contiguous()
    assert not positions.is_contiguous()
    close(layer(x, positions), layer(x.contiguous(), positions.contiguous()), 1e-12)
    q = normal(WIDTH, 9, HEADS, 2).permute(3, 2, 1, 0)
    got = attention(q, q, q, scheme=scheme, positions=positions)
    tidy = q.contiguous()
    close(got, attention(tidy, tidy, tidy, scheme=scheme, positions=positions), 1e-12)


@every_scheme
@pytest.mark.parametrize("segmented", [False, True])
def test_inputs_are_not_modified(name: str, segmented: bool) -> None:
    scheme = build(name)
    x, positions = normal(2, 6, DIM), torch.arange(6).repeat(2, 1)
    q, k, v = (normal(2, HEADS, 6, WIDTH, seed=seed) for seed in range(3))
    segments = torch.tensor([[0, 0, 1, 1, 1, 2]] * 2) if segmented else None
    given = [t for t in (x, positions, q, k, v, segments) if t is not None]
    parameters = list(scheme.parameters())
    before = [t.clone() for t in (*given, *parameters)]
    scheme.embed(x, positions)
    state = scheme.token_state(x)
    attention(
        q, k, v, scheme=scheme, positions=positions, segments=segments, state=state
    ).sum()
    attention_logits(q, k, scheme=scheme, positions=positions, state=state)
    after = [*given, *parameters]
    assert all(torch.equal(a, b) for a, b in zip(before, after, strict=True))


@every_scheme
def test_use_leaves_the_global_generator_alone(name: str) -> None:
    layer = Layer(build(name))
    x, positions = normal(2, 6, DIM), torch.arange(6)
    before = torch.get_rng_state()
    first = layer(x, positions)
    layer.logits(x, positions)
    layer.decode(x, positions, [4, 1, 1])
    second = layer(x, positions)
    assert torch.equal(before, torch.get_rng_state())
    assert torch.equal(first, second)


@every_scheme
@pytest.mark.parametrize("segmented", [False, True])
def test_later_tokens_never_change_earlier_outputs(name: str, segmented: bool) -> None:
    layer = Layer(build(name, noise=0.1))
    x, positions = normal(2, 12, DIM), torch.arange(12)
    segments = torch.tensor([[0] * 4 + [1] * 8] * 2) if segmented else None
    other = x.clone()
    other[:, 8:] = 3 * normal(2, 4, DIM, seed=9)
    before, after = layer(x, positions, segments), layer(other, positions, segments)
    assert (before[:, :, :8] - after[:, :, :8]).abs().max() == 0
    assert (before[:, :, 8:] - after[:, :, 8:]).abs().max() > 0.1


@every_scheme
@pytest.mark.parametrize("noise", [0.0, 1.0], ids=["as made", "trained"])
@pytest.mark.parametrize("steps", [[8, 1, 1, 1], [6, 5], [1] * 11, [3, 4, 4]], ids=str)
def test_cached_decoding_equals_the_full_pass(
    name: str, steps: list[int], noise: float
) -> None:
    layer = Layer(build(name, noise=noise))
    x, positions = normal(2, 11, DIM), torch.arange(11)
    whole = layer(x, positions)
    close(layer.decode(x, positions, steps), whole)
    rows = positions + torch.tensor([[0], [40]])
    close(layer.decode(x, rows, steps), layer(x, rows))


@pytest.mark.parametrize("name", RELATIVE)
def test_relative_logits_do_not_change_under_a_shift(name: str) -> None:
    layer = Layer(build(name, noise=0.5))
    x, positions = normal(2, 9, DIM), torch.arange(9)
    here = layer.logits(x, positions)
    for shift in (1, 64, 4096):
        close(layer.logits(x, positions + shift), here)


@pytest.mark.parametrize("name", RELATIVE)
def test_relative_logits_change_with_the_distance(name: str) -> None:
    layer = Layer(build(name, noise=0.5))
    x, positions = normal(2, 9, DIM), torch.arange(9)
    seen = layer.logits(x, positions).isfinite()
    change = layer.logits(x, 2 * positions) - layer.logits(x, positions)
    assert change[seen].abs().max() > 1e-3


@pytest.mark.parametrize("name", ABSOLUTE)
def test_absolute_logits_change_under_a_shift(name: str) -> None:
    layer = Layer(build(name, noise=0.5))
    x, positions = normal(2, 9, DIM), torch.arange(9)
    here = layer.logits(x, positions)
    change = layer.logits(x, positions + 64) - here
    assert change[here.isfinite()].abs().max() > 1e-3


@every_scheme
def test_packed_documents_equal_separate_ones(name: str) -> None:
    layer = Layer(build(name, noise=0.1))
    lengths = [5, 8, 1, 3]
    x = normal(2, sum(lengths), DIM)
    positions = torch.cat([torch.arange(n) for n in lengths])
    segments = torch.cat([torch.full((n,), 7 * d) for d, n in enumerate(lengths)])
    packed = layer(x, positions, segments.expand(2, -1))
    alone = [
        layer(part, torch.arange(n))
        for part, n in zip(x.split(lengths, 1), lengths, strict=True)
    ]
    close(packed, torch.cat(alone, 2))


@every_scheme
def test_every_row_may_be_packed_differently(name: str) -> None:
    layer = Layer(build(name, noise=0.1))
    x = normal(2, 8, DIM)
    positions = torch.tensor([[0, 1, 2, 0, 1, 2, 3, 4], [0, 1, 2, 3, 4, 5, 0, 1]])
    segments = torch.tensor([[0, 0, 0, 1, 1, 1, 1, 1], [0, 0, 0, 0, 0, 0, 1, 1]])
    packed = layer(x, positions, segments)
    close(packed[:1, :, 3:], layer(x[:1, 3:], torch.arange(5)))
    close(packed[1:, :, :6], layer(x[1:, :6], torch.arange(6)))


@every_scheme
@pytest.mark.parametrize("steps", [[4, 1, 1, 1, 1], [3, 5]], ids=str)
def test_cached_decoding_of_packed_and_padded_rows(name: str, steps: list[int]) -> None:
    layer = Layer(build(name, noise=0.1))
    x = normal(2, 8, DIM)
    positions = torch.tensor([[0, 0, 0, 1, 2, 3, 4, 5], [0, 1, 2, 3, 0, 1, 2, 3]])
    segments = torch.tensor([[0, 0, 1, 1, 1, 1, 1, 1], [0, 0, 0, 0, 1, 1, 1, 1]])
    got = layer.decode(x, positions, steps, segments)
    close(got, layer(x, positions, segments))
    close(got[:1, :, 2:], layer(x[:1, 2:], torch.arange(6)))


@every_scheme
def test_left_padding_changes_nothing(name: str) -> None:
    layer = Layer(build(name, noise=0.1))
    x = normal(1, 6, DIM)
    padding = 5 * normal(1, 3, DIM, seed=8)
    positions = torch.cat([torch.zeros(3, dtype=torch.int64), torch.arange(6)])
    segments = torch.tensor([[0] * 3 + [1] * 6])
    padded = layer(torch.cat([padding, x], 1), positions, segments)
    close(padded[:, :, 3:], layer(x, torch.arange(6)))


@every_scheme
def test_both_directions_work_unless_declared_causal(name: str) -> None:
    scheme = build(name, noise=0.1)
    if scheme.causal_only:
        return
    layer = Layer(scheme)
    x, positions = normal(2, 6, DIM), torch.arange(6)
    out = layer(x, positions, causal=False)
    assert out.isfinite().all()
    causal = layer(x, positions)
    assert (out - causal)[:, :, 0].abs().max() > 1e-3
    close(out[:, :, 5], causal[:, :, 5], atol=1e-12)


@every_scheme
def test_state_dict_round_trip(name: str) -> None:
    one, other = build(name, seed=0, noise=0.3), build(name, seed=1)
    x, positions = normal(2, 9, DIM), torch.arange(9)
    expected = Layer(one)(x, positions)
    before = Layer(other)(x, positions)
    if list(one.parameters()):
        assert not torch.allclose(before, expected)
    other.load_state_dict(one.state_dict(), strict=True)
    assert torch.equal(Layer(other)(x, positions), expected)
    # Nothing but parameters is kept: no table that a cast could round.
    assert set(one.state_dict()) == {name for name, _ in one.named_parameters()}


@every_scheme
def test_close_positions_in_bfloat16(name: str) -> None:
    # 15962 and 15966 are one number in bfloat16: arithmetic on positions in it would
    # give both the same code.
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        scheme = create(name, model_dim=DIM, heads=HEADS, length=16_000).double()
    layer = Layer(scheme)
    x = normal(1, 1, DIM).bfloat16().expand(1, 2, DIM)
    zero = torch.zeros_like(x)

    def codes(positions: list[int], dtype: torch.dtype) -> tuple[Tensor, Tensor]:
        """Return what a zero token becomes, and what attention makes of x."""
        ids = torch.tensor(positions)
        code = scheme.embed(zero.to(dtype), ids)
        q = layer.heads(x, 0).to(dtype)
        k = layer.heads(x, 1).to(dtype)
        return code, attention_logits(q, k, scheme=scheme, positions=ids)

    for positions in ([15_950, 15_962], [15_950, 15_966], [15_962, 15_966]):
        code, logits = codes(positions, torch.bfloat16)
        wide_code, wide_logits = codes(positions, torch.float64)
        assert torch.equal(code, wide_code.bfloat16())  # rounded once
        # Queries and keys may be rounded once each after their doors: 2 * 2**-8 of
        # the product of their norms. The logits themselves are float32.
        size = layer.heads(x, 0).double().norm(dim=-1).max()
        size = size * layer.heads(x, 1).double().norm(dim=-1).max()
        bound = (2.1 * 2.0**-8 * scheme.scale(WIDTH) * size).item()
        seen = wide_logits.isfinite()
        close(logits.double()[seen], wide_logits[seen], atol=bound)
