"""An attack on `ok` that succeeds: NaN in queries is hidden by the fused path."""

from pathlib import Path

import pytest
import torch
from torch import Tensor

from posenc_compare.analysis.core.progress import Progress
from posenc_compare.analysis.core.settings import Training
from posenc_compare.analysis.engine.compute import compute
from posenc_compare.analysis.records.cells import Cell
from posenc_compare.analysis.training.corpus import load_corpus
from posenc_compare.attention import attention
from posenc_compare.registry import add_plugin
from posenc_compare.schemes import Geometry, Scheme
from posenc_compare.variants import Variant

SOURCE = '''
import torch
from posenc_compare.schemes import Scheme, register

@register("nan_beyond", family="rotary")
class NanBeyond(Scheme):
    """The logarithm of what is left of the trained length."""
    def query(self, q, positions):
        left = (self.geometry.length - positions).double().log()
        return q * (1 + 0 * left).to(q)[..., None, :, None]
'''


class NotANumber(Scheme):
    """Queries that are no numbers."""

    def query(self, q: Tensor, positions: Tensor) -> Tensor:
        return q * float("nan")


@pytest.mark.parametrize("path", ["fused", "dense"])
def test_paths_agree_on_what_is_not_finite(path: str) -> None:
    q, k, v = torch.randn(3, 1, 4, 6, 8)
    scheme = NotANumber(Geometry(model_dim=32, heads=4))
    ids = torch.arange(6)
    plain = attention(q, k, v, scheme=scheme, positions=ids, path="plain")
    got = attention(q, k, v, scheme=scheme, positions=ids, path=path)
    torch.testing.assert_close(got, plain, equal_nan=True)


def test_a_scheme_that_gives_nan_has_failed(tmp_path: Path) -> None:
    plugin = tmp_path / "nan_beyond.py"
    plugin.write_text(SOURCE)
    add_plugin(str(plugin))
    corpus = tmp_path / "text.txt"
    corpus.write_bytes(bytes(range(32, 127)) * 400)
    setting = Training(
        layers=1,
        width=32,
        heads=2,
        length=4,
        steps=3,
        batch=2,
        longest=2,
        test_bytes=256,
        corpus=str(corpus),
    ).resolve(load_corpus)
    cell = Cell(Variant("nan_beyond"), "extrapolation", setting, 1)
    record = compute(cell, Progress(lambda units: None))
    rows = [(row.quantity, row.x, row.value) for row in record.rows]
    assert record.status == "failed", (record.status, rows)
