"""Compare positional schemes for transformers behind one attention hook."""

__version__ = "0.1.0"
