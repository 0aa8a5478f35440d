"""What several test files share."""

import contextlib
import gc
import importlib
import io
import os
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator
from importlib.util import find_spec
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import support.workers
from support.processes import python

from posenc_compare.registry import REGISTRIES, add_plugin

ROOT = Path(__file__).parent.parent

pytest.register_assert_rewrite("schemes.tools", "schemes.reference")

# Thousands of collected tests stay: looking through them frees nothing.
gc.set_threshold(10_000)

# Small tensors: a second thread costs more than it brings, here and in processes.
os.environ.setdefault("OMP_NUM_THREADS", "1")


Done = subprocess.CompletedProcess[str]
Command = Callable[..., Done]


@pytest.fixture(scope="session", autouse=True)
def no_network() -> Iterator[None]:
    """Let no test reach beyond this machine's own pipes."""
    with pytest.MonkeyPatch.context() as patch:
        for name in ("connect", "connect_ex"):
            patch.setattr(socket.socket, name, _local(getattr(socket.socket, name)))
        yield


@pytest.fixture(scope="session", autouse=True)
def kept_workers() -> Iterator[None]:
    """Let the runs of this process share their workers."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("posenc_compare.run.workers.Worker", support.workers.lend)
        yield
    support.workers.end_all()


def _local(connect: Callable[..., Any]) -> Callable[..., Any]:
    def local(self: socket.socket, address: Any) -> Any:
        if self.family != socket.AF_UNIX:
            pytest.fail(f"a test connects to {address}")
        return connect(self, address)

    return local


def pytest_collection_finish() -> None:
    """Leave what was collected out of every later look for garbage."""
    gc.freeze()


@pytest.fixture(scope="session")
def root() -> Path:
    """The folder that holds the package, the examples and the documents."""
    return ROOT


@pytest.fixture(scope="session")
def posenc_process() -> Command:
    """Run `posenc-compare` with arguments, as a process of its own."""
    start = ("-m", "posenc_compare")
    return lambda *words: python(*start, *words, cwd=ROOT, PYTHONWARNINGS="error")


@contextlib.contextmanager
def forgotten() -> Iterator[None]:
    """Forget afterwards what plugins declare inside."""
    known = [registry.entries() for registry in REGISTRIES]
    yield
    for registry, before in zip(REGISTRIES, known, strict=True):
        registry._known = before


@pytest.fixture
def forgetful() -> Iterator[None]:
    """Forget after the test what plugins declare in it."""
    with forgotten():
        yield


def run_here(*arguments: str | Path) -> Done:
    """Run `posenc-compare` with arguments in this process, which is faster."""
    from posenc_compare.cli import main

    out, err = io.StringIO(), io.StringIO()
    with (
        pytest.MonkeyPatch.context() as patch,
        contextlib.redirect_stdout(out),
        contextlib.redirect_stderr(err),
    ):
        patch.setattr("sys.argv", ["posenc-compare", *map(str, arguments)])
        try:
            main()
            code = 0
        except SystemExit as end:
            code = int(end.code or 0)
    return Done(arguments, code, out.getvalue(), err.getvalue())


@pytest.fixture
def posenc(forgetful: None) -> Command:
    """Run `posenc-compare` with arguments in this process."""
    return run_here


@pytest.fixture
def registered(forgetful: None) -> Callable[[str | Path], list[str]]:
    """Return `add_plugin`; what it declares is forgotten after the test."""
    return lambda plugin: add_plugin(str(plugin))


@pytest.fixture
def timm(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[str], Any]]:
    """Import a layer of timm alone, for the rest of timm needs torchvision."""
    spec = find_spec("timm")
    if spec is None or spec.origin is None:
        pytest.skip("oracle timm is not installed")
    root = Path(spec.origin).parent
    for name, path in (("timm", root), ("timm.layers", root / "layers")):
        package = ModuleType(name)
        package.__path__ = [str(path)]
        monkeypatch.setitem(sys.modules, name, package)
    yield lambda name: importlib.import_module(f"timm.layers.{name}")
    for name in [name for name in sys.modules if name.startswith("timm.layers.")]:
        del sys.modules[name]
