"""A server of skills made with FastMCP, over stdio: ``python fastmcp_skills_server.py FOLDER``."""

from __future__ import annotations

import importlib
import logging
import os
import sys
import warnings

os.environ |= {"FASTMCP_CHECK_FOR_UPDATES": "off", "FASTMCP_SHOW_SERVER_BANNER": "false"}
warnings.simplefilter("ignore")
# By name, because type checkers run where FastMCP is not installed.
fastmcp = importlib.import_module("fastmcp")
providers = importlib.import_module("fastmcp.skills.provider")


def main(folder: str) -> None:
    """Serve the skills of a folder."""
    logging.disable()
    server = fastmcp.FastMCP("skills")
    server.add_provider(providers.SkillsDirectoryProvider(folder))
    server.run("stdio", show_banner=False)


if __name__ == "__main__":
    main(sys.argv[1])
