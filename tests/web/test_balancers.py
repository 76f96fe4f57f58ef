"""A service of four processes with Redis, behind HAProxy and nginx, which send each request to the next process."""

from __future__ import annotations

import random
from collections.abc import AsyncGenerator
from pathlib import Path

import pytest
import trio

from tests.cluster.soak import Redis, Soak, fleet
from tests.conformance.runner.haproxy import balanced
from tests.web.nginx import nginx
from trio_mcp import Client


@pytest.fixture
async def redis() -> AsyncGenerator[Redis]:
    server = Redis()
    try:
        await server.start()
        yield server
    finally:
        await server.aclose()


async def test_a_rolling_restart_behind_haproxy_fails_no_call(redis: Redis, tmp_path: Path) -> None:
    async with fleet(redis.url, "--replayed", "--drain-delay", "1") as running:
        urls = [f"http://127.0.0.1:{port}/mcp" for port in running.ports]
        async with balanced(urls, tmp_path, "/readyz") as front:
            soak = Soak(running, random.Random(1), front)

            async def replace_all(_: Client) -> None:
                for port in running.ports:
                    await running.replace(port)
                    await trio.sleep(1)  # HAProxy has to find the new one, or there would be none at the end

            await soak.run(replace_all)

    assert soak.done["failed"] == 0
    assert soak.done["echo"] > 100
    assert soak.done["steps"] > 50
    assert soak.done["ask"] > 50


async def test_calls_questions_and_changes_behind_nginx_reach_the_process_that_they_belong_to(
    redis: Redis, tmp_path: Path
) -> None:
    async with fleet(redis.url) as running, nginx(tmp_path, running.ports, "proxy_read_timeout 1h") as port:
        soak = Soak(running, random.Random(2), f"http://127.0.0.1:{port}/mcp")

        async def wait(_: Client) -> None:
            await trio.sleep(3)

        await soak.run(wait)

    assert soak.done["failed"] == 0
    for what in ("echo", "steps", "ask", "changes"):
        assert soak.done[what] > 10, what
