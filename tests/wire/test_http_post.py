"""Reading a POST: its era, and every refusal with its status, code and id."""

from __future__ import annotations

from typing import Any

import pytest
from attrs import evolve
from hypothesis import given
from hypothesis import strategies as st

from trio_mcp.wire import (
    CAPABILITIES_KEY,
    CLIENT_INFO_KEY,
    HEADER_MISMATCH,
    INVALID_PARAMS,
    INVALID_REQUEST,
    LEGACY_REVISIONS,
    LOG_LEVEL_KEY,
    METHOD_FIELD,
    MODERN_REVISIONS,
    NAME_FIELD,
    PARSE_ERROR,
    REVISION_KEY,
    SESSION_FIELD,
    UNSUPPORTED_REVISION,
    VERSION_FIELD,
    HttpPolicy,
    JsonRpcRequest,
    LegacyPost,
    ModernPost,
    Notification,
    Refusal,
    check_session,
    decode,
    encode,
    read_post,
)

SUPPORTED = [*LEGACY_REVISIONS, *MODERN_REVISIONS]
DUAL = HttpPolicy(allowed_hosts=None, allowed_origins=None, max_body_bytes=10_000, legacy=True, modern=True)
MODERN_ONLY, LEGACY_ONLY = evolve(DUAL, legacy=False), evolve(DUAL, modern=False)

META: dict[str, Any] = {REVISION_KEY: "2026-07-28", CAPABILITIES_KEY: {}}
CALL: dict[str, Any] = {
    "jsonrpc": "2.0",
    "id": 7,
    "method": "tools/call",
    "params": {"name": "add", "arguments": {}, "_meta": META},
}
CALL_HEADERS = {VERSION_FIELD: "2026-07-28", METHOD_FIELD: "tools/call", NAME_FIELD: "add"}
INITIALIZE: dict[str, Any] = {
    "jsonrpc": "2.0",
    "id": 7,
    "method": "initialize",
    "params": {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "x", "version": "1"}},
}
PING: dict[str, Any] = {"jsonrpc": "2.0", "id": 7, "method": "ping"}
NOTE: dict[str, Any] = {"jsonrpc": "2.0", "method": "notifications/initialized"}
ANSWER: dict[str, Any] = {"jsonrpc": "2.0", "id": 7, "result": {}}
IN_SESSION = {SESSION_FIELD: "s", VERSION_FIELD: "2025-11-25"}


def post(
    value: Any, headers: dict[str, str], policy: HttpPolicy = DUAL, supported: list[str] = SUPPORTED
) -> ModernPost | LegacyPost | Refusal:
    return read_post(headers, value if type(value) is bytes else encode(value), policy, supported)


def call(meta: dict[str, Any] | None = None, **params: Any) -> dict[str, Any]:
    """Return a tool call with a changed envelope (`...` omits a member) and changed params."""
    changed = {key: value for key, value in {**META, **(meta or {})}.items() if value is not ...}
    merged = {"name": "add", "_meta": changed, **params}
    return {**CALL, "params": {key: value for key, value in merged.items() if value is not ...}}


def fields(**changes: str | None) -> dict[str, str]:
    """Return the headers of a tool call, with changes to version, method, name and session."""
    names = {"version": VERSION_FIELD, "method": METHOD_FIELD, "name": NAME_FIELD, "session": SESSION_FIELD}
    changed = {**CALL_HEADERS, **{names[name]: value for name, value in changes.items()}}
    return {name: value for name, value in changed.items() if value is not None}


def test_a_modern_request_names_its_revision_in_the_envelope_and_in_the_header() -> None:
    assert post(CALL, CALL_HEADERS) == ModernPost(JsonRpcRequest(7, "tools/call", CALL["params"]), "2026-07-28")


@pytest.mark.parametrize("policy", [DUAL, MODERN_ONLY])
@pytest.mark.parametrize(
    ("value", "headers"),
    [
        (CALL, fields()),
        (CALL, fields(name="=?base64?YWRk?=")),
        (CALL, fields(session="stray")),
        (call({CLIENT_INFO_KEY: {"name": "x", "version": "1"}, LOG_LEVEL_KEY: "info", "other": 1}), fields()),
        (call(name="Añadir"), fields(name="=?base64?QcOxYWRpcg==?=")),
        (call(name=""), fields(name="")),
        (call(name=5), fields(name=None)),
        (call(name=...), fields(name=None)),
        ({**CALL, "method": "tools/list"}, fields(method="tools/list", name=None)),
        ({**CALL, "method": "prompts/get"}, fields(method="prompts/get")),
        ({**call(uri="file:///x"), "method": "resources/read"}, fields(method="resources/read", name="file:///x")),
        ({**call(taskId="t"), "method": "tasks/cancel"}, fields(method="tasks/cancel", name="t")),
        ({**CALL, "method": "initialize"}, fields(method="initialize", name=None)),
        ({**CALL, "method": "no/such"}, fields(method="no/such", name=None)),
        (NOTE, fields(method=None, name=None)),
        (NOTE, fields(method="notifications/initialized", name=None)),
        ({**NOTE, "params": {"_meta": META}}, fields(method=None, name=None)),
        ({**NOTE, "params": {"_meta": {CAPABILITIES_KEY: {}}}}, fields(method=None, name=None)),
    ],
)
def test_a_valid_modern_message_is_accepted(value: dict[str, Any], headers: dict[str, str], policy: HttpPolicy) -> None:
    served = post(value, headers, policy)

    message = JsonRpcRequest(7, value["method"], value["params"]) if "id" in value else None
    assert served == ModernPost(message or Notification(value["method"], value.get("params")), "2026-07-28")


MODERN_REFUSALS: list[tuple[Any, dict[str, str], int, Any, str]] = [
    # Invalid messages.
    (b"", fields(), PARSE_ERROR, None, "not a JSON message"),
    (b"{", fields(), PARSE_ERROR, None, "not a JSON message"),
    (b'{"id": 7, "x": "\xff"}', fields(), PARSE_ERROR, None, "not a JSON message: invalid UTF-8"),
    (b"[" * 100_000, fields(), PARSE_ERROR, None, "not a JSON message: nested too deep"),
    (5, fields(), INVALID_REQUEST, None, "a message is a JSON object"),
    ({"id": 7}, fields(), INVALID_REQUEST, 7, "a message has a 'method'"),
    ({**CALL, "jsonrpc": "1.0"}, fields(), INVALID_REQUEST, 7, "the member 'jsonrpc'"),
    ({**CALL, "id": None}, fields(), INVALID_REQUEST, None, "the 'id' of 'tools/call' is null"),
    ({**CALL, "params": []}, fields(), INVALID_PARAMS, 7, "'params' of 'tools/call' are an array"),
    ([CALL], fields(), INVALID_REQUEST, None, "an array of messages"),
    ([], fields(), INVALID_REQUEST, None, "an array of messages"),
    (ANSWER, fields(), INVALID_REQUEST, None, "a response: in this revision, clients post none"),
    ({"jsonrpc": "2.0", "id": 7, "error": {"code": 1, "message": ""}}, fields(), INVALID_REQUEST, None, "a response"),
    ({"jsonrpc": "2.0", "id": 7, "result": 5}, fields(), INVALID_REQUEST, None, "a response"),
    # Faults of the envelope, which are reported before those of the headers.
    ({**CALL, "params": {"name": "add"}}, fields(), INVALID_PARAMS, 7, "$._meta: required member is missing"),
    (call(_meta=5), fields(), INVALID_PARAMS, 7, "$._meta: expected object"),
    (call(_meta={}), fields(), INVALID_PARAMS, 7, f"$._meta.{REVISION_KEY}: required member is missing; $._meta."),
    ({**CALL, "params": {}}, fields(method="x"), INVALID_PARAMS, 7, "$._meta: required member is missing"),
    ({"jsonrpc": "2.0", "id": 7, "method": "tools/list"}, fields(), INVALID_PARAMS, 7, "$._meta: required member"),
    (call({REVISION_KEY: ...}), fields(), INVALID_PARAMS, 7, f"$._meta.{REVISION_KEY}: required member is missing"),
    (call({REVISION_KEY: ...}), fields(version=None), INVALID_PARAMS, 7, f"$._meta.{REVISION_KEY}: required member"),
    (call({REVISION_KEY: 5}), fields(), INVALID_PARAMS, 7, f"$._meta.{REVISION_KEY}: expected string"),
    (call({CAPABILITIES_KEY: ...}), fields(version=None), INVALID_PARAMS, 7, f"$._meta.{CAPABILITIES_KEY}: required"),
    (call({CAPABILITIES_KEY: []}), fields(version="x"), INVALID_PARAMS, 7, f"$._meta.{CAPABILITIES_KEY}: expected"),
    (call({CLIENT_INFO_KEY: 5}), fields(), INVALID_PARAMS, 7, f"$._meta.{CLIENT_INFO_KEY}: expected object"),
    (call({LOG_LEVEL_KEY: "loud"}), fields(), INVALID_PARAMS, 7, f"$._meta.{LOG_LEVEL_KEY}: expected one of"),
    (INITIALIZE, fields(method="initialize", name=None), INVALID_PARAMS, 7, "$._meta: required member is missing"),
    (
        {**NOTE, "params": {"_meta": {REVISION_KEY: [[]]}}},
        fields(),
        INVALID_PARAMS,
        None,
        f"$._meta.{REVISION_KEY}: expected string",
    ),
    # Mismatches of header and body, which are reported before an unsupported revision.
    (CALL, fields(version=None), HEADER_MISMATCH, 7, "the header field mcp-protocol-version is missing"),
    (CALL, fields(version=""), HEADER_MISMATCH, 7, "the header field mcp-protocol-version is missing"),
    (
        CALL,
        fields(version="2025-11-25"),
        HEADER_MISMATCH,
        7,
        "the header field mcp-protocol-version says '2025-11-25', the body '2026-07-28'",
    ),
    (CALL, fields(version="2025-11-25", session="s"), HEADER_MISMATCH, 7, "the header field mcp-protocol-version says"),
    (CALL, fields(version="v999.0.0"), HEADER_MISMATCH, 7, "the header field mcp-protocol-version says 'v999.0.0'"),
    (CALL, fields(version="2026-07-28, 2026-07-28"), HEADER_MISMATCH, 7, "the header field mcp-protocol-version says"),
    (call({REVISION_KEY: "v999.0.0"}), fields(), HEADER_MISMATCH, 7, "the header field mcp-protocol-version says"),
    (call({REVISION_KEY: "v9"}), fields(version=None), HEADER_MISMATCH, 7, "the header field mcp-protocol-version is"),
    (CALL, fields(method=None), HEADER_MISMATCH, 7, "the header field mcp-method is missing"),
    (CALL, fields(method="tools/list"), HEADER_MISMATCH, 7, "the header field mcp-method says 'tools/list', the body"),
    (CALL, fields(method="TOOLS/CALL"), HEADER_MISMATCH, 7, "the header field mcp-method says 'TOOLS/CALL'"),
    (CALL, fields(method="=?base64?dG9vbHMvY2FsbA==?="), HEADER_MISMATCH, 7, "the header field mcp-method says"),
    (CALL, fields(name=None), HEADER_MISMATCH, 7, "the header field mcp-name is missing"),
    (CALL, fields(name="sub"), HEADER_MISMATCH, 7, "the header field mcp-name says 'sub', the body 'add'"),
    (CALL, fields(name="Add"), HEADER_MISMATCH, 7, "the header field mcp-name says 'Add', the body 'add'"),
    (CALL, fields(name="add, add"), HEADER_MISMATCH, 7, "the header field mcp-name says 'add, add'"),
    (CALL, fields(name="=?base64?YWR?="), HEADER_MISMATCH, 7, "the header field mcp-name is broken: it is not Base64"),
    (call(name="é"), fields(name="é"), HEADER_MISMATCH, 7, "the header field mcp-name is broken: it holds characters"),
    (
        {**call(uri="file:///x"), "method": "resources/read"},
        fields(method="resources/read"),
        HEADER_MISMATCH,
        7,
        "the header field mcp-name says 'add', the body 'file:///x'",
    ),
    ({**NOTE, "params": {"_meta": META}}, fields(version=None), HEADER_MISMATCH, None, "the header field mcp-protocol"),
    (
        {**NOTE, "params": {"_meta": META}},
        fields(version="v9"),
        HEADER_MISMATCH,
        None,
        "the header field mcp-protocol-version says 'v9'",
    ),
    (NOTE, fields(), HEADER_MISMATCH, None, "the header field mcp-method says 'tools/call', the body 'notifications/"),
    # An unsupported revision, which is reported last.
    (call({REVISION_KEY: "v999.0.0"}), fields(version="v999.0.0"), UNSUPPORTED_REVISION, 7, "protocol version 'v999"),
    (call({REVISION_KEY: "2025-11-25"}), fields(version="2025-11-25"), UNSUPPORTED_REVISION, 7, "protocol version"),
    (NOTE, fields(version="v9", method=None), UNSUPPORTED_REVISION, None, "protocol version 'v9' is not supported"),
]


@pytest.mark.parametrize("policy", [DUAL, MODERN_ONLY])
@pytest.mark.parametrize(("value", "headers", "code", "id", "sentence"), MODERN_REFUSALS)
def test_a_modern_message_is_refused_for_the_first_rule_that_it_violates(
    value: Any, headers: dict[str, str], code: int, id: Any, sentence: str, policy: HttpPolicy
) -> None:
    refusal = post(value, headers, policy)

    assert isinstance(refusal, Refusal)
    assert refusal.error is not None
    assert (refusal.status, refusal.error.code, refusal.id) == (400, code, id)
    assert refusal.error.message.startswith(sentence)
    assert decode(refusal.body()).get("id", "none") == ("none" if id is None else id)


@pytest.mark.parametrize(
    ("policy", "revision", "supported"),
    [
        (DUAL, "v999.0.0", SUPPORTED),
        (MODERN_ONLY, "v999.0.0", ["2026-07-28"]),
        (DUAL, "2025-11-25", ["2026-07-28"]),
        (MODERN_ONLY, "2025-11-25", ["2026-07-28"]),
    ],
)
def test_an_unsupported_revision_is_refused_with_the_usable_revisions(
    policy: HttpPolicy, revision: str, supported: list[str]
) -> None:
    refusal = post(call({REVISION_KEY: revision}), fields(version=revision), policy)

    assert isinstance(refusal, Refusal)
    assert refusal.error is not None
    assert refusal.error.data == {"supported": supported, "requested": revision}


ONLY_MODERN: list[tuple[dict[str, Any], dict[str, str], int, str | None]] = [
    (INITIALIZE, {}, UNSUPPORTED_REVISION, "2025-11-25"),
    (INITIALIZE, {VERSION_FIELD: "2025-06-18"}, UNSUPPORTED_REVISION, "2025-06-18"),
    (INITIALIZE, IN_SESSION, UNSUPPORTED_REVISION, "2025-11-25"),
    (PING, IN_SESSION, UNSUPPORTED_REVISION, "2025-11-25"),
    (NOTE, IN_SESSION, UNSUPPORTED_REVISION, "2025-11-25"),
    (PING, {}, HEADER_MISMATCH, None),
    (PING, {SESSION_FIELD: "s"}, HEADER_MISMATCH, None),
    ({**INITIALIZE, "params": {"protocolVersion": 5}}, {}, HEADER_MISMATCH, None),
]


@pytest.mark.parametrize(("policy", "supported"), [(MODERN_ONLY, SUPPORTED), (DUAL, list(MODERN_REVISIONS))])
@pytest.mark.parametrize(("value", "headers", "code", "requested"), ONLY_MODERN)
def test_a_modern_only_server_refuses_legacy_messages_and_lists_its_revisions(
    value: dict[str, Any],
    headers: dict[str, str],
    code: int,
    requested: str | None,
    policy: HttpPolicy,
    supported: list[str],
) -> None:
    refusal = post(value, headers, policy, supported)

    assert isinstance(refusal, Refusal)
    assert refusal.error is not None
    assert (refusal.status, refusal.error.code, refusal.id) == (400, code, value.get("id"))
    assert refusal.error.data == (requested and {"supported": ["2026-07-28"], "requested": requested})


LEGACY: list[tuple[Any, dict[str, str], LegacyPost]] = [
    (INITIALIZE, {}, LegacyPost(INITIALIZE, None)),
    (INITIALIZE, {VERSION_FIELD: "2025-11-25"}, LegacyPost(INITIALIZE, None)),
    (INITIALIZE, {METHOD_FIELD: "initialize"}, LegacyPost(INITIALIZE, None)),
    (INITIALIZE, {SESSION_FIELD: "s"}, LegacyPost(INITIALIZE, "s")),
    (INITIALIZE, {SESSION_FIELD: ""}, LegacyPost(INITIALIZE, None)),
    (INITIALIZE, {SESSION_FIELD: "s", VERSION_FIELD: "v9"}, LegacyPost(INITIALIZE, "s")),
    (PING, IN_SESSION, LegacyPost(PING, "s")),
    (PING, {SESSION_FIELD: "s"}, LegacyPost(PING, "s")),
    (PING, {SESSION_FIELD: "s", VERSION_FIELD: ""}, LegacyPost(PING, "s")),
    (NOTE, IN_SESSION, LegacyPost(NOTE, "s")),
    (ANSWER, IN_SESSION, LegacyPost(ANSWER, "s")),
    ({**ANSWER, "result": 5}, IN_SESSION, LegacyPost({**ANSWER, "result": 5}, "s")),
    (
        {**PING, "params": {"_meta": {CLIENT_INFO_KEY: {}}}},
        IN_SESSION,
        LegacyPost({**PING, "params": {"_meta": {CLIENT_INFO_KEY: {}}}}, "s"),
    ),
    (
        {**PING, "params": {"_meta": {"io.modelcontextprotocol/related-task": {}, "progressToken": 1}}},
        {SESSION_FIELD: "s"},
        LegacyPost(
            {**PING, "params": {"_meta": {"io.modelcontextprotocol/related-task": {}, "progressToken": 1}}},
            "s",
        ),
    ),
    ([PING, NOTE], {SESSION_FIELD: "s"}, LegacyPost([PING, NOTE], "s")),
    (
        [INITIALIZE],
        {SESSION_FIELD: "s", VERSION_FIELD: "2025-03-26"},
        LegacyPost([INITIALIZE], "s"),
    ),
]


@pytest.mark.parametrize("policy", [DUAL, LEGACY_ONLY])
@pytest.mark.parametrize(("value", "headers", "expected"), LEGACY)
def test_legacy_messages_of_sessions_and_initialize_are_accepted(
    value: Any, headers: dict[str, str], expected: LegacyPost, policy: HttpPolicy
) -> None:
    assert post(value, headers, policy) == expected


LEGACY_REFUSALS: list[tuple[Any, dict[str, str], int, Any, str]] = [
    (b"{", IN_SESSION, PARSE_ERROR, None, "not a JSON message"),
    (5, IN_SESSION, INVALID_REQUEST, None, "a message is a JSON object"),
    ({"id": 7}, IN_SESSION, INVALID_REQUEST, 7, "a message has a 'method'"),
    ({**PING, "params": []}, IN_SESSION, INVALID_PARAMS, 7, "'params' of 'ping' are an array"),
    ([PING], IN_SESSION, INVALID_REQUEST, None, "an array of messages, which only 2025-03-26 has"),
    ([], {SESSION_FIELD: "s"}, INVALID_REQUEST, None, "an array of no messages"),
    ([PING], {}, INVALID_REQUEST, None, "the header field mcp-session-id is missing"),
    ([INITIALIZE], {}, INVALID_REQUEST, None, "the header field mcp-session-id is missing"),
    (
        PING,
        {SESSION_FIELD: "s", VERSION_FIELD: "v9"},
        INVALID_REQUEST,
        7,
        "mcp-protocol-version 'v9': sessions here speak 2024-11-05, 2025-03-26, 2025-06-18, 2025-11-25",
    ),
    (PING, {SESSION_FIELD: "s", VERSION_FIELD: "2026-07-28"}, INVALID_REQUEST, 7, "mcp-protocol-version '2026-07-28'"),
    (NOTE, {SESSION_FIELD: "s", VERSION_FIELD: "v9"}, INVALID_REQUEST, None, "mcp-protocol-version 'v9'"),
    (PING, {VERSION_FIELD: "2025-11-25"}, INVALID_REQUEST, 7, "the header field mcp-session-id is missing"),
    (PING, {VERSION_FIELD: "2025-11-25", SESSION_FIELD: ""}, INVALID_REQUEST, 7, "the header field mcp-session-id is"),
    (PING, {}, INVALID_REQUEST, 7, "the header field mcp-session-id is missing: send 'initialize' first"),
    (NOTE, {}, INVALID_REQUEST, None, "the header field mcp-session-id is missing"),
    (ANSWER, {}, INVALID_REQUEST, None, "the header field mcp-session-id is missing"),
]


@pytest.mark.parametrize("policy", [DUAL, LEGACY_ONLY])
@pytest.mark.parametrize(("value", "headers", "code", "id", "sentence"), LEGACY_REFUSALS)
def test_a_legacy_message_is_refused_for_the_first_rule_that_it_violates(
    value: Any, headers: dict[str, str], code: int, id: Any, sentence: str, policy: HttpPolicy
) -> None:
    refusal = post(value, headers, policy)

    assert isinstance(refusal, Refusal)
    assert refusal.error is not None
    assert (refusal.status, refusal.error.code, refusal.id) == (400, code, id)
    assert refusal.error.message.startswith(sentence)


@pytest.mark.parametrize("supported", [["2025-11-25", "2026-07-28"], ["2025-11-25"], ["2024-11-05", "2025-11-25"]])
def test_a_session_with_an_unsupported_revision_is_refused(supported: list[str]) -> None:
    refusal = post(PING, {SESSION_FIELD: "s", VERSION_FIELD: "2025-06-18"}, supported=supported)
    begun = post(INITIALIZE, {VERSION_FIELD: "2025-06-18"}, supported=supported)

    assert isinstance(refusal, Refusal)
    assert begun == LegacyPost(INITIALIZE, None)  # the handshake determines the revision


@pytest.mark.parametrize(("policy", "supported"), [(LEGACY_ONLY, SUPPORTED), (DUAL, list(LEGACY_REVISIONS))])
def test_a_legacy_only_server_refuses_modern_messages(policy: HttpPolicy, supported: list[str]) -> None:
    refusal = post(CALL, {**CALL_HEADERS, SESSION_FIELD: "s"}, policy, supported)

    assert isinstance(refusal, Refusal)
    assert refusal.error is not None
    assert refusal.error.code == INVALID_REQUEST  # clients do not mistake this code for that of a modern server
    begun = post(INITIALIZE, {VERSION_FIELD: "2026-07-28"}, policy, supported)
    assert begun == LegacyPost(INITIALIZE, None)


def test_a_get_or_delete_that_names_its_session_is_accepted() -> None:
    assert check_session(IN_SESSION, SUPPORTED) is None
    assert check_session({SESSION_FIELD: "s"}, SUPPORTED) is None


@pytest.mark.parametrize(
    ("headers", "sentence"),
    [
        ({}, "the header field mcp-session-id is missing"),
        ({SESSION_FIELD: ""}, "the header field mcp-session-id is missing"),
        ({VERSION_FIELD: "2025-11-25"}, "the header field mcp-session-id is missing"),
        ({SESSION_FIELD: "s", VERSION_FIELD: "v9"}, "mcp-protocol-version 'v9': sessions here speak"),
        ({SESSION_FIELD: "s", VERSION_FIELD: "2024-11-05"}, "mcp-protocol-version '2024-11-05': sessions here speak"),
    ],
)
def test_a_get_or_delete_without_a_session_or_with_a_wrong_revision_is_refused(
    headers: dict[str, str], sentence: str
) -> None:
    refusal = check_session(headers, SUPPORTED[1:])

    assert refusal is not None
    assert refusal.error is not None
    assert (refusal.status, refusal.error.code) == (400, INVALID_REQUEST)
    assert refusal.error.message.startswith(sentence)


def test_get_and_delete_are_refused_in_the_modern_revision() -> None:
    assert check_session({VERSION_FIELD: "2026-07-28", SESSION_FIELD: "s"}, SUPPORTED) == Refusal(
        405, headers={"allow": "POST"}
    )


JSON_VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**63)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=5,
)
MEMBERS = st.sampled_from([*META, CLIENT_INFO_KEY, LOG_LEVEL_KEY])
METAS = JSON_VALUES | st.dictionaries(MEMBERS, JSON_VALUES | st.sampled_from(["2026-07-28", "2025-11-25"]))
PARAMS = JSON_VALUES | st.fixed_dictionaries(
    {}, optional={"_meta": METAS, "name": JSON_VALUES, "protocolVersion": JSON_VALUES}
)
MESSAGES = st.fixed_dictionaries(
    {},
    optional={
        "jsonrpc": st.just("2.0") | JSON_VALUES,
        "id": JSON_VALUES,
        "method": st.sampled_from(["tools/call", "initialize", "notifications/x"]) | JSON_VALUES,
        "params": PARAMS,
        "result": JSON_VALUES,
        "error": JSON_VALUES,
    },
)
HEADERS = st.dictionaries(
    st.sampled_from([VERSION_FIELD, SESSION_FIELD, METHOD_FIELD, NAME_FIELD]),
    st.text() | st.sampled_from(["2026-07-28", "2025-03-26", "tools/call", "=?base64?x?="]),
)


@given(
    st.binary() | (MESSAGES | st.lists(MESSAGES, max_size=3)).map(encode),
    HEADERS,
    st.sampled_from([DUAL, MODERN_ONLY, LEGACY_ONLY]),
)
def test_any_post_is_accepted_or_refused(body: bytes, headers: dict[str, str], policy: HttpPolicy) -> None:
    outcome = read_post(headers, body, policy, SUPPORTED)

    if isinstance(outcome, Refusal):
        assert outcome.status == 400
        assert decode(outcome.body())["error"]["code"] < 0
    elif isinstance(outcome, ModernPost):
        assert policy.modern
        assert outcome.revision == "2026-07-28"
    else:
        assert policy.legacy
        assert outcome.session_id is not None or outcome.value["method"] == "initialize"


@pytest.mark.parametrize(
    "body",
    [
        b'{"jsonrpc":"2.0","method":"x","params":{"_meta":{"io.modelcontextprotocol/protocolVersion":%b}}}',
        b'{"jsonrpc":"2.0","id":%b,"method":"x"}',
        b'{"jsonrpc":"2.0","id":1,"method":%b}',
        b'{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":%b}}',
    ],
)
def test_a_deeply_nested_body_is_refused_without_an_exception(body: bytes) -> None:
    for depth in (10, *range(850, 1000), 100_000):  # from well below to above the recursion limit of the interpreter
        nested = body % (b"[" * depth + b"]" * depth)

        assert isinstance(read_post({}, nested, MODERN_ONLY, SUPPORTED), Refusal)
