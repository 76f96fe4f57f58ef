"""The raw sender of a siege: it notices secrets, counts responses, and survives cut connections."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import trio
import trio.testing

from siege.hostile import TOOLS, answers
from siege.people import ATTACKER, USER, Parties, make_secrets
from siege.proofs import generate_key, make_proof, thumbprint
from siege.sender import Reply, Sender, Sightings

SECRET = b"secret-1234"
OK = b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\n{}"


@asynccontextmanager
async def scripted_server(*chunks: bytes) -> AsyncGenerator[int]:
    """Serve connections: after the first request of each, send these chunks one by one, and close it."""

    async def serve(stream: trio.SocketStream) -> None:
        async with stream:
            await stream.receive_some()
            for chunk in chunks:
                await stream.send_all(chunk)
                await trio.testing.wait_all_tasks_blocked()

    async with trio.open_nursery() as nursery:
        (listener,) = await trio.open_tcp_listeners(0, host="127.0.0.1")
        nursery.start_soon(trio.serve_listeners, serve, [listener])
        yield listener.socket.getsockname()[1]
        nursery.cancel_scope.cancel()


async def test_a_secret_that_arrives_in_two_parts_is_a_breach() -> None:
    seen = Sightings(SECRET)
    head = b"HTTP/1.1 200 OK\r\ncontent-length: 15\r\n\r\n"
    async with (
        scripted_server(head + b"..secret", b"-1234..") as port,
        Sender(port, "127.0.0.1", "token", seen).connect() as connection,
    ):
        await connection.begin("GET", "/mcp", {"host": "x"})
        assert (await connection.reply()).body == b"..secret-1234.."

    assert seen.breaches == ["the secret of the ordinary user was received by another"]
    assert seen.json() == {"outcomes": {"200": 1}, "breaches": seen.breaches}


async def test_a_connection_without_a_response_is_counted_as_cut() -> None:
    seen = Sightings(SECRET)
    async with scripted_server() as port, Sender(port, "127.0.0.1", None, seen).connect() as connection:
        await connection.begin("GET", "/mcp", {"host": "x"})
        await connection.head()

    assert (dict(seen.outcomes), seen.breaches) == ({"cut": 1}, [])


async def test_a_response_is_read_to_its_end_and_counted() -> None:
    seen = Sightings(SECRET)
    async with scripted_server(OK[:20], OK[20:]) as port:
        sender = Sender(port, "127.0.0.1", "token", seen)
        async with sender.connect() as connection:
            assert (await sender.post(connection, sender.call("add", {"a": 1}))).message() == {}

    assert dict(seen.outcomes) == {"200": 1}


def test_the_last_message_of_an_event_stream_is_its_answer() -> None:
    body = b'id: 1\ndata:\n\nevent: message\ndata: {"id": 1}\n\ndata: {"id": 2}\n\n'

    assert Reply(200, {}, body).message() == {"id": 2}
    assert Reply(202, {}, b"").message() is None


def test_the_credentials_are_read_as_they_were_written(tmp_path: Path) -> None:
    tokens = {USER: "a", ATTACKER: "b"}
    parties = Parties(
        issuer="http://127.0.0.1:1", server_secret="s", tokens=tokens, bound_tokens={}, keys={}, secrets=make_secrets()
    )
    parties.write(tmp_path)

    assert Parties.read(tmp_path) == parties
    assert parties.secrets[USER] != parties.secrets[ATTACKER]


def test_each_proof_is_a_new_one() -> None:
    key = generate_key()
    one, other = (make_proof(key, "token", "POST", "http://127.0.0.1/mcp") for _ in range(2))

    assert one != other
    assert thumbprint(key) == thumbprint(key)


def test_the_hostile_server_offers_and_answers_its_tools() -> None:
    def result(method: str, **params: object) -> Any:
        (message,) = answers({"id": 1, "method": method, "params": params})
        return message.get("result")

    assert [tool["name"] for tool in result("tools/list")["tools"]] == [*TOOLS]
    assert result("tools/call", name="hostile_chain_14")["structuredContent"] == {"x": "no"}
    assert result("initialize")["serverInfo"]["name"] == "hostile"
    assert result("server/discover") is None
    assert [*answers({"method": "notifications/initialized"})] == []
