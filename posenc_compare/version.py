"""The version of the package, which every record names."""

__version__ = "0.3.0"
