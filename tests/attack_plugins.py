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
