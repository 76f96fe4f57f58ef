"""The hosts that the user trusts by name."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
import trio

from trio_mcp.auth import HttpCall, HttpReply
from trio_mcp.auth.client._steps import trusting


@pytest.mark.parametrize(
    ("trusted", "url", "expected"),
    [
        (["as.test"], "https://as.test/x", "user"),
        (["AS.test"], "http://as.TEST:8080/x", "user"),
        (["[::1]"], "http://[::1]:80/", "user"),
        (["as.test"], "https://other.test/as.test", "server"),
        (["as.test"], "https://as.test.evil.test/", "server"),
        (["as.test"], "https://as.test@evil.test/", "server"),
        (["as.test"], "https://evil.test\\@as.test/", "server"),
        ([], "https://as.test/", "server"),
    ],
)
async def test_a_trusted_host_counts_as_chosen_by_the_user(trusted: Sequence[str], url: str, expected: str) -> None:
    calls: list[HttpCall] = []

    async def fetch(call: HttpCall) -> HttpReply:
        await trio.lowlevel.checkpoint()
        calls.append(call)
        return HttpReply(status=200)

    sent = HttpCall(method="POST", url=url, headers={"a": "b"}, body=b"x", named_by="server")
    reply = await trusting(fetch, trusted)(sent)

    (call,) = calls
    assert reply.status == 200
    assert (call.url, call.headers, call.body, call.named_by) == (url, sent.headers, b"x", expected)
