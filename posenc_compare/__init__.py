"""Compare positional schemes for transformers behind one attention hook.

For example::

    import posenc_compare as pc

    results = pc.compare("rope,alibi", measures="untrained")

A plugin with a scheme, a measure, a task and a plot needs these names alone. A name is
imported from its module when it is first used, so that the import of the package alone
is quick. `attention` is the package of that name; the function is
`posenc_compare.attention.attention`.
"""

import importlib
from typing import TYPE_CHECKING

from posenc_compare.version import __version__

if TYPE_CHECKING:
    from posenc_compare import attention as attention
    from posenc_compare.attention import Mask as Mask
    from posenc_compare.attention import Session as Session
    from posenc_compare.convert import resize_bias as resize_bias
    from posenc_compare.convert import resize_positions as resize_positions
    from posenc_compare.convert import rope_layout as rope_layout
    from posenc_compare.errors import ConfigError as ConfigError
    from posenc_compare.errors import ShapeError as ShapeError
    from posenc_compare.errors import UndefinedPositionError as UndefinedPositionError
    from posenc_compare.measures.measure import Result as Result
    from posenc_compare.measures.measure import register_measure as register_measure
    from posenc_compare.measures.probe import Probe as Probe
    from posenc_compare.records.quantities import ByCase as ByCase
    from posenc_compare.records.quantities import Curve as Curve
    from posenc_compare.records.quantities import Floor as Floor
    from posenc_compare.records.quantities import Headline as Headline
    from posenc_compare.records.quantities import Quantity as Quantity
    from posenc_compare.records.quantities import Row as Row
    from posenc_compare.records.record import Record as Record
    from posenc_compare.run.comparison import compare as compare
    from posenc_compare.schemes import Call as Call
    from posenc_compare.schemes import Facts as Facts
    from posenc_compare.schemes import Geometry as Geometry
    from posenc_compare.schemes import Scheme as Scheme
    from posenc_compare.schemes import Variant as Variant
    from posenc_compare.schemes import create as create
    from posenc_compare.schemes import register as register
    from posenc_compare.settings.seeds import stream_seed as stream_seed
    from posenc_compare.show.frame import usable as usable
    from posenc_compare.show.plots.plot import register_plot as register_plot
    from posenc_compare.show.plots.style import looks as looks
    from posenc_compare.show.results import load as load
    from posenc_compare.tasks.task import Batch as Batch
    from posenc_compare.tasks.task import Task as Task
    from posenc_compare.tasks.task import register_task as register_task
    from posenc_compare.train.progress import Progress as Progress

NAMES = {
    "attention": ("attention", "Mask", "Session"),
    "convert": ("resize_bias", "resize_positions", "rope_layout"),
    "errors": ("ConfigError", "ShapeError", "UndefinedPositionError"),
    "measures.measure": ("Result", "register_measure"),
    "measures.probe": ("Probe",),
    "records.quantities": ("ByCase", "Curve", "Floor", "Headline", "Quantity", "Row"),
    "records.record": ("Record",),
    "run.comparison": ("compare",),
    "schemes": (
        *("Call", "Facts", "Geometry", "Scheme", "Variant", "create", "register"),
    ),
    "settings.seeds": ("stream_seed",),
    "show.frame": ("usable",),
    "show.plots.plot": ("register_plot",),
    "show.plots.style": ("looks",),
    "show.results": ("load",),
    "tasks.task": ("Batch", "Task", "register_task"),
    "train.progress": ("Progress",),
}
EXPORTS = {
    name: f"posenc_compare.{module}"
    for module, names in NAMES.items()
    for name in names
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
