"""A pretended GPU: tensors that say `cuda:0` and hold a tensor of the CPU.

Every operation runs on the CPU with real numbers. What the kernels of CUDA refuse is
refused: tensors of two devices, a generator of the CPU for a tensor of the GPU,
products of whole numbers. What makes the host wait for the GPU is noted with its line:
numbers that are read, copies between the devices, shapes that depend on numbers.
Nothing is said of speed, or of the numbers of real kernels.

It is for a process of its own: import it before torch.
"""

import ctypes
import hashlib
import importlib.util
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from unittest.mock import patch

GUARD = Path(__file__).with_name("guard.cpp")
PACKAGE = "posenc_compare"


def install(folder: Path) -> None:
    """Compile the guard for this torch, unless it is in the folder, and load it."""
    spec = importlib.util.find_spec("torch")
    assert spec is not None
    assert spec.origin is not None
    torch_folder = Path(spec.origin).parent
    parts = (GUARD, torch_folder / "version.py")
    name = hashlib.sha256(b"".join(part.read_bytes() for part in parts)).hexdigest()
    library = folder / f"guard-{name[:16]}.so"
    if not library.exists():
        includes = [torch_folder / "include"]
        includes.append(includes[0] / "torch/csrc/api/include")
        flags = [f"-I{include}" for include in includes]
        command = ["g++", "-std=c++20", "-O0", "-shared", "-fPIC", *flags]
        subprocess.run([*command, str(GUARD), "-o", str(library)], check=True)
    for part in ("libc10.so", "libtorch_cpu.so"):
        ctypes.CDLL(str(torch_folder / "lib" / part), ctypes.RTLD_GLOBAL)
    ctypes.CDLL(str(library)).install()


if __name__ != "__main__":
    install(Path(sys.argv[1]))

import torch  # noqa: E402
import torch.nn.functional as F  # noqa: E402
from torch.utils._python_dispatch import (  # noqa: E402
    TorchDispatchMode,
    return_and_correct_aliasing,
)
from torch.utils._pytree import tree_leaves, tree_map_only  # noqa: E402

CUDA = torch.device("cuda", 0)
aten = torch.ops.aten
READS = {"_local_scalar_dense", "item", "equal", "is_nonzero"}
SHAPES = {"nonzero", "_unique2", "unique_dim", "masked_select", "unique_consecutive"}
INDEXING = {"index", "index_put", "index_put_", "_index_put_impl_", "_unsafe_index"}
PRODUCTS = {"mm", "bmm", "addmm", "baddbmm"}  # CUDA has none of whole numbers
# Which take a number that lies on the CPU beside tensors of the GPU.
TAKE_NUMBERS = {"fill_", "masked_fill", "masked_fill_", "where", "index_fill"}
TAKE_NUMBERS |= {f"_foreach_{name}_" for name in ("mul", "add", "div", "addcdiv")}


class DeviceMismatchError(RuntimeError):
    """Tensors of two devices met."""


class Notes:
    """How often each line of the package has waited."""

    def __init__(self) -> None:
        self.waits: Counter[str] = Counter()
        self.on = True

    def wait(self) -> None:
        """Note a wait, with the line of the package that asked for it."""
        if self.on:
            self.waits[_line()] += 1

    @contextmanager
    def one_kernel(self) -> Iterator[None]:
        """Take all that happens inside for one kernel, which waits for nothing."""
        self.on = False
        try:
            yield
        finally:
            self.on = True


NOTES = Notes()


class Pretended(torch.Tensor):
    """A tensor that says it lies on the GPU."""

    __torch_function__ = torch._C._disabled_torch_function_impl  # type: ignore[assignment]
    held: torch.Tensor

    @staticmethod
    def __new__(cls, held: torch.Tensor) -> "Pretended":
        made = torch.Tensor._make_wrapper_subclass(  # type: ignore[attr-defined]
            cls,
            held.size(),
            strides=held.stride(),
            storage_offset=held.storage_offset(),
            dtype=held.dtype,
            layout=held.layout,
            device=CUDA,
            requires_grad=False,
        )
        made.held = held
        return made

    def __int__(self) -> int:
        return int(self.item())

    def __index__(self) -> int:
        return int(self.item())

    def __float__(self) -> float:
        return float(self.item())

    def tolist(self) -> Any:
        return self.detach().cpu().tolist()

    def numpy(self, *, force: bool = False) -> Any:
        raise TypeError(f"a tensor of the GPU is no array of numpy, at {_line()}")

    def __deepcopy__(self, memo: object) -> "Pretended":
        copy = Pretended(self.held.detach().clone())
        copy.requires_grad_(self.requires_grad)
        return copy

    @classmethod
    def __torch_dispatch__(
        cls, func: Any, types: Any, args: Any = (), kwargs: Any = None
    ) -> Any:
        with Mode():
            return func(*args, **(kwargs or {}))


class Mode(TorchDispatchMode):
    """Runs operations of pretended tensors on the CPU, and checks their devices."""

    def __torch_dispatch__(
        self, func: Any, types: Any, args: Any = (), kwargs: Any = None
    ) -> Any:
        named = dict(kwargs or {})
        leaves = tree_leaves((args, named))
        own = [leaf for leaf in leaves if isinstance(leaf, Pretended)]
        name = func._schema.name.split("::")[1]
        device = torch.device(named["device"]) if named.get("device") else None
        on_gpu = device is not None and device.type == "cuda"
        if not own and not on_gpu:
            return func(*args, **named)
        if name in ("_to_copy", "copy_") and _crosses(name, args, device):
            return _copied(func, name, args, named, device)
        if name in READS:
            NOTES.wait()  # a number is read
            return func(*_held(args))
        if name in SHAPES:
            NOTES.wait()
        _check(func, name, args, leaves, device)
        held = _held(named)
        if on_gpu:
            held["device"] = torch.device("cpu")
        wrapped = tree_map_only(torch.Tensor, _pretended, func(*_held(args), **held))
        return return_and_correct_aliasing(func, args, named, wrapped)


def _crosses(name: str, args: Any, device: torch.device | None) -> bool:
    """Return whether a copy is from one device to the other."""
    if name == "copy_":
        return isinstance(args[0], Pretended) != isinstance(args[1], Pretended)
    goes = isinstance(args[0], Pretended)
    return device is not None and (device.type == "cuda") != goes


def _copied(
    func: Any, name: str, args: Any, named: dict[str, Any], device: torch.device | None
) -> Any:
    """Return a copy on the other device; the host waits for it."""
    source = args[1] if name == "copy_" else args[0]
    back = isinstance(source, Pretended)
    if not (named.get("non_blocking") and getattr(source, "pinned", False)):
        NOTES.wait()
    if name == "copy_":
        func(*_held(args), **_held(named))
        return args[0]
    rest = {key: value for key, value in named.items() if key != "device"}
    found = func(*_held(args), **rest)
    if back:
        return found.clone() if found is source.held else found
    return Pretended(found)


def _check(
    func: Any, name: str, args: Any, leaves: list[Any], device: torch.device | None
) -> None:
    """Refuse what a kernel of CUDA refuses, and note indices that make the host wait.

    Raises:
        DeviceMismatchError: if it would be refused.
    """
    own = [leaf for leaf in leaves if isinstance(leaf, Pretended)]
    plain = [
        leaf
        for leaf in leaves
        if isinstance(leaf, torch.Tensor) and not isinstance(leaf, Pretended)
    ]
    to_gpu = (device or CUDA).type == "cuda"
    for leaf in leaves:
        if isinstance(leaf, torch.Generator) and to_gpu and leaf.device.type != "cuda":
            raise DeviceMismatchError(f"{func}: a generator of the CPU, at {_line()}")
    if name in INDEXING:
        indices = [
            leaf for leaf in tree_leaves(args[1]) if isinstance(leaf, torch.Tensor)
        ]
        if any(index.dtype in (torch.bool, torch.uint8) for index in indices):
            NOTES.wait()
        if any(not isinstance(index, Pretended) for index in indices):
            NOTES.wait()
        if not isinstance(args[0], Pretended):
            raise DeviceMismatchError(f"{func}: an index of the GPU, at {_line()}")
        plain = [leaf for leaf in plain if all(leaf is not index for index in indices)]
    takes = torch.Tag.pointwise in func.tags or name in INDEXING | TAKE_NUMBERS
    if own and any(leaf.dim() > 0 or not takes for leaf in plain):
        raise DeviceMismatchError(f"{func}: tensors of both devices, at {_line()}")
    if name in PRODUCTS and any(
        not leaf.dtype.is_floating_point and not leaf.dtype.is_complex for leaf in own
    ):
        raise DeviceMismatchError(f"{func}: a product of whole numbers, at {_line()}")


def _held(tree: Any) -> Any:
    return tree_map_only(Pretended, lambda leaf: leaf.held, tree)


def _pretended(found: torch.Tensor) -> torch.Tensor:
    return found if isinstance(found, Pretended) else Pretended(found)


def _line() -> str:
    """Return the innermost line of the package that is being run, and its function."""
    frame: Any = sys._getframe(1)
    while frame is not None:
        path, inside, line = frame.f_code.co_filename.rpartition(f"/{PACKAGE}/")
        if inside and "site-packages" not in path:
            return f"{line.removesuffix('.py')}: {frame.f_code.co_name}"
        frame = frame.f_back
    return "elsewhere"


@contextmanager
def pretended() -> Iterator[Notes]:
    """Make torch believe in a GPU, and yield what is noted of it."""
    made, kernel = torch.tensor, F.scaled_dot_product_attention
    mixed: Any = torch.cuda.amp.common

    def tensor(data: Any, *, device: Any = None, **named: Any) -> torch.Tensor:
        if device is not None and torch.device(device).type == "cuda":
            return made(data, **named).to(CUDA)
        return made(data, device=device, **named)

    def attention(q: torch.Tensor, *given: Any, **named: Any) -> torch.Tensor:
        if not isinstance(q, Pretended):
            return kernel(q, *given, **named)
        with NOTES.one_kernel():
            return kernel(q, *given, **named)

    def pinned(x: torch.Tensor) -> torch.Tensor:
        copy = x.clone()
        copy.pinned = True  # type: ignore[attr-defined]
        return copy

    torch.__future__.set_overwrite_module_params_on_conversion(True)
    with (
        patch.object(torch.cuda, "_lazy_init", lambda: None),
        patch.object(torch.cuda, "is_available", lambda: True),
        patch.object(torch.cuda, "device_count", lambda: 1),
        patch.object(torch.cuda, "current_device", lambda: 0),
        patch.object(torch.cuda, "is_bf16_supported", lambda *_: True),
        patch.object(mixed, "amp_definitely_not_available", lambda: False),
        patch.object(torch, "tensor", tensor),
        patch.object(torch.Tensor, "pin_memory", pinned),
        patch.object(F, "scaled_dot_product_attention", attention),
        Mode(),
    ):
        NOTES.waits.clear()
        yield NOTES
