"""``python -m rxworker``: the command ``rxworker``, for where it is not on the path."""

import sys

from rxworker.cli.main import main

if __name__ == "__main__":
    sys.exit(main())
