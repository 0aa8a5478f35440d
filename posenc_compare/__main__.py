"""Run the command line as `python -m posenc_compare`."""

from posenc_compare.cli import main

main()
