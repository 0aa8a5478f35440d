"""The built-in schemes by how many axes their positions have."""

from posenc_compare.registry import SCHEMES

AXES = {entry.name: entry.facts.get("axes", 1) for entry in SCHEMES.built_in()}
SEQUENCE = [name for name, axes in AXES.items() if axes == 1]
