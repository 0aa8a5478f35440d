"""time2vec against its equation, one channel at a time."""

import math
from typing import Any

from schemes.reference import Case, EmbedTests


class TestTime2Vec(EmbedTests):
    name = "time2vec"
    sizes = {"model_dim": 6, "heads": 1, "length": 40}
    cases = [{}, {"normalised": False}, Case(model_dim=1)]
    half = Case(model_dim=32, length=64)
    wrong_width = 8, r"the width must be 6, .* 8"
    changes = [{"normalised": False}]

    def code(self, scheme: Any, case: Case, position: int) -> list[float]:
        unit = scheme.geometry.length if case.options.get("normalised", True) else 1
        rows = zip(scheme.frequency.tolist(), scheme.phase.tolist(), strict=True)
        line, *angles = [w * position / unit + b for w, b in rows]
        return [line, *map(math.sin, angles)]

    def test_the_start_is_that_of_the_port(self) -> None:
        scheme = self.make(model_dim=4000)
        for parameter in scheme.parameters():
            assert abs(parameter.std().item() - 1) < 0.05
            assert abs(parameter.mean().item()) < 0.05
