"""A process whose token is refused repeatedly, and which shares its token storage with other processes.

    refreshing.py STORAGE PORT ROUNDS

It sends its requests to the authorization server at PORT, one line of JSON for each request and each response.
"""

import json
import sys
from contextlib import nullcontext
from urllib.parse import parse_qsl

import trio

from trio_mcp.auth import FileTokenStorage, Grant, HttpCall, HttpReply
from trio_mcp.auth.client._steps import Flow, post_form
from trio_mcp.auth.client._token_endpoint import TokenAsk, Tokens

URL = "https://mcp.example.com/mcp"
PORT, ROUNDS = int(sys.argv[2]), int(sys.argv[3])


async def fetch(call: HttpCall) -> HttpReply:
    async with await trio.open_tcp_stream("127.0.0.1", PORT) as stream:
        await stream.send_all(json.dumps([call.url, dict(parse_qsl(call.body.decode()))]).encode() + b"\n")
        line = b"".join([bytes(chunk) async for chunk in stream])
    status, document = json.loads(line)
    return HttpReply(status=status, body=json.dumps(document).encode())


class Refreshing(Grant):
    @property
    def identity(self) -> str:
        return "refreshing"

    def obtain(self, ask: TokenAsk) -> Flow[Tokens]:
        raise AssertionError("a refresh token was lost")

    def refresh(self, ask: TokenAsk, refresh_token: str) -> Flow[Tokens]:
        form = {"grant_type": "refresh_token", "refresh_token": refresh_token}
        reply = yield from post_form(ask.token_issuer.server.token_endpoint, form, {})
        assert reply.status == 200, "an old refresh token was presented"
        members = json.loads(reply.body)
        return Tokens(
            access_token=members["access_token"],
            token_type="Bearer",
            expires_at=None,
            refresh_token=members["refresh_token"],
            scopes=None,
        )


async def main() -> None:
    grant = Refreshing(storage=FileTokenStorage(sys.argv[1]))
    async with trio.open_nursery() as nursery:
        source = grant.source(URL, fetch=fetch, nursery=nursery, asking_person=nullcontext)
        for _ in range(ROUNDS):
            for status in (200, 401):  # the token is taken, and the next time it is not
                attempt = source.attempt("POST", URL)
                assert "authorization" in await attempt.fields()
                if attempt.on_response(status, {}):
                    await attempt.resolve()


if __name__ == "__main__":
    trio.run(main)
