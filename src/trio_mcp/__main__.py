"""``python -m trio_mcp`` is the command `trio-mcp`."""

import sys

from .cli import main

if __name__ == "__main__":
    sys.exit(main())
