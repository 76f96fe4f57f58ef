"""What belongs to one user of a protected server is of no use to another, and looks like what never was."""

from __future__ import annotations

from typing import Any

import pytest
import trio
import trio.testing
from attrs import define, field

from tests.interaction.authorized import (
    ISSUER,
    LATEST,
    MODERN,
    ORIGIN,
    URL,
    Street,
    bearer,
    login,
    person,
    said,
)
from tests.interaction.by_hand import Json
from tests.interaction.http_by_hand import Got, HttpByHand
from trio_mcp import (
    ResponseCache,
    types,
)
from trio_mcp.testing import AuthorizationServer
from trio_mcp.wire import CAPABILITIES_KEY

EVIL = "https://evil.example"
ASKABLE: Json = {CAPABILITIES_KEY: {"elicitation": {"form": {}}}}


@define(eq=False)
class Users:
    """Two of them, and what each sends."""

    street: Street
    revision: str = MODERN
    hand: HttpByHand = field(init=False)
    ada: dict[str, str] = field(init=False)
    bob: dict[str, str] = field(init=False)

    def __attrs_post_init__(self) -> None:
        self.hand = HttpByHand(self.street.network, self.revision, URL)
        self.ada, self.bob = (
            bearer(self.street.auth.issue_token(resource=URL, subject=who, scopes=["buy"])) for who in ("ada", "bob")
        )

    async def begin(self) -> HttpByHand:
        """Return ada's session."""
        hello: Json = {
            "protocolVersion": self.revision,
            "capabilities": {"elicitation": {}},
            "clientInfo": {"name": "c", "version": "0"},
        }
        got = await self.hand.post(self.hand.request("initialize", hello, id="hello"), self.ada)
        session = HttpByHand(self.street.network, self.revision, URL)
        session.session = got.headers["mcp-session-id"]
        await session.post(session.notification("notifications/initialized"), self.ada)
        return session


@pytest.mark.requirement("C.3-6", "C.3-8")
@pytest.mark.parametrize("revision", types.REVISIONS[1:-1])
@pytest.mark.parametrize("transport", ["http", "http-resumable"])
async def test_a_session_is_nothing_to_anybody_but_the_user_who_began_it(
    transport: str, revision: str, autojump_clock: object
) -> None:
    street = Street(transport=transport)
    users = Users(street, revision)

    async with street.open():
        session = await users.begin()
        nowhere = HttpByHand(street.network, revision, URL)
        nowhere.session = "x" * len(session.session or "")
        tries: list[tuple[str, Any, dict[str, str]]] = [
            ("POST", session.call("whoami"), {}),
            ("POST", session.notification("notifications/cancelled", {"requestId": 1}), {}),
            ("POST", {"jsonrpc": "2.0", "id": 1, "result": {}}, {}),
            ("POST", session.request("resources/unsubscribe", {"uri": "shop://stock"}), {}),
            ("GET", None, {}),
            ("GET", None, {"last-event-id": "1"}),
            ("DELETE", None, {}),
        ]
        for method, message, fields in tries:
            theirs = await session.send(method, message, {**users.bob, **fields})
            unknown = await nowhere.send(method, message, {**users.bob, **fields})
            assert (theirs.status, theirs.body) == (404, unknown.body)
            assert unknown.status == 404
            assert (await session.send(method, message, fields)).status == 401
        assert (await session.post(session.call("whoami"), users.ada)).answer["result"]["content"][0]["text"] == "ada"

    assert len(street.shop.shown) == 1


@pytest.mark.requirement("C.3-6")
async def test_a_stream_of_http_and_sse_is_nothing_to_anybody_but_the_user_who_opened_it(
    autojump_clock: object,
) -> None:
    street = Street(transport="http-sse")
    users = Users(street, types.REVISIONS[0])

    async with street.open(), users.hand.open("GET", headers=users.ada) as stream:
        event = await stream.event()
        assert event is not None
        theirs = HttpByHand(street.network, types.REVISIONS[0], f"{ORIGIN}{event.data.decode()}")
        nowhere = HttpByHand(street.network, types.REVISIONS[0], f"{ORIGIN}/mcp?sessionId={'x' * 43}")
        stolen = await theirs.post(theirs.call("whoami"), users.bob)
        unknown = await nowhere.post(theirs.call("whoami"), users.bob)
        assert (stolen.status, stolen.body) == (400, unknown.body)
        assert (await theirs.post(theirs.call("whoami"))).status == 401

    assert street.shop.shown == []


@pytest.mark.requirement("C.3-6")
async def test_what_waits_for_the_answer_of_one_user_takes_none_of_another(autojump_clock: object) -> None:
    street = Street()
    users = Users(street)
    hand = users.hand

    async def order(who: dict[str, str], **params: Any) -> Got:
        return await hand.post(
            hand.request("tools/call", {"name": "order", "arguments": {}, **params}, meta=ASKABLE), who
        )

    async with street.open():
        asked = (await order(users.ada)).answer["result"]
        answers = {key: {"action": "accept", "content": {"count": 3}} for key in asked["inputRequests"]}
        stolen = await order(users.bob, requestState=asked["requestState"], inputResponses=answers)
        made_up = await order(users.bob, requestState="x" * len(asked["requestState"]), inputResponses=answers)
        assert (stolen.code, stolen.body) == (-32602, made_up.body)
        assert (await order({}, requestState=asked["requestState"], inputResponses=answers)).status == 401
        assert street.shop.ordered == []
        done = await order(users.ada, requestState=asked["requestState"], inputResponses=answers)

    assert done.answer["result"]["content"][0]["text"] == "ada orders 3"


@pytest.mark.requirement("C.3-6")
async def test_a_question_in_the_session_of_one_user_is_not_answered_by_another(autojump_clock: object) -> None:
    street = Street()
    users = Users(street, LATEST)

    async with street.open():
        session = await users.begin()
        async with session.open("POST", session.call("order"), users.ada) as stream:
            question = await stream.message()
            assert question["method"] == "elicitation/create"
            answer = {
                "jsonrpc": "2.0", "id": question["id"], "result": {"action": "accept", "content": {"count": 3}}
            }  # fmt: skip
            mine = HttpByHand(street.network, LATEST, URL)
            assert (await mine.post(answer, users.bob)).status == 400  # it belongs to no session
            assert (await session.post(answer, users.bob)).status == 404
            assert street.shop.ordered == []
            assert (await session.post(answer, users.ada)).status == 202
            done = (await stream.rest())[-1]

    assert done["result"]["content"][0]["text"] == "ada orders 3"


@pytest.mark.requirement("C.3-6")
async def test_a_subscription_of_one_user_is_not_ended_by_another(autojump_clock: object) -> None:
    street = Street()
    users = Users(street)
    hand = users.hand
    listen = hand.request("subscriptions/listen", {"notifications": {"resourceSubscriptions": ["shop://stock"]}}, id=7)

    async with street.open(), hand.open("POST", listen, users.ada) as stream:
        assert (await stream.message())["method"] == "notifications/subscriptions/acknowledged"
        await hand.post(hand.notification("notifications/cancelled", {"requestId": 7}), users.bob)
        await trio.testing.wait_all_tasks_blocked()
        await hand.post(hand.call("stock"), users.bob)
        assert (await stream.message())["method"] == "notifications/resources/updated"


@pytest.mark.requirement("C.2-9")
@pytest.mark.parametrize("names_users", [False, True])
async def test_what_one_user_was_told_in_private_is_told_to_no_other_by_a_cache(
    names_users: bool, autojump_clock: object
) -> None:
    street, cache = Street(), ResponseCache()

    async def read(who: str) -> str:
        street.auth.settings.users = {who: "x"}
        shared = cache.for_server(URL, principal=who if names_users else None)
        async with street.client(person(street.auth), cache=shared) as client:
            [content] = (await client.read_resource("shop://stock")).contents
        assert isinstance(content, types.TextResourceContents)
        return content.text

    async with street.open():
        for who in ("ada", "bob", "ada"):
            assert await read(who) == f"what {who} may see"


@pytest.mark.requirement("C.3-4")
async def test_nobody_takes_the_name_of_another(autojump_clock: object) -> None:
    other = login(EVIL)
    street = Street(others={EVIL: other}, options={"issuers": [ISSUER, EVIL]})
    alone = Street()
    names = list[str]()

    async def note(street: Street, auth: AuthorizationServer, subject: str, client_id: str = "client") -> None:
        token = auth.issue_token(resource=URL, subject=subject, client_id=client_id)
        async with street.client(None, headers=bearer(token)) as client:
            names.append(await said(client, "whoami"))

    async with street.open(), alone.open():
        await note(street, street.auth, "ada")
        await note(street, other, "ada")
        await note(alone, alone.auth, "ada")
        await note(alone, alone.auth, "ada", "ada")
        await note(alone, alone.auth, "client ada")

    assert names[2] == "ada"
    assert len({*names}) == len(names)
