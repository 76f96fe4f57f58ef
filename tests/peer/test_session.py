"""The sessions of a server and of a client: the handshake, and the contexts of requests."""

from __future__ import annotations

from typing import Any

import pytest

from trio_mcp import McpError
from trio_mcp.peer import ClientSession, ExchangeContext, ServerSession
from trio_mcp.types import REVISIONS
from trio_mcp.wire import (
    CAPABILITIES_KEY,
    CLIENT_INFO_KEY,
    INVALID_PARAMS,
    LEGACY_REVISIONS,
    LOG_LEVEL_KEY,
    LOG_LEVELS,
    METHOD_NOT_FOUND,
    MODERN_REVISIONS,
    REVISION_KEY,
    UNSUPPORTED_REVISION,
)

NEWEST = MODERN_REVISIONS[-1]
INFO = {"name": "tester", "version": "1"}
MODERN_META: dict[str, Any] = {REVISION_KEY: NEWEST, CAPABILITIES_KEY: {"roots": {}}, CLIENT_INFO_KEY: INFO}


def terms(revision: str, **changes: Any) -> ExchangeContext:
    facts: dict[str, Any] = {
        "capabilities": {},
        "peer_info": INFO,
        "meta": {},
        "progress_token": None,
        "log_level": "debug",
    }
    return ExchangeContext(revision=revision, **{**facts, **changes})


def initialize_params(revision: Any = LEGACY_REVISIONS[-1], **changes: Any) -> dict[str, Any]:
    params = {"protocolVersion": revision, "capabilities": {}, "clientInfo": INFO, **changes}
    return {key: value for key, value in params.items() if value is not ...}


def handshaken(revision: str = LEGACY_REVISIONS[-1], **changes: Any) -> ServerSession:
    session = ServerSession(REVISIONS)
    begin(session, initialize_params(revision, **changes))
    session.notified("notifications/initialized")
    return session


def begin(session: ServerSession, params: dict[str, Any], *, success: bool = True) -> None:
    session.answered_handshake(session.admit("initialize", params), success=success)


def refusal(session: ServerSession | ClientSession, method: str, params: dict[str, Any] | None) -> McpError:
    with pytest.raises(McpError) as refused:
        session.admit(method, params)
    return refused.value


@pytest.mark.parametrize("revision", LEGACY_REVISIONS)
def test_a_handshake_determines_the_context_of_later_requests(revision: str) -> None:
    session = ServerSession(REVISIONS)

    context = session.admit("initialize", initialize_params(revision, capabilities={"roots": {}}))
    assert context == terms(revision, capabilities={"roots": {}})
    assert session.state.name == "ASKED"
    session.answered_handshake(context, success=True)
    assert session.state.name == "ANSWERED"
    assert not session.operating
    assert session.admit("tools/list", None) == context
    session.notified("notifications/other")
    assert not session.operating
    session.notified("notifications/initialized")

    assert session.operating
    assert session.admit("tools/list", {"cursor": "x"}) == context
    assert session.admit("tools/list", None) is session.admit("tools/list", {})


@pytest.mark.requirement("B.2-S1b", "B.2-S1c")
@pytest.mark.parametrize("requested", ["1999-01-01", "2099-01-01", NEWEST, ""])
def test_an_unknown_or_modern_revision_is_answered_with_the_newest_legacy_one(requested: str) -> None:
    session = ServerSession(REVISIONS)

    assert session.admit("initialize", initialize_params(requested)).revision == LEGACY_REVISIONS[-1]


def test_the_meta_of_initialize_does_not_apply_to_later_requests() -> None:
    session = ServerSession(REVISIONS)
    meta = {"progressToken": "p", "trace": 1}

    context = session.admit("initialize", initialize_params(_meta=meta))
    session.answered_handshake(context, success=True)

    assert context == terms(LEGACY_REVISIONS[-1], meta=meta, progress_token="p")
    assert session.admit("tools/list", None) == terms(LEGACY_REVISIONS[-1])


def test_the_meta_of_a_legacy_request_applies_only_to_that_request() -> None:
    session = handshaken()

    assert session.admit("m", {"_meta": {"progressToken": 7}}) == terms(
        LEGACY_REVISIONS[-1], meta={"progressToken": 7}, progress_token=7
    )
    assert session.admit("m", None) == terms(LEGACY_REVISIONS[-1])


@pytest.mark.parametrize("level", LOG_LEVELS)
def test_the_log_level_of_a_legacy_client_is_remembered(level: str) -> None:
    session = handshaken()

    session.admit("logging/setLevel", {"level": level})

    assert session.admit("m", None).log_level == level
    assert session.admit("m", {"_meta": {"a": 1}}).log_level == level


@pytest.mark.parametrize("params", [None, {}, {"level": "loud"}, {"level": None}, {"level": []}])
def test_an_unknown_log_level_is_ignored(params: dict[str, Any] | None) -> None:
    session = handshaken()

    session.admit("logging/setLevel", params)
    session.admit("other", {"level": "error"})

    assert session.admit("m", None).log_level == "debug"


@pytest.mark.parametrize(
    ("params", "fault"),
    [
        (None, "$.protocolVersion: required, and a string"),
        (initialize_params(...), "$.protocolVersion: required, and a string"),
        (initialize_params(5), "$.protocolVersion: required, and a string"),
        (initialize_params(capabilities=...), "$.capabilities: required, and an object"),
        (initialize_params(capabilities=[]), "$.capabilities: required, and an object"),
        (initialize_params(clientInfo=...), "$.clientInfo: required, and an object"),
        (initialize_params(clientInfo="me"), "$.clientInfo: required, and an object"),
        (initialize_params(_meta=5), "$._meta: expected object in the params of 'initialize'"),
        (initialize_params(_meta={"progressToken": 1.5}), "$._meta.progressToken: expected string or integer"),
    ],
)
def test_a_broken_initialize_is_refused_by_path_and_leaves_no_trace(params: dict[str, Any] | None, fault: str) -> None:
    session = ServerSession(REVISIONS)

    error = refusal(session, "initialize", params)

    assert (error.code, error.message) == (INVALID_PARAMS, fault)
    assert session.state.name == "NOT_BEGUN"
    assert session.admit("initialize", initialize_params()).revision == LEGACY_REVISIONS[-1]


def test_another_initialize_replaces_the_terms_of_later_requests() -> None:
    session = handshaken(LEGACY_REVISIONS[0], capabilities={"roots": {}})
    before = session.admit("tools/list", None)

    context = session.admit("initialize", initialize_params(LEGACY_REVISIONS[1], capabilities={"sampling": {}}))
    assert session.admit("tools/list", None) == before
    assert session.operating
    session.answered_handshake(context, success=True)

    assert session.operating
    assert session.revision == LEGACY_REVISIONS[1]
    assert session.admit("tools/list", None) == terms(LEGACY_REVISIONS[1], capabilities={"sampling": {}})


def test_another_initialize_that_is_refused_changes_nothing() -> None:
    session = handshaken(LEGACY_REVISIONS[0])

    begin(session, initialize_params(LEGACY_REVISIONS[1]), success=False)

    assert session.operating
    assert session.admit("tools/list", None) == terms(LEGACY_REVISIONS[0])


@pytest.mark.parametrize("is_first_answered", [True, False])
def test_two_handshakes_in_flight_are_answered_each_with_its_own_terms(is_first_answered: bool) -> None:
    session = ServerSession(REVISIONS)
    first, second = (
        session.admit("initialize", initialize_params(revision)) for revision in (LEGACY_REVISIONS[0], "2025-06-18")
    )

    session.answered_handshake(first, success=is_first_answered)
    assert session.revision == (LEGACY_REVISIONS[0] if is_first_answered else None)
    session.answered_handshake(second, success=True)

    assert session.revision == "2025-06-18"
    assert session.state.name == "ANSWERED"


def test_a_refused_initialize_may_be_tried_again() -> None:
    session = ServerSession(REVISIONS)
    begin(session, initialize_params(LEGACY_REVISIONS[0]), success=False)

    assert session.state.name == "NOT_BEGUN"
    assert refusal(session, "tools/list", None).code == INVALID_PARAMS
    assert session.admit("initialize", initialize_params(LEGACY_REVISIONS[1])).revision == LEGACY_REVISIONS[1]


def test_an_initialize_in_a_modern_envelope_or_a_notification_alone_changes_nothing() -> None:
    session = ServerSession(REVISIONS)

    begin(session, {"_meta": MODERN_META})
    session.notified("notifications/initialized")

    assert session.state.name == "NOT_BEGUN"


def test_a_second_initialized_notification_is_ignored() -> None:
    session = handshaken()

    session.notified("notifications/initialized")

    assert session.operating


def test_before_the_handshake_only_ping_is_answered() -> None:
    session = ServerSession(REVISIONS)

    assert session.admit("ping", None) == terms(LEGACY_REVISIONS[-1], peer_info=None)
    error = refusal(session, "tools/list", {})
    assert error.code == INVALID_PARAMS
    assert error.message.startswith(
        "send 'initialize' first, or name the protocol revision of 'tools/list' in params._meta"
    )
    assert REVISION_KEY in error.message


@pytest.mark.requirement("B.3-S2")
def test_a_modern_request_needs_no_handshake_and_leaves_no_trace() -> None:
    session = ServerSession(REVISIONS)
    meta = {**MODERN_META, LOG_LEVEL_KEY: "error", "progressToken": 3}

    context = session.admit("tools/list", {"_meta": meta})

    assert context == terms(NEWEST, capabilities={"roots": {}}, meta=meta, progress_token=3, log_level="error")
    assert context.modern
    assert session.state.name == "NOT_BEGUN"
    assert refusal(session, "tools/list", {}).code == INVALID_PARAMS


def test_requests_that_state_the_same_share_their_context() -> None:
    session = ServerSession(REVISIONS)

    first = session.admit("m", {"_meta": MODERN_META})

    assert session.admit("n", {"_meta": {**MODERN_META}}) is first
    other = session.admit("m", {"_meta": {**MODERN_META, LOG_LEVEL_KEY: "error"}})
    assert (other.log_level, first.log_level) == ("error", None)
    assert session.admit("m", {"_meta": MODERN_META}) == first


@pytest.mark.parametrize(
    "more",
    [
        {"x": 1},
        {"x": {"y": None}},
        {"progressToken": "t"},
        {"x" * 1000: ""},
        {"x": "x" * 1000},
        {str(number): "" for number in range(1000)},
        {str(number): {str(each): "" for each in range(10)} for number in range(10)},
    ],
)
def test_what_is_large_or_not_made_of_strings_is_not_kept_for_the_next_request(more: dict[str, Any]) -> None:
    session = ServerSession(REVISIONS)
    meta = {**MODERN_META, **more}

    first = session.admit("m", {"_meta": meta})

    assert session.admit("m", {"_meta": meta}) is not first


def test_numbers_that_python_takes_for_equal_stay_different() -> None:
    session = ServerSession(REVISIONS)

    stated = [session.admit("m", {"_meta": {**MODERN_META, "x": value}}).meta["x"] for value in (1, True, 1.0)]

    assert [type(each) for each in stated] == [int, bool, float]


def test_a_modern_request_without_a_log_level_receives_no_logs() -> None:
    assert ServerSession(REVISIONS).admit("m", {"_meta": MODERN_META}).log_level is None


@pytest.mark.requirement("B.3-S3a", "B.4-S1")
def test_a_modern_request_after_a_legacy_handshake_is_modern() -> None:
    session = handshaken(LEGACY_REVISIONS[0])

    assert session.admit("m", {"_meta": MODERN_META}).revision == NEWEST
    assert session.admit("m", None).revision == LEGACY_REVISIONS[0]
    assert not session.admit("m", None).modern


def test_initialize_in_a_modern_envelope_is_a_modern_request() -> None:
    session = ServerSession(REVISIONS)

    assert session.admit("initialize", {"_meta": MODERN_META}).revision == NEWEST
    assert session.state.name == "NOT_BEGUN"


@pytest.mark.requirement("B.3-S4a")
@pytest.mark.parametrize("revision", [*LEGACY_REVISIONS, "1999-01-01"])
def test_an_envelope_with_an_unusable_revision_is_refused_with_the_supported_revisions(revision: str) -> None:
    error = refusal(ServerSession(REVISIONS), "m", {"_meta": {**MODERN_META, REVISION_KEY: revision}})

    assert error.code == UNSUPPORTED_REVISION
    supported = list(MODERN_REVISIONS) if revision in LEGACY_REVISIONS else list(REVISIONS)
    assert error.data == {"supported": supported, "requested": revision}


@pytest.mark.parametrize("token", [None, True, 1.5, []])
def test_a_modern_request_with_a_broken_token_is_refused(token: object) -> None:
    error = refusal(ServerSession(REVISIONS), "m", {"_meta": {**MODERN_META, "progressToken": token}})

    assert error.code == INVALID_PARAMS


@pytest.mark.parametrize("meta", [None, 5, [], "x"])
def test_a_meta_that_is_not_an_object_is_refused(meta: object) -> None:
    for session in (ServerSession(REVISIONS), handshaken(), ClientSession()):
        error = refusal(session, "m", {"_meta": meta})
        assert (error.code, error.message) == (INVALID_PARAMS, "$._meta: expected object in the params of 'm'")


@pytest.mark.requirement("B.3-S7")
def test_a_modern_only_server_refuses_the_handshake_and_lists_its_revisions() -> None:
    session = ServerSession(MODERN_REVISIONS)

    error = refusal(session, "initialize", initialize_params("2025-11-25"))
    assert (error.code, error.data) == (
        UNSUPPORTED_REVISION,
        {"supported": list(MODERN_REVISIONS), "requested": "2025-11-25"},
    )
    assert refusal(session, "ping", None).message.startswith("name the protocol revision of 'ping' in params._meta")


def test_a_legacy_only_server_refuses_envelopes_and_lists_its_revisions() -> None:
    session = ServerSession(LEGACY_REVISIONS)

    error = refusal(session, "m", {"_meta": MODERN_META})
    assert error.data == {"supported": list(LEGACY_REVISIONS), "requested": NEWEST}
    error = refusal(session, "m", {"_meta": {**MODERN_META, REVISION_KEY: LEGACY_REVISIONS[0]}})
    assert error.data == {"supported": list(LEGACY_REVISIONS), "requested": LEGACY_REVISIONS[0]}


@pytest.mark.parametrize("revision", REVISIONS)
def test_only_2025_03_26_has_batches_and_only_early_revisions_send_unknown_ids_as_null(revision: str) -> None:
    client = ClientSession()
    client.agree(revision, {}, None)
    admissions: list[ServerSession | ClientSession] = [client]
    if revision in LEGACY_REVISIONS:
        admissions.append(handshaken(revision))

    for admission in admissions:
        assert admission.batches == (revision == "2025-03-26")
        assert admission.omits_unknown_id == (revision >= "2025-11-25")


def test_before_any_handshake_there_are_no_batches_and_unknown_ids_are_left_out() -> None:
    handshaking = ServerSession(REVISIONS)
    handshaking.admit("initialize", initialize_params("2025-03-26"))
    for admission in (ServerSession(REVISIONS), handshaking, ClientSession()):
        assert (admission.batches, admission.omits_unknown_id, admission.may_respond) == (False, True, True)


@pytest.mark.parametrize("revision", REVISIONS)
def test_a_client_answers_servers_in_legacy_revisions_only(revision: str) -> None:
    session = ClientSession()
    session.agree(revision, {"tools": {}}, INFO)

    assert session.may_respond == (revision in LEGACY_REVISIONS)
    assert session.admit("roots/list", {"_meta": {"progressToken": 4}}) == terms(
        revision, capabilities={"tools": {}}, meta={"progressToken": 4}, progress_token=4
    )


def test_before_the_handshake_a_client_answers_only_ping() -> None:
    session = ClientSession()

    assert session.admit("ping", None) == terms(LEGACY_REVISIONS[-1], peer_info=None)
    error = refusal(session, "roots/list", None)
    assert error.code == METHOD_NOT_FOUND
    assert "the handshake is not complete" in error.message


def test_a_client_session_ignores_responses_and_notifications() -> None:
    session, fresh = ClientSession(), ClientSession()

    session.answered_handshake(terms(LEGACY_REVISIONS[-1]), success=True)
    session.notified("notifications/initialized")

    assert (session.revision, session.batches) == (fresh.revision, fresh.batches)
