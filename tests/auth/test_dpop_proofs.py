from __future__ import annotations

import hashlib
import random
from itertools import count
from typing import Any

import pytest
from joserfc.jwk import Key

from tests.auth.signed_tokens import NOW, b64, ec_key, okp_key, raw_jws, rsa_key, signed
from trio_mcp.auth import InvalidToken, VerifierUnavailable
from trio_mcp.auth._dpop import CheckedProof, DpopKey, SeenProofs, read_proof

URL = "https://api.example/mcp"
TOKEN = "the-token"


def claims(**changed: Any) -> dict[str, Any]:
    ath = b64(hashlib.sha256(TOKEN.encode()).digest())
    values = {"jti": "one", "htm": "POST", "htu": URL, "iat": int(NOW), "ath": ath, **changed}
    return {name: value for name, value in values.items() if value is not None}


def proof(*, key: Key | None = None, header: dict[str, Any] | None = None, **changed: Any) -> str:
    """Return a valid proof with the given changes."""
    key = ec_key() if key is None else key
    fields = {"alg": "ES256", "typ": "dpop+jwt", "jwk": key.as_dict(private=False), **(header or {})}
    return signed({name: value for name, value in fields.items() if value is not None}, claims(**changed), key)


def read(text: str, **changed: Any) -> CheckedProof:
    options: dict[str, Any] = {"method": "POST", "urls": {URL}, "token": TOKEN, "now": NOW, **changed}
    return read_proof(text, **options)


def test_a_proof_of_the_client_is_accepted_by_the_server() -> None:
    key = DpopKey.generate()

    checked = read(key.proof("POST", f"{URL}?a=b", now=NOW, token=TOKEN, nonce="n"))

    assert checked.thumbprint == key.thumbprint
    assert checked.until == NOW + 300


@pytest.mark.parametrize(("key", "algorithm"), [(rsa_key(), "RS256"), (rsa_key(), "PS256"), (okp_key(), "Ed25519")])
def test_keys_of_every_kind_can_sign_proofs(key: Key, algorithm: str) -> None:
    assert read(proof(key=key, header={"alg": algorithm})).thumbprint == key.thumbprint()


@pytest.mark.parametrize(
    "htu",
    [
        "https://api.example:443/mcp",
        "HTTPS://API.example/mcp",
        "https://api.example/mcp?query#fragment",
        "https://api.example/%6dcp",
    ],
)
def test_an_equivalent_spelling_of_the_url_of_a_proof_is_accepted(htu: str) -> None:
    assert read(proof(htu=htu)).id == "one"


def test_an_empty_path_is_equal_to_the_root_path() -> None:
    assert read(proof(htu="https://api.example"), urls={"https://api.example/"}).id == "one"


@pytest.mark.parametrize("iat", [NOW - 300, NOW + 300, NOW - 0.5])
def test_the_clock_of_a_proof_may_differ_by_five_minutes(iat: float) -> None:
    assert read(proof(iat=iat)).until == iat + 300


@pytest.mark.parametrize(
    ("changed", "cause"),
    [
        ({"htm": "GET"}, "another method"),
        ({"htm": "post"}, "another method"),
        ({"htm": None}, "another method"),
        ({"htu": "https://evil.example/mcp"}, "another URL"),
        ({"htu": "http://api.example/mcp"}, "another URL"),
        ({"htu": "https://api.example:8443/mcp"}, "another URL"),
        ({"htu": "https://api.example/mcp/"}, "another URL"),
        ({"htu": "https://api.example/other"}, "another URL"),
        ({"htu": "https://ann@api.example/mcp"}, "another URL"),
        ({"htu": "/mcp"}, "another URL"),
        ({"htu": "https://api.example:99999999/mcp"}, "another URL"),
        ({"htu": [URL]}, "another URL"),
        ({"htu": None}, "another URL"),
        ({"iat": NOW - 301}, "too old, or its time is in the future"),
        ({"iat": NOW + 301}, "too old, or its time is in the future"),
        ({"iat": None}, "too old, or its time is in the future"),
        ({"iat": str(NOW)}, "'iat' is not a time"),
        ({"iat": True}, "'iat' is not a time"),
        ({"iat": 10**400}, "'iat' is not a time"),
        ({"ath": b64(hashlib.sha256(b"another").digest())}, "another token"),
        ({"ath": TOKEN}, "another token"),
        ({"ath": None}, "another token"),
        ({"jti": None}, "no identifier"),
        ({"jti": ""}, "no identifier"),
        ({"jti": 7}, "no identifier"),
        ({"jti": "x" * 257}, "no identifier"),
    ],
    ids=lambda value: str(value)[:40],
)
def test_a_proof_for_a_different_request_or_token_is_refused(changed: dict[str, Any], cause: str) -> None:
    with pytest.raises(InvalidToken, match=cause):
        read(proof(**changed))


@pytest.mark.parametrize(
    ("header", "cause"),
    [
        ({"typ": None}, "is not a proof"),
        ({"typ": "JWT"}, "is not a proof"),
        ({"typ": "at+jwt"}, "is not a proof"),
        ({"jwk": None}, "contains no key"),
        ({"jwk": "key"}, "contains no key"),
        ({"jwk": {}}, "not a public key"),
        ({"jwk": ec_key().as_dict(private=True)}, "not a public key"),
        ({"jwk": ec_key("other").as_dict(private=False)}, "signature is invalid"),
    ],
    ids=map(str, count()),  # the keys are new in each test run
)
def test_a_proof_without_a_valid_public_key_is_refused(header: dict[str, Any], cause: str) -> None:
    with pytest.raises(InvalidToken, match=cause):
        read(proof(header=header))


def test_an_access_token_is_not_accepted_as_a_proof() -> None:
    with pytest.raises(InvalidToken, match="is not a proof"):
        read(signed({"alg": "ES256", "typ": "at+jwt"}, claims(), ec_key()))


@pytest.mark.parametrize(
    "text",
    [
        "",
        "one, two",
        "x" * 8193,
        raw_jws({"alg": "none", "typ": "dpop+jwt"}, claims(), b""),
        raw_jws({"alg": "HS256", "typ": "dpop+jwt", "jwk": {"kty": "oct", "k": "eA"}}, claims(), b"x"),
        raw_jws({"alg": "ES256", "typ": "dpop+jwt"}, "[" * 4000, b"x"),
    ],
    ids=lambda text: text[:20],
)
def test_a_malformed_proof_is_refused(text: str) -> None:
    with pytest.raises(InvalidToken):
        read(text)


def test_two_proofs_in_one_request_are_refused() -> None:
    with pytest.raises(InvalidToken):
        read(f"{proof()}, {proof(jti='two')}")


def proof_with_id(id: str = "one", thumbprint: str = "key", until: float = NOW + 300) -> CheckedProof:
    return CheckedProof(thumbprint=thumbprint, id=id, until=until)


def test_a_proof_is_accepted_once() -> None:
    replays = SeenProofs()

    assert replays.note(proof_with_id(), NOW, "ann")
    assert not replays.note(proof_with_id(), NOW + 300, "ann")


def test_the_same_identifier_with_another_key_is_a_different_proof() -> None:
    replays = SeenProofs()
    replays.note(proof_with_id(), NOW, "ann")

    assert replays.note(proof_with_id(thumbprint="other"), NOW, "ann")
    assert replays.note(proof_with_id("two"), NOW, "ann")


def test_proofs_are_refused_while_the_memory_is_full_until_old_proofs_expire() -> None:
    replays = SeenProofs(max_kept=2)
    replays.note(proof_with_id("one", until=NOW + 10), NOW, "ann")
    replays.note(proof_with_id("two", until=NOW + 20), NOW, "ann")

    with pytest.raises(VerifierUnavailable, match="2 proofs"):
        replays.note(proof_with_id("three"), NOW + 10, "ann")
    assert not replays.note(proof_with_id("two", until=NOW + 20), NOW + 10, "ann")
    assert replays.note(proof_with_id("three"), NOW + 11, "ann")


def test_proofs_may_expire_in_any_order() -> None:
    replays = SeenProofs(max_kept=2)
    replays.note(proof_with_id("late", until=NOW + 600), NOW, "ann")
    replays.note(proof_with_id("early", until=NOW + 10), NOW, "ann")

    assert replays.note(proof_with_id("new"), NOW + 11, "ann")
    assert not replays.note(proof_with_id("late", until=NOW + 600), NOW + 12, "ann")


def at(seconds: int, id: str) -> CheckedProof:
    """Return a proof that becomes too old after *seconds*."""
    return proof_with_id(id, until=NOW + seconds)


def test_a_principal_with_many_proofs_does_not_keep_others_from_using_theirs() -> None:
    replays = SeenProofs(max_kept=4)
    for number in range(4):
        assert replays.note(at(number, f"{number}"), NOW, "ann")

    with pytest.raises(VerifierUnavailable, match="4 proofs"):
        replays.note(at(9, "more"), NOW, "ann")
    assert replays.note(at(9, "of bob"), NOW, "bob")
    assert not replays.note(at(9, "of bob"), NOW, "bob")


def test_a_proof_that_was_forgotten_cannot_be_replayed_and_later_ones_are_accepted() -> None:
    replays = SeenProofs(max_kept=4)
    for seconds in (10, 10, 20, 30):
        replays.note(at(seconds, f"{seconds} {replays._bound.total}"), NOW, "ann")

    assert replays.note(at(10, "of bob"), NOW, "bob")
    assert not any(replays.note(at(10, f"10 {number}"), NOW, "ann") for number in range(2))
    assert not replays.note(at(10, "never used, but as old"), NOW, "ann")
    assert not replays.note(at(9, "never used, but older"), NOW, "ann")
    assert not replays.note(at(20, "20 2"), NOW, "ann")

    assert replays.note(at(10, "of carl"), NOW, "carl")  # the mark, and the proof of the next second give way
    assert not replays.note(at(20, "20 2"), NOW, "ann")
    assert not replays.note(at(30, "30 3"), NOW, "ann")

    assert replays.note(at(31, "newer"), NOW + 21, "ann")
    assert not replays.note(at(30, "30 3"), NOW + 21, "ann")


def test_if_nobody_has_more_proofs_than_a_newcomer_its_proof_is_not_accepted() -> None:
    replays = SeenProofs(max_kept=2)
    replays.note(at(10, "one"), NOW, "ann")
    replays.note(at(10, "one"), NOW, "bob")

    with pytest.raises(VerifierUnavailable, match="2 proofs"):
        replays.note(at(10, "one"), NOW, "carl")


@pytest.mark.parametrize("seed", range(20))
def test_no_proof_is_ever_accepted_twice_and_the_memory_stays_bounded(seed: int) -> None:
    chance = random.Random(seed)
    replays, accepted, now = SeenProofs(max_kept=12), set[tuple[str, CheckedProof]](), NOW
    refused_without_need = 0
    for _ in range(2000):
        now += chance.choice((*[0] * 12, 0.3, 1, 2))
        principal = chance.choice("aaaaaabbbcd")
        used = [proof for name, proof in accepted if name == principal and proof.until >= now]
        new = proof_with_id(f"{chance.random()}", until=now + chance.choice((0, 0.5, 1, 3, 9)))
        proof = chance.choice([*sorted(used, key=lambda each: each.id), new, new])
        try:
            is_accepted = replays.note(proof, now, principal)
        except VerifierUnavailable:
            continue
        assert not (is_accepted and (principal, proof) in accepted)
        if is_accepted:
            accepted.add((principal, proof))
        elif proof is new:
            refused_without_need += 1
        assert replays._bound.total <= 12
        assert {second.until for second in replays._seen} == replays._senders.keys()
        assert replays._forgotten.keys() <= {second.sender for second in replays._seen}
    assert len(accepted) > 200
    assert refused_without_need > 0
