"""What says that memory was not enough is `lost: oom`, whoever says it."""

import pytest
import torch
from torch._dynamo.exc import BackendCompilerFailed
from torch._inductor.exc import InductorError

from posenc_compare.records.cells import Cell
from posenc_compare.run.compute import compute, out_of_memory
from posenc_compare.schemes import Variant
from posenc_compare.settings.probe import ProbeSetting
from posenc_compare.train.progress import Progress

FULL = torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 20.00 MiB")
TELLING = [
    MemoryError(),
    FULL,
    RuntimeError("[enforce fail] DefaultCPUAllocator: can't allocate memory: you"),
    RuntimeError("CUDA error: CUBLAS_STATUS_ALLOC_FAILED when calling `cublasCreate`"),
    RuntimeError("cuDNN error: CUDNN_STATUS_ALLOC_FAILED"),
    RuntimeError("CUDNN_STATUS_INTERNAL_ERROR_DEVICE_ALLOCATION_FAILED"),
    RuntimeError("CUDA error: out of memory\nCUDA kernel errors might be"),
    torch.AcceleratorError("CUDA error: out of memory\nCompile with"),
    BackendCompilerFailed("inductor", FULL, None),
    InductorError(FULL, None),
]
OTHERS = [
    RuntimeError("CUDA error: device-side assert triggered"),
    RuntimeError("CUBLAS_STATUS_EXECUTION_FAILED"),
    torch.AcceleratorError("CUDA error: an illegal memory access was encountered"),
    ValueError("CUDA error: out of memory"),
    InductorError(ValueError("no kernel"), None),
    KeyboardInterrupt(),
]


@pytest.mark.parametrize("problem", TELLING, ids=str)
def test_want_of_memory_is_known(problem: BaseException) -> None:
    assert out_of_memory(problem)


@pytest.mark.parametrize("problem", OTHERS, ids=str)
def test_what_is_wrong_otherwise_is_not_taken_for_it(problem: BaseException) -> None:
    assert not out_of_memory(problem)


def raised(problem: BaseException, how: str) -> BaseException:
    """Return an exception that was raised while another was looked at."""
    try:
        try:
            raise problem
        except BaseException as error:
            if how == "from":
                raise KeyError("x") from error
            if how == "from None":
                raise KeyError("x") from None
            raise KeyError("x")  # noqa: B904
    except KeyError as wrapped:
        return wrapped


@pytest.mark.parametrize("how", ["from", "from None", ""])
def test_causes_are_looked_along(how: str) -> None:
    assert out_of_memory(raised(raised(MemoryError(), how), how))
    assert not out_of_memory(raised(raised(OSError(), how), how))


def test_causes_that_run_in_a_circle_come_to_an_end() -> None:
    one, other = ValueError("one"), ValueError("other")
    one.__cause__, other.__cause__ = other, one
    assert not out_of_memory(one)


def test_a_cell_that_a_compiler_had_no_memory_for_is_lost(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def build(*_: object) -> None:
        raise InductorError(FULL, None)

    monkeypatch.setattr(Variant, "build", build)
    cell = Cell(Variant("nope"), "order_sensitivity", ProbeSetting(), 1)
    record = compute(cell, Progress()).to_json()
    assert record["status"] == "lost"
    assert record["error"].startswith("oom: OutOfMemoryError: CUDA out of memory.")
