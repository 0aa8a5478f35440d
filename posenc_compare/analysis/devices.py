"""Where to compute: a device by name, checked before anything starts.

Torch is asked in a process of its own, and only where it could know of a device, so
that a plan stays light.
"""

import ast
import importlib.metadata
import importlib.util
import subprocess
import sys
from pathlib import Path

from posenc_compare.analysis.checks import check_choice
from posenc_compare.errors import ConfigError

DEVICES = ("auto", "cpu", "cuda")
ASK = "import torch; print(torch.cuda.is_available())"


def resolve_device(name: str) -> str:
    """Return `cpu` or `cuda` for `auto`, `cpu` or `cuda`.

    Raises:
        ConfigError: if the name is unknown, or CUDA is asked for and not there.
    """
    check_choice("device", name, DEVICES)
    if name == "cpu" or _cuda_is_there():
        return "cpu" if name == "cpu" else "cuda"
    if name == "cuda":
        built = f"torch {importlib.metadata.version('torch')}"
        raise ConfigError(
            f"device cuda: must be present, and {built} finds none; "
            f"`--device cpu` would work"
        )
    return "cpu"


def graphics():
    return None


def _cuda_is_there() -> bool:
    if not _built_for_cuda():
        return False
    answer = subprocess.run(
        [sys.executable, "-c", ASK], capture_output=True, text=True, check=False
    )
    return answer.stdout.strip() == "True"


def _built_for_cuda() -> bool:
    """Return whether torch was built for CUDA or ROCm, from its version file."""
    spec = importlib.util.find_spec("torch")
    if spec is None or spec.origin is None:
        raise ConfigError("torch must be installed, and is not; `pip install torch`")
    tree = ast.parse(Path(spec.origin).with_name("version.py").read_bytes())
    return any(
        isinstance(node, ast.AnnAssign)
        and ast.unparse(node.target) in ("cuda", "hip")
        and ast.unparse(node.value or node.target) != "None"
        for node in tree.body
    )
