"""Runs of curl, and what they print."""

from __future__ import annotations

import json
from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import asynccontextmanager
from functools import partial
from subprocess import PIPE
from typing import Any

import trio
from attrs import define, field, frozen

from tests.web.web_server import fields_of
from trio_mcp.wire import JsonObject, SseDecoder, SseEvent, encode

_QUIET = ("curl", "--silent", "--show-error", "--noproxy", "*")
_REPORT = "\n%{json}"
"""Curl appends its own report to what it has received."""


@frozen
class CurlReply:
    """What one request has received."""

    body: str
    report: Mapping[str, Any]
    """Curl's variables, such as `http_version` and `num_connects`."""

    @property
    def status(self) -> int:
        return int(self.report["response_code"])

    @property
    def message(self) -> Any:
        """The message in the body, in JSON or as the last event."""
        if self.report["content_type"] == "application/json":
            return json.loads(self.body)
        return json.loads(self.events[-1].data)

    @property
    def events(self) -> Sequence[SseEvent]:
        return SseDecoder(2**24).feed(self.body.encode())


def header_options(fields: Mapping[str, str]) -> list[str]:
    """Return the options that send these header fields."""
    return [part for name, value in fields.items() for part in ("--header", f"{name}: {value}")]


def post_options(message: JsonObject, session: str | None = None) -> list[str]:
    """Return the options of a POST of *message*, whose bytes curl reads from a file or its standard input."""
    return [*header_options(fields_of(message, session)), "--data-binary", "@-"]


async def curl(*arguments: str, body: bytes = b"") -> CurlReply:
    """Make one request.

    Args:
        arguments: options, and the URL.
        body: the standard input.
    """
    run = partial(trio.run_process, stdin=body, capture_stdout=True, capture_stderr=True, check=False)
    done = await run([*_QUIET, "--write-out", _REPORT, *arguments])
    assert done.returncode == 0, (done.returncode, done.stderr)
    received, _, report = done.stdout.decode().rpartition("\n")
    return CurlReply(received, json.loads(report))


async def curl_post(url: str, message: JsonObject, *arguments: str, session: str | None = None) -> CurlReply:
    """POST a message, with further options."""
    return await curl(*post_options(message, session), *arguments, url, body=encode(message))


@define(eq=False)
class CurlStream:
    """A response that is read while curl receives it."""

    _stdout: trio.abc.ReceiveStream
    _decoder: SseDecoder = field(factory=lambda: SseDecoder(2**24), init=False)
    _events: list[SseEvent] = field(factory=list[SseEvent], init=False)

    async def event(self) -> SseEvent:
        """Wait for the next event with data."""
        while True:
            while not self._events:
                chunk = await self._stdout.receive_some()
                assert chunk, "the stream has ended"
                self._events += self._decoder.feed(bytes(chunk))
            event = self._events.pop(0)
            if event.data:
                return event

    async def message(self) -> Any:
        """Wait for the next message."""
        return json.loads((await self.event()).data)

    async def wait_ended(self) -> None:
        """Wait for the end of the response, which must have nothing more."""
        async for chunk in self._stdout:
            assert not self._decoder.feed(bytes(chunk))


@asynccontextmanager
async def curl_streaming(*arguments: str, body: bytes = b"") -> AsyncGenerator[CurlStream]:
    """Make one request, and read its response during the block; then curl is ended."""
    async with trio.open_nursery() as nursery:
        start = partial(trio.run_process, [*_QUIET, "--no-buffer", *arguments], stdin=body, stdout=PIPE)
        process = await nursery.start(start)
        yield CurlStream(process.stdout)
        nursery.cancel_scope.cancel()
