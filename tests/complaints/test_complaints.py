"""What users complain about in other SDKs: each has a test, anywhere in the suite, that it cannot happen here.

The numbers are those of a study of the issues of other SDKs, of which these are the ones that are this project's by
now. `@pytest.mark.complaint(12)` on a test says which it is about.
"""

from __future__ import annotations

import ast
from collections import defaultdict
from pathlib import Path

TESTS = Path(__file__).parents[1]
SESSIONS_OF_THEIR_OWN = {"build", "peers", "readme"}
"""Folders that an ordinary run leaves out."""

COMPLAINTS = {
    1: "Clients cannot be closed from another task, in another order, or by a fixture.",
    2: "One failed exchange takes the whole client down.",
    3: "A failure to connect, or the user's own exception, hides in an exception group.",
    5: "A call waits for ever when the stream is gone.",
    8: "Cancelling while connecting leaves tasks behind.",
    10: "A server needs several interrupts until it ends.",
    11: "Stopping with open streams hangs, and SIGTERM skips the clean-up.",
    12: "The end of input throws accepted requests away.",
    13: "Server processes outlive their client.",
    14: "Nobody says why a server died.",
    15: "A process that a tool starts steals the protocol's pipe.",
    16: "A stray print breaks the link.",
    17: "Cancelling a call does not stop its handler.",
    18: "The work for a client that has gone goes on.",
    19: "Progress arrives out of order, and after the result.",
    20: "Progress does not keep a call alive, or keeps it alive for ever.",
    21: "Streams without buffers lock each other up, and one slow reader stalls the rest.",
    22: "Plain functions block the server, or starve each other and the SDK's own work.",
    23: "A tool cannot be given a time limit or a bound of its own.",
    24: "A handler that asks the other side locks the connection up.",
    26: "A list is put into JSON anew for each request.",
    39: "Decorators change the function or its type.",
}


def marked() -> dict[int, list[str]]:
    """Return the tests that carry the marker, by number."""
    found = defaultdict[int, list[str]](list)
    for path in sorted(TESTS.rglob("test_*.py")):
        source = path.read_text(encoding="utf-8")
        if "mark.complaint" not in source or SESSIONS_OF_THEIR_OWN & set(path.relative_to(TESTS).parts):
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


def test_every_number_that_a_test_names_is_that_of_a_complaint() -> None:
    assert {number: tests for number, tests in marked().items() if number not in COMPLAINTS} == {}


def test_no_marker_stands_where_it_does_not_count() -> None:
    """Only on a test function at the top of its file, in a folder of the ordinary run, is it found."""
    counted = {test for tests in marked().values() for test in tests}
    for path in sorted(TESTS.rglob("*.py")):
        source = path.read_text(encoding="utf-8")
        if path != Path(__file__) and "mark.complaint" in source:
            place = f"{path.relative_to(TESTS)}::"
            attributes = [node for node in ast.walk(ast.parse(source)) if isinstance(node, ast.Attribute)]
            uses = sum(ast.unparse(node) == "pytest.mark.complaint" for node in attributes)
            assert uses == sum(test.startswith(place) for test in counted), place
