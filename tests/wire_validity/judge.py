"""A judge that checks every line our code puts on a wire, counts the messages, and knows the named exemptions."""

from __future__ import annotations

import json
import re
import sys
from collections import Counter
from collections.abc import Callable, Iterator
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


def _with_whole_numbers(verdict: Verdict, upstream: Upstream) -> Json | None:
    amended = _whole_in_answers(verdict.message)
    return amended if amended != verdict.message else None


def _whole_in_answers(value: Json) -> Json:
    """Return the message with integers in place of all numbers in answers to forms."""
    if is_array(value):
        return [_whole_in_answers(each) for each in value]
    if not is_object(value):
        return value
    answer: Any = value.get("content") if value.get("action") == "accept" else None
    if is_object(answer):
        whole = {name: int(each) if isinstance(each, float) else each for name, each in answer.items()}
        return {**value, "content": whole}
    return {name: _whole_in_answers(each) for name, each in value.items()}


EXEMPTIONS = (
    Exemption(
        "an error for a request whose id could not be read has the id null, as JSON-RPC wants it: "
        "the schema of its revision requires an id, and has none for this",
        _with_id,
    ),
    Exemption(
        "a number in a user's answer to a form need not be whole: schema.ts says number where schema.json says integer",
        _with_whole_numbers,
    ),
)


class ByHand(NamedTuple):
    """A test that makes our code send an invalid message on purpose."""

    test: str
    """Its name, or a file whose tests all do so."""
    role: Role
    why: str


BY_HAND = (
    ByHand(
        "tests/server/test_context.py::test_a_client_that_describes_itself_badly_is_shown_as_far_as_possible",
        "client",
        "a description of the client that does not fit",
    ),
    ByHand(
        "tests/server/test_server.py::test_params_that_do_not_fit_are_refused_with_every_fault",
        "client",
        "params that do not fit, by `Client.request`",
    ),
    ByHand(
        "tests/interaction/test_asking_rounds.py::test_a_malformed_retry_is_refused_and_does_not_use_the_state_up",
        "client",
        "answers of no type that a question has, by `Client.request`",
    ),
    ByHand(
        "tests/interaction/test_asking_rounds.py::test_a_state_that_is_not_a_string_is_refused",
        "client",
        "a state that is a number, by `Client.request`",
    ),
    ByHand(
        "tests/interaction/test_authorization_users.py::"
        "test_a_stream_of_http_and_sse_is_nothing_to_anybody_but_the_user_who_opened_it",
        "server",
        "a refusal on a stream of HTTP+SSE before its handshake, when nobody has said a revision",
    ),
    *(
        ByHand(f"tests/interaction/{test}", "server", "likewise, at the head of a request to such a stream")
        for test in (
            "test_http_security.py::test_requests_from_foreign_sites_are_refused",
            "test_http_duties.py::test_every_request_from_a_foreign_origin_is_refused",
        )
    ),
    ByHand(
        "tests/transports/http/client/test_authorization.py",
        "client",
        "requests without params, which are about who asks",
    ),
    ByHand(
        "tests/transports/test_memory.py::test_a_malformed_request_does_not_stay_in_flight",
        "client",
        "a `_meta` that is no object, by `Client.request`",
    ),
    *(
        ByHand(
            f"tests/transports/http/client/test_legacy_session{part}.py",
            "client",
            "requests without params, and answers, which are about how they travel",
        )
        for part in ("", "_renewal", "_sse")
    ),
    ByHand(
        "tests/client/test_http_fields.py::test_a_call_without_a_name_is_for_the_server_to_refuse",
        "client",
        "a call without a name, by `Client.request`",
    ),
    ByHand(
        "tests/interaction/test_http_hostile_servers.py::test_values_of_the_caller_cannot_inject_header_fields",
        "client",
        "a URI that is none, which is about the header field that repeats it",
    ),
    ByHand(
        "tests/peer/test_link_requests.py::test_initialize_is_never_cancelled",
        "client",
        "an `initialize` without params, which is about its cancellation",
    ),
    ByHand(
        "tests/peer/test_link_requests.py::test_an_unsent_request_is_withdrawn_without_a_trace",
        "client",
        "an `initialize` without params, which is about its withdrawal",
    ),
    ByHand(
        "tests/peer/test_link.py::test_updates_of_an_exchange_leave_before_its_response",
        "server",
        "progress without a token, which is about its place before the response",
    ),
)


@define
class Counts:
    """The numbers of our checked messages."""

    judged: Counter[tuple[str, Role, str]] = field(factory=Counter[tuple[str, Role, str]])
    """Messages checked against the definition of their method, by revision, role and kind."""
    made_up: Counter[tuple[str, Role, str]] = field(factory=Counter[tuple[str, Role, str]])
    """Messages checked only against the rules of JSON-RPC (rules 6 and 7 of `conversation`)."""
    exempt: Counter[str] = field(factory=Counter[str])
    """Messages that are valid except for an exemption, by its reason."""
    by_hand: Counter[ByHand] = field(factory=Counter[ByHand])
    """Messages that are invalid on purpose."""
    connections: int = 0
    children: int = 0
    """Child processes that sent messages."""
    of_children: int = 0
    """Messages of child processes."""

    def add(self, others: Counts) -> None:
        """Add the counts of another process."""
        self.judged += others.judged
        self.made_up += others.made_up
        self.exempt += others.exempt
        self.by_hand += others.by_hand
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

    def said(self, connection: int, role: Role, line: bytes, *, ours: bool) -> None:
        """Handle a line of either side; only our own lines are checked."""
        conversation = self._conversations[connection]
        try:
            message = _read(line)
        except (ValueError, RecursionError) as exc:
            if ours:
                self.faults.append(f"{self.test()}: the {role} wrote what is not JSON ({exc}): {line[:_SHOWN]!r}")
            return
        if not ours:
            conversation.hear(role, message)
            return
        if line.find(b"\n") != len(line) - 1:
            self.faults.append(f"{self.test()}: the {role} wrote what is not one line: {line[:_SHOWN]!r}")
        for verdict in conversation.say(role, message):
            self._count(verdict)

    def _count(self, verdict: Verdict) -> None:
        counts = self.counts.made_up if verdict.made_up else self.counts.judged
        counts[verdict.revision, verdict.role, verdict.kind] += 1
        if verdict.faults:
            reason = next(self._exemptions(verdict), None)
            by_hand = next((each for each in BY_HAND if self._is_by(each, verdict)), None)
            if reason is not None:
                self.counts.exempt[reason] += 1
            elif by_hand is not None:
                self.counts.by_hand[by_hand] += 1
            else:
                self.faults.append(self._text(verdict))

    def _is_by(self, hand: ByHand, verdict: Verdict) -> bool:
        test = re.split(r"[\[ ]", self.test())[0]
        return verdict.role == hand.role and hand.test in {test, test.partition("::")[0]}

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
        return unused + [f"{each.test} ({each.why})" for each in BY_HAND if not self.counts.by_hand[each]]


def _read(line: bytes) -> Json:
    limit = sys.getrecursionlimit()
    sys.setrecursionlimit(
        2 * limit
    )  # a line that the package's parser accepted must be readable at this greater stack depth
    try:
        return json.loads(line, parse_constant=_refuse_constant)
    finally:
        sys.setrecursionlimit(limit)


def _refuse_constant(text: str) -> NoReturn:
    raise ValueError(f"{text} is no JSON value")


def table(counts: Counts) -> Iterator[str]:
    """Yield the lines of a report: how many messages were judged, by revision, role and kind."""
    kinds = ("request", "notification", "result", "error", "batch")
    for title, found in (
        ("held against upstream's schema", counts.judged),
        ("made up by tests of the engine and of transports, and by applications", counts.made_up),
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
    for reason, count in counts.exempt.items():
        yield f"of these exempt, {count}: {reason}"
    for hand, count in counts.by_hand.items():
        yield f"of these wrong on purpose, {count}: {hand.test}: {hand.why}"
    yield (
        f"{counts.connections} connections; {counts.of_children} of the messages are those of "
        f"{counts.children} processes that tests have started"
    )
