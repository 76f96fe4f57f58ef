"""Functions for worker processes, in a separate module, so that the workers do not import tests."""

from __future__ import annotations

import atexit
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any, NoReturn

import attrs

from trio_mcp import McpError, ToolError

CALLER = """
import socket, sys
line = socket.socket(socket.AF_UNIX)
line.connect(sys.argv[1])
line.sendall(b"grandchild")
line.recv(1)
"""


@attrs.frozen
class Point:
    x: int
    y: int = 0


def connect(path: str) -> socket.socket:
    """Send the id of this process to the test, which listens at *path*. The connection closes when the process ends."""
    line = socket.socket(socket.AF_UNIX)
    line.connect(path)
    line.sendall(str(os.getpid()).encode())
    return line


def pid() -> int:
    return os.getpid()


def mirrored(point: Point, by: int = 1, /, *, shift: int = 0) -> Point:
    return Point(point.y * by + shift, point.x * by + shift)


def spin(path: str) -> None:
    line = connect(path)
    while line.fileno():
        pass


def spin_with_a_child(path: str) -> None:
    with subprocess.Popen([sys.executable, "-S", "-c", CALLER, path]):
        spin(path)


def wait(path: str) -> None:
    connect(path).recv(1)


def exit_leaving_a_child(path: str) -> None:
    """Exit while a child in a session of its own, with an empty environment, keeps all descriptors open."""
    for each in Path("/dev/fd").iterdir():
        with suppress(OSError):  # the one that lists them
            os.set_inheritable(int(each.name), True)
    subprocess.Popen([sys.executable, "-S", "-c", CALLER, path], start_new_session=True, close_fds=False, env={})
    os._exit(3)


def leave_a_session(path: str) -> None:
    """Start a process in a session of its own, which connects and waits."""
    subprocess.Popen([sys.executable, "-S", "-c", CALLER, path], start_new_session=True)


def spin_with_another_session(path: str) -> None:
    leave_a_session(path)
    spin(path)


def stop_itself(path: str) -> None:
    """Connect, and stop this process as SIGSTOP does."""
    line = connect(path)
    os.kill(os.getpid(), signal.SIGSTOP)
    line.close()


def write_at_exit(path: str) -> None:
    atexit.register(Path(path).write_text, "left", "utf-8")


def end(how: str) -> None:
    if how == "exit":
        os._exit(3)
    os.kill(os.getpid(), signal.Signals[how])


def say(text: str) -> None:
    print(text, end="")  # noqa: T201 # the tool prints on purpose
    os.write(1, text.encode())
    assert sys.stdin.read() == ""


def echo(text: str) -> str:
    return text


def descriptors() -> dict[str, str]:
    """Return the open descriptors, without the one that was used to list them."""
    return {path.name: str(path.readlink()) for path in list(Path("/proc/self/fd").iterdir()) if path.is_symlink()}


class TakesTwo(Exception):
    def __init__(self, one: int, two: int) -> None:
        super().__init__(f"{one} and {two}")


class WithoutString(Exception):
    def __str__(self) -> str:
        raise RuntimeError("no words")


class PickledAsString(Exception):
    def __reduce__(self) -> Any:
        return str, ("something else",)


def fail(how: str) -> NoReturn:
    match how:
        case "deliberately":
            raise ToolError("not today")
        case "by protocol":
            raise McpError(7, "not so")
        case "plainly":
            raise LookupError("nothing there")
        case "with two":
            raise TakesTwo(1, 2)
        case "with a secret":
            error = ValueError("cannot be pickled itself")
            error.add_note("a note")
            error.callback = lambda: None  # type: ignore[attr-defined] # a value that cannot be pickled
            raise error
        case "silently":
            raise WithoutString(lambda: "neither a string nor picklable")
        case "oddly":
            raise PickledAsString("an odd one")
        case "by leaving":
            sys.exit(4)
        case _:
            raise KeyboardInterrupt


def give_function() -> Any:
    return lambda: None


class Trap:
    def __reduce__(self) -> Any:
        return load_trap, (os.getpid(),)


def load_trap(maker: int) -> None:
    """Fail in any process but the one that pickled it."""
    if os.getpid() != maker:
        raise ValueError("it was a trap")


def give_trap() -> Any:
    return Trap()


def impostor() -> None:
    """A function that is registered before a decorator replaces it under its name."""


impostor.__name__ = impostor.__qualname__ = "pid"


class Counter:
    """A callable object as a tool."""

    def __init__(self, start: int) -> None:
        self.start = start

    def __call__(self, step: int) -> int:
        return self.start + step

    def bound(self, step: int) -> int:
        return self.start + 2 * step


def local() -> Callable[[], None]:
    def inner() -> None: ...

    return inner
