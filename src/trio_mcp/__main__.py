"""``python -m trio_mcp`` is the command `trio-mcp`. Only ever run, never imported."""

import sys

from .cli import main

sys.exit(main())
