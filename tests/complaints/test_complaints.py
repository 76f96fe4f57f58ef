"""The complaints of users about other SDKs: each one has a test, anywhere in the suite, that prevents it in this SDK.

The numbers are those of a study of the issues of other SDKs; the list contains the ones that apply to this project.
`@pytest.mark.complaint(12)` on a test names the complaint that it covers.
"""

from __future__ import annotations

import ast
from collections import defaultdict
from pathlib import Path

TESTS = Path(__file__).parents[1]
SEPARATE_SESSIONS = {"build", "peers", "readme"}
"""Folders that an ordinary run does not collect."""

COMPLAINTS = {
    1: "Clients cannot be closed from another task, in another order, or by a fixture.",
    2: "One failed exchange takes the whole client down.",
    3: "A failure to connect, or an exception of the user, is hidden in an exception group.",
    5: "A call waits forever after the stream has closed.",
    8: "Cancelling while connecting leaves tasks behind.",
    10: "A server exits only after several interrupts.",
    11: "Stopping with open streams hangs, and SIGTERM skips the clean-up.",
    12: "The end of input discards accepted requests.",
    13: "Server processes outlive their client.",
    14: "The reason of a server exit is not reported.",
    15: "A child process of a tool reads from the pipe of the protocol.",
    16: "A stray print breaks the connection.",
    17: "Cancelling a call does not stop its handler.",
    18: "The handlers of a disconnected client continue.",
    19: "Progress arrives out of order, and after the result.",
    20: "Progress does not keep a call alive, or keeps it alive forever.",
    21: "Streams without buffers deadlock, and one slow reader blocks the other calls.",
    22: "Plain functions block the server, or starve each other and the work of the SDK.",
    23: "A tool cannot have its own timeout or concurrency limit.",
    24: "A request of a handler to the client deadlocks the connection.",
    26: "A list is serialized again for each request.",
    39: "Decorators change the function or its type.",
}


def marked() -> dict[int, list[str]]:
    """Return the tests that carry the marker, by number."""
    found = defaultdict[int, list[str]](list)
    for path in sorted(TESTS.rglob("test_*.py")):
        source = path.read_text(encoding="utf-8")
        if "mark.complaint" not in source or SEPARATE_SESSIONS & set(path.relative_to(TESTS).parts):
            continue
        for node in ast.parse(source).body:
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and node.name.startswith("test_"):
                for decorator in node.decorator_list:
                    if isinstance(decorator, ast.Call) and ast.unparse(decorator.func) == "pytest.mark.complaint":
                        for number in decorator.args:
                            assert isinstance(number, ast.Constant), ast.unparse(number)
                            assert isinstance(number.value, int), ast.unparse(number)
                            found[number.value].append(f"{path.relative_to(TESTS)}::{node.name}")
    return found


def test_every_complaint_has_a_test() -> None:
    assert sorted(COMPLAINTS.keys() - marked().keys()) == []


def test_every_marker_names_a_known_complaint() -> None:
    assert {number: tests for number, tests in marked().items() if number not in COMPLAINTS} == {}


def test_every_marker_is_on_a_test_that_is_counted() -> None:
    """A marker counts only on a test function at the top level of a file that an ordinary run collects."""
    counted = {test for tests in marked().values() for test in tests}
    for path in sorted(TESTS.rglob("*.py")):
        source = path.read_text(encoding="utf-8")
        if path != Path(__file__) and "mark.complaint" in source:
            prefix = f"{path.relative_to(TESTS)}::"
            attributes = [node for node in ast.walk(ast.parse(source)) if isinstance(node, ast.Attribute)]
            uses = sum(ast.unparse(node) == "pytest.mark.complaint" for node in attributes)
            assert uses == sum(test.startswith(prefix) for test in counted), prefix
