"""Run the command line as `python -m posenc_compare`.

Python then looks for modules in the current folder first, which may be untrusted.
"""

import sys

if not sys.flags.safe_path:
    del sys.path[0]

from posenc_compare.cli import main

main()
