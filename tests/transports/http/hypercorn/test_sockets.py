"""Listening sockets: TCP ports, Unix sockets, and errors that name the address."""

from __future__ import annotations

import errno
import os
import socket
from pathlib import Path
from typing import Any

import pytest
import trio

from tests.transports.http.resolver import FakeResolver
from tests.transports.http.socket_clients import OK, App, get, read_all, read_until, serving
from trio_mcp.transports import Bound, HttpListening, bind_sockets
from trio_mcp.transports.http.hypercorn import _sockets as _hypercorn_sockets

needs_ipv6 = pytest.mark.skipif(not socket.has_ipv6, reason="there is no IPv6 here")


async def test_a_free_port_is_bound_and_reported() -> None:
    with await bind_sockets(HttpListening(port=0)) as sockets:
        port = sockets.sockets[0].getsockname()[1]

        assert sockets.bound == Bound((f"http://127.0.0.1:{port}",), port)


async def test_a_port_can_be_bound_again_at_once() -> None:
    async with serving(App()) as served:
        stream = await served.connect()
        await stream.send_all(get("/", "connection: close"))
        assert (await read_all(stream)).startswith(OK)
        port = served.bound.port  # the system remembers the connection for a while, because the server has closed it

    async with serving(App(), port=port) as served:
        assert await served.serves_others()


async def test_a_port_in_use_is_refused_with_a_reason() -> None:
    async with serving(App()) as served:
        with pytest.raises(OSError, match=r"cannot listen on 127\.0\.0\.1:") as caught:
            await bind_sockets(HttpListening(port=served.bound.port or 0))

    assert caught.value.errno == errno.EADDRINUSE


async def test_an_unknown_name_is_refused_with_a_reason() -> None:
    with pytest.raises(OSError, match=r"cannot listen on no-such-host\.invalid:8000: ") as caught:
        await bind_sockets(HttpListening(host="no-such-host.invalid"))

    assert caught.type is socket.gaierror


async def test_an_address_of_another_machine_is_refused_with_a_reason() -> None:
    with pytest.raises(OSError, match=r"cannot listen on 192\.0\.2\.1:8000: Cannot assign") as caught:
        await bind_sockets(HttpListening(host="192.0.2.1"))

    assert caught.value.errno == errno.EADDRNOTAVAIL


@needs_ipv6
async def test_the_url_of_an_ipv6_address_has_brackets() -> None:
    with await bind_sockets(HttpListening(host="::1", port=0)) as sockets:
        assert sockets.bound.urls == (f"http://[::1]:{sockets.bound.port}",)


async def bind_name(*addresses: str) -> _hypercorn_sockets.HttpSockets:
    """Bind a host name that has these addresses."""
    before = trio.socket.set_custom_hostname_resolver(FakeResolver({"name": [addresses]}))
    try:
        return await bind_sockets(HttpListening(host="name", port=0))
    finally:
        trio.socket.set_custom_hostname_resolver(before)


async def test_all_addresses_of_a_host_name_are_bound_with_one_port() -> None:
    with await bind_name("127.0.0.1", "127.0.0.2") as sockets:
        port = sockets.bound.port

        assert sockets.bound.urls == (f"http://127.0.0.1:{port}", f"http://127.0.0.2:{port}")


async def test_addresses_of_a_host_name_that_this_machine_does_not_have_are_skipped() -> None:
    with await bind_name("192.0.2.1", "127.0.0.1") as sockets:
        assert sockets.bound.urls == (f"http://127.0.0.1:{sockets.bound.port}",)


async def test_another_port_is_tried_if_the_first_is_not_free_at_every_address(monkeypatch: pytest.MonkeyPatch) -> None:
    """The port of the first address is taken at the second one, once."""
    taken: list[int] = []
    bind = _hypercorn_sockets._bind_tcp

    def bind_tcp(family: socket.AddressFamily, address: tuple[str, int], backlog: int) -> socket.socket:
        if address[1] and not taken:
            taken.append(address[1])
            raise OSError(errno.EADDRINUSE, "taken")
        return bind(family, address, backlog)

    monkeypatch.setattr(_hypercorn_sockets, "_bind_tcp", bind_tcp)
    with await bind_name("127.0.0.1", "127.0.0.2") as sockets:
        assert len(sockets.sockets) == 2


def make_stale(path: Path) -> None:
    """Leave the file of a socket behind, as a killed process does."""
    with socket.socket(socket.AF_UNIX) as left:
        left.bind(str(path))


async def test_a_unix_socket_is_served_and_its_file_is_removed_at_the_end(tmp_path: Path) -> None:
    path = tmp_path / "http.sock"
    make_stale(path)
    async with serving(App(), unix_socket=path) as served:
        assert served.bound == Bound((f"unix:{path}",), None)
        async with await trio.open_unix_socket(str(path)) as stream:
            await stream.send_all(get("/"))
            assert (await read_until(stream, b"fine")).startswith(OK)

    assert not path.exists()


async def test_a_unix_socket_in_use_is_not_replaced(tmp_path: Path) -> None:
    path = tmp_path / "http.sock"
    with await bind_sockets(HttpListening(unix_socket=path)):
        with pytest.raises(OSError, match="another process listens on it") as caught:
            await bind_sockets(HttpListening(unix_socket=path))
        assert path.exists()

    assert caught.value.errno == errno.EADDRINUSE
    assert caught.value.strerror == f"cannot listen on {path}: another process listens on it"


async def test_a_unix_socket_with_a_full_backlog_is_not_replaced(tmp_path: Path) -> None:
    path = tmp_path / "http.sock"
    with await bind_sockets(HttpListening(unix_socket=path, backlog=1)):
        waiting = [socket.socket(socket.AF_UNIX) for _ in range(3)]
        for each in waiting:
            each.setblocking(False)
            each.connect_ex(str(path))
        with pytest.raises(OSError, match="another process listens on it"):
            await bind_sockets(HttpListening(unix_socket=path))
        for each in waiting:
            each.close()


async def test_a_file_that_is_not_a_socket_is_not_replaced(tmp_path: Path) -> None:
    path = tmp_path / "notes.txt"
    path.write_text("precious")

    with pytest.raises(FileExistsError, match="the file exists and is not a socket"):
        await bind_sockets(HttpListening(unix_socket=path))

    assert path.read_text() == "precious"


async def test_a_unix_socket_in_a_missing_folder_is_refused_with_a_reason(tmp_path: Path) -> None:
    path = tmp_path / "missing" / "http.sock"

    with pytest.raises(FileNotFoundError, match=f"cannot listen on {path}: No such file or directory"):
        await bind_sockets(HttpListening(unix_socket=path))


@pytest.mark.parametrize("fate", ["replaced", "removed"])
async def test_a_file_that_has_replaced_the_socket_is_not_removed(fate: str, tmp_path: Path) -> None:
    path = tmp_path / "http.sock"
    with await bind_sockets(HttpListening(unix_socket=path)):
        path.rename(tmp_path / "moved")
        if fate == "replaced":
            make_stale(path)

    assert path.exists() == (fate == "replaced")


async def test_a_file_that_has_the_inode_number_of_the_replaced_socket_is_not_removed(tmp_path: Path) -> None:
    path = tmp_path / "http.sock"
    with await bind_sockets(HttpListening(unix_socket=path)):
        os.utime(path, ns=(0, 0))  # those of a successor; the inode numbers of deleted files are reused

    assert path.exists()


def test_a_number_that_is_out_of_range_is_refused() -> None:
    for settings in (
        {"port": -1},
        {"port": 65_536},
        {"port": True},
        {"head_seconds": 0},
        {"write_seconds": float("nan")},
        {"backlog": False},
    ):
        options: dict[str, Any] = settings
        with pytest.raises(ValueError, match=f"{next(iter(settings))}="):
            HttpListening(**options)


def test_a_key_without_a_certificate_is_refused() -> None:
    with pytest.raises(ValueError, match="needs a certfile"):
        HttpListening(keyfile=os.devnull)


def test_a_password_is_not_shown() -> None:
    assert "secret" not in repr(HttpListening(certfile="a.pem", keyfile_password="secret"))
