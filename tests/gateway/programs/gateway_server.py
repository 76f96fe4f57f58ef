"""A gateway over standard input and output whose servers are the programs that are named: ``name=program argument``."""

import shlex
import sys

from trio_mcp.gateway import Gateway

gateway = Gateway("processes")
for word in sys.argv[1:]:
    name, _, program = word.partition("=")
    gateway.mount([sys.executable, *shlex.split(program)], name=name, prefix=name)

gateway.run()
