"""Places of cells in an image that is as long for any number of cells.

A cell is an id (row, column), and ids begin at 0. The margin is the number of cells
from the edge of an image to the place of its first cell. It is 1/2 if places are the
centres of cells, and 0 if the first and the last cell lie on the edges.
"""

from torch import Tensor


def extent(sides: Tensor, margin: float) -> Tensor:
    """Return how long images are, in cells, float64; at least 1.

    Args:
        sides: their rows or columns.
        margin: of each side, in cells.
    """
    return (sides.double() - 1 + 2 * margin).clamp(min=1)


def rescale_positions(
    positions: Tensor, trained: tuple[int, int], margin: float
) -> Tensor:
    """Return the place of each cell in the trained image, float64.

    Args:
        positions: `(..., seq, axis)`, all cells of an image. Its sides are one more
            than the largest ids.
        trained: rows and columns of the trained image.
        margin: of both images, in cells.
    """
    if not positions.numel():
        return positions.double()
    own = extent(positions.new_tensor(trained), margin)
    sides = positions.amax(dim=-2, keepdim=True) + 1
    return (positions.double() + margin) * own / extent(sides, margin) - margin


def coordinates(places: Tensor, trained: tuple[int, int], margin: float) -> Tensor:
    """Return places in the trained image as coordinates, -1 to 1 from edge to edge.

    Args:
        places: `(..., axis)` in cells.
        trained: rows and columns of the trained image.
        margin: of the image, in cells.

    Returns:
        `(..., axis)` float64.
    """
    own = extent(places.new_tensor(trained), margin)
    return 2 * (places.double() + margin) / own - 1
