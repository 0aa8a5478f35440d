"""The command line. Heavy packages are imported by the commands that need them."""

import sys


def main() -> None:
    """Run the command line; an interruption is one line and exit code 130."""
    try:
        from posenc_compare.cli.app import main

        main()
    except KeyboardInterrupt:
        print("interrupted", file=sys.stderr)
        sys.exit(130)
