"""A process that changes its token storage while the system accepts no more bytes in any file.

    full_disk.py STORAGE

It prints the error of the change, the value that is stored afterwards, and the files in the folder.
"""

import json
import resource
import sys
from pathlib import Path

import trio

from trio_mcp import AuthorizationFailed
from trio_mcp.auth import FileTokenStorage


async def main() -> None:
    path = Path(sys.argv[1])
    storage = FileTokenStorage(path)
    assert await storage.swap("key", None, "1")
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (100, hard))
    error = ""
    try:
        await storage.swap("key", "1", "2" * 10_000)
    except AuthorizationFailed as exc:
        error = str(exc)
    resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    names = sorted(each.name for each in path.parent.iterdir())
    sys.stdout.write(json.dumps({"error": error, "value": await storage.load("key"), "names": names}))


trio.run(main)
