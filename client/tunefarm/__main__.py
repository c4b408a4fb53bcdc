"""``python -m tunefarm``."""

import sys

from tunefarm.cli.command_line import main

if __name__ == "__main__":
    sys.exit(main())
