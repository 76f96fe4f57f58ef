"""A child process that talks over its standard input and output, from its start to the end of all it has started.

The rules of this file:

1. The child leads a process group of its own. The whole group is killed at the end, on every path, also when the
   child left politely and something it had started did not. (What starts a session of its own escapes.)
2. The group is signalled only while its leader has not been reaped: until then its number can be no one else's.
3. The child's exit ends the connection, not end-of-file: a grandchild may hold the pipes for ever. What is in the
   pipe at the exit is still delivered, and what a grandchild adds within a bounded time.
4. Everything is bounded, and ends the moment the child has exited.

Specification: https://modelcontextprotocol.io/specification/2026-07-28/basic/transports#stdio
"""

from __future__ import annotations

import logging
import math
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from typing import IO, Any, Literal

import trio
from attrs import Attribute, field, frozen

from .._errors import ConnectionBroken, ServerExited
from .._util import owned_nursery
from ._child_environment import child_environment
from ._child_stderr import StderrTail
from ._child_stream import ChildStream

__all__ = ["ChildProcess", "WindDown", "open_child_process"]

_log = logging.getLogger("trio_mcp.transports")

_STDERR_SECONDS = 0.25
"""How long standard error is still read when child and group are gone; only what escaped from it can hold it open."""
