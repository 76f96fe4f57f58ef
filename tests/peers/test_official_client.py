"""The official SDK's client, second major version, with our SQLite server, in both eras.

What our server did is in its own words: the last step of the plan asks it.
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[2]
PLAYER = Path(__file__).with_name("official_client.py")
PATIENCE = 120  # seconds for a whole plan
