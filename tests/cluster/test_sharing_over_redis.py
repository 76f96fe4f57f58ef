"""What real processes of a service share on Redis: work that is done once, rate limits, proofs, introspection."""

from __future__ import annotations

import gc
import json
import os
import secrets
import subprocess
import sys
from collections.abc import AsyncGenerator, Generator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
import trio

from tests.auth.signed_tokens import ISSUER, RESOURCE, Issuer
from tests.interaction.raw_http_client import RawHttpClient
from tests.shared.redis_process import SERVER, RedisProcess
from trio_mcp import RedisShared, Server, http_app
from trio_mcp.auth import HttpReply, IntrospectionVerifier, Registration, ResourceServer
from trio_mcp.auth._dpop import DpopKey
from trio_mcp.testing import AsgiEngine
from trio_mcp.transports.http._http1_engine import Http1Engine
from trio_mcp.wire import CAPABILITIES_KEY

if SERVER is None and "CI" not in os.environ:
    pytest.skip("redis-server is not installed here", allow_module_level=True)

pytestmark = pytest.mark.filterwarnings("ignore:Unclosed <MemoryObject:ResourceWarning")  # coredis does not close them

PROGRAM = Path(__file__).parent / "programs" / "sharing.py"
ROOTS: dict[str, Any] = {CAPABILITIES_KEY: {"roots": {}}}


@pytest.fixture(scope="module")
def redis(tmp_path_factory: pytest.TempPathFactory) -> Generator[RedisProcess]:
    server = RedisProcess(tmp_path_factory.mktemp("redis"))
    server.start()
    yield server
    server.kill()
    gc.collect()


@pytest.fixture
def urls(redis: RedisProcess, tmp_path: Path) -> Generator[list[str]]:
    """The URLs of two processes."""
    command = [sys.executable, str(PROGRAM), f"redis://{redis.name}", secrets.token_hex(4), str(tmp_path / "journal")]
    processes = [subprocess.Popen(command, stdout=subprocess.PIPE, text=True) for _ in range(2)]
    yield [each.stdout.readline().strip() for each in processes if each.stdout is not None]
    for each in processes:
        each.kill()
        each.communicate()


@asynccontextmanager
async def clients_of(urls: list[str]) -> AsyncGenerator[list[RawHttpClient]]:
    engine = Http1Engine()
    try:
        with trio.fail_after(120):
            yield [RawHttpClient(engine, url=url) for url in urls]
    finally:
        await engine.aclose()


async def test_a_retry_that_reaches_two_processes_at_once_has_its_effect_once(urls: list[str], tmp_path: Path) -> None:
    results: list[Any] = []

    async def buy(client: RawHttpClient) -> None:
        results.append((await client.post(retry)).answer["result"]["structuredContent"])

    async with clients_of(urls) as clients:
        interim = (await clients[0].post(clients[0].call("buy", meta=ROOTS))).answer["result"]
        (key,) = interim["inputRequests"]
        retry = clients[0].call("buy", meta=ROOTS)
        retry["params"] |= {"requestState": interim["requestState"], "inputResponses": {key: {"roots": []}}}
        async with trio.open_nursery() as nursery:
            for client in clients:
                nursery.start_soon(buy, client)

    assert results[0] == results[1]
    assert sorted((tmp_path / "journal").read_text().split()) == ["paid", "reached", "reached"]


async def test_the_processes_admit_together_what_one_process_would(urls: list[str]) -> None:
    admitted = 0

    async def call(client: RawHttpClient) -> None:
        nonlocal admitted
        for _ in range(15):
            got = await client.post(client.call("dig"))
            admitted += "result" in got.answer

    async with clients_of(urls) as clients, trio.open_nursery() as nursery:
        for client in clients * 2:
            nursery.start_soon(call, client)

    assert 25 <= admitted <= 40  # the last reserve of a process may be unused


@asynccontextmanager
async def protected(
    redis: RedisProcess, issuer: Issuer, keys: Sequence[bytes] = (), **options: Any
) -> AsyncGenerator[list[RawHttpClient]]:
    """Yield clients of two protected processes of one service."""
    prefix, clients = secrets.token_hex(4), list[RawHttpClient]()
    with trio.fail_after(120):
        async with AsyncExitStack() as stack:
            for _ in range(2):
                server = Server("protected", keys=keys)
                server.tool(name="dig")(lambda: "done")
                settings: dict[str, Any] = {name: make() for name, make in options.items()}
                auth = ResourceServer(RESOURCE, issuers=[ISSUER], fetch=issuer, clock=issuer.clock, **settings)
                shared = RedisShared(f"redis://{redis.name}", prefix=prefix)
                engine = AsgiEngine(http_app(server, auth=auth, shared=shared))
                await stack.enter_async_context(engine.lifespan())
                clients.append(RawHttpClient(engine, url=RESOURCE))
            yield clients


async def test_a_proof_is_accepted_by_one_process_only(redis: RedisProcess) -> None:
    issuer, key = Issuer(), DpopKey.generate()
    token = issuer.token(cnf={"jkt": key.thumbprint})
    proof = key.proof("POST", RESOURCE, now=issuer.clock(), token=token)
    fields = {"authorization": f"DPoP {token}", "dpop": proof}

    async with protected(redis, issuer) as clients:
        statuses = [(await client.post(client.request("tools/list"), headers=fields)).status for client in clients]

    assert statuses == [200, 401]


@pytest.mark.parametrize(("keys", "asked"), [([bytes(32)], 1), ([], 2)])
async def test_the_authorization_server_is_asked_once_about_a_token_if_the_key_is_not_on_redis(
    keys: Sequence[bytes], asked: int, redis: RedisProcess
) -> None:
    endpoint = f"{ISSUER}/introspect"
    issuer = Issuer()
    answer = {"active": True, **issuer.claims()}
    issuer.answers[endpoint] = HttpReply(status=200, body=json.dumps(answer).encode())

    def verifier() -> IntrospectionVerifier:
        return IntrospectionVerifier(client=Registration("api", secret="s"), endpoint=endpoint)

    async with protected(redis, issuer, keys, verifier=verifier) as clients:
        for client in clients:
            fields = {"authorization": "Bearer opaque"}
            assert (await client.post(client.request("tools/list"), headers=fields)).status == 200

    assert len(issuer.calls) == asked
