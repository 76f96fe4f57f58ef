"""Isolation of users: sessions, streams, calls and cached results of one user look unknown to another."""

from __future__ import annotations

from typing import Any

import pytest
import trio
import trio.testing
from attrs import define, field

from tests.interaction.protected_deployment import (
    ISSUER,
    LATEST,
    MODERN,
    ORIGIN,
    URL,
    Deployment,
    bearer,
    call_text,
    login_server,
    user_credentials,
)
from tests.interaction.raw_http_client import RawHttpClient, RawResponse
from tests.interaction.scripted_peers import Json
from trio_mcp import (
    ResponseCache,
    types,
)
from trio_mcp.testing import AuthorizationServer
from trio_mcp.wire import CAPABILITIES_KEY

EVIL = "https://evil.example"
CAN_BE_ASKED: Json = {CAPABILITIES_KEY: {"elicitation": {"form": {}}}}


@define(eq=False)
class Users:
    """Two users, the header fields of each, and an HTTP client for both."""

    deployment: Deployment
    revision: str = MODERN
    client: RawHttpClient = field(init=False)
    ada: dict[str, str] = field(init=False)
    bob: dict[str, str] = field(init=False)

    def __attrs_post_init__(self) -> None:
        self.client = RawHttpClient(self.deployment.network, self.revision, URL)
        self.ada, self.bob = (
            bearer(self.deployment.auth.issue_token(resource=URL, subject=who, scopes=["buy"]))
            for who in ("ada", "bob")
        )

    async def begin(self) -> RawHttpClient:
        """Return ada's session."""
        hello: Json = {
            "protocolVersion": self.revision,
            "capabilities": {"elicitation": {}},
            "clientInfo": {"name": "c", "version": "0"},
        }
        got = await self.client.post(self.client.request("initialize", hello, id="hello"), self.ada)
        session = RawHttpClient(self.deployment.network, self.revision, URL)
        session.session = got.headers["mcp-session-id"]
        await session.post(session.notification("notifications/initialized"), self.ada)
        return session


@pytest.mark.requirement("C.3-6", "C.3-8")
@pytest.mark.parametrize("revision", types.REVISIONS[1:-1])
@pytest.mark.parametrize("transport", ["http", "http-resumable"])
async def test_a_session_looks_unknown_to_every_other_user(
    transport: str, revision: str, autojump_clock: object
) -> None:
    deployment = Deployment(transport=transport)
    users = Users(deployment, revision)

    async with deployment.open():
        session = await users.begin()
        unknown_session = RawHttpClient(deployment.network, revision, URL)
        unknown_session.session = "x" * len(session.session or "")
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
            unknown = await unknown_session.send(method, message, {**users.bob, **fields})
            assert (theirs.status, theirs.body) == (404, unknown.body)
            assert unknown.status == 404
            assert (await session.send(method, message, fields)).status == 401
        assert (await session.post(session.call("whoami"), users.ada)).answer["result"]["content"][0]["text"] == "ada"

    assert len(deployment.shop.shown) == 1


@pytest.mark.requirement("C.3-6")
async def test_a_stream_of_http_and_sse_looks_unknown_to_every_other_user(
    autojump_clock: object,
) -> None:
    deployment = Deployment(transport="http-sse")
    users = Users(deployment, types.REVISIONS[0])

    async with deployment.open(), users.client.open("GET", headers=users.ada) as stream:
        event = await stream.event()
        assert event is not None
        theirs = RawHttpClient(deployment.network, types.REVISIONS[0], f"{ORIGIN}{event.data.decode()}")
        unknown_session = RawHttpClient(deployment.network, types.REVISIONS[0], f"{ORIGIN}/mcp?sessionId={'x' * 43}")
        stolen = await theirs.post(theirs.call("whoami"), users.bob)
        unknown = await unknown_session.post(theirs.call("whoami"), users.bob)
        assert (stolen.status, stolen.body) == (400, unknown.body)
        assert (await theirs.post(theirs.call("whoami"))).status == 401

    assert deployment.shop.shown == []


@pytest.mark.requirement("C.3-6")
async def test_a_parked_call_of_one_user_refuses_the_answer_of_another(autojump_clock: object) -> None:
    deployment = Deployment()
    users = Users(deployment)
    client = users.client

    async def order(who: dict[str, str], **params: Any) -> RawResponse:
        return await client.post(
            client.request("tools/call", {"name": "order", "arguments": {}, **params}, meta=CAN_BE_ASKED), who
        )

    async with deployment.open():
        asked = (await order(users.ada)).answer["result"]
        answers = {key: {"action": "accept", "content": {"count": 3}} for key in asked["inputRequests"]}
        stolen = await order(users.bob, requestState=asked["requestState"], inputResponses=answers)
        made_up = await order(users.bob, requestState="x" * len(asked["requestState"]), inputResponses=answers)
        assert (stolen.code, stolen.body) == (-32602, made_up.body)
        assert (await order({}, requestState=asked["requestState"], inputResponses=answers)).status == 401
        assert deployment.shop.ordered == []
        done = await order(users.ada, requestState=asked["requestState"], inputResponses=answers)

    assert done.answer["result"]["content"][0]["text"] == "ada orders 3"


@pytest.mark.requirement("C.3-6")
async def test_a_question_in_a_session_cannot_be_answered_by_another_user(autojump_clock: object) -> None:
    deployment = Deployment()
    users = Users(deployment, LATEST)

    async with deployment.open():
        session = await users.begin()
        async with session.open("POST", session.call("order"), users.ada) as stream:
            question = await stream.message()
            assert question["method"] == "elicitation/create"
            answer = {
                "jsonrpc": "2.0", "id": question["id"], "result": {"action": "accept", "content": {"count": 3}}
            }  # fmt: skip
            sessionless = RawHttpClient(deployment.network, LATEST, URL)
            assert (await sessionless.post(answer, users.bob)).status == 400  # without a session
            assert (await session.post(answer, users.bob)).status == 404
            assert deployment.shop.ordered == []
            assert (await session.post(answer, users.ada)).status == 202
            done = (await stream.rest())[-1]

    assert done["result"]["content"][0]["text"] == "ada orders 3"


@pytest.mark.requirement("C.3-6")
async def test_a_subscription_cannot_be_ended_by_another_user(autojump_clock: object) -> None:
    deployment = Deployment()
    users = Users(deployment)
    client = users.client
    listen = client.request(
        "subscriptions/listen", {"notifications": {"resourceSubscriptions": ["shop://stock"]}}, id=7
    )

    async with deployment.open(), client.open("POST", listen, users.ada) as stream:
        assert (await stream.message())["method"] == "notifications/subscriptions/acknowledged"
        await client.post(client.notification("notifications/cancelled", {"requestId": 7}), users.bob)
        await trio.testing.wait_all_tasks_blocked()
        await client.post(client.call("stock"), users.bob)
        assert (await stream.message())["method"] == "notifications/resources/updated"


@pytest.mark.requirement("C.2-9")
@pytest.mark.parametrize("names_users", [False, True])
async def test_a_cache_does_not_return_a_private_result_to_another_user(
    names_users: bool, autojump_clock: object
) -> None:
    deployment, cache = Deployment(), ResponseCache()

    async def read(who: str) -> str:
        deployment.auth.settings.users = {who: "x"}
        shared = cache.for_server(URL, principal=who if names_users else None)
        async with deployment.client(user_credentials(deployment.auth), cache=shared) as client:
            [content] = (await client.read_resource("shop://stock")).contents
        assert isinstance(content, types.TextResourceContents)
        return content.text

    async with deployment.open():
        for who in ("ada", "bob", "ada"):
            assert await read(who) == f"what {who} may see"


@pytest.mark.requirement("C.3-4")
async def test_different_users_clients_and_issuers_have_different_principals(autojump_clock: object) -> None:
    other = login_server(EVIL)
    deployment = Deployment(others={EVIL: other}, options={"issuers": [ISSUER, EVIL]})
    alone = Deployment()
    names = list[str]()

    async def note(deployment: Deployment, auth: AuthorizationServer, subject: str, client_id: str = "client") -> None:
        token = auth.issue_token(resource=URL, subject=subject, client_id=client_id)
        async with deployment.client(None, headers=bearer(token)) as client:
            names.append(await call_text(client, "whoami"))

    async with deployment.open(), alone.open():
        await note(deployment, deployment.auth, "ada")
        await note(deployment, other, "ada")
        await note(alone, alone.auth, "ada")
        await note(alone, alone.auth, "ada", "ada")
        await note(alone, alone.auth, "client ada")

    assert names[2] == "ada"
    assert len({*names}) == len(names)
