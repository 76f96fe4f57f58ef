"""The conformance suite: a Node program that writes the results of each run to files."""

from __future__ import annotations

import os
import re
import tempfile
from functools import partial
from pathlib import Path
from subprocess import STDOUT

import trio
from attrs import field, frozen

from .scenarios import Leg, Scenario
from .verdicts import Check, read_results

__all__ = ["EXTENSIONS", "NEWEST", "ROOT", "Found", "Suite", "read_last_words", "read_list"]

ROOT = Path(__file__).parents[3]
"""The root of the project, where the clients run."""
EXTENSIONS = "extensions"
"""Stands in place of a revision for the scenarios of extensions, which belong to none."""
NEWEST = "2026-07-28"
SECONDS_FOR_A_CLIENT = 60
SECONDS_FOR_ALL = 300
"""The timeout for one run of the suite."""
_HEADING = re.compile(r"(Server|Client) scenarios ")
_ENTRY = re.compile(r"  - (\S+)")


@frozen
class Found:
    """The results of one run of the suite."""

    status: int
    """Its exit status."""
    output: str
    """Its output for people."""
    results: dict[str, list[Check]] = field(factory=dict[str, "list[Check]"])
    """The checks by scenario."""
    last_words: str = ""
    """The last line that the client under test has put on standard error."""

    @property
    def crash(self) -> str | None:
        """The fault of the run apart from its checks, in one line, or None."""
        if self.status == 0:
            return None
        words = f"; the last output of the client: {self.last_words}" if self.last_words else ""
        return f"the suite has ended with status {self.status}{words}"


@frozen
class Suite:
    """An installed suite.

    Args:
        home: the folder where npm has installed it, and Node.
    """

    home: Path

    @property
    def node(self) -> Path:
        """The Node interpreter; the suite needs a newer one than most machines have."""
        return self.home / "node_modules" / "node" / "bin" / "node"

    async def required(self, revision: str) -> dict[Leg, list[str]]:
        """Return the names of the scenarios that the suite requires to pass in a revision."""
        found = await self._run("list", "--requirements", revision)
        if found.status != 0:
            raise RuntimeError(f"the suite cannot list its scenarios:\n{found.output}")
        return read_list(found.output)

    async def test_server(self, url: str, *selection: str) -> Found:
        """Test the server at *url*.

        Args:
            selection: options that select the scenarios and the revision.
        """
        with tempfile.TemporaryDirectory() as folder:
            found = await self._run("server", "--url", url, *selection, "-o", folder)
            return Found(found.status, found.output, read_results(Path(folder), prefix="server-"))

    async def test_client(self, scenario: Scenario, command: str) -> Found:
        """Test the client that *command* starts; the suite appends the URL of its server.

        The client gets a cache folder of its own: its server may have the port of an earlier one, which the client
        would take for the same server.
        """
        revision = NEWEST if scenario.revision == EXTENSIONS else scenario.revision
        selection = ("--scenario", scenario.name, "--spec-version", revision, "--force")
        limit = str(SECONDS_FOR_A_CLIENT * 1000)
        with tempfile.TemporaryDirectory() as folder:
            arguments = ("client", "--command", command, *selection, "--timeout", limit, "-o", folder)
            found = await self._run(*arguments, XDG_CACHE_HOME=str(Path(folder, ".cache")))
            return Found(found.status, found.output, read_results(Path(folder)), read_last_words(Path(folder)))

    async def _run(self, *arguments: str, **environment: str) -> Found:
        package = self.home / "node_modules" / "@modelcontextprotocol" / "conformance"
        command = [str(self.node), str(package / "dist" / "index.js"), *arguments]
        path = os.pathsep.join([str(self.node.parent), os.environ.get("PATH", os.defpath)])
        run = partial(trio.run_process, capture_stdout=True, stderr=STDOUT, check=False, cwd=ROOT)
        with trio.fail_after(SECONDS_FOR_ALL):
            done = await run(command, env={**os.environ, "PATH": path, **environment})
        return Found(done.returncode, done.stdout.decode(errors="replace"))


def read_last_words(folder: Path) -> str:
    """Return the last line that is not empty of a client's standard error, from the files of the suite."""
    lines = (line for file in folder.rglob("stderr.txt") for line in file.read_text().splitlines())
    return next((line.strip(" |") for line in reversed(list(lines)) if any(map(str.isalpha, line))), "")


def read_list(text: str) -> dict[Leg, list[str]]:
    """Read the suite's list of requirements: the scenarios of each leg, without those it does not count."""
    legs: dict[Leg, list[str]] = {"server": [], "client": []}
    names: list[str] | None = None
    for line in text.splitlines():
        if heading := _HEADING.match(line):
            names = legs["server" if heading[1] == "Server" else "client"]
        elif (entry := _ENTRY.fullmatch(line)) and names is not None:
            names.append(entry[1])
        elif line.strip():
            names = None
    return legs
