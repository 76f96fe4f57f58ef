"""The media types that a request sends and accepts: `Content-Type` and `Accept`."""

from __future__ import annotations

import pytest

from trio_mcp.wire import EVENT_STREAM_TYPE, JSON_TYPE, accepts

BOTH = {JSON_TYPE, EVENT_STREAM_TYPE}
NEITHER = set[str]()


@pytest.mark.parametrize(
    ("accept", "taken"),
    [
        (None, BOTH),
        ("", BOTH),
        ("  ", BOTH),
        ("application/json, text/event-stream", BOTH),
        ("text/event-stream,application/json", BOTH),
        ("Application/JSON ; charset=utf-8 , TEXT/event-stream", BOTH),
        ("*/*", BOTH),
        ("text/html, */*;q=0.1", BOTH),
        ("application/*, text/*", BOTH),
        ("application/json;q=0.9, text/event-stream;q=0.001", BOTH),
        ("application/json;q=0, application/json, text/event-stream", BOTH),
        ("application/json", {JSON_TYPE}),
        ("application/*", {JSON_TYPE}),
        ("text/event-stream", {EVENT_STREAM_TYPE}),
        ("*/*, application/json;q=0", {EVENT_STREAM_TYPE}),
        ("*/*, application/*; Q = 0.000", {EVENT_STREAM_TYPE}),
        ("application/*;q=0, application/json, text/event-stream;q=0", {JSON_TYPE}),
        ("*/*;q=0", NEITHER),
        ("text/html", NEITHER),
        ("json", NEITHER),
        (",;,/;q", NEITHER),
    ],
)
def test_the_most_specific_media_range_decides_and_a_quality_of_zero_refuses(
    accept: str | None, taken: set[str]
) -> None:
    assert {each for each in BOTH if accepts(accept, each)} == taken
