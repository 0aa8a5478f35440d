"""The command that shows versions and devices."""

import importlib.util
import os
import platform
from importlib import metadata

from posenc_compare import __version__
from posenc_compare.cli.console import show
from posenc_compare.cli.options import Format, Formats

PACKAGES = ("torch", "einops", "numpy", "pandas", "seaborn", "matplotlib", "typer")


def env(format: Formats = Format.table) -> None:
    """Print the versions of packages, and the devices."""
    facts = {
        "posenc-compare": __version__,
        "python": platform.python_version(),
        "system": f"{platform.system()} {platform.machine()}",
        "cores": str(os.cpu_count()),
    }
    for package in PACKAGES:
        try:
            facts[package] = metadata.version(package)
        except metadata.PackageNotFoundError:
            found = importlib.util.find_spec(package) is not None
            facts[package] = "found, version unknown" if found else "not installed"
    import torch

    facts["threads"] = str(torch.get_num_threads())
    facts["cuda"] = (
        ", ".join(
            torch.cuda.get_device_name(i) for i in range(torch.cuda.device_count())
        )
        or "no device"
    )
    show(
        "Environment", ["what", "value"], [list(item) for item in facts.items()], format
    )
