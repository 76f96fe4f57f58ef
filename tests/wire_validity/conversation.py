"""The state of one connection as the judge reconstructs it: revisions of messages, and requests of responses.

It uses only the messages of both sides, as an observer of the wire does, because our code's own view of the connection
might be wrong.

Rules of this file:

1. `initialize` belongs to the revision that it requests, its result to the one that it names: the agreed revision.
2. A request whose `_meta` names a protocol version belongs to that revision, any other to the agreed one. Before
   there is one, it belongs to the newest that begins with a handshake.
3. A response belongs to its request's revision; so does a cancellation, and so does progress.
4. A server's other notifications name no request: they belong to a revision of the requests that are open.
5. A response, a cancellation or progress without a request is a fault. So is a method that the revision lacks.
6. Tests of links and of transports use invented methods, which no revision has, and answer `initialize` and `ping`
   themselves, with the agreed revision as the result. Only the envelope of these messages is checked.
7. The same holds for custom messages of applications, which tests call by the names in `CUSTOM`, for what the processes
   of one service tell each other (`trio_mcp.cluster`), and for methods of tasks if the request does not declare the
   extension: one revision had them as an experiment, so that applications may define them. A result of a type that no
   revision has belongs to an extension if its request has declared one.
8. A server that ends a subscription answers it, and cancels it in its very next message, with the id of the
   subscription. This cancellation is valid.
9. A message of a known extension is checked against the file of the extension if that is in force: always, or if the
   request declares it. For a notification of a server, one of the open requests must declare it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, TypeAlias, TypeGuard

from attrs import define, field, frozen

from tests.wire_validity.tap import Role
from tests.wire_validity.upstream import Extension, Json, Part, Revision, Upstream
from trio_mcp.wire import LISTEN, SUBSCRIPTION_ID_KEY, is_array, is_object

Id: TypeAlias = "str | int"

_REVISION_KEY = "io.modelcontextprotocol/protocolVersion"
_HANDSHAKE = "initialize"
_CAPABILITIES_KEY = "io.modelcontextprotocol/clientCapabilities"
CUSTOM = ("acme/", "rooms/", "com.example/")
"""Prefixes of the custom methods of tests; for notifications, after the first path segment."""
_OF_EXTENSION = "tasks/"
_BETWEEN_PROCESSES = "http/"
_BEFORE = frozenset({"initialize", "ping"})
"""Methods of requests that may precede the agreement on a revision."""


@frozen
class OpenRequest:
    """A request in flight with the facts that its response needs."""

    method: str | None
    """None for a message that is not a request but has an id for an error response."""
    params: Json
    revision: str


@define
class Verdict:
    """The verdict on one message of ours."""

    message: Json
    role: Role
    kind: str
    """request, notification, result, error or batch."""
    revision: str
    parts: list[Part]
    """The parts of the schema that it was checked against."""
    faults: list[str]
    invented: bool = False
    """True if only the rules of JSON-RPC were applied (rules 6 and 7)."""


@define(eq=False)
class Conversation:
    """One connection.

    Args:
        upstream: the schema files.
        agreed: the revision that was agreed on without a handshake.
        bench: True if a test of a link or a transport created the connection, without a client or a server.
    """

    upstream: Upstream
    agreed: str | None = None
    bench: bool = False
    _modern: str | None = field(default=None, init=False)
    """The revision of the latest request that named its own."""
    _open: dict[Role, dict[Id, OpenRequest]] = field(factory=lambda: {"client": {}, "server": {}}, init=False)
    """The requests in flight, by the role of their sender."""
    _issued: dict[Role, dict[Id, str]] = field(factory=lambda: {"client": {}, "server": {}}, init=False)
    """The revisions of all our requests, answered or not, by the role of their sender."""
    _tokens: dict[Role, dict[Id, OpenRequest]] = field(factory=lambda: {"client": {}, "server": {}}, init=False)
    """The requests with a progress token, by the role of their sender and the token."""
    _just_answered: tuple[Id, OpenRequest] | None = field(default=None, init=False)
    """The request of which the server's latest message was the result."""

    # Messages of the peer are recorded without a check.

    def record(self, role: Role, message: Json) -> None:
        """Record a message that our code has not sent."""
        if is_array(message):
            batches = "JSONRPCBatchRequest" in self._revision(self._default()).definitions
            for each in message if batches else ():
                self.record(role, each)
        elif is_object(message):
            self._note(role, message)

    def _note(self, role: Role, message: dict[str, Json]) -> None:
        id = message.get("id")
        if "method" not in message and ("result" in message or "error" in message):
            self._answered(role, self._taken(_other(role), id), message)
        elif "id" not in message:
            if message.get("method") == "notifications/cancelled":
                self._taken(role, _at(message, "params", "requestId"))
        elif _is_id(id) and id not in self._open[role]:  # a duplicate id is refused and changes nothing
            self._ask(role, id, message.get("method"), message.get("params"))

    def _ask(self, role: Role, id: Id, method: Json, params: Json) -> OpenRequest:
        revision = self._of_request(method, params)
        request = OpenRequest(method if isinstance(method, str) else None, params, revision)
        self._open[role][id] = request
        token = _at(params, "_meta", "progressToken")
        if _is_id(token):
            self._tokens[role][token] = request
        return request

    def _taken(self, role: Role, id: Json) -> OpenRequest | None:
        """Remove and return the open request of this id, if there is one; `true` and 1.0 are not ids."""
        return self._open[role].pop(id, None) if _is_id(id) else None

    def _answered(self, role: Role, request: OpenRequest | None, response: Json) -> None:
        if role == "server" and request is not None and request.method == _HANDSHAKE:
            agreed = _at(response, "result", "revision") if self.bench else None
            answered = agreed or _at(response, "result", "protocolVersion")
            self.agreed = answered if answered in self.upstream.names else self.agreed

    # Revisions.

    def _revision(self, name: str) -> Revision:
        return self.upstream.revisions[name]

    def _default(self) -> str:
        """Return the revision of a message that does not name one."""
        return self.agreed or self._modern or self._newest_with_handshake()

    def _newest_with_handshake(self) -> str:
        return [name for name, each in self.upstream.revisions.items() if ("client", _HANDSHAKE) in each.requests][-1]

    def _of_request(self, method: Json, params: Json) -> str:
        named = _at(params, "_meta", _REVISION_KEY)
        if named is not None:
            is_modern = named in self.upstream.names and ("client", _HANDSHAKE) not in self._revision(named).requests
            self._modern = modern = str(named) if is_modern else self.upstream.names[-1]
            return modern
        if method == _HANDSHAKE:
            wanted = _at(params, "protocolVersion")
            return wanted if wanted in self.upstream.names else self._newest_with_handshake()
        return self.agreed or self._newest_with_handshake()

    # Our messages are checked.

    def check(self, role: Role, message: Json) -> Iterator[Verdict]:
        """Check a message of ours; yield one verdict, and one more for each message in a batch."""
        if is_array(message):
            revision = self._default()
            yield self._judged(Verdict(message, role, "batch", revision, [Part(("JSONRPCMessage",))], []))
            for each in message:
                yield from self.check(role, each)
        else:
            yield self._judged(self._verdict(role, message))

    def _judged(self, verdict: Verdict) -> Verdict:
        revision = self._revision(verdict.revision)
        if not verdict.faults:
            found = [fault for part in verdict.parts for fault in revision.faults(part, verdict.message)]
            verdict.faults = list(dict.fromkeys(found))  # two definitions may report the same fault
        return verdict

    def _verdict(self, role: Role, message: Json) -> Verdict:
        verdict = self._of_its_kind(role, message)
        if role == "server" and verdict.kind != "result":
            self._just_answered = None
        return verdict

    def _of_its_kind(self, role: Role, message: Json) -> Verdict:
        match message:
            case {"method": str(), "id": int() | str()}:
                return self._request(role, message)
            case {"method": str()} if "id" not in message:
                return self._notification(role, message)
            case {"result": _}:
                return self._result(role, message)
            case {"error": _}:
                return self._error(role, message)
            case _:
                return Verdict(message, role, "nothing", self._default(), [], ["$: this is not a message"])

    def _request(self, role: Role, message: Json) -> Verdict:
        method, id = message["method"], message["id"]
        request = self._ask(role, id, method, message.get("params"))
        faults = [f"$.id: {id!r} was used before"] if id in self._issued[role] else []
        if (
            not self.agreed
            and not self.bench
            and method not in _BEFORE
            and not _at(request.params, "_meta", _REVISION_KEY)
        ):
            faults.append("$: the request names no revision, and none was agreed on")
        self._issued[role][id] = request.revision
        revision = self._revision(request.revision)
        verdict = Verdict(message, role, "request", revision.name, [Part(("JSONRPCMessage", "JSONRPCRequest"))], faults)
        definition = revision.requests.get((role, method))
        extension = None if definition else self._extension(role, method, revision, [request])
        if extension is not None:
            verdict.parts = revision.for_request_of_extension(extension, extension.defines(role, method) or "", message)
        else:
            self._specify(verdict, definition)
        return verdict

    def _extension(
        self, role: Role, method: str, revision: Revision, requests: Iterable[OpenRequest]
    ) -> Extension | None:
        """Return the extension that defines a message of *role* and that is in force for one of the requests."""
        if method in revision.methods:  # the file of an extension repeats requests that a server embeds in results
            return None
        declared = {id for each in requests for id in _declared(each.params)}
        for extension in revision.extensions:
            is_in_force = not extension.facts.declared_by_client or extension.facts.id in declared
            if is_in_force and extension.defines(role, method) is not None:
                return extension
        return None

    def _specify(self, verdict: Verdict, definition: str | None) -> None:
        """Check a message against the definition of its method."""
        method = verdict.message["method"]
        if definition is not None:
            verdict.parts = [Part((*each.definitions, definition), each.path) for each in verdict.parts]
        elif (self.bench and not self.upstream.knows(method)) or _is_custom(method):
            verdict.invented = True
        else:
            verdict.faults.append(f"$.method: no {verdict.role} sends a {verdict.kind} {method!r} in this revision")

    def _notification(self, role: Role, message: Json) -> Verdict:
        method = message["method"]
        possible, faults = self._revisions_of_notification(role, method, message.get("params"))
        known = [each for each in possible if (role, method) in self._revision(each).notifications]
        parts = [Part(("JSONRPCMessage", "JSONRPCNotification"))]
        verdicts: list[Verdict] = []
        for revision in known or possible[:1]:
            verdict = Verdict(message, role, "notification", revision, list(parts), list(faults))
            definition = self._revision(revision).notifications.get((role, method))
            requests = self._open[_other(role)].values()
            extension = None if definition else self._extension(role, method, self._revision(revision), requests)
            if extension is not None:
                definition = f"{extension.name}:{extension.defines(role, method)}"
            self._specify(verdict, definition)
            verdicts.append(self._judged(verdict))
        if method == "notifications/cancelled":
            self._taken(role, _at(message, "params", "requestId"))
        return min(verdicts, key=lambda each: len(each.faults))

    def _revisions_of_notification(self, role: Role, method: str, params: Json) -> tuple[list[str], list[str]]:
        if method == "notifications/cancelled":
            id = _at(params, "requestId")
            revision = self._revision_of_cancelled(role, id, params) if _is_id(id) else None
            return ([revision], []) if revision else ([self._default()], ["$.params.requestId: of no request"])
        if method == "notifications/progress":
            token = _at(params, "progressToken")
            request = self._tokens[_other(role)].get(token) if _is_id(token) else None
            return (
                ([request.revision], []) if request else ([self._default()], ["$.params.progressToken: of no request"])
            )
        in_flight = [request.revision for request in self._open[_other(role)].values()] if role == "server" else []
        agreed = [self.agreed] if self.agreed else []
        return [*dict.fromkeys(agreed + in_flight)] or [self._default()], []

    def _revision_of_cancelled(self, role: Role, id: Id, params: Json) -> str | None:
        """Return the revision of a cancelled request: the sender's own, or a subscription that the server ends."""
        other = self._open["client"].get(id) or self._ended(id, params) if role == "server" else None
        return self._issued[role].get(id) or (other.revision if other else None)

    def _ended(self, id: Id, params: Json) -> OpenRequest | None:
        """Return the subscription that the server has just answered, if this is its cancellation (rule 8)."""
        named = _at(params, "_meta", SUBSCRIPTION_ID_KEY)
        answered, request = self._just_answered or (None, None)
        if request is None or not (_is_id(named) and named == id == answered):
            return None
        may_end = request.method == LISTEN or (self.bench and not self.upstream.knows(request.method or ""))
        return request if may_end else None

    def _result(self, role: Role, message: Json) -> Verdict:
        request = self._taken(_other(role), message.get("id"))
        if request is None or request.method is None:
            revision = self._revision(self._default())
            return Verdict(message, role, "result", revision.name, [], ["$.id: a result for no request"])
        self._answered(role, request, message)
        if role == "server":
            self._just_answered = message["id"], request
        revision = self._revision(self.agreed if request.method == _HANDSHAKE and self.agreed else request.revision)
        verdict = Verdict(message, role, "result", revision.name, [Part(("JSONRPCMessage", revision.result))], [])
        if self.bench and (not self.upstream.knows(request.method) or _is_of_bench(request.method, message["result"])):
            # A result without a type is not a fault of the link: it does not know the results of its callers.
            verdict.message = {**message, "result": {"resultType": "complete", **message["result"]}}
            verdict.invented = True
        elif _is_of_extension(request.params, message["result"]):
            self._specify_result(verdict, revision, request)
        elif (extension := self._extension(_other(role), request.method, revision, [request])) is not None:
            defined = extension.defines(_other(role), request.method) or ""
            verdict.parts = revision.for_result_of_extension(extension, f"{defined.removesuffix('Request')}Result")
        elif (_other(role), request.method) in revision.requests:
            verdict.parts = revision.for_result(_other(role), request.method, request.params, message["result"])
        elif _is_custom(request.method):
            verdict.invented = True
        else:
            verdict.faults.append(f"$.result: no {role} answers {request.method!r} in this revision")
        return verdict

    def _specify_result(self, verdict: Verdict, revision: Revision, request: OpenRequest) -> None:
        """Check a result whose type no revision has against the extension that has this type."""
        for extension in revision.extensions:
            definition = extension.of_result_type(verdict.message["result"]["resultType"])
            if definition is not None and extension.facts.id in _declared(request.params):
                verdict.parts = revision.for_result_of_extension(extension, definition)
                return
        verdict.invented = True

    def _error(self, role: Role, message: Json) -> Verdict:
        id, faults = message.get("id"), list[str]()
        revision = self._default()
        if id is not None:
            request = self._taken(_other(role), id)
            if request is None:
                faults.append(f"$.id: an error for no request, {id!r}")
            else:
                revision = request.revision
        parts = self._revision(revision).for_error(_at(message, "error", "code"))
        return Verdict(message, role, "error", revision, parts, faults)


def _other(role: Role) -> Role:
    return "server" if role == "client" else "client"


def _is_of_bench(method: str, result: Json) -> bool:
    return method in {"initialize", "ping"} and is_object(result) and result.keys() == {"revision"}


def _is_custom(method: str) -> bool:
    return method.removeprefix("notifications/").startswith(CUSTOM) or method.startswith(
        (_OF_EXTENSION, _BETWEEN_PROCESSES)
    )


def _is_of_extension(params: Json, result: Json) -> bool:
    is_other = _at(result, "resultType") not in {None, "complete", "input_required"}
    return is_other and bool(_at(params, "_meta", _CAPABILITIES_KEY, "extensions"))


def _declared(params: Json) -> Iterable[str]:
    """Return the ids of the extensions that a request declares."""
    extensions = _at(params, "_meta", _CAPABILITIES_KEY, "extensions")
    return extensions if is_object(extensions) else ()


def _is_id(value: object) -> TypeGuard[Id]:
    return type(value) is int or type(value) is str


def _at(value: Json, *path: str) -> Any:
    """Return the value at a path; None if there is none."""
    for member in path:
        if not is_object(value) or member not in value:
            return None
        value = value[member]
    return value
