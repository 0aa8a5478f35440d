"""The command line. Heavy packages are imported by the commands that need them."""

from posenc_compare.cli.app import main

__all__ = ["main"]
