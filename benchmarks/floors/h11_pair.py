"""The floor for HTTP in Python on Trio with a parser in Python: h11 to h11, and nothing else."""

from __future__ import annotations

import h11
import trio

from .calls_only import answer
from .kept_connections import ClientConnection, KeptConnectionsFloor

__all__ = ["H11Floor"]

READ_BYTES = 2**16
JSON = ("Content-Type", "application/json")


class H11Client:
    """See `ClientConnection`."""

    def __init__(self, stream: trio.SocketStream, host: str) -> None:
        self.stream = stream
        self.host = host
        self.connection = h11.Connection(h11.CLIENT)

    async def post(self, body: bytes) -> bytes:
        """Send a request and read its response."""
        connection = self.connection
        fields = [("Host", self.host), JSON, ("Content-Length", str(len(body)))]
        head = connection.send(h11.Request(method="POST", target="/", headers=fields)) or b""
        data = connection.send(h11.Data(data=body)) or b""
        await self.stream.send_all(head + data + (connection.send(h11.EndOfMessage()) or b""))
        answered = await _message(connection, self.stream)
        connection.start_next_cycle()
        return answered or b""


class H11Floor(KeptConnectionsFloor):
    """See `sides.Adapter`."""

    def client_connection(self, stream: trio.SocketStream, host: str) -> ClientConnection:
        """See `KeptConnectionsFloor`."""
        return H11Client(stream, host)

    async def serve_connection(self, stream: trio.SocketStream) -> None:
        """See `KeptConnectionsFloor`."""
        connection = h11.Connection(h11.SERVER)
        while (body := await _message(connection, stream)) is not None:
            content = answer(body)
            fields = [JSON, ("Content-Length", str(len(content)))]
            head = connection.send(h11.Response(status_code=200, headers=fields)) or b""
            data = connection.send(h11.Data(data=content)) or b""
            await stream.send_all(head + data + (connection.send(h11.EndOfMessage()) or b""))
            connection.start_next_cycle()


async def _message(connection: h11.Connection, stream: trio.SocketStream) -> bytes | None:
    """Return the body of the next message; None if the other side has closed."""
    body = b""
    while True:
        event = connection.next_event()
        if event is h11.NEED_DATA:
            connection.receive_data(await stream.receive_some(READ_BYTES))
        elif isinstance(event, h11.Data):
            body += event.data
        elif isinstance(event, h11.EndOfMessage):
            return body
        elif isinstance(event, h11.ConnectionClosed):
            return None
