"""The path of a call through the files of the package, and its limits."""

from __future__ import annotations

import pytest
import trio

from benchmarks.call_path import FOLLOWERS, LIMITS, CallPath, Step, main

ROUNDS = 5
"""The number of calls for each limit. Trio schedules tasks in random order, so the shortest path counts."""


@pytest.mark.parametrize("transport", FOLLOWERS)
def test_a_call_stays_within_the_limits_of_its_transport(transport: str) -> None:
    limits = LIMITS[transport]

    paths = [trio.run(FOLLOWERS[transport]) for _ in range(ROUNDS)]

    assert min(len(path.files) for path in paths) <= limits.files
    assert limits.changes is None or min(path.changes for path in paths) <= limits.changes


@pytest.mark.parametrize("transport", FOLLOWERS)
def test_a_path_begins_in_the_client_and_passes_the_server(transport: str) -> None:
    path = trio.run(FOLLOWERS[transport])

    assert path.files[0].startswith("client/")
    assert any(file.startswith("server/") for file in path.files)
    assert any(file.startswith("transports/http/") for file in path.files) == (transport == "http")


def test_the_map_has_a_line_for_each_step_and_ends_with_the_counts() -> None:
    path = CallPath([Step("a.py", ("f", "g")), Step("b.py", ("h",)), Step("a.py", ("f",))])

    assert path.files == ["a.py", "b.py"]
    assert [line.split() for line in path.lines()] == [
        ["a.py", "f,", "g"],
        ["b.py", "h"],
        ["a.py", "f"],
        ["2", "files,", "2", "changes", "of", "file"],
    ]


def test_an_empty_path_has_no_changes() -> None:
    assert (CallPath().files, CallPath().changes) == ([], 0)


def test_the_program_prints_the_map_of_the_named_transport(capsys: pytest.CaptureFixture[str]) -> None:
    main(["link"])

    first, *_, last = capsys.readouterr().out.splitlines()
    assert first == "tools/call over link:"
    assert last.endswith("changes of file")
