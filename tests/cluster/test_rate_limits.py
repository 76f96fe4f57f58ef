"""`RateLimit` in a service: the processes admit together what one process would."""

from __future__ import annotations

import gc
import os
import secrets
import subprocess
import sys
from collections.abc import AsyncGenerator, Generator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
import trio

from tests.cluster.interrupted_backend import InterruptedShared
from tests.interaction.over_cluster import cluster
from tests.interaction.raw_http_client import RawHttpClient
from tests.shared.redis_process import SERVER, RedisProcess
from trio_mcp import RateLimit, Server
from trio_mcp.peer import BUSY

BURST = 12


def make_server(burst: int = BURST) -> Server:
    """Return a server whose limit lets nothing more pass within a test."""
    server = Server("s", middleware=[RateLimit(per_second=0.001, burst=burst, methods={"tools/call"})])
    for name in ("dig", "fill"):
        server.tool(name=name)(lambda: "done")
    return server


@asynccontextmanager
async def served(nodes: int, *bursts: int) -> AsyncGenerator[tuple[InterruptedShared, list[RawHttpClient]]]:
    line: Any = InterruptedShared()
    each = iter(bursts or [BURST] * nodes)
    with trio.fail_after(60):
        async with cluster(lambda: make_server(next(each)), nodes, shared=line) as balanced:
            yield line, [RawHttpClient(engine) for engine in balanced.engines]


async def admitted(client: RawHttpClient, tool: str = "dig", calls: int = BURST + 5) -> int:
    """Call a tool as often; return the number of calls that were admitted."""
    count = 0
    for _ in range(calls):
        got = await client.post(client.call(tool))
        if got.status == 200 and "result" in got.answer:
            count += 1
        else:
            assert got.code == BUSY
            assert got.answer["error"]["data"]["retryAfterSeconds"] > 100
    return count


async def test_the_processes_admit_together_what_one_process_would() -> None:
    async with served(3) as (_, clients):
        counts = [await admitted(client, calls=5) for client in clients]

        assert sum(counts) + await admitted(clients[0]) == BURST


async def test_calls_at_the_same_time_are_limited_together() -> None:
    counts = list[int]()

    async def call(client: RawHttpClient) -> None:
        counts.append(await admitted(client, calls=5))

    async with served(3) as (_, clients):
        async with trio.open_nursery() as nursery:
            for client in clients * 3:
                nursery.start_soon(call, client)

        assert BURST - 6 <= sum(counts) <= BURST


async def test_each_tool_has_its_own_bucket_in_the_service() -> None:
    async with served(2) as (_, (one, other)):
        assert await admitted(one) == BURST

        assert await admitted(other, "fill") == BURST
        assert await admitted(other) == 0


async def test_limits_with_other_settings_have_their_own_buckets() -> None:
    async with served(2, BURST, 3) as (_, (one, other)):
        assert [await admitted(client) for client in (one, other)] == [BURST, 3]


async def test_without_the_backend_each_process_has_buckets_of_its_own() -> None:
    async with served(2) as (line, (one, other)):
        assert await admitted(one, calls=4) == 4
        line.is_down = True

        counts = [await admitted(client) for client in (one, other)]

        assert BURST <= counts[0] <= BURST + 2  # it has a reserve
        assert counts[1] == BURST


PROGRAM = """
import sys
import trio
from trio_mcp import RedisShared
from trio_mcp.cluster._buckets import SharedBuckets


async def main() -> None:
    taken = 0
    async with RedisShared(sys.argv[1], prefix=sys.argv[2]).open() as state:
        buckets = SharedBuckets(state)
        print("ready", flush=True)
        await trio.to_thread.run_sync(sys.stdin.readline)
        while await buckets.take("service/bucket/test", 1e-6, 500) == 0:
            taken += 1
    print(taken, flush=True)


trio.run(main)
"""


@pytest.fixture
def redis(tmp_path: Path) -> Generator[RedisProcess]:
    if SERVER is None and "CI" not in os.environ:
        pytest.skip("redis-server is not installed here")
    server = RedisProcess(tmp_path)
    server.start()
    yield server
    server.kill()
    gc.collect()


def test_real_processes_take_together_what_a_bucket_on_redis_has(redis: RedisProcess) -> None:
    command = [sys.executable, "-c", PROGRAM, f"redis://{redis.name}", secrets.token_hex(4)]
    processes = [subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) for _ in range(3)]
    for each in processes:
        assert each.stdout is not None
        assert each.stdout.readline() == "ready\n"
    for each in processes:
        assert each.stdin is not None
        each.stdin.write("\n")
        each.stdin.flush()
    taken = [int(each.communicate(timeout=120)[0]) for each in processes]

    assert max(taken) > 0
    assert 350 <= sum(taken) <= 500  # the last reserves may be unused
