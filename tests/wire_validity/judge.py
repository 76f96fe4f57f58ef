"""Judges every line that our code puts on a wire, counts what it judged, and knows the named exemptions."""

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
    *("tests/transports/test_http_client", "tests/transports/test_http_contract"),
)
"""The tests of the engine and of transports alone: no client or no server is there to say what is right, and what they
say is partly their own."""
_SHOWN = 400
"""How many characters of a message a fault shows."""


class Exemption(NamedTuple):
    """A way in which a message of ours may differ from the schema, and why."""

    reason: str
    amend: Callable[[Verdict, Upstream], Json | None]
    """Returns the message as it should have been, which must then be valid; None where the exemption does not apply."""


def _with_id(verdict: Verdict, upstream: Upstream) -> Json | None:
    message = verdict.message
    if not upstream.revisions[verdict.revision].needs_id_in_errors:
        return None
    if is_array(message):  # a batch is as exempt as the errors in it
        return [{**each, "id": 0} if _is_error_without_id(each) else each for each in message]
    return {**message, "id": 0} if _is_error_without_id(message) else None


def _is_error_without_id(message: Json) -> bool:
    return "error" in message and message.get("id", 0) is None


def _with_whole_numbers(verdict: Verdict, upstream: Upstream) -> Json | None:
    amended = _whole_in_answers(verdict.message)
    return amended if amended != verdict.message else None


def _whole_in_answers(value: Json) -> Json:
    """Return a message in which the users' answers to forms hold whole numbers alone."""
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
    """A test that lets our code say something wrong, on purpose: what it says then is the test's and not ours."""

    test: str
    """Its name; or a file, all of whose tests do so."""
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
        "tests/interaction/test_asking_rounds.py::test_a_state_that_is_no_text_is_refused",
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
            "test_http_security.py::test_pages_of_foreign_sites_do_not_get_in",
            "test_http_duties.py::test_pages_of_foreign_sites_are_refused_whatever_they_send",
        )
    ),
    ByHand(
        "tests/transports/test_http_client_auth.py",
        "client",
        "requests without params, which are about who asks",
    ),
    ByHand(
        "tests/transports/test_memory.py::test_a_request_that_is_refused_on_sight_leaves_nothing",
        "client",
        "a `_meta` that is no object, by `Client.request`",
    ),
    *(
        ByHand(
            f"tests/transports/test_http_client_session{part}.py",
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
        "tests/interaction/test_http_hostile_servers.py::test_nothing_of_a_callers_ends_a_header_field",
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
    """How many messages of ours were judged."""

    judged: Counter[tuple[str, Role, str]] = field(factory=Counter[tuple[str, Role, str]])
    """Against the definition of their method, by revision, role and kind."""
    made_up: Counter[tuple[str, Role, str]] = field(factory=Counter[tuple[str, Role, str]])
    """Against the rules of JSON-RPC alone (rules 6 and 7 of `conversation`)."""
    exempt: Counter[str] = field(factory=Counter[str])
    """Valid but for an exemption, by its reason."""
    by_hand: Counter[ByHand] = field(factory=Counter[ByHand])
    """Wrong on purpose."""
    connections: int = 0
    children: int = 0
    """Processes beside pytest's own that had something to say."""
    of_children: int = 0
    """Messages of theirs."""

    def add(self, others: Counts) -> None:
        """Add what another process has counted."""
        self.judged += others.judged
        self.made_up += others.made_up
        self.exempt += others.exempt
        self.by_hand += others.by_hand
        self.connections += others.connections
        self.children += others.children
        self.of_children += others.of_children


@define(eq=False)
class Judge:
    """Takes what the connections of one process say (see `tap.Sink`).

    Args:
        upstream: what is valid.
        test: names the test that is running.
        counts: where to count, if other processes count there as well.
        faults: where to report, likewise: one text for each message that is not valid.
    """

    upstream: Upstream
    test: Callable[[], str]
    counts: Counts = field(factory=Counts)
    faults: list[str] = field(factory=list[str])
    _conversations: dict[int, Conversation] = field(factory=dict[int, Conversation], init=False)

    def opened(self, connection: int, agreed: str | None) -> None:
        """A connection begins."""
        self.counts.connections += 1
        is_bench = self.test().startswith(BENCHES)
        self._conversations[connection] = Conversation(self.upstream, agreed, is_bench)

    def said(self, connection: int, role: Role, line: bytes, *, ours: bool) -> None:
        """Somebody says something; what others say is not judged."""
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
        """Return what was exempt beforehand, and did not need it."""
        unused = [each.reason for each in EXEMPTIONS if not self.counts.exempt[each.reason]]
        return unused + [f"{each.test} ({each.why})" for each in BY_HAND if not self.counts.by_hand[each]]


def _read(line: bytes) -> Json:
    limit = sys.getrecursionlimit()
    sys.setrecursionlimit(2 * limit)  # what our own parser could read is not too deep here, where more calls are open
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
