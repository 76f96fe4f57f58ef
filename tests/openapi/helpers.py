"""Descriptions for tests, and an application that says what it was asked."""

from __future__ import annotations

from typing import Any

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse
from starlette.routing import Route

from trio_mcp import Server, open_client, types
from trio_mcp.openapi import AddedTools, add_asgi

OK: dict[str, Any] = {"200": {"description": "done", "content": {"application/json": {"schema": {}}}}}


def describe(*, version: str = "3.1.0", schemas: dict[str, Any] | None = None, **paths: Any) -> dict[str, Any]:
    """Return a description with one operation for each keyword, called so, with its members.

    The path of an operation is ``/`` and its name, unless it has a member ``path``; the method is ``method``, or GET.
    """
    table: dict[str, Any] = {}
    for name, members in paths.items():
        operation: dict[str, Any] = {"operationId": name, "responses": OK, **members}
        path, method = operation.pop("path", f"/{name}"), operation.pop("method", "get")
        table.setdefault(path, {})[method] = operation
    return {
        "openapi": version,
        "info": {"title": "test", "version": "1"},
        "paths": table,
        "components": {"schemas": schemas or {}},
    }


def parameter(name: str, place: str = "query", schema: Any = None, **members: Any) -> dict[str, Any]:
    """Return a parameter of an operation."""
    return {"name": name, "in": place, "schema": {} if schema is None else schema, **members}


async def _mirror(request: Request) -> JSONResponse:
    body = await request.body()
    shown = {"authorization", "content-type", "cookie"}
    fields = {name: value for name, value in request.headers.items() if name in shown or name.startswith("x-")}
    target = request.scope["raw_path"].decode()
    query = request.scope["query_string"].decode()
    return JSONResponse(
        {"method": request.method, "path": target, "query": query, "fields": fields, "body": body.decode("latin-1")}
    )


MIRROR = Starlette(routes=[Route("/{path:path}", _mirror, methods=["GET", "POST", "PUT", "DELETE", "PATCH"])])
"""An application that returns each request as JSON."""


def add(document: dict[str, Any], app: Any = MIRROR, **options: Any) -> tuple[Server, AddedTools]:
    """Return a server with the operations of a description as tools, all unless *options* say otherwise."""
    server = Server("web")
    options.setdefault("include", ["*"])
    return server, add_asgi(server, app, source=document, **options)


async def call(server: Server, name: str, /, **arguments: Any) -> Any:
    """Return the structured content of a call, or its text if there is none."""
    async with open_client(server) as client:
        result = await client.call_tool(name, arguments)
    if result.structured_content is not types.UNSET:
        return result.structured_content
    (content,) = result.content
    return content.text if isinstance(content, types.TextContent) else content


async def tools(server: Server) -> dict[str, types.Tool]:
    """Return the tools of a server by name."""
    async with open_client(server) as client:
        return {tool.name: tool async for tool in client.tools()}
