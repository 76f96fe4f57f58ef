"""Negotiation of the era and the revision with every kind of peer."""

from __future__ import annotations

import sys
from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from importlib.metadata import version
from pathlib import Path
from typing import Any

import pytest
import trio
import trio.testing

from tests.interaction.conversation_server import make_server
from tests.interaction.openers import Opener
from tests.interaction.scripted_peers import INFO, LEGACY, META, MODERN, NEWEST_LEGACY, Json
from trio_mcp import (
    Client,
    ConnectionBroken,
    ErrorResponse,
    RemoteProtocolError,
    RequestTimedOut,
    ServerExited,
    TimeLimits,
    UnsupportedRevision,
    open_client,
    open_stream_client,
    types,
)
from trio_mcp.testing import ScriptedPeer, open_scripted_server

SERVERS: dict[str, Sequence[str]] = {
    "dual": types.REVISIONS,
    "legacy only": LEGACY,
    "modern and oldest": (LEGACY[0], MODERN),
    **{f"only {revision}": (revision,) for revision in types.REVISIONS},
}


@pytest.mark.requirement("B.4-C2", "B.4-S2")
@pytest.mark.parametrize("opener", ["memory", "bytes", "http"], indirect=True)
@pytest.mark.parametrize("supported", SERVERS)
@pytest.mark.parametrize("pinned", [None, *types.REVISIONS])
async def test_every_pairing_agrees_on_the_newest_common_revision_or_raises(
    opener: Opener, supported: str, pinned: str | None
) -> None:
    server = make_server(revisions=SERVERS[supported])
    options = {} if pinned is None else {"revision": pinned}
    if pinned is None or pinned in SERVERS[supported]:
        async with opener(server, **options) as client:
            assert client.revision == (pinned or SERVERS[supported][-1])
            assert client.server_info == server.info
            called = await client.call_tool("add", {"a": 1, "b": 2})
            assert called.content == [types.TextContent(text="3")]
    else:
        with pytest.raises(UnsupportedRevision) as refused:
            async with opener(server, **options):
                pass
        assert refused.value.requested == pinned


async def test_an_unknown_revision_cannot_be_pinned() -> None:
    with pytest.raises(ValueError, match="'1999-01-01'"):
        async with open_client(make_server(), revision="1999-01-01"):
            pass


# Scripted servers.


async def converse(script: Callable[[ScriptedPeer], Awaitable[object]], **options: Any) -> Client:
    """Connect and close; return the client with the negotiated values."""
    with trio.fail_after(1000):
        async with open_scripted_server(script, **options) as (client, _):
            return client


@pytest.mark.requirement("B.3-C1a", "B.3-C1b", "B.4-C1")
async def test_the_probe_is_a_complete_modern_request(autojump_clock: object) -> None:
    seen: list[Any] = []

    async def script(server: ScriptedPeer) -> None:
        seen.append(await server.answer_discover(MODERN))

    await converse(script)
    (probe,) = seen
    assert probe["method"] == "server/discover"
    assert probe["params"]["_meta"] == {
        META + "protocolVersion": MODERN,
        META + "clientCapabilities": {},
        META + "clientInfo": {"name": "trio-mcp", "version": version("trio-mcp")},
    }


@pytest.mark.requirement("B.1-P10d", "B.2-C1b", "B.4-C4a", "B.4-C4b", "G.4")
@pytest.mark.parametrize("code", [-32601, -32602, -32600, -32000, -32002, -32603, -32700, -32001, -32004, 0, 404])
async def test_any_error_to_the_probe_except_an_unsupported_revision_means_legacy(code: int) -> None:
    async def script(server: ScriptedPeer) -> None:
        await server.refuse(code, {"supported": [MODERN]}, method="server/discover")
        initialize = await server.answer_initialize(NEWEST_LEGACY)
        assert initialize["params"]["protocolVersion"] == NEWEST_LEGACY

    assert (await converse(script)).revision == NEWEST_LEGACY


async def test_an_empty_answer_to_the_probe_leads_to_a_legacy_handshake() -> None:
    async def script(server: ScriptedPeer) -> None:
        await server.answer({})
        await server.answer_initialize(NEWEST_LEGACY)

    assert (await converse(script)).revision == NEWEST_LEGACY


async def test_a_pinned_modern_client_rejects_an_empty_discovery() -> None:
    async def script(server: ScriptedPeer) -> None:
        await server.answer({})

    with pytest.raises(RemoteProtocolError, match="'server/discover' does not fit"):
        await fail_to_connect(script, revision=MODERN)


@pytest.mark.requirement("B.4-C6")
async def test_a_pinned_modern_client_does_not_fall_back() -> None:
    async def script(server: ScriptedPeer) -> None:
        await server.refuse(-32601, method="server/discover")
        assert await server.receive() is None

    with pytest.raises(UnsupportedRevision, match="no known revision"):
        await fail_to_connect(script, revision=MODERN)


@pytest.mark.requirement("B.4-C4a")
async def test_a_server_that_does_not_answer_the_probe_gets_a_legacy_handshake(autojump_clock: object) -> None:
    async def script(server: ScriptedPeer) -> None:
        probe, began = await server.receive(), trio.current_time()
        await server.answer_initialize("2025-03-26")
        assert trio.current_time() - began == pytest.approx(5)
        withdrawn = await server.receive()
        assert (withdrawn["method"], withdrawn["params"]) == ("notifications/cancelled", {"requestId": probe["id"]})

    assert (await converse(script)).revision == "2025-03-26"


async def test_the_timeout_of_the_probe_can_be_set(autojump_clock: object) -> None:
    async def script(server: ScriptedPeer) -> None:
        await server.receive()
        began = trio.current_time()
        await server.answer_initialize(NEWEST_LEGACY)
        assert trio.current_time() - began == pytest.approx(0.5)
        await server.receive()

    await converse(script, time_limits=TimeLimits(probe=0.5))


async def test_a_late_answer_to_the_probe_wins_while_the_handshake_is_pending(autojump_clock: object) -> None:
    async def script(server: ScriptedPeer) -> None:
        probe, initialize = await server.receive(), await server.receive()
        assert initialize["method"] == "initialize"
        assert initialize["id"] != probe["id"]
        result: Json = {"resultType": "complete", "supportedVersions": [MODERN], "capabilities": {}}
        await server.send({"jsonrpc": "2.0", "id": probe["id"], "result": result})
        await server.send({"jsonrpc": "2.0", "id": initialize["id"], "result": {}})

    client = await converse(script)
    assert client.revision == MODERN
    assert client.statistics().unmatched_responses == 1


async def test_a_late_error_to_the_probe_is_ignored(autojump_clock: object) -> None:
    async def script(server: ScriptedPeer) -> None:
        probe, initialize = await server.receive(), await server.receive()
        await server.send({"jsonrpc": "2.0", "id": probe["id"], "error": {"code": -32601, "message": "no"}})
        await trio.testing.wait_all_tasks_blocked()
        result: Json = {"protocolVersion": NEWEST_LEGACY, "capabilities": {}, "serverInfo": INFO}
        await server.send({"jsonrpc": "2.0", "id": initialize["id"], "result": result})
        assert (await server.receive())["method"] == "notifications/initialized"

    assert (await converse(script)).revision == NEWEST_LEGACY


async def test_an_answer_to_the_probe_after_the_handshake_is_dropped(autojump_clock: object) -> None:
    async def script(server: ScriptedPeer) -> None:
        probe = await server.receive()
        await server.answer_initialize(NEWEST_LEGACY)
        await server.receive()
        await server.send({"jsonrpc": "2.0", "id": probe["id"], "result": {"supportedVersions": [MODERN]}})
        await trio.testing.wait_all_tasks_blocked()

    client = await converse(script)
    assert client.revision == NEWEST_LEGACY
    assert client.statistics().unmatched_responses == 1


@pytest.mark.requirement("B.3-C3")
async def test_an_unsupported_revision_error_that_names_legacy_revisions_leads_to_a_handshake() -> None:
    async def script(server: ScriptedPeer) -> None:
        await server.refuse(-32022, {"supported": ["2025-03-26", "2024-11-05"], "requested": MODERN})
        initialize = await server.answer_initialize("2025-03-26")
        assert initialize["params"]["protocolVersion"] == "2025-03-26"

    assert (await converse(script)).revision == "2025-03-26"


@pytest.mark.requirement("B.3-C3", "B.4-C3")
@pytest.mark.parametrize(
    ("data", "named"),
    [
        ({"supported": ["2099-01-01"]}, ("2099-01-01",)),
        ({"supported": []}, ()),
        ({"supported": "2025-11-25"}, ()),
        (None, ()),
    ],
)
async def test_an_unsupported_revision_error_without_a_known_revision_does_not_lead_to_a_handshake(
    data: object, named: tuple[str, ...]
) -> None:
    async def script(server: ScriptedPeer) -> None:
        await server.refuse(-32022, data)
        assert await server.receive() is None

    with pytest.raises(UnsupportedRevision) as refused:
        await fail_to_connect(script)
    assert (refused.value.requested, refused.value.supported) == (MODERN, named)


async def fail_to_connect(script: Callable[[ScriptedPeer], Awaitable[object]], **options: Any) -> None:
    """Connect to a script that makes it fail; raise the failure without an exception group."""
    ours, theirs = trio.testing.memory_stream_pair()

    async def follow() -> None:
        await script(ScriptedPeer(theirs))
        await theirs.aclose()

    raised: list[Exception] = []
    with trio.fail_after(1000):
        async with trio.open_nursery() as nursery:
            nursery.start_soon(follow)
            try:
                async with open_stream_client(ours, **options):
                    pass
            except Exception as exc:  # noqa: BLE001 # the exception of the opener is under test
                raised.append(exc)
    assert raised, "they should not agree"
    raise raised[0]


@pytest.mark.requirement("B.4-C3")
async def test_the_client_asks_once_more_if_the_server_refuses_a_revision_that_it_offers() -> None:
    async def script(server: ScriptedPeer) -> None:
        await server.refuse(-32022, {"supported": [MODERN]}, method="server/discover")
        await server.answer_discover(MODERN)

    assert (await converse(script)).revision == MODERN


@pytest.mark.requirement("B.4-C3")
async def test_the_client_gives_up_if_the_server_refuses_an_offered_revision_twice() -> None:
    async def script(server: ScriptedPeer) -> None:
        for _ in range(2):
            await server.refuse(-32022, {"supported": [MODERN]}, method="server/discover")

    with pytest.raises(RemoteProtocolError, match=f"both offers revision {MODERN} and refuses it"):
        await fail_to_connect(script)


async def test_the_client_gives_up_if_the_server_refuses_both_eras_in_turn() -> None:
    async def script(server: ScriptedPeer) -> None:
        everything: Json = {"supported": list(types.REVISIONS)}
        await server.refuse(-32601, method="server/discover")
        await server.refuse(-32022, everything, method="initialize")

    with pytest.raises(RemoteProtocolError, match="both offers"):
        await fail_to_connect(script)


async def test_a_handshake_error_that_names_modern_revisions_switches_to_the_modern_era(autojump_clock: object) -> None:
    async def script(server: ScriptedPeer) -> None:
        probe = await server.receive()
        await server.refuse(-32022, {"supported": [MODERN]}, method="initialize")
        again = await server.receive()
        assert again["id"] != probe["id"]
        result: Json = {"supportedVersions": [MODERN], "capabilities": {}}
        await server.send({"jsonrpc": "2.0", "id": again["id"], "result": result})
        await server.receive()

    assert (await converse(script)).revision == MODERN


async def test_the_client_follows_a_handshake_error_that_names_an_older_legacy_revision() -> None:
    async def script(server: ScriptedPeer) -> None:
        await server.refuse(-32601, method="server/discover")
        await server.refuse(-32022, {"supported": ["2024-11-05"]}, method="initialize")
        await server.answer_initialize("2024-11-05")

    assert (await converse(script)).revision == "2024-11-05"


async def test_any_other_handshake_error_is_raised() -> None:
    async def script(server: ScriptedPeer) -> None:
        await server.refuse(-32601, method="server/discover")
        await server.refuse(-5, "paid customers only", method="initialize")

    with pytest.raises(ErrorResponse) as refused:
        await fail_to_connect(script)
    assert (refused.value.code, refused.value.data) == (-5, "paid customers only")


async def test_a_handshake_error_is_not_attributed_to_the_unanswered_probe(autojump_clock: object) -> None:
    async def script(server: ScriptedPeer) -> None:
        await server.receive()
        await server.refuse(-5, method="initialize")
        assert "initialize" not in [message["method"] for message in await server.rest()]

    with pytest.raises(ErrorResponse) as refused:
        await fail_to_connect(script)
    assert refused.value.code == -5


async def test_a_discovery_that_lists_only_legacy_revisions_leads_to_a_handshake() -> None:
    async def script(server: ScriptedPeer) -> None:
        await server.answer_discover("2024-11-05", "2025-06-18", "2099-01-01")
        await server.answer_initialize("2025-06-18")

    assert (await converse(script)).revision == "2025-06-18"


async def test_a_discovery_without_a_known_revision_raises() -> None:
    async def script(server: ScriptedPeer) -> None:
        await server.answer_discover("2099-01-01")

    with pytest.raises(UnsupportedRevision, match="2099-01-01"):
        await fail_to_connect(script)


@pytest.mark.requirement("G.8")
@pytest.mark.parametrize("member", ["_meta", "body"])
async def test_the_client_finds_the_name_of_a_modern_server_in_both_places(member: str) -> None:
    named: Json = {"_meta": {META + "serverInfo": INFO}} if member == "_meta" else {"serverInfo": INFO}

    async def script(server: ScriptedPeer) -> None:
        result: Json = {"supportedVersions": [MODERN], "capabilities": {"tools": {}}, "instructions": "be nice"}
        await server.answer(result | named)

    client = await converse(script)
    assert client.server_info == types.Implementation(**INFO)
    assert client.server_capabilities == types.ServerCapabilities(tools=types.ToolsCapability())
    assert client.instructions == "be nice"


async def test_a_modern_server_may_omit_its_name() -> None:
    assert (await converse(partial(ScriptedPeer.welcome, revision=MODERN), revision=MODERN)).server_info is None


INVALID_DISCOVERIES: list[Json] = [{"capabilities": []}, {"supportedVersions": [MODERN], "capabilities": 7}]


@pytest.mark.parametrize("result", INVALID_DISCOVERIES)
async def test_an_invalid_discovery_of_a_modern_server_is_a_protocol_error(result: Json) -> None:
    async def script(server: ScriptedPeer) -> None:
        await server.answer(result)

    with pytest.raises(RemoteProtocolError, match="'server/discover' does not fit"):
        await fail_to_connect(script, revision=MODERN)


@pytest.mark.parametrize("result", INVALID_DISCOVERIES)
async def test_an_invalid_discovery_leads_to_a_handshake(result: Json) -> None:
    async def script(server: ScriptedPeer) -> None:
        await server.answer(result)
        await server.answer_initialize(NEWEST_LEGACY)

    assert (await converse(script)).revision == NEWEST_LEGACY


@pytest.mark.parametrize("result", INVALID_DISCOVERIES)
async def test_if_the_handshake_after_an_invalid_discovery_is_refused_the_error_names_both(result: Json) -> None:
    async def script(server: ScriptedPeer) -> None:
        await server.answer(result)
        await server.refuse(-32601, method="initialize")

    with pytest.raises(ErrorResponse) as refused:
        await fail_to_connect(script)
    assert "'server/discover' does not fit" in str(refused.value.__cause__)


MALFORMED_ANSWERS: dict[str, Json] = {
    "error is a text": {"error": "unknown method"},
    "error without a code": {"error": {"message": "no"}},
    "null error": {"error": None},
    "null result": {"result": None},
    "null error beside a result": {"result": {}, "error": None},
    "null result beside an error": {"result": None, "error": {"code": -32601, "message": "no"}},
    "result beside error": {"result": {"supportedVersions": [MODERN]}, "error": {"code": -32601, "message": "no"}},
    "result is a text": {"result": "ok"},
    "no jsonrpc": {"jsonrpc": None, "result": {}},
}


@pytest.mark.parametrize("answer", MALFORMED_ANSWERS.values(), ids=MALFORMED_ANSWERS)
async def test_a_malformed_answer_to_the_probe_leads_to_a_handshake(answer: Json) -> None:
    async def script(server: ScriptedPeer) -> None:
        probe = await server.expect_request("server/discover")
        await server.send({"jsonrpc": "2.0", "id": probe["id"], **answer})
        await server.answer_initialize(NEWEST_LEGACY)

    assert (await converse(script)).revision == NEWEST_LEGACY


async def test_a_pinned_modern_client_raises_a_malformed_answer_to_the_probe() -> None:
    async def script(server: ScriptedPeer) -> None:
        probe = await server.expect_request("server/discover")
        await server.send({"jsonrpc": "2.0", "id": probe["id"], "error": "unknown method"})

    with pytest.raises(RemoteProtocolError, match="'error' is not an object"):
        await fail_to_connect(script, revision=MODERN)


async def test_a_revision_is_asked_for_again_after_an_answer_that_may_have_been_an_accident() -> None:
    async def script(server: ScriptedPeer) -> None:
        probe = await server.expect_request("server/discover")
        await server.send({"jsonrpc": "2.0", "id": probe["id"], "error": "overloaded"})
        await server.refuse(-32022, {"supported": [MODERN]}, method="initialize")
        await server.answer_discover(MODERN)

    assert (await converse(script)).revision == MODERN


async def test_an_invalid_handshake_is_a_protocol_error() -> None:
    async def script(server: ScriptedPeer) -> None:
        await server.answer({"protocolVersion": NEWEST_LEGACY})

    with pytest.raises(RemoteProtocolError, match="'initialize' does not fit"):
        await fail_to_connect(script, revision=NEWEST_LEGACY)


@pytest.mark.requirement("B.2-C4")
@pytest.mark.parametrize("answered", ["2099-01-01", MODERN, "2024-11-05", None])
async def test_a_handshake_answered_with_a_revision_that_was_not_pinned_raises(answered: str | None) -> None:
    async def script(server: ScriptedPeer) -> None:
        await server.answer({"protocolVersion": answered, "capabilities": {}, "serverInfo": INFO}, method="initialize")
        assert await server.receive() is None  # no initialized notification

    with pytest.raises(UnsupportedRevision) as refused:
        await fail_to_connect(script, revision=NEWEST_LEGACY)
    assert (refused.value.requested, refused.value.supported) == (NEWEST_LEGACY, (str(answered),))


async def test_an_unpinned_client_accepts_any_revision_it_knows() -> None:
    async def script(server: ScriptedPeer) -> None:
        await server.refuse(-32601)
        await server.answer_initialize("2024-11-05")

    assert (await converse(script)).revision == "2024-11-05"


@pytest.mark.requirement("B.13-P1a")
@pytest.mark.parametrize("limit", [60, 7])
async def test_the_client_gives_up_a_server_that_answers_nothing(limit: float, autojump_clock: object) -> None:
    async def script(server: ScriptedPeer) -> None:
        methods = [message["method"] for message in await server.rest()]
        assert methods == ["server/discover", "initialize", "notifications/cancelled"]

    began = trio.current_time()
    with pytest.raises(RequestTimedOut, match=rf"within {limit} s \(TimeLimits.connect\)"):
        await fail_to_connect(script, time_limits=TimeLimits(connect=limit))
    assert trio.current_time() - began == pytest.approx(limit, abs=2)


async def test_a_pinned_modern_client_waits_only_for_the_probe(autojump_clock: object) -> None:
    async def script(server: ScriptedPeer) -> None:
        probe = await server.receive()
        await trio.sleep(30)
        result: Json = {"supportedVersions": [MODERN], "capabilities": {}}
        await server.send({"jsonrpc": "2.0", "id": probe["id"], "result": result})

    assert (await converse(script, revision=MODERN)).revision == MODERN


@pytest.mark.requirement("B.2-C5")
async def test_the_client_never_sends_a_cancellation_of_the_handshake(autojump_clock: object) -> None:
    methods: list[str] = []

    async def script(server: ScriptedPeer) -> None:
        methods.extend([message["method"] for message in await server.rest()])

    with pytest.raises(RequestTimedOut):
        await fail_to_connect(script, revision=NEWEST_LEGACY)
    assert methods == ["initialize"]


@pytest.mark.parametrize("revision", [None, *types.REVISIONS])
async def test_a_connection_that_ends_during_the_handshake_raises_connection_broken(revision: str | None) -> None:
    async def script(server: ScriptedPeer) -> None:
        await server.receive()

    with pytest.raises(ConnectionBroken):
        await fail_to_connect(script, **({} if revision is None else {"revision": revision}))


# Servers that are child processes.

TOUCHY = """
import json, sys
with open(sys.argv[1], "a") as starts:
    starts.write("x")
for line in sys.stdin:
    message = json.loads(line)
    if message["method"] not in sys.argv[2:]:
        sys.stderr.write(f"cannot {message['method']}\\n")
        sys.exit(3)
    if message["method"] == "initialize":
        named = {"name": "touchy", "version": "1"}
        result = {"protocolVersion": "2025-06-18", "capabilities": {}, "serverInfo": named}
        print(json.dumps({"jsonrpc": "2.0", "id": message["id"], "result": result}), flush=True)
"""


@pytest.fixture
def starts(tmp_path: Path) -> Path:
    return tmp_path / "starts"


def count_of(starts: Path) -> int:
    return len(starts.read_text())


async def test_a_child_process_that_exits_on_the_probe_is_restarted_as_legacy(starts: Path) -> None:
    command = [sys.executable, "-c", TOUCHY, str(starts), "initialize", "notifications/initialized"]
    with trio.fail_after(60):
        async with open_client(command) as client:
            assert client.revision == "2025-06-18"
    assert count_of(starts) == 2


async def test_a_child_process_that_also_exits_on_the_handshake_raises_server_exited(starts: Path) -> None:
    with trio.fail_after(60), pytest.raises(ServerExited) as exited:
        async with open_client([sys.executable, "-c", TOUCHY, str(starts)]):
            pass
    assert exited.value.status == 3
    assert exited.value.stderr_tail == ("cannot initialize",)
    assert count_of(starts) == 2


SULKY = """
import json, sys
with open(sys.argv[1], "a") as starts:
    starts.write("x")
first = None
for line in sys.stdin:
    message = json.loads(line)
    first = first or message["method"]
    answer = {"error": {"code": -32000, "message": "not initialized"}} if sys.argv[2] == "error" else {"error": "no"}
    if first == message["method"] == "initialize":
        named = {"name": "sulky", "version": "1"}
        answer = {"result": {"protocolVersion": "2025-06-18", "capabilities": {}, "serverInfo": named}}
    if "id" in message:
        print(json.dumps({"jsonrpc": "2.0", "id": message["id"], **answer}), flush=True)
"""


@pytest.mark.parametrize("refusal", ["error", "malformed"])
async def test_a_child_process_that_refuses_the_handshake_after_the_probe_is_restarted_as_legacy(
    refusal: str, starts: Path
) -> None:
    with trio.fail_after(60):
        async with open_client([sys.executable, "-c", SULKY, str(starts), refusal]) as client:
            assert client.revision == "2025-06-18"
    assert count_of(starts) == 2


@pytest.mark.parametrize("revision", [NEWEST_LEGACY, MODERN])
async def test_a_child_process_that_exits_on_the_pinned_revision_is_not_restarted(revision: str, starts: Path) -> None:
    with trio.fail_after(60), pytest.raises(ServerExited):
        async with open_client([sys.executable, "-c", TOUCHY, str(starts)], revision=revision):
            pass
    assert count_of(starts) == 1


async def test_revisions_that_are_not_strings_are_never_common(autojump_clock: object) -> None:
    async def script(server: ScriptedPeer) -> None:
        await server.answer({"supportedVersions": [1, None], "capabilities": {}}, method="server/discover")

    with pytest.raises(UnsupportedRevision, match="the peer offers 1, None"):
        await converse(script)
