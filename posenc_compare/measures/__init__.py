"""Measures, one file each. A measure is found by its declaration in its own file."""
