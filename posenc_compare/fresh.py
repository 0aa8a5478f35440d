"""Start Python in a process of its own, with this package and nothing else's code.

The current folder may be a stranger's: a file `json.py` in it must not run. So Python
is started with `-P`, and this package is taken from where it lies, installed or not.
"""

import sys
from pathlib import Path

import posenc_compare

PLACE = Path(posenc_compare.__file__).resolve()
BOOT = f"""
import importlib.util, sys
spec = importlib.util.spec_from_file_location("posenc_compare", {str(PLACE)!r})
sys.modules["posenc_compare"] = package = importlib.util.module_from_spec(spec)
spec.loader.exec_module(package)
"""


def python(code: str, *arguments: str) -> list[str]:
    """Return the command that runs code in which `posenc_compare` can be imported."""
    return [sys.executable, "-P", "-c", BOOT + code, *arguments]


def search_path() -> list[str]:
    """Return the folders in which that process may look.

    The current one is among them only if somebody put it there by name.
    """
    return [place for place in sys.path if place not in ("", ".")]
