"""The execution paths of attention, one file each, all the same up to rounding.

`serves(request)` says in one sentence why a path does not serve it, or nothing; then
`run(request)` returns `(batch, heads, query, value_dim)`. The first that serves a
request is taken; `plain` serves every one. So `flex`, which takes seconds to compile
for every length, runs only where it is asked for.
"""

from types import ModuleType
from typing import Literal

from posenc_compare.attention.backends import dense, flex, fused, plain, strided
from posenc_compare.attention.request import Request
from posenc_compare.errors import ConfigError

Path = Literal["fused", "strided", "flex", "dense", "plain"]
"""A way to compute attention."""

BACKENDS: dict[Path, ModuleType] = {
    "fused": fused,
    "strided": strided,
    "flex": flex,
    "dense": dense,
    "plain": plain,
}
ORDER: tuple[Path, ...] = ("fused", "strided", "dense", "plain", "flex")


def choose(request: Request, path: Path | Literal["auto"]) -> ModuleType:
    """Return the fastest path that serves a request, or the one that is asked for."""
    if path == "auto":
        return next(b for n in ORDER if not (b := BACKENDS[n]).serves(request))
    if path not in BACKENDS or BACKENDS[path].serves(request):
        able = [name for name in ORDER if not BACKENDS[name].serves(request)]
        raise ConfigError(
            f"attention: path {path!r} cannot serve {request.scheme.name} here; "
            f"{' or '.join(able)} can"
        )
    return BACKENDS[path]
