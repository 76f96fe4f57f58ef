"""BINDINGS: how exchanges travel. One file per binding and side."""

from ._memory import memory_transport as memory_transport
from ._stdio_client import StdioServer as StdioServer
from ._stdio_client import stdio_transport as stdio_transport
from ._stdio_descriptors import claim_stdio as claim_stdio
from ._stream import server_link as server_link
from ._stream import stream_transport as stream_transport
from ._tap import guarded_tap as guarded_tap
