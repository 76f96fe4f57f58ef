"""``python -m trio_mcp`` is the command `trio-mcp`. Only ever run, never imported."""

from __future__ import annotations

import sys

from .cli import main

sys.exit(main())
