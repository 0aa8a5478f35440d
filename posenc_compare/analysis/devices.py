"""Where to compute: a device by name, checked before anything starts."""

import torch

from posenc_compare.errors import ConfigError


def resolve_device(name: str) -> str:
    """Return `cpu` or `cuda` for `auto`, `cpu` or `cuda`.

    Raises:
        ConfigError: if the name is unknown, or CUDA is asked for and not there.
    """
    found = torch.cuda.is_available()
    if name == "auto":
        return "cuda" if found else "cpu"
    if name == "cuda" and not found:
        built = f"torch {torch.__version__}"
        raise ConfigError(
            f"device cuda: must be present, and {built} finds none; "
            f"`--device cpu` would work"
        )
    if name not in ("cpu", "cuda"):
        raise ConfigError(f"device must be auto, cpu or cuda, got {name!r}")
    return name
