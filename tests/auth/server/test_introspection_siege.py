"""A sender of many invalid tokens, and a user with a valid one, at an authorization server over real sockets."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from functools import partial
from typing import Any
from urllib.parse import parse_qs

import pytest
import trio
import trio.testing
from attrs import define, field

from tests.auth.protected_server import LISTENING, protected_server
from tests.transports.http.asgi_caller import AsgiCaller, call
from trio_mcp import http_app
from trio_mcp.auth import IntrospectionVerifier, Registration, ResourceServer
from trio_mcp.auth.server import _introspection as introspection_module
from trio_mcp.transports import bind_sockets, serve_asgi
from trio_mcp.transports.http import _fetch as fetch_module
from trio_mcp.wire import encode

RESOURCE = "https://mcp.example/mcp"
GARBAGE, MOST = 800, 32


@define(eq=False)
class SlowEndpoint:
    """An introspection endpoint that knows one token, and answers questions about others when the test lets it."""

    running: int = 0
    most: int = 0
    """The greatest number of requests at once."""
    questions: int = 0
    connections: set[Any] = field(factory=set[Any])
    is_full: trio.Event = field(factory=trio.Event)
    """Set when there are as many requests at once as may be."""
    answers: trio.Semaphore = field(factory=lambda: trio.Semaphore(0))
    """A permit for each answer about an unknown token."""

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] != "http":
            return
        self.connections.add(tuple(scope["client"]))
        (token,) = parse_qs((await receive())["body"].decode())["token"]
        self.questions += 1
        self.running += 1
        self.most = max(self.most, self.running)
        if self.running == MOST:
            self.is_full.set()
        if token != "good":
            await self.answers.acquire()
        self.running -= 1
        body = encode({"active": token == "good", "sub": "ann", "aud": RESOURCE})
        headers = [(b"content-length", b"%d" % len(body))]
        await send({"type": "http.response.start", "status": 200, "headers": headers})
        await send({"type": "http.response.body", "body": body})


@asynccontextmanager
async def served(endpoint: SlowEndpoint) -> AsyncGenerator[str]:
    """Serve an introspection endpoint on a local socket; yield its URL."""
    sockets = await bind_sockets(LISTENING)
    serve = partial(
        serve_asgi, endpoint, LISTENING, stopping=trio.sleep_forever, drain=trio.sleep_forever, drain_seconds=0,
        sockets=sockets,
    )  # fmt: skip
    async with trio.open_nursery() as nursery:
        await nursery.start(serve)
        yield f"http://127.0.0.1:{sockets.bound.port}/introspect"
        nursery.cancel_scope.cancel()


def whoami(token: str, address: str) -> AsgiCaller:
    return AsgiCaller.post(call("whoami"), {"authorization": f"Bearer {token}"}, client=(address, 50_000))


async def test_a_user_is_served_while_another_sender_keeps_all_introspections_busy(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(introspection_module, "_WAIT_SECONDS", 1000.0)  # the machine may be slow
    monkeypatch.setattr(fetch_module, "FETCH_SECONDS", 1000.0)
    monkeypatch.setattr(fetch_module, "_CALL_SECONDS", (1000.0, 1000.0))
    endpoint = SlowEndpoint()
    with trio.fail_after(100):
        async with served(endpoint) as url, trio.open_nursery() as nursery:
            verifier = IntrospectionVerifier(url, client=Registration("api", secret="s3cret"))
            protection = ResourceServer(RESOURCE, issuers=["http://127.0.0.1:1"], verifier=verifier)
            app = http_app(protected_server(), auth=protection, allowed_hosts="any")
            async with app.run():
                attackers = [whoami(f"garbage-{number}", "192.0.2.1") for number in range(GARBAGE)]
                for each in attackers:
                    nursery.start_soon(each.run, app)
                await endpoint.is_full.wait()
                user = whoami("good", "192.0.2.2")
                nursery.start_soon(user.run, app)
                await trio.testing.wait_all_tasks_blocked()
                assert not user.returned.is_set()

                for _ in range(2):  # the first turn that ends goes to the sender that waits longer
                    endpoint.answers.release()
                await user.returned.wait()
                assert user.answer["result"]["structuredContent"] == {"result": "ann"}
                assert endpoint.questions <= MOST + 3
                again = await whoami("good", "192.0.2.2").run(app)
                assert again.status == 200

                for _ in range(GARBAGE):
                    endpoint.answers.release()
                for each in attackers:
                    await each.returned.wait()

    assert [each.status for each in attackers] == [401] * GARBAGE
    assert endpoint.most == MOST
    assert endpoint.questions == GARBAGE + 1
    assert len(endpoint.connections) < GARBAGE / 2
