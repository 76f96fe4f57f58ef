"""A pytest plugin that fails a run if a message on a wire is invalid by the specification's own schema.

`python -m pytest -c pyproject.toml -p tests.wire_validity.plugin --from DIR` loads it; `nox -s spec` does that. With
`-n` of pytest-xdist, each worker checks its own messages, and the process that started the workers adds the results.
"""

from __future__ import annotations

import json
import os
import pickle
import tempfile
from collections.abc import Generator
from pathlib import Path
from typing import Any

import pytest
from attrs import define, field

from tests.wire_validity.judge import Counts, Judge, table
from tests.wire_validity.tap import RECORDS, TEST, Role, install, replay, watched
from tests.wire_validity.upstream import Upstream
from trio_mcp import types

OWN = Path(__file__).parents[2] / "schema" / "extensions"
_RESULTS_KEY = "messages on the wire"
_SHOWN = 30
"""The number of faults that are printed."""
_REQUIRED: tuple[tuple[Role, str], ...] = (
    ("client", "request"),
    ("client", "notification"),
    ("server", "notification"),
    ("server", "result"),
    ("server", "error"),
)


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("wire validity")
    group.addoption(
        "--from",
        dest="upstream",
        metavar="DIR",
        help="the folder that contains upstream's <revision>/schema.json and extensions/tasks.json",
    )
    group.addoption(
        "--part",
        action="store_true",
        help="accept a partial run, in which exemptions are unused or kinds of messages are missing",
    )


def pytest_configure(config: pytest.Config) -> None:
    folder = config.getoption("upstream")
    if folder is None:
        raise pytest.UsageError("--from DIR is missing: the folder of the upstream schemas")
    try:
        upstream = Upstream.read(
            {name: Path(folder) / name / "schema.json" for name in types.REVISIONS},
            # The schema of skills has no upstream: it is written in this project.
            {"skills": OWN / "skills.json", "tasks": Path(folder) / "extensions" / "tasks.json"},
        )
    except OSError as exc:
        raise pytest.UsageError(f"--from: {exc}") from None
    plugin = _Plugin(upstream, not config.getoption("part"), getattr(config, "workeroutput", None))
    config.pluginmanager.register(plugin, "wire-validity")
    if not config.getoption("numprocesses", None):  # otherwise the tests run in other processes
        plugin.listen()


@define(eq=False, slots=False)
class _Plugin:
    """The hooks of one run, or of one worker's part of it."""

    upstream: Upstream
    whole: bool
    output: dict[str, Any] | None
    """The results that a worker hands over at its end; None in the main process."""
    judge: Judge = field(init=False)
    _records: tempfile.TemporaryDirectory[str] = field(factory=tempfile.TemporaryDirectory, init=False)

    def __attrs_post_init__(self) -> None:
        self.judge = Judge(self.upstream, lambda: os.environ.get(TEST, "no test"))

    def listen(self) -> None:
        """Check the messages of this process and its children from now on."""
        os.environ[RECORDS] = self._records.name
        os.environ.update(watched(os.environ))  # for the children that inherit our environment
        install(self.judge)

    @pytest.hookimpl(wrapper=True)
    def pytest_sessionfinish(self, session: pytest.Session) -> Generator[None]:
        self._check_children()
        if self.output is not None:
            self.output[_RESULTS_KEY] = pickle.dumps((self.judge.counts, self.judge.faults))
        elif self.whole:
            self.judge.faults += missing(self.judge, self.upstream)
        if self.judge.faults and session.exitstatus == pytest.ExitCode.OK:
            session.exitstatus = pytest.ExitCode.TESTS_FAILED
        return (yield)

    @pytest.hookimpl(optionalhook=True)
    def pytest_testnodedown(self, node: Any) -> None:
        """Add the results of a worker; a crashed worker fails the run anyway."""
        results = getattr(node, "workeroutput", {}).get(_RESULTS_KEY)
        if results is not None:
            counts, faults = pickle.loads(results)  # our worker has written it
            self.judge.counts.add(counts)
            self.judge.faults += faults

    def _check_children(self) -> None:
        counts, before = self.judge.counts, _total(self.judge.counts)
        for path in sorted(Path(self._records.name).iterdir()):
            check_child(path, self.judge)
        counts.of_children += _total(counts) - before
        self._records.cleanup()

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        terminalreporter.section("messages on the wire")
        for line in table(self.judge.counts):
            terminalreporter.line(line)
        for fault in self.judge.faults[:_SHOWN]:
            terminalreporter.line(f"FAULT {fault}", red=True)
        if self.judge.faults:
            terminalreporter.line(f"{len(self.judge.faults)} faults", red=True)


def check_child(path: Path, judge: Judge) -> None:
    """Check the recorded messages of one child process."""
    header = json.loads(path.read_bytes().partition(b"\n")[0])
    program = " ".join(header["command"])[:200]
    judge.counts.children += 1
    replay(path, Judge(judge.upstream, lambda: f"{header['test']}, in {program}", judge.counts, judge.faults))


def missing(judge: Judge, upstream: Upstream) -> list[str]:
    """Return the messages that a whole run must have seen and has not, because an unseen message cannot fail."""
    faults = [] if judge.counts.children else ["no child process recorded messages"]
    faults += [
        f"no {kind} of a {role} in {revision} was seen"
        for revision in upstream.names
        for role, kind in _REQUIRED
        if not judge.counts.judged[revision, role, kind]
    ]
    newest = upstream.revisions[upstream.names[-1]]
    faults += [
        f"no {each} was seen" for each in newest.messages_of_extensions() if not judge.counts.of_extensions[each]
    ]
    faults += [f"unused exemption; remove it from the table: {reason}" for reason in judge.stale()]
    return faults


def _total(counts: Counts) -> int:
    return counts.judged.total() + counts.invented.total()
