"""The deployments of `examples/deployment`: their files are valid, and the options in them exist."""

from __future__ import annotations

import json
import os
import re
import shlex
import shutil
import socket
import subprocess
import sys
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Any

import httpx2
import pytest
import trio
import yaml

from tests.examples.test_examples import EXAMPLES
from tests.transports.http.hypercorn.test_tls import Certificate, make_certificate
from trio_mcp import Context, Server, open_http_client, serve_http, types
from trio_mcp.cli._arguments import read_arguments

FOLDER = EXAMPLES / "deployment"
PAGE = EXAMPLES.parent / "docs" / "deployment.md"


def words_of_image() -> list[str]:
    """Return the command line of the image, without its options."""
    lines = (FOLDER / "Dockerfile").read_text(encoding="utf-8")
    words: list[str] = json.loads(re.findall(r"ENTRYPOINT (.*)", lines)[0])
    assert words[0] == "trio-mcp"
    return words[1:]


def test_the_command_of_the_image_serves_with_options_that_exist() -> None:
    lines = (FOLDER / "Dockerfile").read_text(encoding="utf-8")
    options = read_arguments([*words_of_image(), *json.loads(re.findall(r"CMD (.*)", lines)[0])])

    assert (options.http, options.shared, options.ready_path) == (8000, "redis://redis:6379/0", "/readyz")


def test_the_pods_of_kubernetes_serve_with_options_that_exist_and_are_checked_at_their_paths() -> None:
    deployment, service = yaml.safe_load_all((FOLDER / "kubernetes.yaml").read_text(encoding="utf-8"))
    (container,) = deployment["spec"]["template"]["spec"]["containers"]
    options = read_arguments([*words_of_image(), *container["args"]])

    assert options.health_path == container["livenessProbe"]["httpGet"]["path"]
    assert options.ready_path == container["readinessProbe"]["httpGet"]["path"]
    assert service["spec"]["selector"] == deployment["spec"]["selector"]["matchLabels"]
    grace: int = deployment["spec"]["template"]["spec"]["terminationGracePeriodSeconds"]
    assert grace > options.drain_delay + 5 + 10  # Limits.drain_seconds and Limits.stop_seconds


@pytest.mark.parametrize("path", sorted(FOLDER.iterdir()), ids=lambda path: path.name)
def test_every_file_is_described_or_used(path: Path) -> None:
    others = "".join(each.read_text(encoding="utf-8") for each in (*FOLDER.iterdir(), PAGE) if each != path)

    assert path.name in others


def test_the_services_of_compose_depend_on_one_another_as_they_are_named() -> None:
    compose: Any = yaml.safe_load((FOLDER / "compose.yaml").read_text(encoding="utf-8"))
    services = compose["services"]
    configuration = (FOLDER / "haproxy.cfg").read_text(encoding="utf-8")

    assert {*services["server"]["depends_on"], *services["haproxy"]["depends_on"]} <= services.keys()
    assert f"server-template node {services['server']['deploy']['replicas']} server:8000" in configuration


def command_of_unit() -> list[str]:
    """Return the command line of the systemd unit."""
    unit = (FOLDER / "notes.service").read_text(encoding="utf-8").replace("\\\n", " ")
    return shlex.split(re.findall(r"^ExecStart=(.*)", unit, re.MULTILINE)[0])


def test_the_systemd_unit_serves_with_options_that_exist_and_waits_for_the_longest_stop() -> None:
    program, *words = command_of_unit()
    options = read_arguments(words)
    unit = (FOLDER / "notes.service").read_text(encoding="utf-8")
    limits = Server("notes").limits

    assert (Path(program).name, options.http, options.allow_host) == ("trio-mcp", 8000, ["mcp.example.com"])
    longest = (options.drain_delay or 0) + limits.drain_seconds + 25 + 2 * limits.stop_seconds
    assert int(re.findall(r"TimeoutStopSec=(\d+)", unit)[0]) > longest


@pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="systemd is not installed")
def test_systemd_accepts_the_unit(tmp_path: Path) -> None:
    unit = (FOLDER / "notes.service").read_text(encoding="utf-8").replace(command_of_unit()[0], sys.executable)
    (tmp_path / "notes.service").write_text(unit, encoding="utf-8")

    done = subprocess.run(
        ["systemd-analyze", "verify", "--man=no", str(tmp_path / "notes.service")],
        capture_output=True,
        encoding="utf-8",
        timeout=60,
        check=False,
    )

    assert (done.returncode, "notes.service" in done.stderr) == (0, False), done.stderr


@pytest.fixture(scope="module")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> Certificate:
    return make_certificate(tmp_path_factory.mktemp("certificate"))


def configuration_of_nginx(text: str, folder: Path, port: int, certificate: Certificate) -> list[str]:
    """Write a configuration that includes the example, with the port of the proxy; return the command."""
    for name in ("fullchain.pem", "privkey.pem"):
        file = certificate.certfile if name == "fullchain.pem" else certificate.keyfile
        text = text.replace(f"/etc/ssl/notes/{name}", str(file))
    (folder / "notes.conf").write_text(text.replace("listen 443", f"listen 127.0.0.1:{port}"), encoding="utf-8")
    temporary = " ".join(f"{each}_temp_path {folder}/{each};" for each in ("proxy", "fastcgi", "uwsgi", "scgi"))
    main = f"""\
daemon off; user root; pid {folder}/nginx.pid; error_log stderr error; events {{ worker_connections 128; }}
http {{ access_log off; client_body_temp_path {folder}/body; {temporary} include {folder}/notes.conf; }}
"""
    (folder / "nginx.conf").write_text(main, encoding="utf-8")
    return ["nginx", "-p", str(folder), "-e", "stderr", "-c", str(folder / "nginx.conf")]


def configuration_of_haproxy(text: str, folder: Path, port: int, certificate: Certificate) -> list[str]:
    """Write the example with the port of the proxy and a certificate; return the command."""
    pem = folder / "notes.pem"
    pem.write_bytes(certificate.certfile.read_bytes() + certificate.keyfile.read_bytes())
    text = text.replace("/etc/haproxy/notes.pem", str(pem)).replace("bind :443", f"bind 127.0.0.1:{port}")
    (folder / "haproxy.cfg").write_text(text, encoding="utf-8")
    return ["haproxy", "-db", "-f", str(folder / "haproxy.cfg")]


PROXIES = {"nginx.conf": configuration_of_nginx, "haproxy-tls.cfg": configuration_of_haproxy}


async def is_listening(port: int) -> bool:
    """Return True if a program of this machine accepts connections at a port."""
    try:
        await (await trio.open_tcp_stream("127.0.0.1", port)).aclose()
    except OSError:
        return False
    return True


@asynccontextmanager
async def example_proxy(name: str, server_port: int, folder: Path, certificate: Certificate) -> AsyncGenerator[str]:
    """Run a proxy with the configuration of the examples in front of a server; yields the URL of the proxy."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    text = (FOLDER / name).read_text(encoding="utf-8").replace("127.0.0.1:8000", f"127.0.0.1:{server_port}")
    command = PROXIES[name](text, folder, port, certificate)
    async with trio.open_nursery() as nursery:
        await nursery.start(partial(trio.run_process, command, stderr=subprocess.DEVNULL, stdout=subprocess.DEVNULL))
        while not await is_listening(port):  # noqa: ASYNC110 # another process
            await trio.sleep(0.01)
        yield f"https://localhost:{port}"
        nursery.cancel_scope.cancel()


@pytest.mark.skipif(os.name != "posix", reason="the proxies are those of Unix")
@pytest.mark.parametrize("name", PROXIES)
async def test_the_proxies_pass_on_streams_and_hide_the_metrics(
    name: str, tmp_path: Path, certificate: Certificate
) -> None:
    server, go = Server("notes"), trio.Event()

    @server.tool
    async def count(ctx: Context) -> str:
        await ctx.report_progress(1)
        await go.wait()
        return "counted"

    http = httpx2.AsyncClient(verify=certificate.trusted, trust_env=False)
    serve = partial(
        serve_http, server, port=0, allowed_hosts=["localhost:*"], ready_path="/readyz", metrics_path="/metrics"
    )
    with trio.fail_after(60):
        async with http, trio.open_nursery() as nursery:
            bound = await nursery.start(serve)
            assert bound.port is not None
            async with example_proxy(name, bound.port, tmp_path, certificate) as url:
                while (await http.get(f"{url}/readyz")).status_code != 200:  # noqa: ASYNC110 # HAProxy checks it
                    await trio.sleep(0.01)
                async with (
                    open_http_client(f"{url}/mcp", http_client=http) as client,
                    client.open_call("count") as counting,
                ):
                    first = await anext(aiter(counting.updates))
                    go.set()  # only now, so an update that a proxy holds back would never arrive
                    result = await counting.result()
                metrics = await http.get(f"{url}/metrics")
            await bound.stop()

    assert (first.progress, result.content) == (1, [types.TextContent(text="counted")])
    assert metrics.status_code == 404
