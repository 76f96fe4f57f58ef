"""A server of skills: the folders in ``skills``, which an editor may change while the server runs.

Run it with ``python skills_server.py``, or look at its skills with ``trio-mcp skills skills_server.py``.
"""

from pathlib import Path

from trio_mcp import CacheHint, Server

server = Server("handbook", version="1.0")
server.skills.add_directory(Path(__file__).with_name("skills"), cache=CacheHint(ttl=60, scope="public"))


@server.tool
async def refresh_skills() -> str:
    """Read the skills again, after their files have changed."""
    try:
        await server.skills.refresh()
    except ValueError as error:
        return f"not changed: {error}"
    return f"{len(server.skills)} skills"


if __name__ == "__main__":
    server.run()
