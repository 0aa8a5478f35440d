"""Attacks by plugins that succeed: each test says what should hold, and fails."""

from pathlib import Path

import pytest

from posenc_compare.analysis.core.canonical import canonical
from posenc_compare.analysis.core.progress import Progress
from posenc_compare.analysis.core.settings import ProbeSetting
from posenc_compare.analysis.engine.compute import compute
from posenc_compare.analysis.records.cells import Cell
from posenc_compare.analysis.show.plots.plot import in_order
from posenc_compare.errors import ConfigError
from posenc_compare.registry import MEASURES, SCHEMES, add_plugin
from posenc_compare.schemes import Geometry
from posenc_compare.variants import Variant, parse_variants

NAMED = '''
from posenc_compare.analysis.measures.measure import *

SECONDS = Quantity("seconds_taken", "s", "lower", "no time", repeatable=False)
ALONE, ONCE, VERSION = True, True, 2

@register_measure(
    "named_facts",
    quantities=(SECONDS,),
    exclusive=ALONE,
    once=ONCE,
    version=VERSION,
)
def named_facts(variant, probe, progress):
    """A measure of time, whose facts have names."""
    return Result([Row("seconds_taken", 1.0)])
'''


@pytest.mark.parametrize("fact", ["exclusive", "once", "version"])
def test_facts_that_are_planned_with_are_those_of_the_measure(
    fact: str, tmp_path: Path
) -> None:
    path = tmp_path / "named.py"
    path.write_text(NAMED)
    MEASURES._known.pop("named_facts", None)
    MEASURES._items.pop("named_facts", None)
    try:
        add_plugin(str(path))
    except ConfigError:
        return  # refused in a line is as good
    default = {"exclusive": False, "once": False, "version": 1}[fact]
    planned = MEASURES.entry("named_facts").facts.get(fact, default)
    assert planned == getattr(MEASURES.get("named_facts"), fact)


FIRST = '''
from posenc_compare.analysis.show.plots.plot import register_plot

@register_plot("goes_first", caption="First.", order=-1)
def goes_first(records):
    """Draw nothing."""
    return None
'''


def test_a_plot_of_the_smallest_order_goes_first(tmp_path: Path) -> None:
    path = tmp_path / "first.py"
    path.write_text(FIRST)
    add_plugin(str(path))
    assert in_order()[0].name == "goes_first"


WIDE = '''
import numpy as np
import torch
from posenc_compare.analysis.measures.measure import *

Q = Quantity("single", "nats", "lower", "nothing")

@register_measure("measure_KIND", quantities=(Q,), views=(Headline(Q),))
def measure(variant, probe, progress):
    """A number of another library, or none at all."""
    return Result([ROWS])
'''
ROWS = {
    "numpy": 'Row("single", np.float32(1.5))',
    "torch": 'Row("single", torch.tensor(1.5))',
    "none": "",
}


@pytest.mark.parametrize("kind", ROWS)
def test_a_result_is_kept_or_refused_in_its_record(kind: str, tmp_path: Path) -> None:
    path = tmp_path / f"{kind}.py"
    path.write_text(WIDE.replace("KIND", kind).replace("ROWS", ROWS[kind]))
    add_plugin(str(path))
    cell = Cell(Variant("alibi"), f"measure_{kind}", ProbeSetting(positions=16), 1)
    record = compute(cell, Progress(lambda units: None))
    canonical(record.to_json())  # what a worker does, and dies of
    assert record.rows or record.status != "ok", "ok: the cell has its numbers"
