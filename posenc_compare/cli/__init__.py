"""The command line. Heavy packages are imported by the commands that need them."""

import atexit
import gc
import sys


def main() -> None:
    """Run the command line; an interruption is one line and exit code 130."""
    # Imports leave nothing to collect, and all memory goes when the process ends.
    gc.set_threshold(10_000)
    atexit.register(gc.freeze)
    try:
        from posenc_compare.cli.app import main

        main()
    except KeyboardInterrupt:
        print("interrupted", file=sys.stderr)
        sys.exit(130)
