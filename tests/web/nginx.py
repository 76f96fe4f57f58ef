"""An nginx in front of the server: a process in the foreground, with all of its files in a folder of the test."""

from __future__ import annotations

import os
import socket
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path

import trio

from tests.transports.http.hypercorn.test_tls import Certificate

_CONFIGURATION = """\
daemon off;
user root;  # ignored unless root starts it
pid {folder}/nginx.pid;
error_log stderr warn;
events {{ worker_connections 512; }}
http {{
    access_log off;
    client_body_temp_path {folder}/body;
    proxy_temp_path {folder}/proxy;
    fastcgi_temp_path {folder}/fastcgi;
    uwsgi_temp_path {folder}/uwsgi;
    scgi_temp_path {folder}/scgi;
    client_max_body_size 20m;
    map $http_upgrade $connection_field {{ default upgrade; '' ''; }}
    upstream mcp {{
        {servers}
        keepalive 16;
    }}
    server {{
        listen 127.0.0.1:{port}{protocol};
        {tls}
        location / {{
            proxy_pass http://mcp;
            proxy_http_version 1.1;
            proxy_set_header Host $http_host;
            proxy_set_header Upgrade $http_upgrade;
            proxy_set_header Connection $connection_field;
            {directives}
        }}
    }}
}}
"""


@asynccontextmanager
async def nginx(
    folder: Path, ports: Sequence[int | None], *directives: str, certificate: Certificate | None = None
) -> AsyncGenerator[int]:
    """Run nginx for as long as the block lasts; yields its port.

    It inherits its socket, as from an earlier nginx, so clients may connect at once.

    Args:
        folder: a folder for its files.
        ports: the ports of the servers behind it.
        directives: further directives of its configuration; a block ends in its brace.
        certificate: it speaks TLS and HTTP/2, too, with this certificate.
    """
    with socket.create_server(("127.0.0.1", 0), backlog=128) as listener:
        port: int = listener.getsockname()[1]
        configuration = folder / "nginx.conf"
        text = _CONFIGURATION.format(
            folder=folder,
            port=port,
            servers=" ".join(f"server 127.0.0.1:{each};" for each in ports),
            protocol="" if certificate is None else " ssl http2",
            tls="" if certificate is None else _tls(certificate),
            directives=" ".join(each if each.endswith("}") else f"{each};" for each in directives),
        )
        configuration.write_text(text)
        command = ["nginx", "-p", str(folder), "-e", "stderr", "-c", str(configuration)]
        descriptor = listener.fileno()
        environment = {**os.environ, "NGINX": f"{descriptor};"}
        async with trio.open_nursery() as nursery:
            start = partial(trio.run_process, command, pass_fds=[descriptor], env=environment)
            await nursery.start(start)
            yield port
            nursery.cancel_scope.cancel()


def _tls(certificate: Certificate) -> str:
    return f"ssl_certificate {certificate.certfile}; ssl_certificate_key {certificate.keyfile};"
