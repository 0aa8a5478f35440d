"""Examples and sketches run as they stand, and the examples print what they promise."""

import contextlib
import importlib
import io
import re
import runpy
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import matplotlib.pyplot as plt
import pytest
import torch
from support.attention import decoded
from support.processes import python

from posenc_compare.attention import Session, attention
from posenc_compare.registry import MEASURES, TASKS
from posenc_compare.schemes import Geometry, Variant, create
from posenc_compare.settings.training import Training
from posenc_compare.tasks.task import check_task

ROOT = Path(__file__).parent.parent
EXAMPLES = ROOT / "examples"


def run_here(name: str, *words: str) -> str:
    """Run an example in this process, which is faster, and return what it prints."""
    printed = io.StringIO()
    with (
        pytest.MonkeyPatch.context() as patch,
        torch.random.fork_rng(devices=[]),
        contextlib.redirect_stdout(printed),
    ):
        torch.manual_seed(0)
        patch.setattr("sys.argv", [name, *words])
        runpy.run_path(str(EXAMPLES / name), run_name="__main__")
    plt.close("all")  # which other tests would find open
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


@pytest.mark.parametrize("scheme", ["learned_2d", "decomposed", "rope_2d"])
def test_a_vision_transformer_reads_images_of_other_sizes(scheme: str) -> None:
    said = run_here("vit.py", scheme).splitlines()
    assert said[:-1] == [f"{sides} (2, 10)" for sides in ("8 8", "16 16", "4 32")]
    assert float(said[-1].removeprefix("largest difference of the port: ")) < 1e-12


def test_the_encoder_decoder_runs_as_it_says() -> None:
    said = run_here("encoder_decoder.py")
    assert re.fullmatch(r"(0\.9\d|1\.00) of the digits are right\n", said)


def test_gaps_in_time_matter() -> None:
    pattern = r"positions in (\w+): (\S+)% of the variance is left\n"
    found = dict(numbers(pattern, run_here("irregular_times.py")))
    assert list(found) == ["seconds", "counts"]
    assert found["seconds"] < 2
    assert found["counts"] > 10


@pytest.fixture
def graphs(forgetful: None) -> SimpleNamespace:
    return SimpleNamespace(**runpy.run_path(str(EXAMPLES / "graphs.py")))


def test_a_graph_transformer_sees_each_graph_alone(graphs: SimpleNamespace) -> None:
    torch.manual_seed(0)
    edges, far, marks, _ = graphs.draw(3, 12, 24)
    sizes, order = edges.any(dim=2).sum(dim=1).tolist(), torch.randperm(24)
    for name in ("nope", "random_walk", "shortest_path"):
        model = graphs.Model(name).requires_grad_(False)
        for parameter in model.scheme.parameters():
            parameter.normal_()
        whole = model(edges, far, marks)
        pairs = (x[:, order][..., order] for x in (edges, far))
        renumbered = model(*pairs, marks[:, order])
        torch.testing.assert_close(renumbered, whole[:, order])
        for row, size in enumerate(sizes):
            pairs = (x[row, None, :size, :size] for x in (edges, far))
            alone = model(*pairs, marks[row, None, :size])
            torch.testing.assert_close(alone[0], whole[row, :size])


def test_a_graph_transformer_learns_with_positions(
    graphs: SimpleNamespace, capsys: pytest.CaptureFixture[str]
) -> None:
    graphs.compare(seeds=(2,), steps=100)
    rows = re.findall(
        r"^(\w+) +([01]\.\d+) +([01]\.\d+)$", capsys.readouterr().out, re.M
    )
    found = {name: [float(share) for share in shares] for name, *shares in rows}
    names = ["chance", "majority", "nope", "random_walk", "laplacian", "shortest_path"]
    assert list(found) == names
    for most, nope, path in zip(*(found[names[at]] for at in (1, 2, 5)), strict=True):
        assert 1 / 3 < most < 0.5
        assert nope < most + 0.02
        assert path > 0.9
    assert found["laplacian"][0] > found["nope"][0]


def test_notebook_compares_without_a_guard():
    done = python("-W", "error", EXAMPLES / "notebook.py")
    assert done.returncode == 0, done.stderr
    text = done.stdout
    found = dict(numbers(r" *(\w+) +(\d\S+)\n", text))
    assert found.keys() == {"rope", "alibi"}
    assert found["rope"] > 0.1 > found["alibi"] > 0
    cells = 2 * len(MEASURES.select("untrained"))
    assert f"Results({cells} of {cells} cells ok)\n" in text
    assert "ramp adds [0.0, 0.25, 0.5, 0.75]\n" in text
    assert text.endswith("Results(2 of 2 cells ok)\n")


HOOKS = (ROOT / "docs" / "hooks.md").read_text("utf-8")
BLOCKS = re.findall(r"```python\n(.*?)```", HOOKS, re.DOTALL)


@pytest.fixture(scope="module")
def sketches() -> dict[str, Any]:
    """Run the Python blocks of the page on the hook, and return what they define."""
    names: dict[str, Any] = {"__name__": "sketches"}
    for block in BLOCKS:
        exec(block, names)
    return names


@pytest.mark.parametrize(
    "name", re.findall(r"^class (\w+)", "".join(BLOCKS), re.MULTILINE)
)
def test_sketch_decodes_what_it_reads_as_a_whole(name, sketches):
    torch.manual_seed(0)
    geometry = Geometry(model_dim=32, heads=2, head_dim=16, length=16)
    scheme = sketches[name](geometry).double().requires_grad_(False)
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


def test_counting_after_a_first_token_can_be_trained(registered) -> None:
    registered(EXAMPLES / "counting.py")
    check_task(TASKS.get("counting_first")(Training(task="counting_first", length=33)))
    x, ids = torch.randn(1, 8, 16), torch.arange(8)
    inside = {"scheme": Variant("nope")}
    sums = create("with_sinusoids", options=inside, model_dim=16).embed(x, ids)
    assert torch.equal(sums, create("sinusoidal", model_dim=16).embed(x, ids))


@pytest.mark.filterwarnings("ignore")
def test_the_preregistered_test_has_the_outcome_of_the_findings(tmp_path: Path) -> None:
    figure = tmp_path / "figure.png"
    shown = run_here("preregistered.py", str(figure))
    assert shown.startswith("rho 0.53, 95% over schemes 0.11 to 0.82\np 0.028 ")
    assert re.search(r"^randomized_distance +0.000 +1.403$", shown, re.MULTILINE)
    assert figure.stat().st_size > 10_000


def test_a_gray_code_flips_one_bit_at_a_time(registered) -> None:
    registered(EXAMPLES / "gray_code.py")
    places = torch.arange(32)
    code = create("gray", model_dim=5, heads=1, length=32).embed(
        torch.zeros(32, 5), places
    )
    assert len(code.unique(dim=0)) == 32
    assert (code[1:] - code[:-1]).abs().sum(dim=1).eq(1).all()


def test_fire_has_three_readings_beyond_its_length(registered) -> None:
    registered(EXAMPLES / "fire_readings.py")
    scheme: Any = create("fire_read", length=16, heads=2)
    assert scheme.schemes_for_length(16) == {}
    ids = torch.arange(64)[None]
    trained = scheme.bias(ids, ids)[:, :16]
    for reading in scheme.schemes_for_length(64).values():
        assert torch.equal(reading.bias(ids, ids)[:, :16], trained)
