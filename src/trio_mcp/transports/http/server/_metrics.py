"""The counts of an HTTP application, and the page on which monitoring reads them: the text format of Prometheus.

Rules of this file:

1. The number of time series is bounded: a client chooses no label. A serving reports unknown methods and tools as
   ``"other"``, and statuses have three digits.
2. The page is public, and accepts any host, because monitoring asks by address, as load balancers do. It names the
   tools that were called and tells how often, but no arguments, principals or addresses.
3. Each process counts for itself. Of several processes behind one address, any may answer.

Specification: https://prometheus.io/docs/instrumenting/exposition_formats/#text-based-format
"""

from __future__ import annotations

import os
import time
from bisect import bisect_left
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

import trio
from attrs import define, field

from ...._errors import McpError
from ...._tracing import OPERATION_BOUNDS
from ....abc import Serving
from ....peer import ObservableServing
from ._asgi import BegunRequest, Responding

if TYPE_CHECKING:
    from ._app import RunningApp

__all__ = ["METRICS_TYPE", "CountedRequest", "HttpMetrics"]

METRICS_TYPE = "text/plain; version=0.0.4; charset=utf-8"
_BOUNDS: tuple[float, ...] = (0.001, 0.002, 0.005, *OPERATION_BOUNDS)
"""The upper bounds of the histograms, in seconds."""
_LOADED = time.time()
_NO_RUN: Mapping[str, int] = dict.fromkeys(("sessions", "websockets", "running", "parked", "listening"), 0)

Labels: TypeAlias = "Mapping[str, str]"
Sample: TypeAlias = "tuple[str, Labels, float]"
"""The end of the name, the labels, and the value."""


def _process_start() -> float:
    """Return the time at which this process began, as `time.time` counts.

    Only Linux tells. On other systems it is the time at which this module was loaded.
    """
    try:
        ticks = int(Path("/proc/self/stat").read_text().rpartition(")")[2].split()[19])
    except OSError:
        return _LOADED
    age = time.clock_gettime(time.CLOCK_BOOTTIME) - ticks / os.sysconf("SC_CLK_TCK")
    return time.time() - age


@define(eq=False)
class _Histogram:
    """The durations of the requests of one method."""

    counts: list[int] = field(factory=lambda: [0] * (len(_BOUNDS) + 1), init=False)
    """The number of durations up to each bound and above the one before; the last is that of longer ones."""
    total: float = field(default=0.0, init=False)

    def add(self, seconds: float) -> None:
        self.counts[bisect_left(_BOUNDS, seconds)] += 1
        self.total += seconds

    def samples(self, labels: Labels) -> Iterator[Sample]:
        count = 0
        for bound, number in zip((*map(_number, _BOUNDS), "+Inf"), self.counts, strict=True):
            count += number
            yield "_bucket", {**labels, "le": bound}, count
        yield "_sum", labels, self.total
        yield "_count", labels, count


@define(eq=False)
class HttpMetrics:
    """The counts of one HTTP application, from its creation on."""

    in_flight: int = field(default=0, init=False)
    """The number of MCP requests that have arrived and not ended."""
    _requests: Counter[tuple[str, str]] = field(factory=Counter[tuple[str, str]], init=False)
    """The number of MCP requests by method and outcome."""
    _calls: Counter[tuple[str, str]] = field(factory=Counter[tuple[str, str]], init=False)
    """The number of calls by tool and outcome."""
    _durations: dict[str, _Histogram] = field(factory=dict[str, _Histogram], init=False)
    """By method."""
    _process_start: float = field(factory=lambda: round(_process_start(), 2), init=False)
    """Unix time. It is found once: the clocks of the system drift apart, and monitoring would see a new process."""
    _responses: Counter[str] = field(factory=Counter[str], init=False)
    """The number of HTTP requests by the status of their response."""

    def observe(self, serving: Serving) -> None:
        """Count the requests of a serving from now on, unless it cannot be observed."""
        if isinstance(serving, ObservableServing):
            serving.observe(self)

    def begun(self, method: str, tool: Callable[[], str] | None, revision: str) -> _CountedExchange:
        """Count a request in flight; see `peer.RequestObserver`."""
        del revision
        self.in_flight += 1
        return _CountedExchange(self, method, tool)

    def ended(self, method: str, tool: Callable[[], str] | None, outcome: str, seconds: float) -> None:
        """Count a request that has ended."""
        self.in_flight -= 1
        self._requests[method, outcome] += 1
        if tool is not None:
            self._calls[tool(), outcome] += 1
        self._durations.setdefault(method, _Histogram()).add(seconds)

    def responded(self, status: int | None) -> None:
        """Count an HTTP request that has ended with this status; None if the client left before there was one."""
        self._responses[str(status or "none")] += 1

    def page(self, running: RunningApp | None, buffer_bytes: int, *, is_ready: bool) -> str:
        """Return the page.

        Args:
            running: the parts of the application; None if it is not run.
            buffer_bytes: the bytes of bodies and unread responses.
            is_ready: True if it takes new requests.
        """
        now = _NO_RUN if running is None else _numbers_of(running)
        requests = [("", {"method": name, "outcome": outcome}, n) for (name, outcome), n in self._requests.items()]
        calls = [("", {"tool": name, "outcome": outcome}, number) for (name, outcome), number in self._calls.items()]
        times = [each for name, one in self._durations.items() for each in one.samples({"method": name})]
        responses = [("", {"status": status}, number) for status, number in self._responses.items()]
        families = (
            _family("trio_mcp_requests_total", "counter", "MCP requests that have ended.", requests),
            _family("trio_mcp_tool_calls_total", "counter", "Calls of tools that have ended.", calls),
            _family("trio_mcp_request_duration_seconds", "histogram", "Time from arrival to answer.", times),
            _family("trio_mcp_http_responses_total", "counter", "HTTP requests that have ended.", responses),
            _gauge("trio_mcp_requests_in_flight", "MCP requests that have arrived and not ended.", self.in_flight),
            _gauge("trio_mcp_running_handlers", "Handlers that have started and not ended.", now["running"]),
            _gauge("trio_mcp_parked_handlers", "Handlers that wait for answers of a client.", now["parked"]),
            _gauge("trio_mcp_listeners", "Listeners for changes.", now["listening"]),
            _gauge("trio_mcp_sessions", "Open sessions of clients of 2025-11-25 and earlier.", now["sessions"]),
            _gauge("trio_mcp_websockets", "Open WebSockets.", now["websockets"]),
            _gauge("trio_mcp_buffer_bytes", "Bytes of bodies and unread responses.", buffer_bytes),
            _gauge("trio_mcp_ready", "1 if new requests are taken, 0 while it starts or stops.", int(is_ready)),
            _gauge("process_start_time_seconds", "Start of the process in Unix time.", self._process_start),
        )
        return "".join(f"{line}\n" for family in families for line in family)


def _numbers_of(running: RunningApp) -> Mapping[str, int]:
    """Return what an application holds now."""
    numbers = {**_NO_RUN, "sessions": running.sessions.open, "websockets": running.websockets.open}
    serving: object = running.serving
    if isinstance(serving, ObservableServing):
        held = serving.statistics()
        numbers |= {"running": held.running, "parked": held.parked, "listening": held.listening}
    return numbers


@define(eq=False)
class _CountedExchange:
    """One MCP request that is counted; see `peer.RequestWatch`."""

    _metrics: HttpMetrics
    _method: str
    _tool: Callable[[], str] | None
    _began: float = field(factory=trio.current_time, init=False)
    _has_ended: bool = field(default=False, init=False)

    def answered(self, outcome: Mapping[str, Any] | McpError) -> None:
        if isinstance(outcome, McpError):
            self._end("error")
        elif outcome.get("isError") is True:
            self._end("tool_error")
        else:
            self._end("input_required" if outcome.get("resultType") == "input_required" else "ok")

    def failed(self, kind: str, description: str | None = None) -> None:
        del description
        self._end(kind)

    def _end(self, outcome: str) -> None:
        if not self._has_ended:
            self._has_ended = True
            self._metrics.ended(self._method, self._tool, outcome, trio.current_time() - self._began)


@define(eq=False)
class CountedRequest(BegunRequest):
    """A request that was begun to be answered at once, whose response is counted."""

    inner: BegunRequest
    _metrics: HttpMetrics

    def take_answer(self, most_bytes: int) -> tuple[int, bytes] | None:
        """Return what the request itself does, and count that."""
        answer = self.inner.take_answer(most_bytes)
        if answer is not None:
            self._metrics.responded(answer[0])
        return answer

    async def go_on(self, responding: Responding) -> None:
        """Answer the request; the application counts the response."""
        await self.inner.go_on(responding)


# --- The text format ---


def _gauge(name: str, meaning: str, value: float) -> Iterator[str]:
    return _family(name, "gauge", meaning, [("", {}, value)])


def _family(name: str, kind: str, meaning: str, samples: Iterable[Sample]) -> Iterator[str]:
    yield f"# HELP {name} {meaning}"
    yield f"# TYPE {name} {kind}"
    for end, labels, value in samples:
        listed = ",".join(f'{label}="{_escaped(text)}"' for label, text in labels.items())
        yield f"{name}{end}{'{' + listed + '}' if listed else ''} {_number(value)}"


def _escaped(text: str) -> str:
    return text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")


def _number(value: float) -> str:
    """Return a number as the format has it: a whole one without a decimal point."""
    return str(int(value)) if value == int(value) else repr(value)
