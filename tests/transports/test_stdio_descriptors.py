"""Standard input and output as the transport: stray prints, restored descriptors and errors, with real processes."""

from __future__ import annotations

import errno
import os
import select
import signal
import socket
import subprocess
import sys
import tty
from collections.abc import Callable, Generator
from contextlib import contextmanager
from pathlib import Path
from textwrap import dedent, indent
from typing import Any

import pytest

if sys.platform == "win32":
    pytest.skip("claiming standard input and output needs POSIX", allow_module_level=True)

ECHO = [sys.executable, "-W", "error", str(Path(__file__).parent / "programs" / "echo_server.py")]
TIMEOUT_SECONDS = 30  # seconds: far more than any test needs, so that a test that hangs fails

PRELUDE = """
import ctypes, io, os, sys, trio
from contextlib import redirect_stdout, suppress
from trio_mcp.transports.stdio import _server as module
from trio_mcp.transports.stdio._server import claim_stdio

async def main():
"""


def program(body: str) -> list[str]:
    """Return the command of a program whose one asynchronous function has this body."""
    return [sys.executable, "-W", "error", "-c", PRELUDE + indent(dedent(body), "    ") + "\ntrio.run(main)"]


def environment() -> dict[str, str]:
    """Return the environment of the programs: that of this process with Python's default buffering."""
    return {name: value for name, value in os.environ.items() if name != "PYTHONUNBUFFERED"}


def run(command: list[str], sent: bytes = b"") -> tuple[bytes, str]:
    """Run *command* to its end and return what it wrote on standard output and on standard error."""
    done = subprocess.run(
        command, input=sent, capture_output=True, timeout=TIMEOUT_SECONDS, check=False, env=environment()
    )
    assert done.returncode == 0, done.stderr.decode()
    return done.stdout, done.stderr.decode()


def with_redirection(command: list[str], redirection: str) -> list[str]:
    return ["/bin/sh", "-c", f'exec "$@" {redirection}', "sh", *command]


@contextmanager
def serving(stdin: Any, stdout: Any) -> Generator[subprocess.Popen[bytes]]:
    """Run the echo server with this standard input and output; kill it after the block."""
    with subprocess.Popen(ECHO, stdin=stdin, stdout=stdout, stderr=subprocess.PIPE) as server:
        try:
            yield server
        finally:
            server.kill()


def read_exactly(descriptor: int, size: int) -> bytes:
    found = b""
    while len(found) < size:
        readable, _, _ = select.select([descriptor], [], [], TIMEOUT_SECONDS)
        assert readable, f"only {found!r} came"
        found += os.read(descriptor, size - len(found))
    return found


def test_the_stream_reads_standard_input_and_writes_standard_output() -> None:
    assert run(ECHO, b"hello\n")[0] == b"HELLO\n"


def test_a_large_message_is_passed_completely() -> None:
    assert run(ECHO, b"x" * 3_000_000)[0] == b"X" * 3_000_000


@pytest.mark.requirement("B.5-S1")
def test_prints_of_every_kind_go_to_standard_error() -> None:
    output, errors = run(
        program("""
            print("unwritten before", end=" ")
            former = sys.stdout
            async with claim_stdio() as stream:
                print("printed")
                print("unflushed", end=" ", file=former)
                sys.stdout.buffer.write(b"bytes ")
                os.write(1, b"descriptor ")
                os.system("printf 'child '")
                ctypes.CDLL(None).printf(b"unflushed C ")
                await stream.send_all(b"wire")
        """)
    )

    assert output == b"wire"
    for stray in ("unwritten before", "printed", "unflushed ", "bytes", "descriptor", "child", "unflushed C"):
        assert stray in errors


@pytest.mark.complaint(16)
def test_the_first_print_is_reported_with_its_place_and_only_the_first() -> None:
    _, errors = run(ECHO, b"x")
    program_path = ECHO[-1]
    lines = Path(program_path).read_text(encoding="utf-8").splitlines()
    number = next(number for number, line in enumerate(lines, 1) if "print(" in line)

    assert errors == (
        "trio-mcp: standard output carries the protocol; text printed there goes to standard error instead. "
        f"Printed first by {program_path}:{number}\nstray\nended\n"
    )


def test_printing_nothing_is_not_reported() -> None:
    assert run(program("async with claim_stdio(): print(end='')")) == (b"", "")


def test_descriptors_and_files_are_restored_after_the_block() -> None:
    command = program("""
        def state():
            files = [os.fstat(descriptor) for descriptor in (0, 1)]
            return [(file.st_dev, file.st_ino) for file in files], sys.stdout, sorted(os.listdir("/dev/fd"))
        before = state()
        for error in (None, KeyError(), KeyboardInterrupt(), trio.ClosedResourceError()):
            try:
                async with claim_stdio():
                    assert before[0][0] != state()[0][0] and before[0][1] != state()[0][1]
                    assert sys.stdin.read() == ""
                    if error is not None:
                        raise error
            except BaseException as caught:
                assert caught is error, (caught, error)
            assert state() == before
        with trio.move_on_after(0.01) as scope:
            async with claim_stdio() as stream:
                await stream.receive_some()
        assert scope.cancelled_caught and state() == before
        with trio.CancelScope() as scope:
            scope.cancel()
            async with claim_stdio():
                raise AssertionError("entered although cancelled")
        assert state() == before
        async with claim_stdio() as stream:
            await stream.aclose()
        assert state() == before
        print("printed")
    """)
    reader, writer = os.pipe()  # an input that does not end, so that a read can be cancelled
    done = subprocess.run(command, stdin=reader, capture_output=True, check=False, timeout=TIMEOUT_SECONDS)
    os.close(reader)
    os.close(writer)

    assert (done.stdout, done.stderr) == (b"printed\n", b"")


def test_a_redirection_by_the_program_itself_is_kept() -> None:
    output, _ = run(
        program("""
            custom = io.StringIO()
            async with claim_stdio():
                sys.stdout = custom
            assert sys.stdout is custom
            sys.stdout = None
            async with claim_stdio():
                print("stray")
            assert sys.stdout is None
            sys.stdout = custom
            custom.close()
            async with claim_stdio() as stream:
                await stream.send_all(b"wire")
        """)
    )

    assert output == b"wire"


def test_standard_input_and_output_can_be_claimed_only_once_at_a_time() -> None:
    output, _ = run(
        program("""
            async with claim_stdio():
                try:
                    async with claim_stdio():
                        raise AssertionError("claimed twice")
                except trio.BusyResourceError as exc:
                    refusal = str(exc)
            async with claim_stdio() as stream:
                await stream.send_all(refusal.encode())
        """)
    )

    assert output == b"standard input and output are claimed already in this process"


@pytest.mark.parametrize(
    ("redirection", "message"),
    [
        ("<&-", "standard input (descriptor 0) is closed, but it has to carry the protocol"),
        (">&-", "standard output (descriptor 1) is closed, but it has to carry the protocol"),
    ],
)
def test_a_closed_descriptor_is_named(redirection: str, message: str) -> None:
    command = program("""
        for attempt in range(2):  # the claim is released
            try:
                async with claim_stdio():
                    raise AssertionError("claimed")
            except OSError as exc:
                sys.stderr.write(f"{exc.errno} {exc.strerror}\\n")
    """)
    _, errors = run(with_redirection(command, redirection))

    assert errors == f"{errno.EBADF} {message}\n" * 2


def test_a_descriptor_the_program_closed_itself_is_named() -> None:
    _, errors = run(
        program("""
            os.close(0)
            try:
                async with claim_stdio():
                    raise AssertionError("claimed")
            except OSError as exc:
                sys.stderr.write(exc.strerror)
            os.open(os.devnull, os.O_RDONLY)
        """)
    )

    assert errors == "standard input (descriptor 0) is closed, but it has to carry the protocol"


@pytest.mark.parametrize(
    ("redirection", "first"),
    [
        ("2>&-", "pass"),  # from the start: a descriptor of Trio has the number by now
        ("", "os.close(2)"),  # later: the number is unused
    ],
)
def test_a_closed_standard_error_is_not_an_error(redirection: str, first: str) -> None:
    command = program(f"""
        {first}
        async with claim_stdio() as stream:
            print("stray")
            os.system("echo child; echo child >&2")
            with suppress(OSError):
                os.write(2, b"C code")
            async for chunk in stream:
                await stream.send_all(chunk.upper())
    """)

    assert run(with_redirection(command, redirection), b"hello") == (b"HELLO", "")


def test_sending_to_a_client_that_has_closed_its_end_is_a_broken_resource() -> None:
    reader, writer = os.pipe()
    command = program("""
        async with claim_stdio() as stream:
            sys.stderr.write("ready\\n")
            await stream.receive_some()
            try:
                await stream.send_all(b"anyone?")
            except trio.BrokenResourceError:
                sys.stderr.write("broken")
    """)
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=writer, stderr=subprocess.PIPE) as server:
        os.close(writer)
        assert server.stderr is not None
        assert server.stderr.readline() == b"ready\n"
        os.close(reader)
        _, errors = server.communicate(b"x", timeout=TIMEOUT_SECONDS)

    assert errors == b"broken"


@pytest.mark.parametrize("named", [False, True])
def test_sending_to_a_client_that_closed_its_end_before_the_claim_is_a_broken_resource(
    named: bool, tmp_path: Path
) -> None:
    if named:
        os.mkfifo(tmp_path / "fifo")
        reader = os.open(tmp_path / "fifo", os.O_RDONLY | os.O_NONBLOCK)
        writer = os.open(tmp_path / "fifo", os.O_WRONLY)
    else:
        reader, writer = os.pipe()
    os.close(reader)
    command = program("""
        async with claim_stdio() as stream:
            try:
                await stream.send_all(b"anyone?")
            except trio.BrokenResourceError:
                sys.stderr.write("broken")
    """)
    done = subprocess.run(command, stdin=subprocess.DEVNULL, stdout=writer, stderr=subprocess.PIPE, check=True)
    os.close(writer)

    assert done.stderr == b"broken"


@pytest.mark.parametrize("end", ["left", "killed"])
def test_pipes_stay_blocking_for_processes_that_share_them(end: str) -> None:
    to_server, ours = os.pipe()
    from_server, theirs = os.pipe()
    with serving(to_server, theirs) as server:
        os.write(ours, b"x")
        assert read_exactly(from_server, 1) == b"X"
        assert os.get_blocking(to_server)
        assert os.get_blocking(theirs)
        _end(server, end, lambda: os.close(ours))

    assert os.get_blocking(to_server)
    assert os.get_blocking(theirs)
    for descriptor in (to_server, from_server, theirs, *([ours] if end == "killed" else [])):
        os.close(descriptor)


@pytest.mark.parametrize("end", ["left", "killed"])
def test_a_terminal_stays_blocking_for_processes_that_share_it(end: str) -> None:
    terminal, slave = os.openpty()
    tty.setraw(slave)
    with serving(slave, slave) as server:
        os.write(terminal, b"x")
        assert read_exactly(terminal, 1) == b"X"
        assert os.get_blocking(slave)
        _end(server, end, lambda: os.close(terminal))
        assert os.get_blocking(slave)

    for descriptor in (slave, *([terminal] if end == "killed" else [])):
        os.close(descriptor)


def _end(server: subprocess.Popen[bytes], ending: str, hang_up: Callable[[], None]) -> None:
    if ending == "killed":
        server.send_signal(signal.SIGKILL)
    else:
        hang_up()
    server.wait(TIMEOUT_SECONDS)


def test_one_socket_can_be_input_and_output_and_its_mode_is_restored() -> None:
    ours, theirs = socket.socketpair()
    with ours, theirs, serving(theirs, theirs) as server:
        ours.sendall(b"hello")
        assert read_exactly(ours.fileno(), 5) == b"HELLO"
        ours.shutdown(socket.SHUT_WR)
        assert server.wait(TIMEOUT_SECONDS) == 0
        assert os.get_blocking(theirs.fileno())


def test_regular_files_are_read_and_written_from_their_current_position(tmp_path: Path) -> None:
    source, target = tmp_path / "in", tmp_path / "out"
    source.write_bytes(b"skipped hello")
    target.write_bytes(b"kept ")
    with source.open("rb") as stdin, target.open("ab") as stdout:
        os.lseek(stdin.fileno(), len(b"skipped "), os.SEEK_SET)
        subprocess.run(ECHO, stdin=stdin, stdout=stdout, stderr=subprocess.DEVNULL, check=True, timeout=TIMEOUT_SECONDS)

    assert target.read_bytes() == b"kept HELLO"


def test_the_null_device_is_an_empty_input() -> None:
    done = subprocess.run(ECHO, stdin=subprocess.DEVNULL, capture_output=True, check=True, timeout=TIMEOUT_SECONDS)

    assert (done.stdout, done.stderr) == (b"", b"ended\n")
