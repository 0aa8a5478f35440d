"""What says that memory was not enough is `lost: oom`, whoever says it."""

import pytest
import torch
from torch._dynamo.exc import BackendCompilerFailed
from torch._inductor.exc import InductorError

from posenc_compare.records.cells import Cell
from posenc_compare.run.compute import compute
from posenc_compare.schemes import Variant
from posenc_compare.settings.probe import ProbeSetting
from posenc_compare.train.progress import Progress

FULL = torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 20.00 MiB")
TELLING = [
    MemoryError(),
    FULL,
    RuntimeError("[enforce fail] DefaultCPUAllocator: can't allocate memory: you"),
    torch.AcceleratorError("CUDA error: out of memory\nCompile with"),
    BackendCompilerFailed("inductor", FULL, None),
    InductorError(FULL, None),
]
OTHERS = [
    RuntimeError("CUDA error: device-side assert triggered"),
    torch.AcceleratorError("CUDA error: an illegal memory access was encountered"),
    InductorError(ValueError("no kernel"), None),
    KeyboardInterrupt(),
]


@pytest.mark.parametrize("problem", [*TELLING, *OTHERS], ids=str)
def test_a_cell_that_had_no_memory_is_lost(
    problem: BaseException, monkeypatch: pytest.MonkeyPatch
) -> None:
    def build(*_: object) -> None:
        raise problem

    monkeypatch.setattr(Variant, "build", build)
    cell = Cell(Variant("nope"), "order_sensitivity", ProbeSetting(), 1)
    record = compute(cell, Progress())
    wanted = "lost" if problem in TELLING else "failed"
    assert record.status == wanted
    assert record.error.startswith("oom: ") is (wanted == "lost")
