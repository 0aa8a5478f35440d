"""The numbers that are pinned: of every scheme on every path, every measure and task.

`pins.json` holds them as this code computed them, beside the code that each belongs
to. While neither that code nor `NUMBERS` changes, no number may.
"""

import json
import sys
import tempfile
import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from posenc_compare.attention import attention, attention_logits
from posenc_compare.attention.backends import BACKENDS
from posenc_compare.errors import ConfigError
from posenc_compare.records.cells import Cell, setting_of
from posenc_compare.records.quantities import Array
from posenc_compare.records.record import Record
from posenc_compare.registry import MEASURES, SCHEMES, TASKS
from posenc_compare.run.compute import compute
from posenc_compare.run.provenance import place
from posenc_compare.schemes import Geometry
from posenc_compare.settings.probe import ProbeSetting
from posenc_compare.settings.training import Training
from posenc_compare.source.own_code import NUMBERS
from posenc_compare.tasks.corpus import load_corpus
from posenc_compare.train.progress import Progress
from posenc_compare.variants import Variant

FILE = Path(__file__).with_name("pins.json")
WIDTH, HEADS, LENGTH = 16, 2, 12
WORDS = b"the quick brown fox jumps over the lazy dog and naps. "
PROBE = ProbeSetting(width=WIDTH, heads=HEADS, positions=32, tokens=8)
SIZES: dict[str, Any] = {"layers": 1, "width": WIDTH, "heads": HEADS, "length": 16}
SIZES |= {"batch": 4, "longest": 2, "test_bytes": 256}
TRAINED = ("sinusoidal", "rope", "alibi", "fox")  # in 20 steps, on a text
OPTIONS: list[tuple[str, str, dict[str, Any]]] = [
    ("language", "canon", {"convolution": "canon"}),
    ("language", "kv_shift", {"convolution": "kv_shift"}),
    ("language", "RMSNorm", {"norm": "rms"}),
    ("language", "dropped positions", {"drop": 0.5}),
    ("shapes", "peg", {"convolution": "peg"}),
    ("shapes", "class token", {"pool": "class"}),
]  # of networks
Numbers = dict[str, float]


def arithmetic() -> str:
    """Return what the last bits of a number depend on."""
    return f"{place()['arithmetic']} torch {torch.__version__}"


def pinned(corpus: Path) -> dict[str, dict[str, Any]]:
    """Return all numbers by what they are of, with the code that they depend on.

    Args:
        corpus: where a text is written to.
    """
    corpus.write_bytes(b"".join(WORDS[i % 7 :] for i in range(300)))
    found: dict[str, dict[str, Any]] = {}
    for name, cell in cells(corpus).items():
        spec = cell.spec()
        record = compute(cell, Progress())
        assert record.status in ("ok", "unsupported"), record.error
        found[name] = {
            "code": f"{spec.scheme.code[:16]} {spec.measure.code[:16]}",
            "numbers": rows(record),
        }
    for name in SCHEMES.select("all"):
        cell = Cell(Variant(name), "smoothness", PROBE, 1)
        code = cell.spec().scheme.code[:16]
        found[f"attention of {name}"] = {"code": code, "numbers": attended(name)}
    return found


def cells(corpus: Path) -> dict[str, Cell]:
    """Return a cell of every measure, task and option of a network, with few steps."""
    found = []
    language = Training(**SIZES, steps=20, corpus=str(corpus)).resolve(load_corpus)
    for name in MEASURES.entries():
        if setting_of(name) is ProbeSetting:
            for scheme in ("sinusoidal", "rope"):
                found.append(Cell(Variant(scheme), name, PROBE, 1))
        elif setting_of(name) is Training:
            for scheme in TRAINED if name == "extrapolation" else ("rope",):
                found.append(Cell(Variant(scheme), name, language, 1))
    named = {f"{cell.variant.name}, {cell.measured}": cell for cell in found}
    tasks = [
        name
        for name, entry in TASKS.entries().items()
        if name != "language" and not entry.facts.get("extra")  # a package may lack
    ]
    plain = [(task, f"extrapolation on {task}", {}) for task in tasks]
    for task, words, more in [*plain, *OPTIONS]:
        facts = TASKS.entry(task).facts
        on_grid = facts.get("axes", 1) > 1
        length = facts["length"] if on_grid else max(32, facts.get("length", 32))
        sizes = {**SIZES, "length": length, "steps": 2, **more}
        setting = Training(task=task, corpus=str(corpus), **sizes)
        scheme = Variant("sinusoidal_2d" if on_grid else "rope" if more else "nope")
        cell = Cell(scheme, "extrapolation", setting.resolve(load_corpus), 1)
        named[f"{scheme.name}, {words}"] = cell
    return named


def rows(record: Record) -> Numbers:
    """Return the numbers of a record that the same machine gives again."""
    found = {
        " ".join(filter(None, [row.quantity, row.case, f"{row.x or ''}"])): row.value
        for row in record.repeatable_rows
    }
    found |= {f"sum of {name}": total(one) for name, one in record.arrays.items()}
    return {name: value for name, value in found.items() if value is not None}


def total(array: Array) -> float:
    """Return the sum of the numbers in nested lists."""
    return sum(map(total, array)) if isinstance(array, Sequence) else array or 0.0


def attended(name: str) -> Numbers:
    """Return a number of logits, of outputs on each path, and of their gradients."""
    geometry = Geometry(model_dim=WIDTH * HEADS, heads=HEADS, length=2 * LENGTH)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        scheme = Variant(name).build(geometry).double().eval()
    with torch.no_grad():
        for number, parameter in enumerate(scheme.parameters()):
            parameter += 0.1 * draw(*parameter.shape, seed=number)
    axes = scheme.facts.axes
    positions = torch.arange(3, LENGTH + 3)
    if axes > 1:
        cell = torch.arange(LENGTH)
        positions = torch.stack([cell // 4, cell % 4, cell % 3][:axes], dim=-1)
    x = draw(2, LENGTH, WIDTH * HEADS, seed=4)
    x = scheme.embed(x, positions)
    vectors = [draw(2, HEADS, LENGTH, WIDTH, seed=seed) for seed in range(3)]
    q, k, v = (one.requires_grad_() for one in vectors)
    state = scheme.token_state(x)
    call: dict[str, Any] = {"scheme": scheme, "positions": positions, "state": state}
    logits = attention_logits(q, k, **call)
    found = {
        "embedding": score(x),
        "logits": score(logits.masked_fill(logits < -1e9, 0)),
    }
    for path in BACKENDS:
        if path == "flex":
            continue  # it compiles, and gives what `plain` gives
        try:
            out = attention(q, k, v, path=path, **call)
        except ConfigError:
            continue
        trained = [p for p in scheme.parameters() if p.requires_grad]
        inputs = [q, k, v, *trained]
        gradients = torch.autograd.grad(
            (out * draw(*out.shape, seed=9)).sum(),
            inputs,
            allow_unused=True,
            retain_graph=True,
        )
        found[path] = score(out)
        found[f"gradient on {path}"] = sum(score(g) for g in gradients if g is not None)
    return found


def draw(*shape: int, seed: int) -> Tensor:
    """Return float64 numbers from a normal distribution."""
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(*shape, generator=generator, dtype=torch.float64)


def score(x: Tensor) -> float:
    """Return one number that every number of a tensor changes."""
    with torch.no_grad():
        return float((x.double() * draw(*x.shape, seed=7)).sum())


def moved(old: dict[str, Any], new: dict[str, Any]) -> bool:
    """Return whether a number has changed while its code has not."""
    if old["code"] != new["code"]:
        return False
    known = old["numbers"]
    return any(
        known.get(name, value) != value for name, value in new["numbers"].items()
    )


def write(corpus: Path) -> None:
    """Write the numbers that are new, or whose code has changed.

    Numbers of code that has not changed stay as the machine that wrote them has them.

    Raises:
        SystemExit: if one has changed here and its code has not.
    """
    new, here = pinned(corpus), arithmetic()
    old = json.loads(FILE.read_text())
    known = old["of"] if old["NUMBERS"] == NUMBERS else {}
    wrong = [
        name
        for name, one in known.items()
        if one["arithmetic"] == here and name in new and moved(one, new[name])
    ]
    if wrong:
        raise SystemExit(f"NUMBERS must be raised: {', '.join(wrong)}")
    for name, one in new.items():
        one["arithmetic"] = here
        kept = known.get(name, {"code": "", "numbers": {}})
        same_code = kept["code"] == one["code"]
        if same_code and kept["numbers"].keys() == one["numbers"].keys():
            new[name] = kept
    whole = {"NUMBERS": NUMBERS, "of": new}
    FILE.write_text(json.dumps(whole, indent=1) + "\n")


if __name__ == "__main__":
    warnings.simplefilter("error")
    if sys.argv[1:]:
        corpus = Path(sys.argv[1])
        corpus.with_name("pins.json").write_text(json.dumps(pinned(corpus)))
    else:
        with tempfile.TemporaryDirectory() as folder:
            write(Path(folder) / "text")
