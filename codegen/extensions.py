"""The extensions of the protocol: the facts that their schemas leave open, and the methods that they define."""

from __future__ import annotations

from collections.abc import Mapping

from attrs import frozen

from codegen.align import Revision
from codegen.choices import CORE_REVISION
from codegen.registry import MethodRow
from codegen.shapes import RefusedError, name_in_core, single_reference

THIS_PROJECT = "this project"
"""The origin of a schema that upstream does not publish and that is written here by hand."""


@frozen(kw_only=True)
class Extension:
    """The facts about one extension that its schema does not state."""

    id: str
    """The name under which both sides declare the extension."""
    page: str
    """The page of the specification to which the generated docstrings link."""
    origin: str
    """The place of the upstream file."""
    senders: Mapping[str, str]
    """The side that sends each message, by its method."""
    empty: frozenset[str] = frozenset()
    """The requests whose result has no members of its own."""


_PAGES = "https://modelcontextprotocol.io/extensions"

EXTENSIONS: Mapping[str, Extension] = {
    # Its messages pass between a host and the view that the host shows, not between client and server. A sandbox
    # proxy, which a host may put between them, counts as the view.
    "apps": Extension(
        id="io.modelcontextprotocol/ui",
        page=f"{_PAGES}/apps/overview",
        origin="npm @modelcontextprotocol/ext-apps, dist/src/generated/schema.json",
        senders={
            **dict.fromkeys(
                (
                    "ui/notifications/host-context-changed",
                    "ui/notifications/sandbox-resource-ready",
                    "ui/notifications/tool-cancelled",
                    "ui/notifications/tool-input",
                    "ui/notifications/tool-input-partial",
                    "ui/notifications/tool-result",
                    "ui/resource-teardown",
                ),
                "host",
            ),
            **dict.fromkeys(
                (
                    "ui/download-file",
                    "ui/initialize",
                    "ui/message",
                    "ui/notifications/initialized",
                    "ui/notifications/request-teardown",
                    "ui/notifications/sandbox-proxy-ready",
                    "ui/notifications/size-changed",
                    "ui/open-link",
                    "ui/request-display-mode",
                    "ui/update-model-context",
                ),
                "view",
            ),
        },
        empty=frozenset({"ui/update-model-context"}),
    ),
    # Members that only 2026-07-28 requires are optional here: this package uses skills in every revision.
    "skills": Extension(
        id="io.modelcontextprotocol/skills",
        page=f"{_PAGES}/skills/overview",
        origin=THIS_PROJECT,
        senders={"resources/directory/read": "client", "skills/get": "client", "skills/list": "client"},
    ),
    "tasks": Extension(
        id="io.modelcontextprotocol/tasks",
        page=f"{_PAGES}/tasks/overview",
        origin="github.com/modelcontextprotocol/ext-tasks, schema/draft/schema.json",
        senders={
            "notifications/tasks": "server",
            "tasks/cancel": "client",
            "tasks/get": "client",
            "tasks/update": "client",
        },
    ),
}
"""The known extensions, by the package in `trio_mcp` that has its types."""


def extension_methods(revision: Revision) -> dict[str, MethodRow]:
    """Return the methods of an extension, with the names of its types.

    Raises:
        RefusedError: the schema does not state the params or the result of a method, or nothing states its sender.
    """
    facts = EXTENSIONS[revision.name]
    rows: dict[str, MethodRow] = {}
    for name, schema in revision.definitions.items():
        method = schema.get("properties", {}).get("method", {}).get("const")
        if method is None:
            continue
        if method not in facts.senders:
            raise RefusedError(
                f"{revision.label}: codegen/extensions.py does not state the sender of {method} ({name})"
            )
        params = schema["properties"].get("params")
        params_type = None if params is None else single_reference(params)
        if params is not None and params_type is None:
            raise RefusedError(f"{revision.label}: the params of {method} ({name}) have no name")
        is_request = not name.endswith("Notification")
        rows[method] = MethodRow(
            kind="request" if is_request else "notification",
            direction=facts.senders[method],
            params=params_type,
            params_required="params" in schema.get("required", ()),
            results=[_result(name, method, revision)] if is_request else [],
        )
    unsent = facts.senders.keys() - rows.keys()
    if unsent:
        raise RefusedError(f"{revision.label}: codegen/extensions.py states the sender of {min(unsent)}, which is gone")
    return dict(sorted(rows.items()))


def _result(name: str, method: str, revision: Revision) -> str:
    result = f"{name.removesuffix('Request')}Result"
    if method in EXTENSIONS[revision.name].empty:
        return name_in_core(CORE_REVISION, "EmptyResult")
    if result not in revision.definitions:
        raise RefusedError(f"{revision.label}: {result}, the result of {method}, is not defined")
    return result
