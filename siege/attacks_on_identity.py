"""Attacks on identities: invalid tokens and proofs, pages of other sites, ambiguous requests, and thefts."""

from __future__ import annotations

import secrets
import sqlite3
from typing import Any

import trio

from .people import ATTACKER, PATH, USER, url_at
from .place import Place, flood, in_session
from .proofs import make_proof
from .sender import LEGACY, Http1, Reply, Sender
from .server import EVENTS

__all__ = ["cross_site", "framed_twice", "garbage_tokens", "locked_store", "preflights", "proofs", "theft"]

_GARBAGE_AT_ONCE = 40
"""More than the introspections that the server makes at once."""
_METADATA = f"/.well-known/oauth-protected-resource{PATH}"


async def garbage_tokens(place: Place) -> None:
    """Send tokens that nobody issued, each of them once."""
    sender = place.stranger

    async def post(connection: Http1) -> None:
        fields, body = sender.call("whoami")
        reply = await sender.post(connection, ({**fields, "authorization": f"Bearer {secrets.token_hex(64)}"}, body))
        if reply.status == 200:
            sender.seen.breach("a garbage token was accepted")

    await flood(sender, post, at_once=_GARBAGE_AT_ONCE)


async def proofs(place: Place) -> None:
    """Send a bound token with a new proof each time, and each proof twice."""
    sender, token, key = place.attacker, place.parties.bound_tokens[ATTACKER], place.parties.keys[ATTACKER]

    async def post(connection: Http1) -> None:
        fields, body = sender.call("whoami")
        proof = make_proof(key, token, "POST", url_at(place.port))
        request = ({**fields, "authorization": f"DPoP {token}", "dpop": proof}, body)
        first = await sender.post(connection, request)
        second = await sender.post(connection, request)
        if first.status == second.status == 200:
            sender.seen.breach("a proof of possession was accepted twice")

    await flood(sender, post)


async def locked_store(place: Place) -> None:
    """Lock the file of the event store, and call as a legacy client."""
    store = sqlite3.connect(place.folder / EVENTS, isolation_level=None)
    try:
        store.execute("BEGIN EXCLUSIVE")
        sender = place.attacker
        async with in_session(sender) as session:

            async def call(connection: Http1) -> None:
                await sender.post(connection, sender.call("add", {"a": 1, "b": 2}, session=session))
                await trio.sleep(0.05)

            await flood(sender, call)
    finally:
        store.close()


async def cross_site(place: Place) -> None:
    """Send what the page of another site can make a browser send."""
    sender = place.attacker

    async def get(connection: Http1) -> None:
        site = {"sec-fetch-site": "cross-site", "sec-fetch-mode": "no-cors", "sec-fetch-dest": "image"}
        for accept in ("*/*", "image/*, */*;q=0.8", "text/event-stream"):
            await connection.begin("GET", PATH, sender.fields({**site, "accept": accept}))
            if (await connection.head()).status_code == 200:
                sender.seen.breach(f"a page of another site was answered, with Accept: {accept}")
                raise trio.BrokenResourceError("left")  # the stream never ends
            await connection.finish()
        fields, body = sender.call("whoami")
        reply = await sender.post(connection, ({**fields, "origin": "https://evil.example"}, body))
        if reply.status == 200:
            sender.seen.breach("a page of another origin was answered")

    await flood(sender, get)


async def framed_twice(place: Place) -> None:
    """Send requests with two lengths and another request behind them, which must not be served."""
    sender = place.attacker
    while True:
        async with sender.connect() as connection:
            inner, body = sender.call("whoami")
            hidden = _raw("POST", {**inner, "content-length": str(len(body))}) + body
            fields = {**inner, "content-length": str(len(hidden) + 5), "transfer-encoding": "chunked"}
            await connection.send(_raw("POST", fields) + b"0\r\n\r\n" + hidden)
            received = b""
            with trio.move_on_after(2.0) as waiting:
                while data := await connection.receive():
                    received += data
            sender.seen.outcomes[received[9:12].decode() or "cut"] += 1
            if received.count(b"HTTP/1.1 ") > 1 or waiting.cancelled_caught:
                sender.seen.breach("a request behind one that was framed twice was served, or its connection was kept")
        await trio.sleep(0.01)


def _raw(method: str, fields: dict[str, str]) -> bytes:
    lines = [f"{method} {PATH} HTTP/1.1", *(f"{name}: {value}" for name, value in fields.items()), "", ""]
    return "\r\n".join(lines).encode()


async def preflights(place: Place) -> None:
    """Ask for permissions without end."""
    sender = place.stranger

    async def ask(connection: Http1) -> None:
        for path in (PATH, _METADATA):
            fields = {"origin": "https://evil.example", "access-control-request-method": "POST"}
            await connection.begin("OPTIONS", path, sender.fields(fields))
            await connection.reply()

    await flood(sender, ask)


async def theft(place: Place) -> None:
    """Steal session ids, event ids, states of questions, proofs and requests of the ordinary user, and use them."""
    while True:
        async with in_session(place.victim) as session:
            await _steal_session(place, session)
        await _steal_state(place)
        await _steal_proof(place)
        await trio.sleep(0.05)


async def _steal_session(place: Place, session: str) -> None:
    """Use the session of another, and its event ids; cancel its requests."""
    victim = place.victim
    async with victim.connect() as own:
        told = await victim.post(own, victim.call("whoami", session=session))
        events = [line[3:].strip().decode() for line in told.body.splitlines() if line.startswith(b"id:")]
        for thief in (place.attacker, place.stranger):
            async with thief.connect() as connection:
                await _refused(
                    thief, "a call in its session", await thief.post(connection, thief.call("whoami", session=session))
                )
            for event in [None, *events]:
                await _take_stream(thief, session, event)
            async with thief.connect() as connection:
                fields = thief.fields({"mcp-session-id": session, "mcp-protocol-version": LEGACY})
                await connection.begin("DELETE", PATH, fields)
                await _refused(thief, "the end of its session", await connection.reply())
        async with in_session(place.attacker) as other:
            for event in events:
                await _take_stream(place.attacker, other, event, may_open=True)
            await _cancel_others(place, session, other)


async def _take_stream(thief: Sender, session: str, event: str | None, *, may_open: bool = False) -> None:
    """Open the stream of a session after an event; the sightings notice the secret in it."""
    async with thief.connect() as connection:
        fields = {"mcp-session-id": session, "mcp-protocol-version": LEGACY, "accept": "text/event-stream"}
        if event is not None:
            fields["last-event-id"] = event
        await connection.begin("GET", PATH, thief.fields(fields))
        with trio.move_on_after(0.1):
            head = await connection.head()
            if head.status_code == 200 and not may_open:
                thief.seen.breach("the stream of another's session was opened")
            while await connection.data():
                pass


async def _cancel_others(place: Place, session: str, other: str) -> None:
    """Cancel requests by the ids that the ordinary user has, from another session."""
    victim, thief = place.victim, place.attacker
    async with victim.connect() as own, trio.open_nursery() as nursery:
        request = victim.call("wait", {"seconds": 0.2}, session=session)

        async def cancel() -> None:
            async with thief.connect() as connection:
                for number in range(60):
                    params = {"requestId": number}
                    await thief.post(
                        connection, thief.message("notifications/cancelled", params, session=other, is_request=False)
                    )

        nursery.start_soon(cancel)
        reply = await victim.post(own, request)
        if "result" not in (reply.message() or {}):
            thief.seen.breach("a request of the ordinary user was cancelled by another")


async def _steal_state(place: Place) -> None:
    """Answer the question of another."""
    victim, thief = place.victim, place.attacker
    async with victim.connect() as own:
        result: dict[str, Any] = (await victim.post(own, victim.call("ask", {"n": 1}))).message()["result"]
        responses = {key: {"action": "accept", "content": {"n": 1}} for key in result["inputRequests"]}
        answer: dict[str, Any] = {"requestState": result["requestState"], "inputResponses": responses}
        async with thief.connect() as connection:
            request = thief.call("ask", {"n": 1}, **answer)
            await _refused(thief, "an answer to its question", await thief.post(connection, request))
        reply = await victim.post(own, victim.call("ask", {"n": 1}, **answer))
        if reply.message()["result"].get("structuredContent") != {"n": 1}:
            thief.seen.breach(f"the ordinary user could not answer its question: {reply.body[:200]!r}")


async def _steal_proof(place: Place) -> None:
    """Use the bound token of another, with its used proof and without one."""
    token, key = place.parties.bound_tokens[USER], place.parties.keys[USER]
    proof = make_proof(key, token, "POST", url_at(place.port))
    bound = {"authorization": f"DPoP {token}", "dpop": proof}
    async with place.victim.connect() as own:
        fields, body = place.victim.call("whoami")
        await place.victim.post(own, ({**fields, **bound}, body))
    async with place.stranger.connect() as connection:
        own_proof = make_proof(place.parties.keys[ATTACKER], token, "POST", url_at(place.port))
        for stolen in (bound, {"authorization": f"Bearer {token}"}, {**bound, "dpop": own_proof}):
            fields, body = place.stranger.call("whoami")
            reply = await place.stranger.post(connection, ({**fields, **stolen}, body))
            await _refused(place.stranger, "a bound token", reply)


async def _refused(thief: Sender, what: str, reply: Reply) -> None:
    """Note a breach if a thief got what it wanted."""
    await trio.lowlevel.checkpoint()
    if reply.status < 300 and "error" not in (reply.message() or {}):
        thief.seen.breach(f"another used of the ordinary user: {what}; the answer was {reply.body[:200]!r}")
