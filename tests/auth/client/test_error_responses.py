"""OAuth error responses are shown to the user short, printable and without the secrets of the client."""

from __future__ import annotations

import pytest

from tests.auth.client.flow_script import error_reply, json_reply
from trio_mcp.auth import HttpReply
from trio_mcp.auth.client._token_endpoint import error_code_of, json_object_of, refusal, refusal_of

STEP = "the token request"


def test_an_error_message_contains_the_step_the_code_and_the_description() -> None:
    failure = refusal_of(STEP, error_reply("invalid_grant", "the code has expired"))

    assert str(failure) == "the token request was refused: invalid_grant (the code has expired)"
    assert failure.error == "invalid_grant"


def test_a_description_is_shortened_and_made_printable() -> None:
    failure = refusal(STEP, "invalid_grant", "\x1b[2J" + "x" * 10_000)

    assert len(str(failure)) < 300
    assert str(failure).isprintable()


@pytest.mark.parametrize("description", [17, None, ["x"], ""])
def test_a_description_that_is_not_a_string_is_omitted(description: object) -> None:
    reply = json_reply({"error": "invalid_grant", "error_description": description}, status=400)

    assert str(refusal_of(STEP, reply)) == "the token request was refused: invalid_grant"


def test_secrets_of_the_client_are_removed_from_the_description() -> None:
    failure = refusal_of(STEP, error_reply("bad s3cret!", "no such code: s3cret! (a)"), ["s3cret!", "a", ""])

    assert "s3cret!" not in str(failure)
    assert failure.error == "bad [secret]"
    assert str(failure) == "the token request was refused: bad [secret] (no such code: [secret] (a))"


def test_form_encoded_secrets_are_removed_as_well() -> None:
    failure = refusal_of(STEP, error_reply("invalid_grant", "code=4%2F0A+b%3D&x=y"), ["4/0A b="])

    assert str(failure) == "the token request was refused: invalid_grant (code=[secret]&x=y)"


@pytest.mark.parametrize("status", [200, 302, 429, 500, 503])
def test_a_server_error_is_not_treated_as_a_refusal(status: int) -> None:
    failure = refusal_of(STEP, error_reply("invalid_grant", status=status))

    assert str(failure) == f"the token request failed with HTTP status {status}"
    assert failure.error is None


@pytest.mark.parametrize(
    "body",
    [b"", b"<html>", b"[]", b'"invalid_grant"', b"[" * 100_000, b"\xff", b'{"error": 1}', b'{"error": ""}', b"{}"],
)
def test_a_response_without_an_oauth_error_is_reported_with_its_status(body: bytes) -> None:
    failure = refusal_of(STEP, HttpReply(status=400, body=body))

    assert str(failure) == "the token request failed with HTTP status 400"
    assert error_code_of(HttpReply(status=400, body=body)) is None


def test_only_a_json_object_is_read() -> None:
    assert json_object_of(HttpReply(status=200, body=b'{"a": 1}')) == {"a": 1}
    assert json_object_of(HttpReply(status=200, body=b"[1]")) is None
