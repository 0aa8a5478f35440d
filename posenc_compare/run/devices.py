"""Where to compute: a device by name, checked before anything starts.

Torch is asked in a process of its own, and only where it could know of a device, so
that a plan stays light.
"""

import functools
import importlib.metadata
import importlib.util
import json
import re
import subprocess
import sys
from pathlib import Path

from posenc_compare.errors import ConfigError

BUILT = re.compile(r"^(cuda|hip)\b.*=\s*['\"]", re.MULTILINE)  # in torch/version.py
ASK = """
import json, torch
if torch.cuda.is_available():
    print(json.dumps(torch.cuda.get_device_name(0)))
"""


def resolve_device(name: str, *, on_gpu: bool) -> str:
    """Return `cpu` or `cuda` for `auto`, `cpu` or `cuda`.

    `on_gpu` states whether `auto` is a GPU if there is one.
    """
    if name == "cuda" and not graphics():
        built = f"torch {importlib.metadata.version('torch')}"
        raise ConfigError(
            f"device cuda: must be present, and {built} finds none; "
            f"`--device cpu` would work"
        )
    if name == "auto":
        return "cuda" if on_gpu and graphics() else "cpu"
    return name


@functools.cache
def graphics() -> str:
    """Return the name of the first CUDA device; "" if torch can use none."""
    if not _built_for_cuda():
        return ""
    # -P: nothing of the current folder, which may be untrusted, is imported.
    command = [sys.executable, "-P", "-c", ASK]
    answer = subprocess.run(command, capture_output=True, text=True, check=False)
    lines = answer.stdout.splitlines()
    if answer.returncode or not lines:
        return ""
    return json.loads(lines[-1])


def _built_for_cuda() -> bool:
    """Return whether torch was built for CUDA or ROCm, from its version file."""
    spec = importlib.util.find_spec("torch")
    if spec is None or spec.origin is None:
        raise ConfigError("torch must be installed, and is not; `pip install torch`")
    text = Path(spec.origin).with_name("version.py").read_text()
    return bool(BUILT.search(text))
