"""The serialization of token records in the token storage."""

from __future__ import annotations

import logging

import pytest
from attrs import evolve

from tests.auth.client.scripted_network import ISSUER, URL
from trio_mcp.auth import Registration
from trio_mcp.auth._dpop import DpopKey
from trio_mcp.auth.client import ServerMetadata
from trio_mcp.auth.client._discovery import ResourceMetadata, TokenIssuer
from trio_mcp.auth.client._token_cache import storage_key
from trio_mcp.auth.client._token_endpoint import Tokens, is_showable
from trio_mcp.auth.client._token_records import Lease, TokenRecord, read_record, write_record

TOKENS = Tokens(
    access_token="s3cret-access",
    token_type="Bearer",
    expires_at=2000.0,
    refresh_token="s3cret-refresh",
    scopes=("a", "b"),
)
RECORD = TokenRecord(
    issuer=ISSUER, resource=URL, tokens=TOKENS, obtained_at=1000.0, requested=("a",), dpop_key=None, lease=None
)
BOUND = evolve(RECORD, tokens=evolve(TOKENS, token_type="DPoP"), dpop_key=DpopKey.generate().to_jwk())


@pytest.mark.parametrize(
    "record",
    [
        RECORD,
        BOUND,
        evolve(RECORD, lease=Lease("me", 1030.5)),
        evolve(
            RECORD,
            tokens=evolve(
                TOKENS,
                client=Registration(
                    "me", secret="s3cret", method="client_secret_post", issuer=ISSUER, secret_expires_at=2000.0
                ),
            ),
        ),
        evolve(
            RECORD,
            resource=None,
            requested=None,
            tokens=evolve(TOKENS, expires_at=None, refresh_token=None, scopes=None),
        ),
    ],
)
def test_a_record_is_restored_unchanged(record: TokenRecord) -> None:
    assert read_record(write_record(record)) == record


def test_a_missing_value_is_read_as_no_record(caplog: pytest.LogCaptureFixture) -> None:
    assert read_record(None) is None

    assert caplog.records == []


@pytest.mark.parametrize(
    "text",
    [
        "",
        "s3cret",
        "[]",
        "{}",
        "\ud800",
        write_record(RECORD)[:-10],
        write_record(RECORD).replace('"version":1', '"version":2'),
        write_record(RECORD).replace('"Bearer"', '"bearer"'),
        write_record(RECORD).replace("2000.0", '"soon"'),
        write_record(RECORD).replace("2000.0", "NaN"),
        write_record(RECORD).replace("s3cret-access", "s3cret access"),
        write_record(RECORD).replace("s3cret-access", "s3cret\\r\\nx: y"),
        write_record(RECORD).replace("s3cret-access", ""),
        write_record(RECORD).replace('"Bearer"', '"DPoP"'),
        write_record(BOUND).replace('"DPoP"', '"Bearer"'),
        write_record(evolve(BOUND, dpop_key="{}")),
        write_record(RECORD)[:-1] + ',"more":' + "[" * 100_000 + "]" * 100_000 + "}",
    ],
)
def test_a_malformed_or_foreign_record_is_ignored_and_not_shown(text: str, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING, "trio_mcp.auth"):
        assert read_record(text) is None

    assert "of another version or format" in caplog.text
    assert "s3cret" not in caplog.text


def test_the_repr_of_a_record_contains_no_secret() -> None:
    assert BOUND.dpop_key is not None
    assert "s3cret" not in repr(BOUND)
    assert BOUND.dpop_key not in repr(BOUND)


def test_a_record_is_specific_to_one_issuer_and_one_server() -> None:
    server = ServerMetadata(issuer=ISSUER, token_endpoint=f"{ISSUER}/token")
    resource = ResourceMetadata(resource=URL, authorization_servers=(ISSUER,))
    token_issuer = TokenIssuer(url=URL, resource=resource, server=server)

    assert RECORD.is_for(token_issuer)
    assert not RECORD.is_for(evolve(token_issuer, server=evolve(server, issuer=f"{ISSUER}/")))
    assert not RECORD.is_for(evolve(token_issuer, resource=evolve(resource, resource=f"{URL}/")))
    assert not RECORD.is_for(evolve(token_issuer, resource=None))


def test_the_scopes_of_a_record_are_the_requested_or_else_the_granted_ones() -> None:
    assert RECORD.scopes_to_keep == ("a",)
    assert evolve(RECORD, requested=None).scopes_to_keep == ("a", "b")
    assert evolve(RECORD, requested=None, tokens=evolve(TOKENS, scopes=None)).scopes_to_keep == ()


@pytest.mark.parametrize(
    ("lifetime", "early"),
    [(1000.0, 30.0), (300.0, 30.0), (60.0, 6.0), (5.0, 0.5)],
)
def test_a_token_is_due_thirty_seconds_before_its_expiry_or_in_the_last_tenth_of_its_lifetime(
    lifetime: float, early: float
) -> None:
    record = evolve(RECORD, tokens=evolve(TOKENS, expires_at=1000.0 + lifetime))

    assert not record.expires_soon(1000.0)
    assert not record.expires_soon(1000.0 + lifetime - early - 0.01)
    assert record.expires_soon(1000.0 + lifetime - early + 0.01)
    assert not record.has_expired(1000.0 + lifetime - 0.01)
    assert record.has_expired(1000.0 + lifetime)


def test_a_token_of_unknown_expiry_never_expires() -> None:
    record = evolve(RECORD, tokens=evolve(TOKENS, expires_at=None))

    assert not record.expires_soon(1e12)
    assert not record.has_expired(1e12)


def test_records_of_different_servers_accounts_and_grants_have_different_keys() -> None:
    ways = [("a", "", False), ("b", "", False), ("a", "b", False), ("a", "c", False), ("a", "", True)]
    keys = {
        storage_key(url, identity=identity, account=account, dpop=dpop)
        for identity, account, dpop in ways
        for url in (URL, f"{URL}/b")
    }

    assert len(keys) == 10


@pytest.mark.parametrize(("token", "expected"), [("a.b-c_d~e+f/g==", True), ("", False), ("a b", False), ("ä", False)])
def test_a_token_that_a_header_can_carry_is_visible_ascii(token: str, expected: bool) -> None:
    assert is_showable(token) is expected
