"""``python -m tunefarm``."""

import sys

from tunefarm.command_line import main

if __name__ == "__main__":
    sys.exit(main())
