"""The command that shows codes: numbers of tutorials, maps, refusals."""

import csv
import io
import json
import math
import re
from pathlib import Path

import numpy as np
import pytest
import torch
from support.attention import make
from support.shown import refusal

from posenc_compare.attention import Session
from posenc_compare.cli.show import SHADES, text_map
from posenc_compare.registry import SCHEMES
from posenc_compare.schemes.contract import ask

GRID = [e.name for e in SCHEMES.built_in() if e.facts.get("axes", 1) > 1]
PLUGIN = """
from torch import Tensor
from posenc_compare.schemes import Scheme, register

@register("falls", family="absolute")
class Falls(Scheme):
    '''Fail.'''

    def embed(self, x: Tensor, positions: Tensor) -> Tensor:
        {does}
"""


def test_the_numbers_are_those_of_the_formula(posenc) -> None:
    """Four positions in eight channels, as tutorials print them."""
    size = ("--positions", "4", "--width", "8", "--format", "json")
    rows = json.loads(posenc("show", "sinusoidal", *size).stdout)
    assert [row["position"] for row in rows] == [0, 1, 2, 3]
    for p, row in enumerate(rows):
        for pair in range(4):
            angle = p / 10_000 ** (2 * pair / 8)
            assert row[str(2 * pair)] == pytest.approx(math.sin(angle), rel=1e-12)
            assert row[str(2 * pair + 1)] == pytest.approx(math.cos(angle), rel=1e-12)


def test_initial_values_of_trained_parameters_are_named(posenc) -> None:
    whole = posenc("show", "learned", "sinusoidal", "--positions", "2").stdout
    assert whole.startswith("learned, before training: 2 positions by 32 channels")
    assert "\nsinusoidal: 2 positions by 32 channels" in whole


def test_options_of_a_scheme_are_taken(posenc) -> None:
    size = ("--positions", "3", "--width", "2", "--format", "csv")
    text = posenc("show", "integer:normalised=false", *size).stdout
    assert [*csv.reader(io.StringIO(text))] == [
        ["position", "0", "1"],
        *([str(p), f"{p}.0", f"{p}.0"] for p in range(3)),
    ]


def test_several_schemes_are_shown_one_below_the_other(posenc) -> None:
    names = ("rope", "alibi")
    whole = posenc("show", *names).stdout
    assert whole == "".join(posenc("show", name).stdout for name in names)
    words = ("show", "rope", "log_length", "--format", "csv")
    assert "heads of one size, got 8 and 32 channels; `--heads 1`" in refusal(
        posenc(*words)
    )
    assert posenc(*words, "--heads", "1").returncode == 0
    assert "or rotations whose heads share angles, got alibi" in refusal(
        posenc("show", *names, "--format", "csv")
    )


def test_wavelengths_of_several_rotations_are_side_by_side(posenc) -> None:
    names = (
        "rope",
        "rope:base=100.0",
        "rope:fraction=0.5",
        "rope:factor=4.0;scaling=pi",
    )
    rows = json.loads(posenc("show", *names, "--format", "json").stdout)
    assert [*rows[0]] == ["pair", *names]
    for pair, (_, *turns) in enumerate(map(dict.values, rows)):
        assert turns[0] == pytest.approx(2 * math.pi * 10_000 ** (pair / 16))
        assert turns[1] == pytest.approx(2 * math.pi * 100 ** (pair / 16))
        assert (turns[2] is None) == (pair >= 8)
        assert turns[3] == pytest.approx(4 * turns[0])
    text = posenc("show", *names).stdout
    assert text.startswith(posenc("show", "rope").stdout)
    assert text.rstrip().rpartition("\n")[2].split() == [
        *("15", "3.533e+04", "471.2", "1.413e+05")
    ]


def test_a_relative_scheme_shows_distances_by_head(posenc) -> None:
    size = ("--positions", "3", "--heads", "2", "--format", "table")
    lines = posenc("show", "alibi", *size).stdout.split("\n")
    assert [line.split() for line in lines[-6:]][:4] == [
        ["distance", "0", "1"],
        ["0", "0.0000", "0.0000"],
        ["1", "-0.0625", "-0.0039"],
        ["2", "-0.1250", "-0.0078"],
    ]


def test_codes_on_a_grid_name_their_cells(posenc) -> None:
    size = ("--positions", "2x3", "--width", "4", "--format", "json")
    rows = json.loads(posenc("show", "sinusoidal_2d", *size).stdout)
    cells = [(row["position on axis 0"], row["position on axis 1"]) for row in rows]
    assert cells == [(y, x) for y in range(2) for x in range(3)]
    for (y, x), row in zip(cells, rows, strict=True):
        code = [math.sin(y), math.sin(x), math.cos(y), math.cos(x)]
        assert [row[str(channel)] for channel in range(4)] == pytest.approx(code)


def test_a_bias_on_a_grid_has_distances_in_all_directions(posenc) -> None:
    size = ("--positions", "3x2", "--heads", "2", "--format", "json")
    rows = json.loads(posenc("show", "alibi_2d", *size).stdout)
    code = {(r["offset on axis 0"], r["offset on axis 1"]): r for r in rows}
    assert [*code] == [(y, x) for y in range(-2, 3) for x in range(-1, 2)]
    for (y, x), bias in code.items():
        expected = [-slope * math.hypot(y, x) for slope in (2.0**-4, 2.0**-8)]
        assert [bias["0"], bias["1"]] == pytest.approx(expected)


@pytest.mark.parametrize("name", ["rope_2d", "rope_dinov3", "rope_pixel", "bilevel"])
def test_a_rotation_on_a_grid_shows_the_key_of_each_cell(posenc, name: str) -> None:
    size = ("--positions", "4x4", "--width", "8", "--format", "json")
    rows = json.loads(posenc("show", name, *size).stdout)
    places = [[row.pop(f"position on axis {axis}") for axis in (0, 1)] for row in rows]
    assert places == [[y, x] for y in range(4) for x in range(4)]
    session = Session([make(name, width=8, heads=1, length=16)], torch.tensor(places))
    call = session.call(0, ones := torch.ones(1, 1, 16, 8).double(), ones)
    keys = ask(session.scheme(0), "key", call.k, call.k_positions, call)
    shown = np.array([[*row.values()] for row in rows])
    assert shown[:, -8:] == pytest.approx(keys[0, 0].numpy(), abs=1e-12)
    assert shown.shape[1] == 8 * (1 + (name == "bilevel"))  # what it adds to tokens


@pytest.mark.parametrize(
    ("family", "body", "said"),
    [
        ("none", "pass", "falls: no code and no bias: all values are 0\n"),
        (  # a bias of the key's column, not of the distance
            "bias",
            "def pair_bias(self, call):\n"
            "        columns = call.k_positions.flatten(0, -2)[:, 1].to(call.q.dtype)\n"
            "        return lambda b, h, i, j: 8 + columns[j] / 50 + 0 * (h + i)",
            "falls: has no code of a position or distance alone",
        ),
    ],
)
def test_what_is_no_code_on_a_grid(
    posenc, registered, tmp_path: Path, family: str, body: str, said: str
) -> None:
    path = tmp_path / "plugin.py"
    head, _ = PLUGIN.split("    def embed")
    head = head.replace('family="absolute"', f'family="{family}", axes=2')
    path.write_text(f"{head}{body and '    ' + body}\n", encoding="utf-8")
    registered(path)
    done = posenc("show", "falls")
    assert said in done.stdout + done.stderr


@pytest.mark.parametrize("name", GRID)
def test_every_scheme_for_grids_has_codes_or_a_reason(posenc, name: str) -> None:
    done = posenc("show", name)
    reason = f"error: {name}: (has|hides) (no code of|keys of some) .*\n"
    assert done.returncode == 0 or re.fullmatch(reason, done.stderr)


def test_the_length_is_that_of_training(posenc) -> None:
    size = ("--positions", "3", "--width", "1", "--length", "100", "--format", "json")
    rows = json.loads(posenc("show", "integer", *size).stdout)
    assert [row["0"] for row in rows] == pytest.approx([0, 0.01, 0.02])


def test_a_map_has_a_shade_for_each_value_at_equal_distances() -> None:
    values = np.array([[0.0, 0.5, 1.0], [1.0, 0.0, 0.0]])
    assert text_map("two", "position", "channel", ["0", "1"], values, 80) == [
        "two: 2 positions by 3 channels",
        "0 | =@",
        "1 |@  ",
        "from 0 (' ') to 1 ('@')",
    ]
    ramp = np.array([[i - 3.0 for i in range(len(SHADES))]])
    assert text_map("ramp", "position", "channel", ["0"], ramp, 80)[1] == f"0 |{SHADES}"


@pytest.mark.parametrize(("channels", "room", "step"), [(77, 80, 1), (512, 80, 7)])
def test_a_map_fits_into_a_terminal(channels: int, room: int, step: int) -> None:
    """It shows every n-th channel with an odd n: sines and cosines, not one of both."""
    values = np.array([[channel % 2.0 for channel in range(channels)]])
    first, row, _ = text_map("waves", "position", "channel", ["0"], values, room)
    assert len(row) <= room
    assert set(row[3:]) == {" ", "@"}
    assert (f"one of every {step}" in first) == (step > 1)


def test_a_map_needs_no_backend(posenc_process, monkeypatch) -> None:
    """A notebook names one to its commands that another Python may lack."""
    monkeypatch.setenv("MPLBACKEND", "none of matplotlib")
    done = posenc_process("show", "sinusoidal", "--positions", "2")
    assert done.stdout.startswith("sinusoidal: 2 positions by 32 channels\n")


def test_codes_of_zeros_are_said(posenc) -> None:
    found = posenc("show", "nope").stdout
    assert found == "nope: no code and no bias: all values are 0\n"


@pytest.mark.parametrize(
    ("does", "said"),
    [
        ("raise KeyError('gone')", "must have codes, got KeyError: 'gone'"),
        ("return x / 0", "codes must be finite, got NaN or inf"),
    ],
)
def test_a_scheme_that_fails_is_named(
    posenc, registered, tmp_path: Path, does: str, said: str
) -> None:
    path = tmp_path / "plugin.py"
    path.write_text(PLUGIN.format(does=does), encoding="utf-8")
    registered(path)
    assert refusal(posenc("show", "falls")) == f"error: falls: {said}"
