"""A pytest plugin with fixtures for clients in memory and for recorders of their messages.

pytest loads it in every project that has the package installed, so it imports only pytest until a fixture is used.
The fixtures are plain functions: they work with pytest-trio, and without it inside `trio.run`. Disable the plugin with
``-p no:trio_mcp``. Example::

    async def test_add(mcp_client, mcp_wire, autojump_clock):
        async with mcp_client(server) as client:
            await client.call_tool("add", {"a": 1, "b": 2})
        mcp_wire.select(method="tools/call").assert_conversation(Path("add.wire"))

If a test fails, its report shows the messages of its connections.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Generator
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from contextlib import AbstractAsyncContextManager

    from ..abc import Answerer
    from ..client import Client
    from ._recorder import WireRecorder

_REVISION = "mcp_revision"
_WIRE = "mcp_wire"


@pytest.fixture
def mcp_wire() -> WireRecorder:
    """A recorder of the messages of clients: those of `mcp_client`, and others that have it as their `tap`."""
    from ._recorder import WireRecorder  # noqa: PLC0415 # see above

    return WireRecorder()


@pytest.fixture
def mcp_client(
    request: pytest.FixtureRequest, mcp_wire: WireRecorder
) -> Callable[..., AbstractAsyncContextManager[Client]]:
    """A function that opens a recorded client of a server in memory, like `trio_mcp.testing.open_memory_client`.

    The client uses the revision of `mcp_revision` if the test has that fixture. Keyword arguments take precedence.
    """
    from ._faults import open_memory_client  # noqa: PLC0415 # see above

    defaults: dict[str, Any] = {"tap": mcp_wire}
    if _REVISION in request.fixturenames:
        defaults["revision"] = request.getfixturevalue(_REVISION)

    def opened(server: Answerer, **options: Any) -> AbstractAsyncContextManager[Client]:
        return open_memory_client(server, **defaults | options)

    return opened


@pytest.fixture
def mcp_revision(request: pytest.FixtureRequest) -> str:
    """Each revision of the protocol in turn, or those of ``@pytest.mark.parametrize("mcp_revision", [...])``."""
    return str(request.param)


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Run a test with the fixture `mcp_revision` once for each revision, unless the test is parametrized by it."""
    marks = metafunc.definition.iter_markers("parametrize")
    named = " ".join(str(mark.kwargs.get("argnames", mark.args[:1])) for mark in marks)
    chosen = _REVISION in re.findall(r"\w+", named)
    if _REVISION in metafunc.fixturenames and not chosen:
        from ..types import REVISIONS  # noqa: PLC0415 # see above

        metafunc.parametrize(_REVISION, REVISIONS, indirect=True)


def pytest_assertrepr_compare(op: str, left: object, right: object) -> list[str] | None:
    """Show a diff of two recorders that a test asserts to be equal."""
    if op != "==" or "trio_mcp.testing._recorder" not in sys.modules:
        return None
    from ._recorder import WireRecorder  # noqa: PLC0415 # see above

    if not isinstance(left, WireRecorder) or not isinstance(right, WireRecorder):
        return None
    with pytest.raises(AssertionError) as caught:
        left.assert_conversation(right)
    return str(caught.value).splitlines()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Show the recorded messages of a failed test."""
    report = yield
    wire: WireRecorder | None = getattr(item, "funcargs", {}).get(_WIRE)
    if report.when == "call" and report.failed and wire:
        report.sections.append(("MCP messages", wire.text(normalised=False)))
    return report
