"""A client of skills made with FastMCP: ``python fastmcp_skills_client.py COMMAND``, which is a JSON array.

It prints, as JSON, the names and descriptions of the skills that it lists, and of the first one what it gets and reads:
FastMCP compares each file with its size and digest, and the frontmatter with the entry.
"""

from __future__ import annotations

import asyncio
import importlib
import json
import logging
import os
import sys
import warnings
from typing import Any

os.environ["FASTMCP_CHECK_FOR_UPDATES"] = "off"
warnings.simplefilter("ignore")
# By name, because type checkers run where FastMCP is not installed.
fastmcp = importlib.import_module("fastmcp")
skills = importlib.import_module("fastmcp.skills")
transports = importlib.import_module("fastmcp.client.transports")


async def use_skills(command: str, *arguments: str) -> dict[str, Any]:
    """Use the skills of a server; return what the client has seen."""
    transport = transports.StdioTransport(command, [*arguments], keep_alive=False)
    extensions = [skills.SkillsClientExtension()]
    async with fastmcp.Client(transport, extensions=extensions, timeout=30) as client:
        listed = await client.list_skills()
        entry = await client.get_skill(str(listed[0].uri))
        skill = await client.read_skill(str(entry.uri))
        return {
            "listed": {str(each.uri): each.frontmatter.root for each in listed},
            "entry": entry.frontmatter.root,
            "read": {str(path): data.decode("latin-1") for path, data in skill.files.items()},
        }


def main(command: str) -> None:
    """Use the skills, and print what was seen."""
    logging.disable()
    print(json.dumps(asyncio.run(use_skills(*json.loads(command)))))  # noqa: T201 # a program prints


if __name__ == "__main__":
    main(sys.argv[1])
