"""The serialization of registrations in the token storage."""

from __future__ import annotations

import json
import logging
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.auth.client.flow_script import ISSUER, NOW, REDIRECT_URI
from trio_mcp.auth import Registration
from trio_mcp.auth.client._registration import StoredRegistration, read_stored

WHOLE = Registration(
    "me",
    secret="s3cret",
    method="client_secret_post",
    issuer=ISSUER,
    redirect_uri=REDIRECT_URI,
    secret_expires_at=NOW + 10,
)
LEAST = Registration("me", issuer=ISSUER, redirect_uri=REDIRECT_URI)


@pytest.mark.parametrize("registration", [WHOLE, LEAST])
@pytest.mark.parametrize("scopes", [None, (), ("read", "write")])
def test_a_stored_registration_is_restored_unchanged(
    registration: Registration, scopes: tuple[str, ...] | None
) -> None:
    stored = StoredRegistration(registration, scopes)

    assert read_stored(stored.to_json(), ISSUER) == stored


def test_a_missing_value_is_read_as_no_registration(caplog: pytest.LogCaptureFixture) -> None:
    assert read_stored(None, ISSUER) is None
    assert caplog.records == []


@pytest.mark.requirement("C.2-9")
def test_a_registration_of_another_issuer_counts_as_absent() -> None:
    text = StoredRegistration(WHOLE, None).to_json()

    assert read_stored(text, f"{ISSUER}/") is None


@pytest.mark.parametrize(
    "damage",
    [
        {"client_id": None},
        {"client_id": ["me"]},
        {"redirect_uri": None},
        {"client_secret": 1},
        {"token_endpoint_auth_method": "tls_client_auth"},
        {"token_endpoint_auth_method": ["none"]},
        {"client_secret_expires_at": "soon"},
        {"issuer": None},
    ],
)
def test_a_damaged_registration_counts_as_absent_and_is_not_shown(
    damage: dict[str, Any], caplog: pytest.LogCaptureFixture
) -> None:
    members = json.loads(StoredRegistration(WHOLE, None).to_json())

    with caplog.at_level(logging.WARNING, "trio_mcp.auth"):
        assert read_stored(json.dumps({**members, **damage}), ISSUER) is None

    assert len(caplog.records) == 1
    assert "s3cret" not in caplog.text


@given(st.text())
def test_any_other_string_counts_as_absent(text: str) -> None:
    assert read_stored(text, ISSUER) is None


def test_a_registration_with_additional_members_is_read() -> None:
    members = json.loads(StoredRegistration(WHOLE, None).to_json())
    text = json.dumps({**members, "client_secret_expires_at": 10**400, "another": "member"})

    stored = read_stored(text, ISSUER)

    assert stored is not None
    assert stored.fits(REDIRECT_URI, None, NOW)


@pytest.mark.parametrize(
    ("redirect_uri", "scopes", "time", "answer"),
    [
        (REDIRECT_URI, ("read",), NOW, True),
        (REDIRECT_URI, None, NOW, True),
        (REDIRECT_URI, ("read", "admin"), NOW, False),
        ("http://127.0.0.1:4712/callback", ("read",), NOW, False),
        (REDIRECT_URI, ("read",), NOW + 10, False),
    ],
)
def test_a_registration_is_suitable_depending_on_redirect_uri_scopes_and_expiry(
    redirect_uri: str, scopes: tuple[str, ...] | None, time: float, answer: bool
) -> None:
    stored = StoredRegistration(WHOLE, ("read", "write"))

    assert stored.fits(redirect_uri, scopes, time) is answer


def test_a_registration_without_a_scope_member_is_suitable_for_all_scopes() -> None:
    assert StoredRegistration(LEAST, None).fits(REDIRECT_URI, ("admin",), NOW)
