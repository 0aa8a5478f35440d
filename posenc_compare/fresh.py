"""Starting Python in a process of its own, without code from the current folder.

The current folder may be untrusted: a file `json.py` in it must not run. So
Python starts with `-P`, and imports this package from its own path, installed or not.
"""

import sys
from pathlib import Path

PLACE = Path(__file__).with_name("__init__.py").resolve()
BOOT = f"""
import importlib.util, sys
spec = importlib.util.spec_from_file_location("posenc_compare", {str(PLACE)!r})
sys.modules["posenc_compare"] = package = importlib.util.module_from_spec(spec)
spec.loader.exec_module(package)
"""


def python(code: str, *arguments: str) -> list[str]:
    """Return a command that runs `code`, which can import `posenc_compare`.

    It leaves no bytecode of source that a user may edit.
    """
    return [sys.executable, "-P", "-B", "-c", BOOT + code, *arguments]


def search_path() -> list[str]:
    """Return the import path for that process.

    It contains the current folder only if someone added it by name.
    """
    return [place for place in sys.path if place not in ("", ".")]
