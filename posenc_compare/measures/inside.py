"""Inside: where a trained network keeps positions, and what it does with them.

Four questions that tutorials ask, each put to a network after its training:

- Can the position be read off? A linear probe predicts the position from the vectors
  after each layer, and from what the layer added to them alone (Haviv et al. 2022,
  arXiv:2203.16634, show that a causal network without a scheme knows positions).
- Do token vectors make room for a code that is added to them? They may grow, and they
  may move into channels in which the code hardly changes.
- How far back does each head look?
- Which pairs of channels does a rotary scheme use? Barbero et al. 2024
  (arXiv:2410.06205) measure the norms of queries and keys by pair.
"""

import math
from collections.abc import Iterator
from typing import Any

import numpy as np
import scipy  # whose statistics take a second to import, once they are used
import torch
import torch.nn.functional as F
from einops import rearrange
from torch import Tensor

from posenc_compare.attention import Session
from posenc_compare.measures.measure import (
    Curve,
    Headline,
    Quantity,
    Result,
    Row,
    register_measure,
)
from posenc_compare.schemes import Variant
from posenc_compare.schemes.shared.rotation import PAIRS, Rotation, rotation_angles
from posenc_compare.schemes.wrapper import Wrapper
from posenc_compare.settings.training import Training
from posenc_compare.tasks.task import Batch
from posenc_compare.train.decoder import Decoder, Layer, ids_of
from posenc_compare.train.progress import Progress
from posenc_compare.train.trainer import trainer_of

SEQUENCES = 64  # held-out ones that the network reads; half of them fit the probe
MAP = 48  # positions along each side of a map
RIDGE = 1e-6  # of the mean square of a feature, so that equal channels can be fitted
TINY = 1e-30  # mean square of vectors that are all alike

PROBE = Quantity(
    "position_probe",
    unit="share of the variance of the position, R2 on sequences held out",
    better="neither",
    zero="a linear probe knows no more than the mean position",
    x="layer",
    title="position read by a linear probe",
)
NORM = Quantity(
    "token_size",
    unit="root mean square of a channel of token vectors",
    better="neither",
    zero="token vectors are zero; they start at 1",
    title="size of token vectors",
)
MOVE = Quantity(
    "token_move",
    unit="Spearman's correlation over channels",
    better="neither",
    zero="growth of a channel of the tokens has nothing to do with the code in it",
    title="token growth by channel, with spread of the code",
)
DISTANCE = Quantity(
    "attention_distance",
    unit="tokens",
    better="neither",
    zero="every query looks at itself alone",
    x="layer",
    title="mean distance of attention",
)
SLOW = Quantity(
    "slow_pairs",
    unit="share of the products of norms of queries and keys",
    better="neither",
    zero="the slower half of the rotary pairs is not used; at the start it is 0.5",
    title="use of the slower half of pairs",
)


@register_measure(
    "inside",
    quantities=(PROBE, NORM, MOVE, DISTANCE, SLOW),
    views=(
        Curve(PROBE),
        Curve(DISTANCE),
        Headline(NORM),
        Headline(MOVE),
        Headline(SLOW),
    ),
    setting="training",
    extra=True,
)
def inside(variant: Variant, setting: Training, progress: Progress) -> Result:
    """Where a trained network keeps positions, and what it does with them.

    Args:
        variant: the scheme under test.
        setting: network, training, task and seed; tested at the training length.
        progress: called after every step.

    Returns:
        `position_probe` at the input (0) and after each layer, with the case `added`
        for what the layer added alone; `attention_distance` of each layer, with a case
        for each head; `token_size` at the end, and at the start as a case;
        `token_move` where something is added to tokens; `slow_pairs` of a rotary
        scheme. Arrays: `token_sizes` `(2, channel)` at start and end, `code_spread`
        `(channel,)`, `trained_similarity` `(1, position, position)`, the cosine of two
        codes, `pair_use` `(layer, pair)` from the fastest pair to the slowest, and
        `trained_bias` `(head, query, key)`, logits of zero queries and keys in the
        first layer, each where the scheme has any, up to 48 positions.
    """
    trainer = trainer_of(variant, setting)
    model = trainer.model
    before = _sizes(model)
    trainer.train(progress)
    model.eval()
    batch = trainer.task.test(setting.length)
    tokens = batch.tokens[:SEQUENCES].to(setting.device)
    batch = Batch(tokens, tokens, positions=batch.positions)
    with torch.no_grad():
        return _asked(model, batch, before)


def _asked(model: Decoder, batch: Batch, before: Tensor) -> Result:
    """Return the answers of a trained network on some sequences.

    `before` is the size of each channel of the token vectors at the start.
    """
    after = _sizes(model)
    rows = [
        Row(NORM.name, float(after.square().mean().sqrt())),
        Row(NORM.name, float(before.square().mean().sqrt()), case="start"),
    ]
    states = _states(model, batch)
    rows += _probed(states)
    arrays: dict[str, Any] = {"token_sizes": [before.tolist(), after.tolist()]}
    rows += _distances(model, batch, states)
    code = _code(model, batch)
    if code is None:
        rows.append(Row(MOVE.name, None, note="adds nothing to tokens"))
    else:
        spread = code.std(dim=0)
        arrays["code_spread"] = spread.tolist()
        directions = F.normalize(code[:MAP], dim=1)
        arrays["trained_similarity"] = [(directions @ directions.T).tolist()]
        rows.append(_moved(after / before, spread))
    bias = _bias(model, batch)
    if bias is not None:
        arrays["trained_bias"] = bias.tolist()
    use = _use(model, states)
    if use is None:
        rows.append(Row(SLOW.name, None, note="no plain rotation"))
    else:
        arrays["pair_use"] = use.tolist()
        pairs = use.shape[1]
        slower = use[:, pairs // 2 :].sum(dim=1)
        if pairs % 2:  # half of the pair in the middle
            slower = slower - use[:, pairs // 2] / 2
        slower = slower / use.sum(dim=1)
        rows.append(Row(SLOW.name, float(slower.mean())))
    return Result(rows, arrays)


def _sizes(model: Decoder) -> Tensor:
    """Return the root mean square of each channel of the token vectors."""
    weight = model.embedding.weight.detach().double().cpu()
    return weight.square().mean(dim=0).sqrt() * weight.shape[1] ** 0.5


def _session(model: Decoder, batch: Batch) -> Session:
    """Return a pass with the random ids, if the scheme draws any, of a test."""
    positions = batch.positions_for(model.axes).to(batch.tokens.device)
    ids = ids_of(0, "test")
    return Session(model.own, positions, generator=ids, batch=len(batch.tokens))


def _embedded(model: Decoder, batch: Batch, session: Session) -> Tensor:
    return session.embed(
        model.embedding(batch.tokens) * model.embedding.embedding_dim**0.5
    )


def _layers(model: Decoder) -> Iterator[tuple[int, Layer]]:
    for number, layer in enumerate(model.layers):
        assert isinstance(layer, Layer)
        yield number, layer


def _states(model: Decoder, batch: Batch) -> list[Tensor]:
    """Return the vectors before the first layer and after each layer."""
    session = _session(model, batch)
    states = [_embedded(model, batch, session)]
    for number, layer in _layers(model):
        states.append(layer(states[-1], session, number))
    return states


def _probed(states: list[Tensor]) -> list[Row]:
    rows = []
    for layer, state in enumerate(states):
        rows.append(Row(PROBE.name, explained(state), layer))
        if layer:
            rows.append(
                Row(PROBE.name, explained(state - states[layer - 1]), layer, "added")
            )
    return rows


def explained(state: Tensor) -> float:
    """Return the share of the variance of the place that a linear map predicts.

    The map is fitted on the first half of the sequences, and tested on the others.

    `state` is `(sequence, seq, width)`.
    """
    count, length, _ = state.shape
    x = state.double().cpu()
    y = torch.arange(length, dtype=torch.float64).expand(count, -1)
    fit, test = slice(0, count // 2), slice(count // 2, None)
    center, middle = x[fit].flatten(0, 1).mean(dim=0), y[fit].mean()
    features = (x[fit] - center).flatten(0, 1)
    gram = features.T @ features
    size = gram.diagonal().mean().clamp(min=TINY)
    gram += RIDGE * size * torch.eye(len(gram), dtype=gram.dtype)
    answers = (y[fit] - middle).flatten()[:, None]
    # Not `lstsq`, whose last digits depend on where in memory its tensors lie.
    factor = torch.linalg.cholesky(gram)
    weights = torch.cholesky_solve(features.T @ answers, factor)[:, 0]
    errors = (x[test] - center) @ weights + middle - y[test]
    return float(1 - errors.square().mean() / (y[test] - middle).square().mean())


def _distances(model: Decoder, batch: Batch, states: list[Tensor]) -> list[Row]:
    """Return the mean distance that attention looks back, by layer and head."""
    session, rows = _session(model, batch), []
    _embedded(model, batch, session)
    places = torch.arange(batch.tokens.shape[1], device=batch.tokens.device)
    back = (places[:, None] - places).double()
    for number, layer in _layers(model):
        q, k, _, seen = layer.projected(states[number])
        logits = session.logits(number, q * layer.query_gain, k, x=seen)
        scheme = session.scheme(number)
        weights = scheme.weights(logits, session.call(number, q, k, x=seen))
        if weights is not None and bool((weights < 0).any()):
            rows.append(Row(DISTANCE.name, None, number + 1, note="weights below 0"))
            continue
        if weights is None:
            weights = logits.softmax(dim=-1)
        else:  # their sum may be below 1, as beside a sink
            weights = weights / weights.sum(dim=-1, keepdim=True).clamp(min=TINY)
        means = (weights.double() * back).sum(dim=-1).mean(dim=(0, 2)).tolist()
        rows.append(Row(DISTANCE.name, math.fsum(means) / len(means), number + 1))
        rows += [
            Row(DISTANCE.name, mean, number + 1, f"head {head}")
            for head, mean in enumerate(means)
        ]
    return rows


def _code(model: Decoder, batch: Batch) -> Tensor | None:
    """Return what is added to a token at each place, `(seq, channel)`, or None."""
    if not model.own[0].acts_at("embed"):
        return None
    tokens = torch.zeros_like(batch.tokens[:1])
    session = _session(model, Batch(tokens, tokens, positions=batch.positions))
    zeros = torch.zeros(1, tokens.shape[1], model.embedding.embedding_dim)
    code = session.embed(zeros.to(tokens.device))
    return code[0].double().cpu()


def _bias(model: Decoder, batch: Batch) -> Tensor | None:
    """Return logits of zero queries and keys of the first layer, or None."""
    positions = batch.positions_for(model.axes)[:MAP].to(batch.tokens.device)
    width, first = model.embedding.embedding_dim, next(_layers(model))[1]
    x = torch.zeros(1, len(positions), width, device=positions.device)
    zeros = x.unflatten(2, (first.heads, -1)).transpose(1, 2)
    session = Session(model.own, positions, generator=ids_of(0, "test"))
    found = session.logits(0, zeros, zeros, x=x)[0]
    return found.double().cpu() if found[found.isfinite()].any() else None


def _moved(growth: Tensor, spread: Tensor) -> Row:
    if float(spread.max() - spread.min()) == 0:
        return Row(MOVE.name, None, note="the code varies alike in all channels")
    ranks = [scipy.stats.rankdata(values.numpy()) for values in (growth, spread)]
    return Row(MOVE.name, float(np.corrcoef(ranks)[0, 1]))


def _use(model: Decoder, states: list[Tensor]) -> Tensor | None:
    """Return the product of norms, `(layer, pair)`, of the fastest pair first."""
    found = []
    for number, layer in _layers(model):
        scheme = model.own[number % len(model.own)]
        while isinstance(scheme, Wrapper):
            scheme = scheme.inner
        step = torch.arange(2, device=states[0].device)
        angles = rotation_angles(scheme, step)
        if angles is None or not isinstance(scheme, Rotation) or angles.dim() != 2:
            return None
        q, k, _, _ = layer.projected(states[number])
        count = angles.shape[-1]
        pairs = f"b head seq {PAIRS[scheme.layout]} -> b head seq pair two"
        norms = [
            rearrange(scheme.turning(part, count), pairs, two=2).double().norm(dim=-1)
            for part in (q, k)
        ]
        use = norms[0].mean(dim=(0, 1, 2)) * norms[1].mean(dim=(0, 1, 2))
        order = (angles[1] - angles[0]).abs().argsort(descending=True)
        found.append(use[order].cpu())
    return torch.stack(found)
