"""Whether an exception says that memory was not enough, of the host or of a device."""

import re

import torch

TOLD = re.compile(
    r"DefaultCPUAllocator: can't allocate memory|(CUDA|HIP)( driver)? error: out of mem"
    r"|[A-Z]_ALLOC(ATION)?_FAILED"  # by cuBLAS, cuDNN and their like
)


def out_of_memory(problem: BaseException) -> bool:
    """Return whether an exception, or one that it came from, is for want of memory.

    Compilers hand on what they met with `from None`, so that no cause shows.
    """
    found = [problem]
    for error in found:
        if isinstance(error, MemoryError | torch.OutOfMemoryError):
            return True
        if isinstance(error, RuntimeError) and TOLD.search(_message(error)):
            return True
        inner = vars(error).get("inner_exception")
        for other in (error.__cause__, error.__context__, inner):
            known = any(other is one for one in found)
            if isinstance(other, BaseException) and not known:
                found.append(other)
    return False


def _message(error: BaseException) -> str:
    try:
        return str(error)
    except BaseException:  # of a scheme: not torch's
        return ""
