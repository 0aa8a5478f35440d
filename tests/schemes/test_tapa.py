"""tapa against equation 12 of the paper, one pair of tokens at a time."""

import math

import torch
from schemes.reference import Case, Inputs, LogitTests
from schemes.tools import close, dot, pair_by_pair, vectors
from torch import Tensor

from posenc_compare.attention import Mask, attention_logits


class TestTapa(LogitTests):
    name = "tapa"
    # How many channels make the logit, by head size and share.
    amplitudes = {(8, 0.5): 4, (7, 0.5): 3, (7, 0.8): 5, (2, 0.1): 1, (8, 0.9): 7}
    cases = [
        Case({"share": share, "power": power}, head_dim=head_dim)
        for head_dim, share in amplitudes
        for power in (0.1, 0.3)
    ]
    gradients = [{"power": 0.5}]
    changes = [{"power": 0.2}, {"share": 0.25}]
    errors = [
        *(
            ({"power": power}, f"power must be greater than 0, got {power}")
            for power in (0.0, -1.0)
        ),
        *(
            ({"share": share}, f"share must be between 0 and 1, got {share}")
            for share in (0.0, 1.0, -0.5)
        ),
        (Case(head_dim=1), "head_dim must be at least 2, got 1"),
    ]

    def logits(self, t: Inputs) -> Tensor:
        width, places = t.q.shape[-1], t.positions.tolist()
        first = self.amplitudes[width, t.option("share")]

        def logit(b: int, h: int, i: int, j: int) -> float:
            q, k = t.q[b, h, i].tolist(), t.k[b, h, j].tolist()
            amplitude = dot(q[:first], k[:first]) / math.sqrt(first)
            phase = dot(q[first:], k[first:]) / math.sqrt(width - first)
            distance = abs(places[b][i] - places[b][j])
            turns = distance ** t.option("power") * phase
            return amplitude * math.cos(2 * math.pi * turns)

        return pair_by_pair(t.q, logit)

    def test_equal_positions_have_no_phase(self) -> None:
        q, k, _ = vectors(1, 2, 3, 8)
        here = {"scheme": self.make(), "positions": torch.full((3,), 7)}
        logits = attention_logits(q, k, mask=Mask(causal=False), **here)
        close(logits, q[..., :4] @ k[..., :4].mT / 2)
