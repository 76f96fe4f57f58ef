"""The in-process network of ASGI applications, each with its own origin."""

from __future__ import annotations

from contextlib import aclosing

import pytest

from trio_mcp.abc import HttpCall
from trio_mcp.testing import AsgiEngine, AsgiNetwork
from trio_mcp.transports import AsgiApp, EngineError, Receive, Scope, Send


def naming(name: str, log: list[str] | None = None) -> AsgiApp:
    """Return an application that responds with its name, the path and the address of the client."""
    noted = [] if log is None else log

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            for moment in ("startup", "shutdown"):
                await receive()
                noted.append(f"{name} {moment}")
                await send({"type": f"lifespan.{moment}.complete"})
            return
        body = f"{name} {scope['path']} {scope['client']}".encode()
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await send({"type": "http.response.body", "body": body + (await receive())["body"]})

    return app


async def ask(network: AsgiNetwork, url: str) -> str:
    """Return the body of the response at *url*."""
    async with network.request("POST", url, {}, b"!") as response, aclosing(response.chunks()) as chunks:
        return b"".join([chunk async for chunk in chunks]).decode()


async def test_requests_are_routed_to_the_application_of_their_origin() -> None:
    network = AsgiNetwork({"https://a.test": naming("a"), "http://b.test:8080/": naming("b")}, client=None)

    assert await ask(network, "https://a.test/x") == "a /x None!"
    assert await ask(network, "https://A.test:443/y") == "a /y None!"
    assert await ask(network, "http://b.test:8080") == "b / None!"
    await network.aclose()


async def test_a_request_reports_that_it_was_sent_and_has_a_loopback_client_address() -> None:
    network = AsgiNetwork({"https://a.test": naming("a")})
    sent: list[bool] = []

    async with network.request("GET", "https://a.test/", {}, on_sent=lambda: sent.append(True)):
        assert sent == [True]
    assert "('127.0.0.1', 50000)" in await ask(network, "https://a.test/")


@pytest.mark.parametrize("url", ["http://a.test/secret", "https://a.test:444/secret", "https://c.test/secret?x=1"])
async def test_a_request_to_an_unknown_origin_fails_to_connect(url: str) -> None:
    network = AsgiNetwork({"https://a.test": naming("a")})

    with pytest.raises(EngineError, match=r"no application listens at https?://[ac].test") as raised:
        await ask(network, url)

    assert not raised.value.sent
    assert "secret" not in str(raised.value)


async def test_the_lifespans_of_all_applications_run_for_the_duration_of_the_block() -> None:
    log: list[str] = []
    network = AsgiNetwork({"https://a.test": naming("a", log), "https://b.test": naming("b", log)})

    async with network.lifespan():
        assert log == ["a startup", "b startup"]

    assert log[2:] == ["b shutdown", "a shutdown"]


@pytest.mark.parametrize(
    "urls",
    [["https://a.test", "https://A.test:443"], ["https://a.test/path"], ["a.test"], ["https://"], ["ws://a.test"]],
)
def test_a_key_that_is_not_a_unique_origin_is_refused(urls: list[str]) -> None:
    with pytest.raises(ValueError, match="origin"):
        AsgiNetwork({url: naming("a") for url in urls})


@pytest.mark.parametrize("engine", [AsgiEngine(naming("a")), AsgiNetwork({"https://a.test": naming("a")})])
async def test_an_engine_makes_the_requests_of_authorization(engine: AsgiEngine | AsgiNetwork) -> None:
    reply = await engine.fetch(HttpCall(method="GET", url="https://a.test/keys", named_by="user"))

    assert (reply.status, reply.body[:8]) == (200, b"a /keys ")
