"""Figures that papers have published, computed again."""
