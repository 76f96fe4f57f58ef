"""The server of the contract as a program of its own."""

import trio

from trio_mcp import serve_stdio
from trio_mcp.testing import contract_server

trio.run(serve_stdio, contract_server())
