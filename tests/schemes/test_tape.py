"""tape against its formula, one channel at a time."""

import math
from typing import Any

import torch
from schemes.reference import Case, EmbedTests
from schemes.tools import close, normal

from posenc_compare.errors import ShapeError


class TestTape(EmbedTests):
    name = "tape"
    sizes = {"model_dim": 8, "heads": 1, "length": 20}
    cases = [
        *(
            Case(model_dim=width, length=length)
            for width in (2, 6)
            for length in (5, 99)
        ),
        {"base": 100.0},
        {"length": 7},
    ]
    half = Case(model_dim=16)
    wrong_width = 7, "the width must be even, got 7"
    changes = [{"base": 100.0}, {"length": 9}]
    errors = [
        ({"length": -1}, "length must be at least 1, got -1"),
        (Case(model_dim=7), "the width must be even, got 7", ShapeError),
        ({"base": 0.0}, r"base must be greater than 0, got 0\.0"),
    ]

    def code(self, scheme: Any, case: Case, position: int) -> list[float]:
        width = scheme.geometry.model_dim
        length = case.options.get("length", scheme.geometry.length)
        code = []
        for pair in range(width // 2):
            speed = case.options.get("base", 1e4) ** (-2 * pair / width)
            angle = position * speed * width / length
            code += [math.sin(angle), math.cos(angle)]
        return code

    def test_a_length_of_the_width_is_sinusoidal(self) -> None:
        x, positions = normal(1, 5, 8), torch.tensor([0, 1, 7, 40, 500])
        sinusoidal = self.make(name="sinusoidal")
        close(self.make(length=8).embed(x, positions), sinusoidal.embed(x, positions))
