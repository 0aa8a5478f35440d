"""The level of every test of a comparison, and the seeds that it needs."""

FEWEST = 6
"""Seeds from which a pair can differ at the level `ALPHA`."""
ALPHA = 0.05
"""Chance of any false claim in one table."""
