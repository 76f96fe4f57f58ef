"""What an authorization server says when it says no reaches the user: short, printable, and without our secrets."""

from __future__ import annotations

import pytest

from tests.auth.client.flow_script import error_reply, json_reply
from trio_mcp.auth import HttpReply
from trio_mcp.auth.client._token_endpoint import error_code_of, json_object_of, refusal, refusal_of

STEP = "the token request"


def test_a_refusal_names_the_step_the_code_and_the_description() -> None:
    failure = refusal_of(STEP, error_reply("invalid_grant", "the code has expired"))

    assert str(failure) == "the token request was refused: invalid_grant (the code has expired)"
    assert failure.error == "invalid_grant"


def test_a_description_is_cut_and_made_printable() -> None:
    failure = refusal(STEP, "invalid_grant", "\x1b[2J" + "x" * 10_000)

    assert len(str(failure)) < 300
    assert str(failure).isprintable()


@pytest.mark.parametrize("description", [17, None, ["x"], ""])
def test_a_description_that_is_none_is_left_out(description: object) -> None:
    reply = json_reply({"error": "invalid_grant", "error_description": description}, status=400)

    assert str(refusal_of(STEP, reply)) == "the token request was refused: invalid_grant"


def test_what_was_secret_is_taken_out_of_the_servers_words() -> None:
    failure = refusal_of(STEP, error_reply("bad s3cret!", "no such code: s3cret! (a)"), ["s3cret!", "a", ""])

    assert "s3cret!" not in str(failure)
    assert failure.error == "bad [secret]"
    assert str(failure) == "the token request was refused: bad [secret] (no such code: [secret] (a))"


def test_what_was_secret_is_taken_out_in_the_spelling_of_a_form_as_well() -> None:
    failure = refusal_of(STEP, error_reply("invalid_grant", "code=4%2F0A+b%3D&x=y"), ["4/0A b="])

    assert str(failure) == "the token request was refused: invalid_grant (code=[secret]&x=y)"


@pytest.mark.parametrize("status", [200, 302, 429, 500, 503])
def test_a_server_that_is_out_of_order_has_refused_nothing(status: int) -> None:
    failure = refusal_of(STEP, error_reply("invalid_grant", status=status))

    assert str(failure) == f"the token request failed with HTTP status {status}"
    assert failure.error is None


@pytest.mark.parametrize(
    "body",
    [b"", b"<html>", b"[]", b'"invalid_grant"', b"[" * 100_000, b"\xff", b'{"error": 1}', b'{"error": ""}', b"{}"],
)
def test_a_body_that_is_no_oauth_error_gives_the_status(body: bytes) -> None:
    failure = refusal_of(STEP, HttpReply(status=400, body=body))

    assert str(failure) == "the token request failed with HTTP status 400"
    assert error_code_of(HttpReply(status=400, body=body)) is None


def test_a_json_object_is_read_and_nothing_else() -> None:
    assert json_object_of(HttpReply(status=200, body=b'{"a": 1}')) == {"a": 1}
    assert json_object_of(HttpReply(status=200, body=b"[1]")) is None
