"""Run the protocol's conformance suite against our server and our client.

`nox -s conformance` installs the suite and runs this program. Run from the root of the project,
``python -m tests.conformance.run --only NAME`` prints the suite's output about one scenario. The exit status is 0 if
every scenario of `scenarios.toml` has passed, without a failed or warned check.
"""

from __future__ import annotations

import argparse
import shlex
import sys
import tempfile
from collections.abc import AsyncGenerator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Literal

import trio
from attrs import evolve, field, frozen

from tests.conformance.runner.haproxy import balanced, over_http2
from tests.conformance.runner.scenarios import Leg, Scenario, Scenarios, read_scenarios
from tests.conformance.runner.server_process import ServerFailed, everything_gateway, everything_server
from tests.conformance.runner.suite import EXTENSIONS, NEWEST, ROOT, Found, Suite
from tests.conformance.runner.table import left_out, summary, table
from tests.conformance.runner.verdicts import Verdict, expecting_failure, judge

WORKERS = 2
"""Clients under test at once: each is a process, and so is its server."""
SCORED = ("2025-11-25", NEWEST)
"""The revisions for which the suite has its own set of scenarios."""
INSTALLED = ROOT / ".nox" / "conformance" / "tmp" / "suite"
"""The folder in which the nox session installs the suite."""
EVERYTHING_CLIENT = shlex.join([sys.executable, "-m", "tests.conformance.everything_client"])


@frozen
class Setup:
    """One way in which our server runs."""

    name: str
    """Its name in the report; empty for the default."""
    options: Sequence[str] = ()
    """The options of the server's command line."""
    revisions: Sequence[str] | None = None
    """The revisions in which it makes a difference; None for all."""
    http2: bool = False
    """True if the requests reach it over HTTP/2."""
    nodes: int = 1
    """The number of its processes, which are one service behind a balancer."""
    behind_gateway: Literal["stdio", "http"] | None = None
    """The transport over which a gateway reaches it, if the suite tests one in front of it."""


SETUPS = (
    Setup(""),
    Setup("replayed", ("--asking", "replayed"), (SCORED[-1], EXTENSIONS)),
    Setup("hypercorn", ("--under", "hypercorn")),
    Setup("http2", http2=True),
    Setup("nodes", revisions=SCORED, nodes=4),
    Setup("gateway-stdio", revisions=SCORED, behind_gateway="stdio"),
    Setup("gateway-http", revisions=SCORED, behind_gateway="http"),
)


@frozen(kw_only=True)
class Runner:
    """One run of the chosen scenarios."""

    suite: Suite
    scenarios: Scenarios
    legs: Sequence[Leg]
    revisions: Sequence[str]
    only: str | None
    """The one scenario to run."""
    setups: Sequence[Setup]
    """The ways in which our server runs."""
    server: str | None
    """The URL of a server to test in place of ours."""
    client: str
    """The command of the client to test."""
    verdicts: list[Verdict] = field(factory=list[Verdict])
    requested: list[str] = field(factory=list[str])
    """The scenarios that the suite requires to pass."""
    troubles: list[str] = field(factory=list[str])
    """The faults beside the scenarios."""
    outputs: list[str] = field(factory=list[str])
    """The suite's output about the one scenario."""

    async def run(self) -> None:
        """Fill `verdicts` and `troubles`."""
        if "server" in self.legs:
            for setup in self.setups:
                await self._server_leg(setup)
        if "client" in self.legs:
            await self._client_leg()
        if self.only is None:
            await self._compare_lists()

    def _chosen(self, leg: Leg, revision: str) -> dict[str, Scenario]:
        chosen = self.scenarios.of(leg, revision) if revision in self.revisions else {}
        return {name: each for name, each in chosen.items() if self.only in {None, name}}

    async def _server_leg(self, setup: Setup) -> None:
        revisions = setup.revisions or self.scenarios.revisions("server")
        if not any(self._chosen("server", revision) for revision in revisions):
            return
        with tempfile.TemporaryDirectory() as folder:
            try:
                async with self._server(setup, Path(folder)) as url:
                    for revision in revisions:
                        await self._test_server(url, revision, setup)
            except ServerFailed as failure:
                self.troubles.append(str(failure))

    @asynccontextmanager
    async def _server(self, setup: Setup, folder: Path) -> AsyncGenerator[str]:
        if self.server is not None:
            yield self.server
            return
        if setup.behind_gateway == "stdio":
            async with everything_gateway(folder / "log") as url:
                yield url
            return
        if setup.behind_gateway == "http":
            async with (
                everything_server(folder / "log") as url_behind,
                everything_gateway(folder / "gateway-log", "--to", url_behind) as url,
            ):
                yield url
            return
        if setup.nodes > 1:
            async with AsyncExitStack() as stack:
                shared = ("--shared", str(folder / "shared.db"))
                urls = [
                    await stack.enter_async_context(everything_server(folder / f"log{number}", *shared))
                    for number in range(setup.nodes)
                ]
                yield await stack.enter_async_context(balanced(urls, folder))
            return
        async with everything_server(folder / "log", *setup.options) as url:
            if not setup.http2:
                yield url
                return
            async with over_http2(url, folder) as url_in_front:
                yield url_in_front

    async def _test_server(self, url: str, revision: str, setup: Setup) -> None:
        chosen = self._chosen("server", revision)
        if not chosen:
            return
        if revision == EXTENSIONS:
            for name, scenario in chosen.items():
                await self._test_extension(url, name, scenario, setup.name)
            return
        if self.only is not None:
            selection: tuple[str, ...] = ("--scenario", self.only, "--spec-version", revision)
        elif revision in SCORED:
            selection = ("--requirements", revision)
        else:
            selection = ("--suite", "all", "--spec-version", revision)
        found = await self.suite.test_server(url, *selection)
        self._keep(found)
        for name, scenario in chosen.items():
            verdict = evolve(judge(scenario, found.results.get(name)), variant=setup.name)
            why = self.scenarios.not_through_gateway.get(name)
            if setup.behind_gateway is not None and why is not None:
                verdict = expecting_failure(verdict, why)
            self.verdicts.append(verdict)
        if found.crash is not None:
            self.troubles.append(f"{f'server {setup.name}'.strip()} {revision}: {found.crash}")

    async def _test_extension(self, url: str, name: str, scenario: Scenario, variant: str) -> None:
        found = await self.suite.test_server(url, "--scenario", name)
        self._keep(found)
        self.verdicts.append(evolve(judge(scenario, found.results.get(name)), variant=variant))
        if found.crash is not None:
            self.troubles.append(f"{f'server {variant}'.strip()} {name}: {found.crash}")

    async def _client_leg(self) -> None:
        chosen = [each for revision in (*SCORED, EXTENSIONS) for each in self._chosen("client", revision).values()]
        verdicts: dict[Scenario, Verdict] = {}
        free = trio.CapacityLimiter(WORKERS)

        async def test(scenario: Scenario) -> None:
            async with free:
                found = await self.suite.test_client(scenario, self.client)
            self._keep(found)
            verdicts[scenario] = judge(scenario, found.results.get(scenario.name), crash=found.crash)

        async with trio.open_nursery() as nursery:
            for scenario in chosen:
                nursery.start_soon(test, scenario)
        self.verdicts.extend(verdicts[scenario] for scenario in chosen)

    def _keep(self, found: Found) -> None:
        if self.only is not None:
            self.outputs.append(found.output.strip())

    async def _compare_lists(self) -> None:
        """Compare the suite's list of requirements with ours."""
        for revision in SCORED:
            required = await self.suite.required(revision)
            for leg in self.legs:
                self.requested.extend(required[leg])
                for name in self.scenarios.unexpected(leg, revision, required[leg]):
                    self.troubles.append(f"{leg} {revision}: the suite requires {name!r}, and scenarios.toml does not")


def report(runner: Runner) -> str:
    """Return the report for people."""
    parts = [
        *runner.outputs,
        table(runner.verdicts),
        summary(runner.verdicts),
        left_out(runner.scenarios, runner.requested),
    ]
    return "\n\n".join(part for part in (*parts, "\n".join(runner.troubles)) if part)


def make_runner(arguments: Sequence[str] | None) -> Runner:
    """Read the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--suite", type=Path, metavar="DIR", default=INSTALLED, help="where npm has installed it")
    parser.add_argument("--leg", choices=("server", "client"), help="test only this side")
    parser.add_argument("--revision", help="test only this revision")
    parser.add_argument("--only", metavar="NAME", help="run only this scenario")
    names = [setup.name for setup in SETUPS if setup.name]
    parser.add_argument("--without", choices=names, default=[], action="append", help="leave this setup of ours out")
    parser.add_argument("--server", metavar="URL", help="test the server at this URL instead of ours")
    parser.add_argument(
        "--client", metavar="COMMAND", default=EVERYTHING_CLIENT, help="test this client instead of ours"
    )
    options = parser.parse_args(arguments)
    suite = Suite(options.suite.absolute())
    if not suite.node.exists():
        parser.error(f"the suite is not installed in {options.suite}: `nox -s conformance` does that")
    setups = [setup for setup in SETUPS if setup.name not in options.without]
    if options.server is not None:
        setups = [Setup("")]
    scenarios = read_scenarios()
    legs: tuple[Leg, ...] = (options.leg,) if options.leg else ("server", "client")
    revisions = {revision for leg in legs for revision in scenarios.revisions(leg)}
    runner = Runner(
        suite=suite,
        scenarios=scenarios,
        legs=legs,
        revisions=[options.revision] if options.revision else sorted(revisions),
        only=options.only,
        setups=setups,
        server=options.server,
        client=options.client,
    )
    known = {each.name for each in scenarios.required if each.leg in legs and each.revision in runner.revisions}
    if options.only is not None and options.only not in known:
        reason = scenarios.why_left_out(options.only) or "no such scenario is chosen"
        parser.error(f"{options.only}: {reason}")
    if not known:
        parser.error(f"--revision {options.revision}: there are no scenarios")
    return runner


def main(arguments: Sequence[str] | None = None) -> int:
    """Run, print and return the exit status."""
    runner = make_runner(arguments)
    trio.run(runner.run)
    print(report(runner))  # noqa: T201 # a command prints
    return 1 if runner.troubles or any(verdict.faults for verdict in runner.verdicts) else 0


if __name__ == "__main__":
    sys.exit(main())
