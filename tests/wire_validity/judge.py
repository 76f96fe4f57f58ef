"""A judge that checks every line our code puts on a wire, counts the messages, and knows the named exemptions."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any, NamedTuple, NoReturn

from attrs import define, field

from tests.wire_validity.conversation import Conversation, Verdict
from tests.wire_validity.tap import Role
from tests.wire_validity.upstream import Json, Upstream, pruned
from trio_mcp.wire import is_array, is_object

BENCHES = (
    *("tests/peer/", "tests/testing/test_contract", "tests/examples/test_custom_transport"),
    "tests/transports/http/client/",
)
"""Folders of tests of links and of transports without a client or a server, whose messages are partly invented."""
_SHOWN = 400
"""The number of characters of a message that a fault shows."""


class Exemption(NamedTuple):
    """A permitted difference between a message of ours and the schema, with its reason."""

    reason: str
    amend: Callable[[Verdict, Upstream], Json | None]
    """Return the corrected message, which must be valid; None if the exemption does not apply."""


def _with_id(verdict: Verdict, upstream: Upstream) -> Json | None:
    message = verdict.message
    if not upstream.revisions[verdict.revision].needs_id_in_errors:
        return None
    if is_array(message):  # a batch is exempt if its errors are
        return [{**each, "id": 0} if _is_error_without_id(each) else each for each in message]
    return {**message, "id": 0} if _is_error_without_id(message) else None


def _is_error_without_id(message: Json) -> bool:
    return "error" in message and message.get("id", 0) is None


def _with_integers(verdict: Verdict, upstream: Upstream) -> Json | None:
    amended = _with_integers_in_answers(verdict.message)
    return amended if amended != verdict.message else None


def _with_integers_in_answers(value: Json) -> Json:
    """Return the message with integers instead of floats in answers to forms."""
    if is_array(value):
        return [_with_integers_in_answers(each) for each in value]
    if not is_object(value):
        return value
    answer: Any = value.get("content") if value.get("action") == "accept" else None
    if is_object(answer):
        whole = {name: int(each) if isinstance(each, float) else each for name, each in answer.items()}
        return {**value, "content": whole}
    return {name: _with_integers_in_answers(each) for name, each in value.items()}


EXEMPTIONS = (
    Exemption(
        "an error for a request with an unreadable id has the id null, as JSON-RPC requires: "
        "the schema of its revision requires an id and excludes null",
        _with_id,
    ),
    Exemption(
        "a number in an answer to a form need not be an integer: schema.ts has number where schema.json has integer",
        _with_integers,
    ),
)


class InvalidOnPurpose(NamedTuple):
    """A test that makes our code send an invalid message on purpose."""

    test: str
    """The name of the test, or of a file if all its tests do so."""
    role: Role
    reason: str


INVALID_ON_PURPOSE = (
    InvalidOnPurpose(
        "tests/skills/test_client_skills.py::test_an_entry_that_is_not_valid_is_refused_and_left_out_of_the_list",
        "client",
        "a request for the entry of a URI that is not one",
    ),
    InvalidOnPurpose(
        "tests/skills/test_client_skills.py::test_an_entry_that_is_not_valid_is_refused_and_left_out_of_the_list",
        "server",
        "an entry that is not valid",
    ),
    InvalidOnPurpose(
        "tests/skills/test_client_skills.py::test_resources_that_are_neither_a_list_nor_dynamic_are_refused",
        "server",
        "an entry whose resources are not valid",
    ),
    InvalidOnPurpose(
        "tests/skills/test_server_skills.py::test_a_directory_lists_what_is_directly_in_it",
        "client",
        "an empty URI of a directory, by `Client.request`",
    ),
    InvalidOnPurpose(
        "tests/gateway/test_lists.py::test_a_template_that_cannot_be_expanded_is_listed_and_matches_nothing",
        "server",
        "a template that is not valid, of a server and of the gateway in front of it",
    ),
    InvalidOnPurpose(
        "tests/gateway/test_tasks.py::test_a_task_that_no_server_has_does_not_exist",
        "client",
        "an id that is not a string, by `Client.request`",
    ),
    InvalidOnPurpose(
        "tests/gateway/test_tasks.py::test_states_of_tasks_that_break_the_protocol_harm_nothing",
        "server",
        "states of tasks that are not valid, of a server and of the gateway in front of it",
    ),
    InvalidOnPurpose(
        "tests/server/test_forwarder.py::test_params_that_do_not_fit_are_refused_when_they_are_read",
        "client",
        "a state that is not a string, by `ClientExtensionPoints.request_json`",
    ),
    InvalidOnPurpose(
        "tests/tasks/test_server_tasks.py::test_an_invalid_answer_is_refused_and_the_question_stays_open",
        "client",
        "an invalid answer to a question of a task",
    ),
    InvalidOnPurpose(
        "tests/tasks/test_server_tasks.py::test_a_question_is_asked_in_the_task_and_the_handler_goes_straight_on",
        "client",
        "an answer to no question, which may be anything",
    ),
    InvalidOnPurpose(
        "tests/tasks/test_server_tasks.py::test_params_that_do_not_fit_are_refused_with_their_path",
        "client",
        "invalid params, by `Client.request`",
    ),
    InvalidOnPurpose(
        "tests/tasks/test_replayed_tasks.py::test_an_invalid_answer_is_refused_with_its_path_and_the_question_stays_open",
        "client",
        "an invalid answer to a question of a task",
    ),
    InvalidOnPurpose(
        "tests/tasks/test_answers_elsewhere.py::"
        "test_an_invalid_answer_is_refused_by_the_process_that_gets_it_and_the_question_stays_open",
        "client",
        "an invalid answer to a question of a task",
    ),
    InvalidOnPurpose(
        "tests/server/test_context.py::test_invalid_members_of_the_client_info_are_left_out",
        "client",
        "an invalid description of the client",
    ),
    InvalidOnPurpose(
        "tests/server/test_server.py::test_invalid_params_are_refused_with_all_faults",
        "client",
        "invalid params, by `Client.request`",
    ),
    InvalidOnPurpose(
        "tests/interaction/test_asking_rounds.py::test_a_malformed_retry_is_refused_and_does_not_use_the_state_up",
        "client",
        "answers whose type does not match any question, by `Client.request`",
    ),
    InvalidOnPurpose(
        "tests/interaction/test_asking_rounds.py::test_a_state_that_is_not_a_string_is_refused",
        "client",
        "a numeric state, by `Client.request`",
    ),
    InvalidOnPurpose(
        "tests/interaction/test_authorization_users.py::"
        "test_a_stream_of_http_and_sse_looks_unknown_to_every_other_user",
        "server",
        "a refusal on a stream of HTTP+SSE before its handshake, when neither side has named a revision",
    ),
    *(
        InvalidOnPurpose(f"tests/interaction/{test}", "server", "a refusal of the GET that opens such a stream")
        for test in (
            "test_http_security.py::test_requests_from_foreign_sites_are_refused",
            "test_http_requirements.py::test_every_request_from_a_foreign_origin_is_refused",
        )
    ),
    InvalidOnPurpose(
        "tests/transports/http/client/test_authorization.py",
        "client",
        "requests without params, in tests of authentication",
    ),
    InvalidOnPurpose(
        "tests/transports/test_memory.py::test_a_malformed_request_does_not_stay_in_flight",
        "client",
        "a `_meta` that is not an object, by `Client.request`",
    ),
    *(
        InvalidOnPurpose(
            f"tests/transports/http/client/test_legacy_session{part}.py",
            "client",
            "requests and answers without params, in tests of their transport",
        )
        for part in ("", "_renewal", "_sse")
    ),
    InvalidOnPurpose(
        "tests/client/test_http_header_mirroring.py::test_a_call_without_a_name_is_refused_by_the_server",
        "client",
        "a call without a name, by `Client.request`",
    ),
    InvalidOnPurpose(
        "tests/interaction/test_http_hostile_servers.py::test_values_of_the_caller_cannot_inject_header_fields",
        "client",
        "an invalid URI, in a test of the header field that repeats it",
    ),
    InvalidOnPurpose(
        "tests/peer/test_link_requests.py::test_initialize_is_never_cancelled",
        "client",
        "an `initialize` without params, in a test of its cancellation",
    ),
    InvalidOnPurpose(
        "tests/peer/test_link_requests.py::test_an_unsent_request_is_withdrawn_without_a_trace",
        "client",
        "an `initialize` without params, in a test of its withdrawal",
    ),
    InvalidOnPurpose(
        "tests/peer/test_link.py::test_updates_of_an_exchange_leave_before_its_response",
        "server",
        "progress without a token, in a test of its position before the response",
    ),
)


@define
class Counts:
    """The numbers of our checked messages."""

    judged: Counter[tuple[str, Role, str]] = field(factory=Counter[tuple[str, Role, str]])
    """Messages checked against the definition of their method, by revision, role and kind."""
    invented: Counter[tuple[str, Role, str]] = field(factory=Counter[tuple[str, Role, str]])
    """Messages checked only against the rules of JSON-RPC (rules 6 and 7 of `conversation`)."""
    exempt: Counter[str] = field(factory=Counter[str])
    """Messages that are valid except for an exemption, by its reason."""
    invalid_on_purpose: Counter[InvalidOnPurpose] = field(factory=Counter[InvalidOnPurpose])
    """Messages that are invalid on purpose."""
    of_extensions: Counter[str] = field(factory=Counter[str])
    """Messages of extensions, by ``extension:definition``; they are counted above too."""
    connections: int = 0
    children: int = 0
    """Child processes that sent messages."""
    of_children: int = 0
    """Messages of child processes."""

    def add(self, others: Counts) -> None:
        """Add the counts of another process."""
        self.judged += others.judged
        self.invented += others.invented
        self.exempt += others.exempt
        self.invalid_on_purpose += others.invalid_on_purpose
        self.of_extensions += others.of_extensions
        self.connections += others.connections
        self.children += others.children
        self.of_children += others.of_children


@define(eq=False)
class Judge:
    """A judge of the messages of one process (see `tap.Sink`).

    Args:
        upstream: the schema files.
        test: returns the name of the running test.
        counts: the counts to add to, shared with other processes.
        faults: the list to add to, shared likewise: one string for each invalid message.
    """

    upstream: Upstream
    test: Callable[[], str]
    counts: Counts = field(factory=Counts)
    faults: list[str] = field(factory=list[str])
    _conversations: dict[int, Conversation] = field(factory=dict[int, Conversation], init=False)

    def opened(self, connection: int, agreed: str | None) -> None:
        """Register a new connection."""
        self.counts.connections += 1
        is_bench = self.test().startswith(BENCHES)
        self._conversations[connection] = Conversation(self.upstream, agreed, is_bench)

    def observed(self, connection: int, role: Role, line: bytes, *, ours: bool) -> None:
        """Handle a line of either side; only our own lines are checked."""
        conversation = self._conversations[connection]
        try:
            message = _read(line)
        except (ValueError, RecursionError) as exc:
            if ours:
                self.faults.append(f"{self.test()}: the {role} wrote what is not JSON ({exc}): {line[:_SHOWN]!r}")
            return
        if not ours:
            conversation.record(role, message)
            return
        if line.find(b"\n") != len(line) - 1:
            self.faults.append(f"{self.test()}: the {role} wrote what is not one line: {line[:_SHOWN]!r}")
        for verdict in conversation.check(role, message):
            self._count(verdict)

    def _count(self, verdict: Verdict) -> None:
        counts = self.counts.invented if verdict.invented else self.counts.judged
        counts[verdict.revision, verdict.role, verdict.kind] += 1
        self.counts.of_extensions.update(each for part in verdict.parts for each in part.definitions if ":" in each)
        if verdict.faults:
            reason = next(self._exemptions(verdict), None)
            invalid_on_purpose = next((each for each in INVALID_ON_PURPOSE if self._is_of(each, verdict)), None)
            if reason is not None:
                self.counts.exempt[reason] += 1
            elif invalid_on_purpose is not None:
                self.counts.invalid_on_purpose[invalid_on_purpose] += 1
            else:
                self.faults.append(self._text(verdict))

    def _is_of(self, entry: InvalidOnPurpose, verdict: Verdict) -> bool:
        test = re.split(r"[\[ ]", self.test())[0]
        return verdict.role == entry.role and entry.test in {test, test.partition("::")[0]}

    def _exemptions(self, verdict: Verdict) -> Iterator[str]:
        revision = self.upstream.revisions[verdict.revision]
        for exemption in EXEMPTIONS:
            amended = exemption.amend(verdict, self.upstream)
            if amended is not None and not any(revision.faults(part, amended) for part in verdict.parts):
                yield exemption.reason

    def _text(self, verdict: Verdict) -> str:
        against = "; ".join(
            ", ".join(part.definitions) + (f" (at {'.'.join(part.path)})" if part.path else "")
            for part in verdict.parts
        )
        text = json.dumps(pruned(verdict.message))
        shown = text if len(text) <= _SHOWN else f"{text[:_SHOWN]} [...]"
        faults = "\n".join(f"    {fault}" for fault in verdict.faults)
        return (
            f"{self.test()}\n  {verdict.kind} of the {verdict.role} in {verdict.revision}, "
            f"against {against or 'nothing'}:\n{faults}\n    {shown}"
        )

    def stale(self) -> list[str]:
        """Return the exemptions that were not needed."""
        unused = [each.reason for each in EXEMPTIONS if not self.counts.exempt[each.reason]]
        return unused + [
            f"{each.test} ({each.reason})" for each in INVALID_ON_PURPOSE if not self.counts.invalid_on_purpose[each]
        ]


def _read(line: bytes) -> Json:
    read = partial(json.loads, line, parse_constant=_refuse_constant)
    try:
        return read()
    except RecursionError:
        # The package's parser may have accepted the line on a stack that was less deep, as that of a thread is.
        with ThreadPoolExecutor(1) as thread:
            return thread.submit(read).result()


def _refuse_constant(text: str) -> NoReturn:
    raise ValueError(f"{text} is not a JSON value")


def table(counts: Counts) -> Iterator[str]:
    """Yield the lines of a report: how many messages were judged, by revision, role and kind."""
    kinds = ("request", "notification", "result", "error", "batch")
    for title, found in (
        ("checked against upstream's schema", counts.judged),
        ("invented by tests of links and transports, and custom messages", counts.invented),
    ):
        yield f"{title}: {found.total()} messages"
        rows: dict[tuple[str, Any], dict[str, int]] = {}
        for (revision, role, kind), count in sorted(found.items()):
            rows.setdefault((revision, role), {})[kind] = count
        for (revision, role), row in rows.items():
            cells = ", ".join(
                f"{row[kind]} {kind}s" if kind != "batch" else f"{row[kind]} batches" for kind in kinds if kind in row
            )
            yield f"    {revision} {role}: {cells}"
    for definition, count in sorted(counts.of_extensions.items()):
        yield f"of an extension, {count}: {definition}"
    for reason, count in counts.exempt.items():
        yield f"of these exempt, {count}: {reason}"
    for test, count in counts.invalid_on_purpose.items():
        yield f"of these invalid on purpose, {count}: {test.test}: {test.reason}"
    yield (
        f"{counts.connections} connections; {counts.of_children} of the messages come from "
        f"{counts.children} child processes"
    )
