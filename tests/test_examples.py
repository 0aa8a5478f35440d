"""Examples and sketches run as they stand, and the examples print what they promise."""

import contextlib
import importlib
import io
import re
import runpy
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from support.attention import decoded

from posenc_compare.attention import Session, attention
from posenc_compare.registry import MEASURES, TASKS
from posenc_compare.schemes import Geometry, Scheme, Variant, create
from posenc_compare.settings.training import Training

ROOT = Path(__file__).parent.parent
EXAMPLES = ROOT / "examples"


def run(*arguments: str | Path) -> str:
    """Run Python in a fresh process, where a warning is an error."""
    done = subprocess.run(
        [sys.executable, "-W", "error", *map(str, arguments)],
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def run_here(name: str) -> str:
    """Run an example in this process, which is faster, and return what it prints."""
    printed = io.StringIO()
    with (
        pytest.MonkeyPatch.context() as patch,
        torch.random.fork_rng(devices=[]),
        contextlib.redirect_stdout(printed),
    ):
        torch.manual_seed(0)
        patch.setattr("sys.argv", [name])
        runpy.run_path(str(EXAMPLES / name), run_name="__main__")
    return printed.getvalue()


def numbers(pattern: str, text: str) -> list[tuple[str, float]]:
    return [(name, float(value)) for name, value in re.findall(pattern, text)]


def test_absolute_example_tells_order_at_every_length_and_width():
    found = numbers(
        r"(.*): reversal moves the output by (\S+)\n",
        run_here("absolute_in_your_model.py"),
    )
    assert [name for name, _ in found] == [
        "5 tokens of width 16",
        "300 tokens of width 64",
    ]
    assert all(moved > 0.05 for _, moved in found)


def test_relative_example_looks_less_far_back_with_a_bias():
    found = dict(
        numbers(
            r"(\w+): the last token looks (\S+) tokens back on average\n",
            run_here("relative_in_your_model.py"),
        )
    )
    assert list(found) == ["nope", "alibi"]
    assert found["nope"] == pytest.approx(49.5, abs=5)
    assert found["alibi"] < found["nope"] - 10


@pytest.mark.parametrize("scheme", ["rope", "fox"])
def test_a_small_gpt_learns_and_its_cache_is_exact(
    scheme: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.syspath_prepend(EXAMPLES)
    nanogpt = importlib.import_module("nanogpt")
    torch.manual_seed(0)
    text = torch.randint(97, 101, (999,))
    model = nanogpt.GPT(scheme)
    assert nanogpt.train(model, text, steps=20) < 3  # of 8; two bits are the least
    got = nanogpt.generate(model, text[None, :30], 8)
    for length in range(30, 38):
        session = nanogpt.Session(model.own, torch.arange(length))
        with torch.no_grad():
            wanted = model(got[:, :length], session)[:, -1].argmax(dim=-1)
        assert got[:, length] == wanted


def test_the_cache_of_an_encoder_decoder_is_exact(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.syspath_prepend(EXAMPLES)
    example = importlib.import_module("encoder_decoder")
    torch.manual_seed(0)
    model = example.Model("learned", "rope", "nope")
    source = torch.randint(10, (200, 6))
    with torch.no_grad():
        found = example.reverse(model, source)
        begin = torch.full((200, 1), example.BEGIN)
        whole = model(torch.cat([begin, found[:, :-1]], 1), *model.read(source))
    assert torch.equal(whole.argmax(2), found)


def test_the_encoder_decoder_runs_as_it_says() -> None:
    said = run_here("encoder_decoder.py")
    assert re.fullmatch(r"(0\.9\d|1\.00) of the digits are right\n", said)


def test_gaps_in_time_matter() -> None:
    pattern = r"positions in (\w+): (\S+)% of the variance is left\n"
    found = dict(numbers(pattern, run_here("irregular_times.py")))
    assert list(found) == ["seconds", "counts"]
    assert found["seconds"] < 2
    assert found["counts"] > 10


def test_notebook_compares_without_a_guard():
    text = run(EXAMPLES / "notebook.py")
    found = dict(numbers(r" *(\w+) +(\d\S+)\n", text))
    assert found.keys() == {"rope", "alibi"}
    assert found["rope"] > 0.1 > found["alibi"] > 0
    cells = 2 * len(MEASURES.select("untrained"))
    assert f"Results({cells} of {cells} cells ok)\n" in text
    assert "ramp adds [0.0, 0.25, 0.5, 0.75]\n" in text
    assert text.endswith("Results(2 of 2 cells ok)\n")


def sketches() -> dict[str, type[Scheme]]:
    """Run the Python blocks of the page on the hook, and return their schemes."""
    text = (ROOT / "docs" / "hooks.md").read_text("utf-8")
    names: dict[str, Any] = {"__name__": "sketches"}
    for block in re.findall(r"```python\n(.*?)```", text, re.DOTALL):
        exec(block, names)
    return {
        name: item
        for name, item in names.items()
        if isinstance(item, type) and item.__module__ == "sketches"
    }


@pytest.mark.parametrize("name", sketches())
def test_sketch_decodes_what_it_reads_as_a_whole(name):
    torch.manual_seed(0)
    geometry = Geometry(model_dim=32, heads=2, head_dim=16, length=16)
    scheme = sketches()[name](geometry).double().requires_grad_(False)
    for parameter in scheme.parameters():
        parameter.normal_()
    q, k, v = torch.randn(3, 2, 2, 7, 16, dtype=torch.float64)
    x = torch.randn(2, 7, 32, dtype=torch.float64)
    ids = torch.tensor([[0, 1, 2, 3, 4, 5, 6], [3, 4, 5, 9, 10, 11, 40]])
    whole = attention(
        q, k, v, scheme=scheme, positions=ids, state=scheme.token_state(x)
    )
    plain = attention(q, k, v, scheme=create("nope"), positions=torch.arange(7))
    assert not torch.allclose(whole, plain)
    session = Session(scheme, ids, fed=0, cache=True)
    got = decoded(session, [3, 1, 2, 1], (q, k, v), x)
    torch.testing.assert_close(got, whole)


def test_counting_after_a_first_token_is_counting(registered) -> None:
    registered(EXAMPLES / "counting.py")
    plain, first = (
        TASKS.get(name)(Training(task=name, length=length, batch=4)).sequence(
            length, np.random.default_rng(0), largest=True
        )
        for name, length in (("counting", 32), ("counting_first", 33))
    )
    for one, other in zip(vars(plain).values(), vars(first).values(), strict=True):
        assert np.array_equal(one, other[1:])
    assert first.tokens[0] not in plain.tokens
    assert not first.counts[0]
    x, ids = torch.randn(1, 8, 16), torch.arange(8)
    inside = {"scheme": Variant("nope")}
    sums = create("with_sinusoids", options=inside, model_dim=16).embed(x, ids)
    assert torch.equal(sums, create("sinusoidal", model_dim=16).embed(x, ids))


def test_the_preregistered_test_has_the_outcome_of_the_log(tmp_path: Path) -> None:
    figure = tmp_path / "figure.png"
    shown = run("-W", "ignore", EXAMPLES / "preregistered.py", figure)
    assert shown.startswith("rho 0.53, 95% over schemes 0.11 to 0.82\np 0.029 ")
    assert re.search(r"^randomized_distance +0.000 +1.403$", shown, re.MULTILINE)
    assert figure.stat().st_size > 10_000


def test_readings_of_fire_change_only_what_they_say(registered) -> None:
    registered(EXAMPLES / "fire_readings.py")
    torch.manual_seed(0)
    length = 16
    scheme: Any = create("fire_read", length=length, heads=2)
    ids = torch.arange(64)[None]
    trained = scheme.bias(ids, ids)
    assert scheme.schemes_for_length(length) == {}
    found: dict[str, Any] = scheme.schemes_for_length(64)
    held, clamped, window = found.values()
    for reading in (held, clamped, window):
        bias = reading.bias(ids, ids)
        assert torch.equal(bias[:, :length], trained[:, :length])
        for distance in range(length):  # as the last query of training has it
            last = trained[0, length - 1, length - 1 - distance]
            assert torch.allclose(bias[0, 50, 50 - distance], last, rtol=0, atol=1e-6)
    farthest = trained[0, length - 1, 0]
    assert torch.equal(clamped.bias(ids, ids)[0, 50, 50 - 30], farthest)
    assert not torch.equal(held.bias(ids, ids)[0, 50, 50 - 30], farthest)
    assert window.bias(ids, ids)[0, 50, 50 - 30].max() < -9000
