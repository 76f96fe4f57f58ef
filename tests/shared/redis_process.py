"""Real processes of redis-server, on free ports of this machine."""

from __future__ import annotations

import os
import random
import shutil
import signal
import socket
import subprocess
import threading
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

from attrs import define, field

_PATH = os.pathsep.join([os.environ.get("PATH", ""), "/usr/bin", "/usr/sbin", "/usr/local/bin", "/usr/local/sbin"])
SERVER, CLIENT = shutil.which("redis-server", path=_PATH), shutil.which("redis-cli", path=_PATH)
_SECONDS = 60.0
"""The time in which a process must have said what is awaited."""


def free_port() -> int:
    """Return a port that is free now, and so is the one 10000 above, which a node of a cluster uses."""
    while True:
        port = random.randrange(10_500, 22_000)  # below those that the system gives to clients
        with socket.socket() as first, socket.socket() as second, suppress(OSError):
            first.bind(("127.0.0.1", port))
            second.bind(("127.0.0.1", port + 10_000))
            return port


@define(eq=False)
class RedisProcess:
    """A redis-server. It keeps its port when it is started again."""

    folder: Path
    """Where it keeps its data, if it keeps any."""
    arguments: Sequence[str] = ()
    port: int = field(factory=free_port)
    is_sentinel: bool = False
    """True if the arguments are all that it is started with."""
    ready: str = "Ready to accept connections"
    """What it says when it is ready."""
    lines: list[str] = field(factory=list[str], init=False)
    """What it has said."""
    _said: threading.Condition = field(factory=threading.Condition, init=False)
    _process: subprocess.Popen[str] | None = field(default=None, init=False)

    @property
    def name(self) -> str:
        return f"127.0.0.1:{self.port}"

    def start(self) -> None:
        """Start it, and wait until it is ready."""
        assert SERVER is not None
        port = [] if "--port" in self.arguments else ["--port", str(self.port)]
        common = ["--bind", "127.0.0.1", "--dir", str(self.folder), "--save", ""]
        command = [SERVER, *(self.arguments if self.is_sentinel else [*port, *common, *self.arguments])]
        self._process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, cwd=self.folder)
        self.lines = []  # the thread of an earlier process has its own
        threading.Thread(target=self._listen, args=[self._process, self.lines], daemon=True).start()
        self.wait_for(self.ready)

    def _listen(self, process: subprocess.Popen[str], lines: list[str]) -> None:
        assert process.stdout is not None
        with process.stdout:
            for line in process.stdout:
                with self._said:
                    lines.append(line)
                    self._said.notify_all()
        with self._said:
            lines.append("(the process has ended)")
            self._said.notify_all()

    def wait_for(self, text: str) -> None:
        """Wait until it has said something since it was started."""

        def is_said() -> bool:
            return any(text in line or "has ended" in line for line in self.lines)

        with self._said:
            assert self._said.wait_for(is_said, _SECONDS), f"it has not said {text!r}"
            assert any(text in line for line in self.lines), "".join(self.lines)

    def signal(self, number: signal.Signals) -> None:
        assert self._process is not None
        self._process.send_signal(number)

    def kill(self) -> None:
        """End it without notice, if it runs."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            self._process = None

    def ask(self, *words: str) -> str:
        """Execute a command by redis-cli, and return what it prints."""
        assert CLIENT is not None
        done = subprocess.run(
            [CLIENT, "-h", "127.0.0.1", "-p", str(self.port), *words], capture_output=True, text=True, check=True
        )
        return done.stdout.strip()
