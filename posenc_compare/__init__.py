"""Compare positional schemes for transformers behind one attention hook.

For example::

    import posenc_compare as pc

    results = pc.compare("rope,alibi", measures="untrained")

A name is imported from its module when it is first used, so that the import of the
package alone is quick. `attention` is the package of that name; the function is
`posenc_compare.attention.attention`.
"""

import importlib
from typing import TYPE_CHECKING

__version__ = "0.1.0"
"""Version of the package, which every record names."""

if TYPE_CHECKING:
    from posenc_compare import attention as attention
    from posenc_compare.attention import Mask as Mask
    from posenc_compare.attention import Session as Session
    from posenc_compare.measures.measure import (
        register_measure as register_measure,
    )
    from posenc_compare.run.comparison import compare as compare
    from posenc_compare.schemes import Geometry as Geometry
    from posenc_compare.schemes import Scheme as Scheme
    from posenc_compare.schemes import create as create
    from posenc_compare.schemes import register as register
    from posenc_compare.show.plots.plot import register_plot as register_plot
    from posenc_compare.show.results import load as load
    from posenc_compare.tasks.task import (
        register_task as register_task,
    )

EXPORTS = {
    "attention": "posenc_compare.attention",
    "compare": "posenc_compare.run.comparison",
    "register_measure": "posenc_compare.measures.measure",
    "load": "posenc_compare.show.results",
    "register_plot": "posenc_compare.show.plots.plot",
    "register_task": "posenc_compare.tasks.task",
    "Mask": "posenc_compare.attention",
    "Session": "posenc_compare.attention",
    "Geometry": "posenc_compare.schemes",
    "Scheme": "posenc_compare.schemes",
    "create": "posenc_compare.schemes",
    "register": "posenc_compare.schemes",
}
"""Where each exported name comes from."""

__all__ = ["__version__", *EXPORTS]  # pyright: ignore[reportUnsupportedDunderAll]


def __getattr__(name: str) -> object:
    if name not in EXPORTS:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    module = importlib.import_module(EXPORTS[name])
    return module if module.__name__ == f"{__name__}.{name}" else getattr(module, name)


def __dir__() -> list[str]:
    return sorted({*globals(), *EXPORTS})
