"""A program that runs cells in a kernel of Jupyter: it writes how each ended, and then what the cells printed.

The argument is the program of a server; the tools of that make files in the working folder.
"""

from __future__ import annotations

import sys
import threading
import time
from pathlib import Path
from typing import Any

from jupyter_client.manager import KernelManager

SECONDS = 60.0


def main() -> None:
    printed: list[str] = []
    manager = KernelManager(kernel_name="python3")
    manager.start_kernel()
    kernel = manager.blocking_client()
    kernel.start_channels()

    def take(message: dict[str, Any]) -> None:
        if message["msg_type"] == "stream":
            printed.append(message["content"]["text"])

    def cell(source: str) -> None:
        reply = kernel.execute_interactive(source, output_hook=take, timeout=SECONDS)
        sys.stdout.write(f"{reply['content'].get('ename', reply['content']['status'])}\n")

    def interrupt() -> None:
        while not Path("started").exists():
            time.sleep(0.01)
        manager.interrupt_kernel()

    try:
        kernel.wait_for_ready(timeout=SECONDS)
        cell(f"""
from trio_mcp.asyncio import open_client
block = open_client({[sys.executable, sys.argv[1]]!r})
client = await block.__aenter__()
""")
        interrupting = threading.Thread(target=interrupt)
        interrupting.start()
        cell("await client.call_tool('wait', {'folder': '.'})")
        interrupting.join(SECONDS)
        cell("print(await client.call_tool('add', {'a': 1, 'b': 2}, returns=int))")
        cell("await block.__aexit__(None, None, None)")
    finally:
        kernel.stop_channels()
        manager.shutdown_kernel(now=True)
    sys.stdout.write("".join(printed))


if __name__ == "__main__":
    main()
