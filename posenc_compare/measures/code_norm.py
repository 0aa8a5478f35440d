"""Code norm: how long is the code that an absolute scheme adds to a token?

Tutorials on positional encoding derive that every sinusoidal code has the norm
sqrt(width / 2), whatever the position, and warn that integers grow without bound and
drown the token. A token of unit variance has the norm sqrt(width).
"""

from dataclasses import replace

from torch import Tensor

from posenc_compare.errors import ConfigError, DoorError, NoCodeError, ShapeError
from posenc_compare.measures.codes import position_codes
from posenc_compare.measures.measure import (
    Curve,
    Quantity,
    Result,
    Row,
    register_measure,
)
from posenc_compare.measures.probe import Probe
from posenc_compare.schemes import Variant
from posenc_compare.train.progress import Progress

WIDTHS = (64, 128, 256, 512)
POSITIONS = (0, 1, 8, 64)  # and the last

NORM = Quantity(
    "code_norm",
    unit="length of the code vector",
    better="neither",
    zero="the position has no code",
    x="position",
    title="norm of the code",
)
AT_WIDTH = Quantity(
    "code_norm_at_width",
    unit="length of the code vector, root mean square over positions",
    better="neither",
    zero="no position has a code",
    x="width, in channels",
    title="norm of the code",
)


@register_measure(
    "code_norm", quantities=(NORM, AT_WIDTH), views=(Curve(NORM), Curve(AT_WIDTH))
)
def code_norm(variant: Variant, probe: Probe, progress: Progress) -> Result:
    """Norm of the code of a position, by position and by width.

    Returns:
        `code_norm` at the positions 0, 1, 8, 64 and the last, and
        `code_norm_at_width` at the widths 64, 128, 256 and 512. Other schemes than
        those that add a code to tokens give one row each with that reason.
    """
    last = probe.positions - 1
    try:
        norms = norms_of(variant, probe)
    except NoCodeError as error:
        note = str(error)
        rows = [Row(NORM.name, None, last, note=note)]
        return Result([*rows, Row(AT_WIDTH.name, None, WIDTHS[0], note=note)])
    shown = [*(p for p in POSITIONS if p < last), last]
    rows = [Row(NORM.name, float(norms[position]), position) for position in shown]
    for width in WIDTHS:
        try:
            norms = norms_of(variant, replace(probe, width=width))
        except DoorError:
            raise
        except (ConfigError, ShapeError) as error:  # a size it does not come in
            rows.append(Row(AT_WIDTH.name, None, width, note=str(error)))
        else:
            mean = float(norms.square().mean().sqrt())
            rows.append(Row(AT_WIDTH.name, mean, width))
    return Result(rows)


def norms_of(variant: Variant, probe: Probe) -> Tensor:
    """Return the norms of the codes of all positions, `(position,)` float64.

    Raises:
        NoCodeError: if positions have no code.
    """
    return position_codes(probe.build(variant), probe).norm(dim=1)
