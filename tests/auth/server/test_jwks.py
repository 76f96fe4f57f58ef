from __future__ import annotations

import json
from typing import Any

import pytest
import trio
import trio.testing
from joserfc.jwk import Key, OctKey

from tests.auth.signed_tokens import ISSUER, Issuer, ec_key, okp_key, raw_jws, rsa_key
from trio_mcp.auth import HttpReply, VerifierUnavailable
from trio_mcp.auth._jwt import ASYMMETRIC, SignedJson, read_jws
from trio_mcp.auth.server._token_verifiers import KeyRing

JWKS = f"{ISSUER}/jwks"


def ring(server: Issuer, uri: str | None = None) -> KeyRing:
    return KeyRing(server.issuer, uri, (), server.clock)


def signed_by(server: Issuer, key: Key, **options: Any) -> SignedJson:
    return read_jws(server.token(key=key, **options), algorithms=ASYMMETRIC, max_chars=4096)


def published(*keys: object) -> HttpReply:
    return HttpReply(status=200, body=json.dumps({"keys": keys}).encode())


async def test_the_keys_are_found_through_the_metadata_and_fetched_once() -> None:
    server = Issuer()
    keys = ring(server)

    for _ in range(10):
        assert await keys.has_signed(signed_by(server, ec_key()), server)

    assert server.requested_urls == [f"{ISSUER}/.well-known/oauth-authorization-server", JWKS]
    assert [call.named_by for call in server.calls] == ["user", "user"]


async def test_the_keys_are_fetched_from_the_url_in_the_options() -> None:
    server = Issuer(answers={"https://keys.example/all": published(ec_key().as_dict(private=False))})

    assert await ring(server, "https://keys.example/all").has_signed(signed_by(server, ec_key()), server)
    assert [(call.url, call.named_by) for call in server.calls] == [("https://keys.example/all", "user")]


async def test_a_key_host_from_the_metadata_counts_as_chosen_by_the_server() -> None:
    elsewhere = json.dumps({"issuer": ISSUER, "jwks_uri": "https://10.0.0.1/jwks"}).encode()
    server = Issuer(answers={f"{ISSUER}/.well-known/oauth-authorization-server": HttpReply(status=200, body=elsewhere)})

    with pytest.raises(VerifierUnavailable):
        await ring(server).has_signed(signed_by(server, ec_key()), server)

    assert [call.named_by for call in server.calls] == ["user", "server"]


async def test_a_wrong_signature_with_a_known_key_causes_no_fetch() -> None:
    server = Issuer()
    keys = ring(server)
    await keys.has_signed(signed_by(server, ec_key()), server)
    server.clock.now += 60

    assert not await keys.has_signed(signed_by(server, ec_key("foreign"), header={"kid": "first"}), server)
    assert server.requested_urls.count(JWKS) == 1


async def test_new_keys_are_fetched_when_a_token_first_names_one() -> None:
    server = Issuer()
    keys = ring(server)
    await keys.has_signed(signed_by(server, ec_key()), server)
    server.keys = [ec_key("second")]
    server.clock.now += 10

    assert await keys.has_signed(signed_by(server, ec_key("second")), server)
    assert not await keys.has_signed(signed_by(server, ec_key()), server)


async def test_unknown_key_ids_cause_fetches_at_a_bounded_rate() -> None:
    server = Issuer()
    keys = ring(server)
    await keys.has_signed(signed_by(server, ec_key()), server)

    for second in range(40):
        server.clock.now += 1
        for number in range(5):
            assert not await keys.has_signed(
                signed_by(server, ec_key("foreign"), header={"kid": f"{second}-{number}"}), server
            )
        assert await keys.has_signed(signed_by(server, ec_key()), server)

    assert server.requested_urls.count(JWKS) == 5


async def test_tokens_with_unknown_keys_share_one_fetch_and_do_not_block_other_tokens() -> None:
    server = Issuer()
    keys = ring(server)
    await keys.has_signed(signed_by(server, ec_key()), server)
    server.clock.now += 60
    server.keys.append(ec_key("second"))
    server.admission = trio.Event()
    found: list[bool] = []

    async def ask() -> None:
        found.append(await keys.has_signed(signed_by(server, ec_key("second")), server))

    async with trio.open_nursery() as nursery:
        for _ in range(20):
            nursery.start_soon(ask)
        await trio.testing.wait_all_tasks_blocked()
        assert await keys.has_signed(signed_by(server, ec_key()), server)
        assert not found
        server.admission.set()

    assert found == [True] * 20
    assert server.requested_urls.count(JWKS) == 2


async def test_a_token_without_a_key_id_is_checked_with_all_keys() -> None:
    server = Issuer(keys=[rsa_key(), ec_key("384", "P-384"), okp_key(), ec_key()])
    keys = ring(server)

    assert await keys.has_signed(signed_by(server, ec_key(), header={"kid": None}), server)
    assert not await keys.has_signed(signed_by(server, ec_key("foreign"), header={"kid": None}), server)


async def test_a_token_without_a_key_id_also_causes_new_keys_to_be_fetched() -> None:
    server = Issuer()
    keys = ring(server)
    await keys.has_signed(signed_by(server, ec_key()), server)
    server.keys = [ec_key("second")]
    server.clock.now += 10

    assert await keys.has_signed(signed_by(server, ec_key("second"), header={"kid": None}), server)


async def test_a_token_without_a_key_id_is_checked_with_a_bounded_number_of_keys() -> None:
    server = Issuer(keys=[*(ec_key(f"decoy {number}") for number in range(8)), ec_key()])
    keys = ring(server)

    assert not await keys.has_signed(signed_by(server, ec_key(), header={"kid": None}), server)
    assert await keys.has_signed(signed_by(server, ec_key()), server)


async def test_old_keys_stay_in_use_for_a_day_while_the_server_is_unreachable() -> None:
    server = Issuer()
    keys = ring(server)
    await keys.has_signed(signed_by(server, ec_key()), server)
    server.become_unreachable()

    server.clock.now += 86_400
    assert await keys.has_signed(signed_by(server, ec_key()), server)

    server.clock.now += 1
    with pytest.raises(VerifierUnavailable, match=r"there are no keys of https://as\.example"):
        await keys.has_signed(signed_by(server, ec_key()), server)


async def test_a_withdrawn_key_is_soon_refused() -> None:
    server = Issuer(keys=[ec_key(), ec_key("second")])
    keys = ring(server)
    await keys.has_signed(signed_by(server, ec_key()), server)
    server.keys = [ec_key("second")]
    server.clock.now += 601

    assert not await keys.has_signed(signed_by(server, ec_key()), server)


@pytest.mark.parametrize("body", [b"{}", b'{"keys": 7}', b'{"keys": {"a": 1}}', b"[]", b"<html>"])
async def test_a_malformed_key_set_makes_the_verifier_unavailable(body: bytes) -> None:
    server = Issuer(answers={JWKS: HttpReply(status=200, body=body)})

    with pytest.raises(VerifierUnavailable, match="there are no keys"):
        await ring(server).has_signed(signed_by(server, ec_key()), server)


async def test_a_failed_fetch_keeps_the_present_keys() -> None:
    server = Issuer()
    keys = ring(server)
    await keys.has_signed(signed_by(server, ec_key()), server)
    server.answers[JWKS] = HttpReply(status=200, body=b"{}")
    server.clock.now += 700

    assert await keys.has_signed(signed_by(server, ec_key()), server)


async def test_unusable_keys_are_skipped() -> None:
    good = ec_key().as_dict(private=False)
    odd = [7, None, "key", {}, {"kty": "AKP"}, {**good, "x": "!"}, OctKey.generate_key(256).as_dict(private=True)]
    server = Issuer(answers={JWKS: published(*odd, good)})

    assert await ring(server).has_signed(signed_by(server, ec_key()), server)


async def test_a_published_symmetric_key_is_not_used() -> None:
    secret = OctKey.import_key({"kty": "oct", "k": "c2VjcmV0LXNlY3JldC1zZWNyZXQtc2VjcmV0", "kid": "first"})
    server = Issuer(answers={JWKS: published(secret.as_dict(private=True))})
    token = read_jws(raw_jws({"alg": "ES256", "kid": "first"}, {}, b"x"), algorithms=ASYMMETRIC, max_chars=4096)

    assert not await ring(server).has_signed(token, server)


async def test_at_most_a_hundred_keys_are_read() -> None:
    good = ec_key().as_dict(private=False)
    server = Issuer(answers={JWKS: published(*[{"kty": "none"}] * 100, good)})

    assert not await ring(server).has_signed(signed_by(server, ec_key()), server)
