"""The parser and the writer of WWW-Authenticate challenges."""

from __future__ import annotations

from typing import TypeAlias

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trio_mcp.auth import _challenges
from trio_mcp.auth._challenges import Challenge, read_challenges, write_challenge

PRM = "https://x.example/.well-known/oauth-protected-resource/mcp"

Cases: TypeAlias = list[tuple[str, list[tuple[str, dict[str, str]]]]]

READ: Cases = [
    ("Bearer", [("Bearer", {})]),
    ("Bearer   ", [("Bearer", {})]),
    (f'Bearer resource_metadata="{PRM}"', [("Bearer", {"resource_metadata": PRM})]),
    (
        f'Bearer error="insufficient_scope", scope="a b",resource_metadata="{PRM}"',
        [("Bearer", {"error": "insufficient_scope", "scope": "a b", "resource_metadata": PRM})],
    ),
    ("Bearer ERROR=invalid_token", [("Bearer", {"error": "invalid_token"})]),
    ('Bearer error = "x"\t,\tscope\t=\ty', [("Bearer", {"error": "x", "scope": "y"})]),
    ('Basic realm="a", Bearer scope="b"', [("Basic", {"realm": "a"}), ("Bearer", {"scope": "b"})]),
    ('DPoP algs="ES256", Bearer', [("DPoP", {"algs": "ES256"}), ("Bearer", {})]),
    ("Bearer, Basic, DPoP", [("Bearer", {}), ("Basic", {}), ("DPoP", {})]),
    ('Negotiate, Basic realm="a"', [("Negotiate", {}), ("Basic", {"realm": "a"})]),
    ("Negotiate YWJj/+==, Bearer scope=a", [("Negotiate", {}), ("Bearer", {"scope": "a"})]),
    ("Negotiate YWJj", [("Negotiate", {})]),
    (
        'Newauth realm="apps", type=1, title="Login to \\"apps\\"", Basic realm="simple"',
        [("Newauth", {"realm": "apps", "type": "1", "title": 'Login to "apps"'}), ("Basic", {"realm": "simple"})],
    ),
]
SKIPPED: Cases = [
    ("", []),
    (" , ,, ", []),
    (", Bearer ,,scope=a,", [("Bearer", {"scope": "a"})]),
    ('Bearer error="a" scope="b"', [("Bearer", {"error": "a", "scope": "b"})]),
    ("Bearer error=a scope=b", [("Bearer", {"error": "a", "scope": "b"})]),
    ("Bearer error=a Basic realm=b", [("Bearer", {"error": "a"}), ("Basic", {"realm": "b"})]),
    (f"Bearer resource_metadata={PRM}, scope=a", [("Bearer", {"resource_metadata": PRM, "scope": "a"})]),
    ('Bearer error="", scope=, a=b', [("Bearer", {"error": "", "scope": "", "a": "b"})]),
    ("Bearer scope=, a=b", [("Bearer", {"a": "b"})]),
    ('Bearer Basic realm="a"', [("Bearer", {}), ("Basic", {"realm": "a"})]),
    ('Bearer scope="first", Scope="second"', [("Bearer", {"scope": "first"})]),
    ('scope="a"', []),
    ('Bearer ;; error="a"', [("Bearer", {"error": "a"})]),
    ('Bearer "Basic realm=x", scope=a', [("Bearer", {"scope": "a"})]),
    ('Bearer scope="a, Basic realm=b', [("Bearer", {})]),
    ('Bearer scope="a\\"', [("Bearer", {})]),
    ('Bearer "a, Basic realm=b', [("Bearer", {})]),
    ('Bearer scope="a, Basic realm=\\"x\\"", error=b', [("Bearer", {"scope": 'a, Basic realm="x"', "error": "b"})]),
    ('Bearer scope="a\nb"', [("Bearer", {"scope": "a\nb"})]),
    ("Bearer scope=\xe9", [("Bearer", {"scope": "\xe9"})]),
    ("\xe9\xe9 Bearer", [("Bearer", {})]),
]


@pytest.mark.requirement("C.2-2")
@pytest.mark.parametrize(("text", "challenges"), READ)
def test_challenges_are_read(text: str, challenges: list[tuple[str, dict[str, str]]]) -> None:
    assert read_challenges(text) == [Challenge(scheme, parameters) for scheme, parameters in challenges]


@pytest.mark.parametrize(("text", "challenges"), SKIPPED)
def test_malformed_parts_of_challenges_are_skipped(text: str, challenges: list[tuple[str, dict[str, str]]]) -> None:
    assert read_challenges(text) == [Challenge(scheme, parameters) for scheme, parameters in challenges]


@given(st.text(st.sampled_from('Bearer scope="\\,= \t\n;é')) | st.text())
def test_reading_never_fails(text: str) -> None:
    for challenge in read_challenges(text):
        assert challenge.scheme


def test_the_number_of_challenges_that_are_read_is_bounded() -> None:
    challenges = read_challenges("A " + ",".join(f"p{number}=1" for number in range(100)) + ", B" * 100)

    assert [challenge.scheme for challenge in challenges] == ["A"] + ["B"] * 15
    assert list(challenges[0].parameters) == [f"p{number}" for number in range(32)]
    assert read_challenges("," * 16_384 + "Bearer") == []


@pytest.mark.parametrize("unit", [",", "a", "a=", 'a="', '\\"', '"', 'a="\\', "a ", "a =\t", "a " + " " * 50, "=", "é"])
def test_reading_takes_linear_time(unit: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """With quadratic time this test would take minutes."""
    monkeypatch.setattr(_challenges, "_LONGEST", 400_000)

    assert len(read_challenges("Bearer " + unit * (400_000 // len(unit)))) <= 16


def test_schemes_are_case_insensitive_and_values_are_case_sensitive() -> None:
    assert Challenge("bearer", {"Scope": "a"}) == Challenge("Bearer", {"scope": "a"})
    assert Challenge("Bearer", {"scope": "a"}) != Challenge("Bearer", {"scope": "A"})


@pytest.mark.parametrize(
    ("challenge", "text"),
    [
        (Challenge("Bearer"), "Bearer"),
        (Challenge("Bearer", {"Error": "invalid_token"}), 'Bearer error="invalid_token"'),
        (Challenge("DPoP", {"scope": "a b", "algs": "ES256"}), 'DPoP scope="a b", algs="ES256"'),
        (Challenge("Bearer", {"realm": 'a", x="\\'}), 'Bearer realm="a\\", x=\\"\\\\"'),
    ],
)
def test_a_challenge_is_written(challenge: Challenge, text: str) -> None:
    assert write_challenge(challenge) == text


@given(
    st.text(st.sampled_from("abZ9-_"), min_size=1),
    st.dictionaries(
        st.text(st.sampled_from("abz9-_"), min_size=1), st.text(st.characters(min_codepoint=32, max_codepoint=126))
    ),
)
def test_a_written_challenge_is_read_back_unchanged(scheme: str, parameters: dict[str, str]) -> None:
    challenge = Challenge(scheme, dict(list(parameters.items())[:32]))

    assert read_challenges(f"Basic realm=x, {write_challenge(challenge)}, Next")[1:] == [challenge, Challenge("Next")]


@pytest.mark.parametrize(
    "challenge",
    [
        Challenge("Bearer", {"scope": "a\r\nset-cookie: b"}),
        Challenge("Bearer", {"scope": "é"}),
        Challenge("Bearer", {"scope": "\x7f"}),
        Challenge("Bearer", {"a b": "c"}),
        Challenge("Bearer", {"": "c"}),
        Challenge("Bearer, Basic"),
        Challenge(""),
        Challenge("Bearer\r\n"),
    ],
)
def test_a_challenge_with_an_invalid_scheme_name_or_value_is_not_written(challenge: Challenge) -> None:
    with pytest.raises(ValueError, match="challenge"):
        write_challenge(challenge)
