"""Proofs of DPoP in a service: one that a process has accepted is refused by all others."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any

import pytest
import trio

from tests.auth.server.guard_client import GuardClient, access_of, guard_client, refusal_of
from tests.auth.signed_tokens import ISSUER, NOW, RESOURCE, Issuer
from tests.cluster.interrupted_backend import MESSAGE, InterruptedShared
from tests.interaction.raw_http_client import RawHttpClient
from trio_mcp import Server, http_app
from trio_mcp.auth import ResourceServer
from trio_mcp.auth._dpop import DpopKey
from trio_mcp.cluster._keys import ClusterKeys
from trio_mcp.cluster._service import KeyedService
from trio_mcp.testing import AsgiEngine

KEY = DpopKey.generate()


@asynccontextmanager
async def processes(line: InterruptedShared, count: int = 2) -> AsyncGenerator[list[GuardClient]]:
    """Yield clients of the guards of several processes."""
    issuer, clients = Issuer(), list[GuardClient]()
    async with AsyncExitStack() as stack:
        for _ in range(count):
            clients.append(guard_client(issuer))
            state = await stack.enter_async_context(line.open())
            clients[-1].guard.shared = KeyedService(state, ClusterKeys([b"the key of the service"]), keeps=True)
        yield clients


def bound(issuer: Issuer) -> str:
    return issuer.token(cnf={"jkt": KEY.thumbprint})


def proof_of(token: str, made: float = NOW) -> str:
    return KEY.proof("POST", RESOURCE, now=made, token=token)


async def test_a_proof_that_one_process_has_accepted_is_refused_by_another(caplog: pytest.LogCaptureFixture) -> None:
    async with processes(InterruptedShared()) as (one, other):
        token = bound(one.issuer)
        proof = proof_of(token)
        access_of(await one(token, scheme="DPoP", proof=proof))

        refusal_of(await other(token, scheme="DPoP", proof=proof), 401, "invalid_dpop_proof")
        access_of(await other(token, scheme="DPoP", proof=proof_of(token)))
    assert "another process of the service has accepted it before" in caplog.text


@pytest.mark.parametrize("made", [-299, 0, 299])
async def test_a_proof_is_remembered_until_it_is_too_old_for_every_process(made: int, autojump_clock: object) -> None:
    async with processes(InterruptedShared(), 3) as (one, other, third):
        token = one.issuer.token(cnf={"jkt": KEY.thumbprint}, exp=int(NOW) + 10_000)
        proof = proof_of(token, NOW + made)
        access_of(await one(token, scheme="DPoP", proof=proof))
        await trio.sleep(made + 300 + 59)  # its clock is one minute late

        refusal_of(await other(token, scheme="DPoP", proof=proof), 401, "invalid_dpop_proof")
        await trio.sleep(2)
        access_of(await third(token, scheme="DPoP", proof=proof))  # whose clock stands still


async def test_a_proof_is_refused_while_it_is_unknown_whether_it_was_used(caplog: pytest.LogCaptureFixture) -> None:
    line = InterruptedShared()
    async with processes(line) as (one, other):
        token = bound(one.issuer)
        line.is_down = True

        refusal = refusal_of(await one(token, scheme="DPoP", proof=proof_of(token)), 503)
        assert refusal.headers["retry-after"] == "10"
        assert refusal.error is not None
        assert MESSAGE not in refusal.error.message
        access_of(await other(one.issuer.token()))  # bearer tokens have no proofs
    assert MESSAGE in caplog.text


async def test_only_bound_tokens_cost_a_round_trip() -> None:
    line, calls = InterruptedShared(), list[str]()

    async def note(method: str, name: str) -> None:
        calls.append(name)

    line.before = note
    async with processes(line) as (one, _):
        access_of(await one(one.issuer.token()))
        assert calls == []
        token = bound(one.issuer)
        access_of(await one(token, scheme="DPoP", proof=proof_of(token)))

    (name,) = calls
    assert name.partition("/first/")[2].isalnum()
    assert KEY.thumbprint not in name


async def test_the_processes_of_a_service_share_the_memory_of_proofs() -> None:
    issuer, line = Issuer(), InterruptedShared()
    shared: Any = line

    def app() -> Any:
        server = Server("protected")
        server.tool(name="dig")(lambda: "done")
        protection = ResourceServer(RESOURCE, issuers=[ISSUER], fetch=issuer, clock=issuer.clock)
        return http_app(server, auth=protection, shared=shared)

    with trio.fail_after(60):
        async with AsyncExitStack() as stack:
            engines = [AsgiEngine(app()) for _ in range(2)]
            for engine in engines:
                await stack.enter_async_context(engine.lifespan())
            one, other = [RawHttpClient(engine, url=RESOURCE) for engine in engines]
            token = bound(issuer)
            fields = {"authorization": f"DPoP {token}", "dpop": proof_of(token)}
            assert (await one.post(one.request("tools/list"), headers=fields)).status == 200

            assert (await other.post(other.request("tools/list"), headers=fields)).status == 401
