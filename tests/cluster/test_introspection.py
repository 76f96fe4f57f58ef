"""Results of introspection in a service: the authorization server is asked once for all processes."""

from __future__ import annotations

import json
import math
from collections.abc import AsyncGenerator
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any

import trio
from attrs import evolve

from tests.auth.server.guard_client import GuardClient, access_of, guard_client, refusal_of
from tests.auth.signed_tokens import ISSUER, NOW, RESOURCE, Issuer
from tests.cluster.interrupted_backend import InterruptedShared
from trio_mcp.auth import HttpReply, IntrospectionVerifier, Registration, VerifiedToken
from trio_mcp.auth.server._introspection import SharedVerdict
from trio_mcp.cluster._keys import ClusterKeys
from trio_mcp.cluster._service import KeyedService

ENDPOINT = f"{ISSUER}/introspect"
CLAIMS = {
    "active": True,
    "sub": "ann",
    "client_id": "desk",
    "aud": RESOURCE,
    "scope": "read write",
    "exp": int(NOW) + 60,
    "acme": {"deep": [1, None, "ü"]},
}
SERVICE = b"the key of the service"


def reply(**members: Any) -> HttpReply:
    return HttpReply(status=200, body=json.dumps(members).encode())


@asynccontextmanager
async def processes(
    line: InterruptedShared, issuer: Issuer, keys: tuple[bytes, ...] = (SERVICE, SERVICE), **options: Any
) -> AsyncGenerator[list[GuardClient]]:
    """Yield clients of the guards of several processes."""
    clients: list[GuardClient] = []
    async with AsyncExitStack() as stack:
        for key in keys:
            settings: dict[str, Any] = {"client": Registration("api", secret="a secret"), "endpoint": ENDPOINT}
            verifier = IntrospectionVerifier(**{**settings, **options})
            clients.append(guard_client(issuer, verifier=verifier))
            state = await stack.enter_async_context(line.open())
            clients[-1].guard.shared = KeyedService(state, ClusterKeys([key]), keeps=True)
        yield clients


async def test_the_result_for_a_valid_token_is_known_to_all_processes(autojump_clock: object) -> None:
    issuer = Issuer(answers={ENDPOINT: reply(**CLAIMS)})
    async with processes(InterruptedShared(), issuer) as (one, other):
        first, second = access_of(await one("opaque")), access_of(await other("opaque"))

        assert len(issuer.calls) == 1
        assert first == second
        assert second.principal == "ann"
        assert second.scopes == {"read", "write"}
        assert second.claims == CLAIMS
        access_of(await other("another"))
        assert len(issuer.calls) == 2


async def test_the_result_for_a_refused_token_is_known_to_all_processes_for_a_minute(autojump_clock: object) -> None:
    issuer = Issuer(answers={ENDPOINT: reply(active=False)})
    async with processes(InterruptedShared(), issuer, (SERVICE,) * 3, cache_seconds=3600) as (one, other, third):
        for client in (one, other):
            refusal_of(await client("opaque"), 401, "invalid_token")
        assert len(issuer.calls) == 1
        await trio.sleep(60)

        refusal_of(await third("opaque"), 401, "invalid_token")
        assert len(issuer.calls) == 2


async def test_a_result_is_not_used_for_longer_because_it_is_shared(autojump_clock: object) -> None:
    issuer = Issuer(answers={ENDPOINT: reply(**CLAIMS)})
    async with processes(InterruptedShared(), issuer, cache_seconds=10) as (one, other):
        access_of(await one("opaque"))
        issuer.clock.now += 9
        access_of(await other("opaque"))
        assert len(issuer.calls) == 1
        issuer.answers[ENDPOINT] = reply(active=False)
        issuer.clock.now += 1  # the backend has kept it until now, by its own clock

        for client in (one, other):
            refusal_of(await client("opaque"), 401, "invalid_token")


async def test_a_result_from_the_future_is_not_used(autojump_clock: object) -> None:
    issuer = Issuer(answers={ENDPOINT: reply(**CLAIMS)})
    async with processes(InterruptedShared(), issuer) as (one, other):
        access_of(await one("opaque"))
        issuer.clock.now -= 5
        access_of(await other("opaque"))

    assert len(issuer.calls) == 2


async def test_processes_that_ask_in_another_way_have_their_own_results(autojump_clock: object) -> None:
    issuer, line = Issuer(answers={ENDPOINT: reply(**CLAIMS)}), InterruptedShared()
    other_client = Registration("another", secret="s")
    async with processes(line, issuer) as (one, _), processes(line, issuer, client=other_client) as (other, _):
        access_of(await one("opaque"))
        access_of(await other("opaque"))

    assert len(issuer.calls) == 2


async def test_without_the_backend_each_process_asks_the_authorization_server(autojump_clock: object) -> None:
    issuer, line = Issuer(answers={ENDPOINT: reply(**CLAIMS)}), InterruptedShared()
    async with processes(line, issuer) as (one, other):
        line.is_down = True
        access_of(await one("opaque"))
        access_of(await other("opaque"))

    assert len(issuer.calls) == 2


async def test_without_a_cache_nothing_is_shared() -> None:
    issuer, line, calls = Issuer(answers={ENDPOINT: reply(**CLAIMS)}), InterruptedShared(), list[str]()

    async def note(method: str, name: str) -> None:
        calls.append(name)

    line.before = note
    async with processes(line, issuer, cache_seconds=0) as (one, other):
        access_of(await one("opaque"))
        access_of(await other("opaque"))

    assert len(issuer.calls) == 2
    assert calls == []


async def test_whoever_can_write_to_the_backend_can_neither_read_nor_make_a_result(autojump_clock: object) -> None:
    issuer, line, names = Issuer(answers={ENDPOINT: reply(**CLAIMS)}), InterruptedShared(), dict[str, None]()

    async def note(method: str, name: str) -> None:
        names[name] = None

    line.before = note
    async with processes(line, issuer, (SERVICE, SERVICE, b"of a stranger")) as (one, other, stranger):
        access_of(await one("opaque"))
        access_of(await stranger("revoked"))  # who stores results for this token as well
        issuer.answers[ENDPOINT] = reply(active=False)
        line.before = None
        async with line.open() as state:
            valid, forged = [await state.get(name) for name in names]
            assert valid is not None
            assert forged is not None
            assert b"ann" not in valid
            line.before = note
            names.clear()
            refusal_of(await one("revoked"), 401, "invalid_token")
            line.before = None
            (name,) = names
            for value in (valid, forged):  # in place of the result of the refused token
                assert await state.swap(name, await state.get(name), value)
                refusal_of(await other("revoked"), 401, "invalid_token")
                issuer.clock.now += 10

    assert not any("opaque" in name or "revoked" in name for name in names)


async def test_results_that_cannot_be_written_or_read_again_are_not_shared(autojump_clock: object) -> None:
    token = VerifiedToken(
        issuer=ISSUER, subject="ann", client_id=None, audiences=(), scopes=frozenset(), expires_at=None
    )
    async with InterruptedShared().open() as state:
        service = KeyedService(state, ClusterKeys([SERVICE]), keeps=True)
        shared = SharedVerdict(service, "key", 10, Issuer().clock)
        await shared.keep(NOW, evolve(token, claims={"deep": math.nan}))
        assert await service.recall("key") is None
        await service.keep("key", b"[" * 100_000, seconds=10)

        assert await shared.find() is None
