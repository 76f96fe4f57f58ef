"""The commands that show what there is: info, tools, resources, prompts."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from .. import types
from ..wire import is_modern, is_object
from ._job import Job
from ._output import json_line

__all__ = ["info", "prompts", "resources", "tools"]


async def info(job: Job) -> None:
    """Show which server it is, and what it can do."""
    client = job.client
    supported = (await client.discover()).supported_versions if is_modern(client.revision) else None
    told: dict[str, Any] = {
        "serverInfo": None if client.server_info is None else job.wire(client.server_info),
        "protocolVersion": client.revision,
        "supportedVersions": None if supported is None else [*supported],
        "capabilities": job.wire(client.server_capabilities),
        "instructions": client.instructions,
    }
    if job.options.json:
        job.output.document({name: value for name, value in told.items() if value is not None})
    else:
        job.output.table(("", ""), _facts(client.server_info, told))


def _facts(server: types.Implementation | None, told: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    if server is not None:
        yield "name", server.name
        yield "version", server.version
        if server.title:
            yield "title", server.title
    yield "revision", told["protocolVersion"]
    if told["supportedVersions"]:
        yield "supported", ", ".join(told["supportedVersions"])
    for name, declared in told["capabilities"].items():
        yield f"offers {name}", json_line(declared) if declared else ""
    for line in (told["instructions"] or "").splitlines():
        yield "instructions", line


async def tools(job: Job) -> None:
    """List the tools."""
    found = [tool async for tool in job.client.tools()]
    if job.options.json:
        job.output.document({"tools": job.wire(found)})
        return
    rows = [(tool.name, " ".join(_parameters(tool.input_schema)), first_line(tool.description)) for tool in found]
    _table(job, "tools", ("tool", "arguments", "what it does"), rows)


async def resources(job: Job) -> None:
    """List the resources and resource templates."""
    found = [resource async for resource in job.client.resources()]
    templates = [template async for template in job.client.resource_templates()]
    if job.options.json:
        job.output.document({"resources": job.wire(found), "resourceTemplates": job.wire(templates)})
        return
    rows = [_place(resource.uri, resource) for resource in found]
    rows += [_place(template.uri_template, template) for template in templates]
    _table(job, "resources", ("resource", "name", "type", "what it is"), rows)


def _place(uri: str, what: types.Resource | types.ResourceTemplate) -> tuple[str | None, ...]:
    return uri, what.title or what.name, what.mime_type, first_line(what.description)


async def prompts(job: Job) -> None:
    """List the prompts."""
    found = [prompt async for prompt in job.client.prompts()]
    if job.options.json:
        job.output.document({"prompts": job.wire(found)})
        return
    rows = [(each.name, " ".join(_named(each.arguments or ())), first_line(each.description)) for each in found]
    _table(job, "prompts", ("prompt", "arguments", "what it asks for"), rows)


def _table(job: Job, what: str, columns: Sequence[str], rows: Sequence[Sequence[str | None]]) -> None:
    if rows:
        job.output.table(columns, rows)
    else:
        job.notes.say(f"the server has no {what}")


def first_line(text: str | None) -> str:
    """Return what a description begins with."""
    return (text or "").strip().partition("\n")[0]


def _parameters(schema: types.JSONObject) -> Iterator[str]:
    """Yield each parameter of a tool as it is written in a call; brackets around what may be left out."""
    members, required = schema.get("properties"), schema.get("required")
    for name, member in members.items() if is_object(members) else ():
        kind = member.get("type") if is_object(member) else None
        written = f"{name}={kind.upper() if isinstance(kind, str) else 'VALUE'}"
        yield written if isinstance(required, list) and name in required else f"[{written}]"


def _named(arguments: Sequence[types.PromptArgument]) -> Iterator[str]:
    for each in arguments:
        yield f"{each.name}=TEXT" if each.required else f"[{each.name}=TEXT]"
