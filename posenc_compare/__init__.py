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

__version__ = "0.2.0"
"""Version of the package, which every record names."""

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
    from posenc_compare.schemes import Geometry as Geometry
    from posenc_compare.schemes import Scheme as Scheme
    from posenc_compare.schemes import Variant as Variant
    from posenc_compare.schemes import create as create
    from posenc_compare.schemes import register as register
    from posenc_compare.settings.seeds import stream_seed as stream_seed
    from posenc_compare.show.plots.frames import usable as usable
    from posenc_compare.show.plots.plot import register_plot as register_plot
    from posenc_compare.show.plots.style import looks as looks
    from posenc_compare.show.results import load as load
    from posenc_compare.tasks.task import Batch as Batch
    from posenc_compare.tasks.task import Task as Task
    from posenc_compare.tasks.task import register_task as register_task
    from posenc_compare.train.progress import Progress as Progress

EXPORTS = {
    "attention": "posenc_compare.attention",
    "Mask": "posenc_compare.attention",
    "Session": "posenc_compare.attention",
    "resize_bias": "posenc_compare.convert",
    "resize_positions": "posenc_compare.convert",
    "rope_layout": "posenc_compare.convert",
    "ConfigError": "posenc_compare.errors",
    "ShapeError": "posenc_compare.errors",
    "UndefinedPositionError": "posenc_compare.errors",
    "Result": "posenc_compare.measures.measure",
    "register_measure": "posenc_compare.measures.measure",
    "Probe": "posenc_compare.measures.probe",
    "ByCase": "posenc_compare.records.quantities",
    "Curve": "posenc_compare.records.quantities",
    "Floor": "posenc_compare.records.quantities",
    "Headline": "posenc_compare.records.quantities",
    "Quantity": "posenc_compare.records.quantities",
    "Row": "posenc_compare.records.quantities",
    "Record": "posenc_compare.records.record",
    "compare": "posenc_compare.run.comparison",
    "Call": "posenc_compare.schemes",
    "Geometry": "posenc_compare.schemes",
    "Scheme": "posenc_compare.schemes",
    "Variant": "posenc_compare.schemes",
    "create": "posenc_compare.schemes",
    "register": "posenc_compare.schemes",
    "stream_seed": "posenc_compare.settings.seeds",
    "usable": "posenc_compare.show.plots.frames",
    "register_plot": "posenc_compare.show.plots.plot",
    "looks": "posenc_compare.show.plots.style",
    "load": "posenc_compare.show.results",
    "Batch": "posenc_compare.tasks.task",
    "Task": "posenc_compare.tasks.task",
    "register_task": "posenc_compare.tasks.task",
    "Progress": "posenc_compare.train.progress",
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
