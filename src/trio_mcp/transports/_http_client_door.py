"""The one door through which everything of a client goes out over HTTP: what each request carries is decided here.

Where there is something that shows who asks, it accompanies each request, hears what is answered, and may have it sent
once more. It says how often; here is no limit of that. What is said in passing (a farewell) is sent once.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable, Generator, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager, contextmanager

from attrs import define, field

from .._errors import AuthorizationFailed
from ..abc import Tap, TokenSource
from ..wire import EVENT_STREAM_TYPE, JSON_TYPE
from ._http_engine import HttpEngine, HttpResponse

__all__ = ["SHOWN_FIELDS", "HttpDoor"]

SHOWN_FIELDS = ("authorization", "dpop")
"""The header fields that show who asks."""

_TAKEN = f"{JSON_TYPE}, {EVENT_STREAM_TYPE}"


@define(eq=False)
class HttpDoor:
    """Requests to one server.

    Args:
        engine: carries them.
        url: where the server is.
        tap: sees each message, or None.
        fields: header fields of the caller's, which go with each request.
    """

    engine: HttpEngine
    url: str
    _tap: Tap | None
    _fields: Mapping[str, str] = field(repr=False)
    source: TokenSource | None = field(default=None, init=False)
    """What shows who asks, if that is not left to the fields."""
    is_reached: bool = field(default=False, init=False)
    """Whether the server has answered anything yet."""

    def post(
        self,
        url: str,
        line: bytes,
        fields: Mapping[str, str],
        on_sent: Callable[[], None] | None = None,
        *,
        is_farewell: bool = False,
    ) -> AbstractAsyncContextManager[HttpResponse]:
        """Post one message, which is to be entered at once; see `HttpEngine.request` for the rest.

        Args:
            line: the message, with its newline.
            fields: what goes with this one alone.
            is_farewell: whether it is not worth more than one try.

        Raises:
            AuthorizationFailed: the server wants to know who asks, and there is no token for it.
        """
        message = line.removesuffix(b"\n")
        if self._tap is not None:  # before it leaves: afterwards, the answer might be told first
            self._tap("sent", message)
        fields = {"content-type": JSON_TYPE, "accept": _TAKEN, **fields}
        return self._request("POST", url, fields, message, on_sent, is_farewell=is_farewell)

    def get(self, fields: Mapping[str, str]) -> AbstractAsyncContextManager[HttpResponse]:
        """Ask for an event stream; raises what `post` does."""
        return self._request("GET", self.url, {"accept": EVENT_STREAM_TYPE, **fields})

    def delete(self, fields: Mapping[str, str]) -> AbstractAsyncContextManager[HttpResponse]:
        """Say that what *fields* name is not needed any more, as a farewell; raises what `post` does."""
        return self._request("DELETE", self.url, fields, is_farewell=True)

    def received(self, message: bytes) -> None:
        """A message has come in."""
        if self._tap is not None:
            self._tap("received", message)

    def _request(
        self,
        method: str,
        url: str,
        fields: Mapping[str, str],
        content: bytes = b"",
        on_sent: Callable[[], None] | None = None,
        *,
        is_farewell: bool = False,
    ) -> AbstractAsyncContextManager[HttpResponse]:
        fields = {**self._fields, **fields}
        if self.source is None and self.is_reached:  # there is nothing to add, and nothing to note
            return self.engine.request(method, url, fields, content, on_sent=on_sent)
        return self._showing(method, url, fields, content, on_sent, is_farewell=is_farewell)

    @asynccontextmanager
    async def _showing(
        self,
        method: str,
        url: str,
        fields: Mapping[str, str],
        content: bytes,
        on_sent: Callable[[], None] | None,
        *,
        is_farewell: bool,
    ) -> AsyncGenerator[HttpResponse]:
        """Make a request that shows who asks, if there is something that does, and as often as that wants it."""
        with _failing_as_authorization():
            attempt = None if self.source is None else self.source.attempt(method, url)
        while True:
            headers = dict(fields)
            with _failing_as_authorization():
                if attempt is not None:
                    headers.update(await attempt.fields())
            async with self.engine.request(method, url, headers, content, on_sent=on_sent) as response:
                self.is_reached = True
                with _failing_as_authorization():
                    wants_more = attempt is not None and attempt.heard(response.status, response.headers)
                if attempt is None or not wants_more or is_farewell:
                    yield response
                    return
            with _failing_as_authorization():
                await attempt.settle()


@contextmanager
def _failing_as_authorization() -> Generator[None]:
    """Have one request fail, and no other, where what shows who asks raises something: it may be the application's."""
    try:
        yield
    except AuthorizationFailed:
        raise
    except Exception as exc:
        raise AuthorizationFailed(f"what shows the server who asks has raised {type(exc).__name__}") from exc
