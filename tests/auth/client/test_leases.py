"""Leases on refresh tokens: which process may use a refresh token, and how its result is stored."""

from __future__ import annotations

import pytest
from attrs import define, evolve, field

from tests.auth.client.flow_script import NOW, FlowScript
from trio_mcp import AuthorizationFailed
from trio_mcp.auth import Registration
from trio_mcp.auth.client import ServerMetadata
from trio_mcp.auth.client._discovery import TokenIssuer
from trio_mcp.auth.client._steps import Await, Flow, Pause
from trio_mcp.auth.client._token_cache import REFRESH_SECONDS
from trio_mcp.auth.client._token_endpoint import Tokens
from trio_mcp.auth.client._token_records import (
    Lease,
    LeasedRecord,
    TokenRecord,
    load_record,
    read_record,
    refresh_leased,
    release_lease,
    store_record,
    take_lease,
    write_record,
)

KEY = "key"
ISSUER = "https://auth.example.com"
TOKEN_ISSUER = TokenIssuer(
    url="https://mcp.example.com/mcp",
    resource=None,
    server=ServerMetadata(issuer=ISSUER, token_endpoint=f"{ISSUER}/token"),
)
OLD = TokenRecord(
    issuer=ISSUER,
    resource=None,
    tokens=Tokens(access_token="old", token_type="Bearer", expires_at=NOW, refresh_token="r-old", scopes=("a", "b")),
    obtained_at=NOW - 3600,
    requested=("a",),
    dpop_key=None,
)
NEW_TOKENS = Tokens(access_token="new", token_type="Bearer", expires_at=NOW + 60, refresh_token="r-new", scopes=None)
THEIRS = evolve(OLD, tokens=evolve(OLD.tokens, access_token="theirs", refresh_token="r-theirs"))


@define
class ContestedScript(FlowScript):
    """A script in which other processes change or delete the value just before each of these swaps."""

    others: list[TokenRecord | None] = field(factory=list[TokenRecord | None], kw_only=True)

    def _swap(self, key: str, old: str | None, new: str | None) -> bool:
        if self.others:
            self.put(self.others.pop(0))
        return super()._swap(key, old, new)

    def put(self, record: TokenRecord | None) -> None:
        self.values.pop(KEY, None)
        if record is not None:
            self.values[KEY] = write_record(record)

    @property
    def stored(self) -> TokenRecord | None:
        return read_record(self.values.get(KEY))

    @property
    def pauses(self) -> list[float]:
        return [step.seconds for step in self.steps if isinstance(step, Pause)]


def contested_script(record: TokenRecord | None, *others: TokenRecord | None) -> ContestedScript:
    script = ContestedScript(others=list(others))
    script.put(record)
    return script


def leased_in(script: ContestedScript, record: TokenRecord = OLD) -> LeasedRecord:
    """Store the record and take its lease."""
    script.put(record)
    leased = script.run(take_lease(KEY, "old", TOKEN_ISSUER))
    assert isinstance(leased, LeasedRecord)
    return leased


def succeed_with(tokens: Tokens) -> Flow[Tokens]:
    async def answer() -> Tokens:
        return tokens

    brought: Tokens = yield Await(answer)
    return brought


def fail_with(error: str | None) -> Flow[Tokens]:
    async def answer() -> Tokens:
        raise AuthorizationFailed("no", error=error)

    brought: Tokens = yield Await(answer)
    return brought


def test_a_stored_record_is_loaded() -> None:
    assert contested_script(OLD).run(load_record(KEY)) == OLD
    assert contested_script(None).run(load_record(KEY)) is None


# Taking the lease.


def test_a_lease_is_stored_and_lasts_longer_than_the_timeout_of_a_refresh() -> None:
    script = contested_script(OLD)

    leased = script.run(take_lease(KEY, "old", TOKEN_ISSUER))

    assert isinstance(leased, LeasedRecord)
    assert leased.record == script.stored
    assert leased.record.lease is not None
    assert leased.record.lease.until > NOW + REFRESH_SECONDS
    assert evolve(leased.record, lease=None) == OLD
    assert "r-old" not in repr(leased)


@pytest.mark.parametrize(
    "record",
    [None, evolve(OLD, issuer="https://other.example.com"), evolve(OLD, resource="https://mcp.example.com")],
)
def test_no_lease_is_taken_on_a_missing_record_or_a_record_of_another_issuer_or_server(
    record: TokenRecord | None,
) -> None:
    script = contested_script(record)

    assert script.run(take_lease(KEY, "old", TOKEN_ISSUER)) is None
    assert script.stored == record


@pytest.mark.parametrize("record", [THEIRS, evolve(OLD, tokens=evolve(OLD.tokens, refresh_token=None))])
def test_no_lease_is_taken_on_a_replaced_record_or_one_without_a_refresh_token(record: TokenRecord) -> None:
    assert contested_script(record).run(take_lease(KEY, "old", TOKEN_ISSUER)) == record


def test_the_second_process_waits_and_uses_the_tokens_of_the_first() -> None:
    script = contested_script(OLD, evolve(OLD, lease=Lease("other", NOW + 10)))

    flow = take_lease(KEY, "old", TOKEN_ISSUER)
    steps = [next(flow)]
    text = script.values[KEY]
    steps.append(flow.send(text))  # the time
    steps.append(flow.send(NOW))  # the swap
    script.put(evolve(OLD, lease=Lease("other", NOW + 10)))
    steps.append(flow.send(False))  # looks again
    steps.append(flow.send(script.values[KEY]))  # the time
    steps.append(flow.send(NOW))
    assert isinstance(steps[-1], Pause)
    flow.send(None)
    script.put(THEIRS)
    with pytest.raises(StopIteration) as end:
        flow.send(script.values[KEY])

    assert end.value.value == THEIRS


def test_a_lease_that_is_not_released_expires() -> None:
    script = contested_script(evolve(OLD, lease=Lease("gone", NOW + 10)))

    assert isinstance(script.run(take_lease(KEY, "old", TOKEN_ISSUER)), LeasedRecord)

    assert NOW + 10 <= script.time < NOW + 11
    assert script.pauses[:3] == [0.05, 0.1, 0.2]
    assert max(script.pauses) == 1


@pytest.mark.parametrize("until", [NOW, NOW - 5, NOW + 100_000])
def test_an_expired_or_impossible_lease_is_ignored(until: float) -> None:
    script = contested_script(evolve(OLD, lease=Lease("gone", until)))

    assert isinstance(script.run(take_lease(KEY, "old", TOKEN_ISSUER)), LeasedRecord)

    assert script.pauses == []


def test_releasing_a_lease_restores_the_record() -> None:
    script = contested_script(OLD)

    script.run(release_lease(leased_in(script)))

    assert script.stored == OLD


def test_releasing_a_lease_does_not_overwrite_changes_of_other_processes() -> None:
    script = contested_script(OLD)
    leased = leased_in(script)
    script.put(THEIRS)

    script.run(release_lease(leased))

    assert script.stored == THEIRS


# Refreshing.


def test_a_refresh_replaces_the_record_and_ends_the_lease() -> None:
    script = contested_script(OLD)
    leased = leased_in(script)
    script.time += 7

    new = script.run(refresh_leased(leased, succeed_with(NEW_TOKENS)))

    assert new == evolve(OLD, tokens=evolve(NEW_TOKENS, scopes=("a", "b")), obtained_at=NOW + 7)
    assert script.stored == new


def test_refreshed_tokens_keep_the_client_that_obtained_the_first_tokens() -> None:
    client = Registration("me", issuer=ISSUER)
    script = contested_script(OLD)
    leased = leased_in(script, evolve(OLD, tokens=evolve(OLD.tokens, client=client)))

    assert script.run(refresh_leased(leased, succeed_with(NEW_TOKENS))).tokens.client == client


def test_a_refresh_response_without_a_refresh_token_keeps_the_old_one_and_updates_the_scopes() -> None:
    script = contested_script(OLD)

    new = script.run(
        refresh_leased(leased_in(script), succeed_with(evolve(NEW_TOKENS, refresh_token=None, scopes=("c",))))
    )

    assert (new.tokens.refresh_token, new.tokens.scopes) == ("r-old", ("c",))


@pytest.mark.parametrize("error", ["invalid_grant", "invalid_client", "unauthorized_client"])
def test_a_refused_refresh_token_is_deleted(error: str) -> None:
    script = contested_script(OLD)

    spent = script.run(refresh_leased(leased_in(script), fail_with(error)))

    assert spent == evolve(OLD, tokens=evolve(OLD.tokens, refresh_token=None))
    assert script.stored == spent


@pytest.mark.parametrize("error", [None, "temporarily_unavailable", "server_error", "slow_down", "use_dpop_nonce"])
def test_a_refresh_token_is_kept_if_the_error_does_not_prove_it_invalid(error: str | None) -> None:
    script = contested_script(OLD)
    leased = leased_in(script)

    with pytest.raises(AuthorizationFailed, match="no"):
        script.run(refresh_leased(leased, fail_with(error)))
    script.run(release_lease(leased))

    assert script.stored == OLD


def test_a_refreshed_record_replaces_a_lease_that_another_process_has_taken_meanwhile() -> None:
    script = contested_script(OLD)
    leased = leased_in(script)
    script.others = [
        evolve(OLD, lease=Lease("other", NOW + 99)),
        evolve(OLD, tokens=evolve(OLD.tokens, refresh_token=None)),
    ]

    new = script.run(refresh_leased(leased, succeed_with(NEW_TOKENS)))

    assert script.stored == new


@pytest.mark.parametrize("other", [THEIRS, None])
def test_a_refreshed_record_does_not_replace_a_new_record_or_a_deletion_of_another_process(
    other: TokenRecord | None,
) -> None:
    script = contested_script(OLD)
    leased = leased_in(script)
    script.others = [other]

    new = script.run(refresh_leased(leased, succeed_with(NEW_TOKENS)))

    assert new.tokens.access_token == "new"
    assert script.stored == other


def test_storing_a_refreshed_record_gives_up_if_the_storage_keeps_changing() -> None:
    script = contested_script(OLD)
    leased = leased_in(script)
    script.others = [evolve(OLD, lease=Lease("other", NOW + number)) for number in range(100)]

    new = script.run(refresh_leased(leased, succeed_with(NEW_TOKENS)))

    assert new.tokens.access_token == "new"
    assert len(script.others) == 80


def test_refreshed_tokens_are_used_even_if_they_cannot_be_stored(caplog: pytest.LogCaptureFixture) -> None:
    class Full(ContestedScript):
        def _swap(self, key: str, old: str | None, new: str | None) -> bool:
            raise OSError("not-to-be-shown")

    script = contested_script(OLD)
    leased = leased_in(script)
    full = Full(values=script.values)

    new = full.run(refresh_leased(leased, succeed_with(NEW_TOKENS)))

    assert new.tokens.refresh_token == "r-new"
    assert "could not be stored: OSError" in caplog.text
    assert "not-to-be-shown" not in caplog.text


# ContestedScript.


@pytest.mark.parametrize("before", [None, OLD, THEIRS])
def test_a_stored_record_replaces_the_present_record(before: TokenRecord | None) -> None:
    script = contested_script(before, THEIRS, None, OLD)
    new = evolve(OLD, tokens=NEW_TOKENS)

    script.run(store_record(KEY, new))

    assert script.stored == new


def test_a_record_that_cannot_be_stored_is_an_error() -> None:
    script = contested_script(OLD, *(evolve(OLD, obtained_at=float(number)) for number in range(100)))

    with pytest.raises(AuthorizationFailed, match="keeps changing"):
        script.run(store_record(KEY, OLD))
