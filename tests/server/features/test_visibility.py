"""Visibility: what `visible=` hides is neither listed nor found, and looks as if it did not exist."""

from __future__ import annotations

import base64
import logging
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager
from functools import partial
from itertools import pairwise
from typing import Any

import pytest
import trio

from tests.interaction.protected_deployment import Deployment, user_credentials
from tests.interaction.serving_with_principal import ServingWithPrincipal
from trio_mcp import Access, CacheHint, Client, ErrorResponse, ListChanged, RateLimit, Server, open_client, types
from trio_mcp.server.features import Cursors, _catalog

REVISIONS = ["2025-11-25", "2026-07-28"]
MODERN = "2026-07-28"
every_revision = pytest.mark.parametrize("revision", REVISIONS)


def only_ada(_: object, access: Access | None) -> bool:
    return access is not None and access.principal == "ada"


def of_x(x: str) -> str:
    return x


def words(typed: str) -> list[str]:
    return [typed]


@asynccontextmanager
async def two_clients(server: Server, revision: str = MODERN) -> AsyncGenerator[tuple[Client, Client]]:
    """Open a client of the principal ada, and one without authentication."""
    async with (
        server.serving() as serving,
        open_client(ServingWithPrincipal(serving, "ada"), revision=revision) as ada,
        open_client(ServingWithPrincipal(serving, None), revision=revision) as stranger,
    ):
        yield ada, stranger


def register(server: Server, name: str, **options: Any) -> None:
    """Register an entry of every kind; the prompt and the template have completions."""
    server.tool(name=name, **options)(lambda: f"tool {name}")
    server.resource(f"{name}:one", name=name, **options)(lambda: f"resource {name}")
    server.resources.add_static(f"{name}:constant", f"constant {name}", name=f"{name}-constant", **options)
    server.resource(f"{name}:of/{{x}}", name=name, **options)(of_x)
    server.prompt(name=name, **options)(of_x)
    server.completion(prompt=name, argument="x")(words)
    server.completion(template=f"{name}:of/{{x}}", argument="x")(words)


def make_server(how: str, **options: Any) -> Server:
    """Return a server with entries `open` and entries `hidden`, which only ada sees."""

    def visible(entry: Any, access: Access | None) -> bool:
        return not entry.name.startswith("hidden") or only_ada(entry, access)

    server = Server("s", visible=visible if how == "server" else None, **options)
    register(server, "open")
    register(server, "hidden", **({} if how == "server" else {"visible": only_ada}))
    return server


both_ways = pytest.mark.parametrize("how", ["entry", "server"])


async def names_of(client: Client) -> list[str]:
    walks: list[Any] = [client.tools(), client.resources(), client.resource_templates(), client.prompts()]
    return [each.name for walk in walks for each in [entry async for entry in walk]]


@every_revision
@both_ways
async def test_a_hidden_entry_is_listed_for_those_only_who_see_it(how: str, revision: str) -> None:
    shown = ["open", "open", "open-constant", "open", "open"]

    async with two_clients(make_server(how), revision) as (ada, stranger):
        assert await names_of(stranger) == shown
        assert sorted(await names_of(ada)) == sorted([*shown, *(name.replace("open", "hidden") for name in shown)])


USES: dict[str, Callable[[Client, str], Awaitable[Any]]] = {
    "tool": lambda client, name: client.call_tool(name),
    "resource": lambda client, name: client.read_resource(f"{name}:one"),
    "constant": lambda client, name: client.read_resource(f"{name}:constant"),
    "template": lambda client, name: client.read_resource(f"{name}:of/tea"),
    "prompt": lambda client, name: client.get_prompt(name, {"x": "y"}),
    "completion of a prompt": lambda client, name: client.complete(types.PromptReference(name=name), "x", "y"),
    "completion of a template": lambda client, name: client.complete(
        types.ResourceTemplateReference(uri=f"{name}:of/{{x}}"), "x", "y"
    ),
}


async def refusal(use: Awaitable[Any]) -> tuple[int, str, str]:
    with pytest.raises(ErrorResponse) as caught:
        await use
    return caught.value.code, caught.value.message, str(caught.value.data)


@every_revision
@pytest.mark.parametrize("use", USES.values(), ids=USES)
@both_ways
async def test_a_hidden_entry_is_answered_like_one_that_does_not_exist(
    how: str, use: Callable[[Client, str], Awaitable[Any]], revision: str
) -> None:
    async with two_clients(make_server(how), revision) as (ada, stranger):
        await use(ada, "hidden")
        await use(stranger, "open")
        hidden = await refusal(use(stranger, "hidden"))
        unknown = await refusal(use(stranger, "absent"))

    assert hidden == (unknown[0], *(text.replace("absent", "hidden") for text in unknown[1:]))


async def test_a_template_may_answer_for_a_hidden_resource() -> None:
    server = Server("s")
    server.resource("note:plan", name="plan", visible=only_ada)(lambda: "the plan")
    server.resource("note:{x}", name="note")(of_x)

    async with two_clients(server) as (ada, stranger):
        texts = [(await client.read_resource("note:plan")).contents for client in (ada, stranger)]

    assert [each.text for (each,) in texts if isinstance(each, types.TextResourceContents)] == ["the plan", "plan"]


async def test_both_predicates_must_agree() -> None:
    server = Server("s", visible=only_ada)
    server.tool(name="never", visible=lambda _, __: False)(lambda: None)
    server.tool(name="hers", visible=lambda tool, access: tool.name == "hers" and access is not None)(lambda: None)

    async with two_clients(server) as (ada, stranger):
        assert [tool.name async for tool in ada.tools()] == ["hers"]
        assert [tool.name async for tool in stranger.tools()] == []


async def test_a_predicate_gets_the_entry_and_the_caller() -> None:
    seen: list[tuple[object, Access | None]] = []

    def visible(entry: object, access: Access | None) -> bool:
        seen.append((entry, access))
        return True

    server = Server("s", visible=visible)
    register(server, "open")

    async with two_clients(server) as (ada, stranger):
        for client in (ada, stranger):
            await names_of(client)

    kinds = [types.Tool, types.Resource, types.Resource, types.ResourceTemplate, types.Prompt]
    assert [type(entry) for entry, _ in seen] == kinds * 2
    assert [access for _, access in seen] == [Access("ada")] * 5 + [None] * 5


# --- Pages ---


@every_revision
@pytest.mark.parametrize("page_size", [1, 2, 3, 7, None])
async def test_the_pages_of_a_caller_have_each_entry_that_it_sees_once(page_size: int | None, revision: str) -> None:
    server = Server("s", page_size=page_size)
    for number in range(7):
        server.tool(name=f"n{number}", visible=only_ada if number % 3 else None)(lambda: None)

    async with two_clients(server, revision) as (ada, stranger):
        first = await stranger.list_tools()
        assert [tool.name async for tool in stranger.tools()] == ["n0", "n3", "n6"]
        assert [tool.name async for tool in ada.tools()] == [f"n{number}" for number in range(7)]

    assert len(first.tools) == min(page_size or 7, 3)
    assert (first.next_cursor is None) == (page_size is None or page_size >= 3)


async def test_a_walk_continues_while_hidden_entries_come_and_go() -> None:
    server = Server("s", page_size=2)
    for number in range(6):
        server.tool(name=f"n{number}")(lambda: None)
    hidden = partial(server.tools.add, lambda: None, visible=only_ada)
    hidden(name="h0")
    seen: list[str] = []

    async with two_clients(server) as (_, stranger):
        async for tool in stranger.tools():
            seen.append(tool.name)
            if tool.name == "n1":
                hidden(name="h1")
                server.tools.remove("h0")
                server.tools.remove("n0")
            if tool.name == "n3":
                server.tools.remove("h1")  # the list is the same for everybody now

    assert seen == [f"n{number}" for number in range(6)]


def test_a_cursor_does_not_tell_how_many_entries_are_hidden() -> None:
    cursors = Cursors((b"k" * 32,))
    sealed = [base64.urlsafe_b64decode(cursors.seal("tools/list", place))[:8] for place in range(1, 65)]
    distances = {left[:7] == right[:7] for left, right in pairwise(sealed)}

    assert distances == {False}


async def test_lists_without_predicates_use_the_pages_that_were_made_before(monkeypatch: pytest.MonkeyPatch) -> None:
    server = Server("s")
    register(server, "open")
    made: list[str] = []
    make_page = _catalog._make_page

    def make_and_count(*arguments: Any) -> Any:
        made.append(arguments[1])
        return make_page(*arguments)

    monkeypatch.setattr(_catalog, "_make_page", make_and_count)

    async with two_clients(server) as (ada, stranger):
        for client in (ada, stranger, ada):
            assert [tool.name async for tool in client.tools(fresh=True)] == ["open"]
        assert len(made) == 1
        server.tool(name="hidden", visible=only_ada)(lambda: None)
        assert [tool.name async for tool in stranger.tools(fresh=True)] == ["open"]
        server.tools.remove("hidden")
        made.clear()
        for client in (ada, stranger, ada):
            assert [tool.name async for tool in client.tools(fresh=True)] == ["open"]
        assert len(made) == 1


# --- Caching ---


@both_ways
async def test_what_depends_on_the_caller_is_not_cacheable_as_public(how: str) -> None:
    public = CacheHint(ttl=60, scope="public")
    lists: list[Any] = ["tools/list", "prompts/list", "resources/list", "resources/templates/list"]
    server = make_server(how, cache=dict.fromkeys([*lists, "resources/read"], public))

    async with two_clients(server) as (_, stranger):
        pages: list[Any] = [
            await stranger.list_tools(),
            await stranger.list_prompts(),
            await stranger.list_resources(),
            await stranger.list_resource_templates(),
        ]
        reads = [await stranger.read_resource(f"open:{path}") for path in ("one", "constant", "of/tea")]

    assert [(page.ttl_ms, page.cache_scope) for page in pages] == [(60_000, "private")] * 4
    scope = "private" if how == "server" else "public"
    assert [(read.ttl_ms, read.cache_scope) for read in reads] == [(60_000, scope)] * 3


async def test_the_contents_of_a_resource_with_a_predicate_are_private() -> None:
    public, hidden = CacheHint(ttl=60, scope="public"), CacheHint(ttl=5)
    server = Server("s", cache={"resources/read": public})
    server.resource("a:b", name="plain", visible=only_ada)(lambda: "")
    server.resource("a:{x}", name="hinted", cache=hidden, visible=only_ada)(of_x)

    async with two_clients(server) as (ada, _):
        reads = [await ada.read_resource(uri) for uri in ("a:b", "a:c")]

    assert [(read.ttl_ms, read.cache_scope) for read in reads] == [(60_000, "private"), (5000, "private")]


async def test_a_public_hint_of_a_resource_is_private_on_a_server_with_a_predicate() -> None:
    server = Server("s", visible=only_ada)
    server.resource("a:b", name="b", cache=CacheHint(ttl=5, scope="public"))(lambda: "")

    async with two_clients(server) as (ada, _):
        read = await ada.read_resource("a:b")

    assert (read.ttl_ms, read.cache_scope) == (5000, "private")


def test_a_public_hint_beside_a_predicate_is_refused() -> None:
    server = Server("s")

    with pytest.raises(ValueError, match="is public, but the resource has visible=; use scope='private'"):
        server.resource("a:b", name="b", cache=CacheHint(ttl=5, scope="public"), visible=only_ada)(lambda: "")


async def test_lists_that_are_the_same_for_everybody_may_be_public() -> None:
    server = Server("s", cache={"tools/list": CacheHint(ttl=60, scope="public")})
    server.tool(name="t")(lambda: None)

    async with two_clients(server) as (_, stranger):
        assert (await stranger.list_tools()).cache_scope == "public"


# --- Changes ---


@every_revision
@both_ways
async def test_nobody_is_notified_of_an_entry_that_is_hidden_from_him(how: str, revision: str) -> None:
    server = make_server(how)
    options: dict[str, Any] = {} if how == "server" else {"visible": only_ada}
    every: dict[str, Any] = {"tools": True, "prompts": True, "resource_list": True}

    async with (
        two_clients(server, revision) as (ada, stranger),
        ada.listen(**every) as hers,
        stranger.listen(**every) as theirs,
    ):
        register(server, "hidden2", **options)
        await call_back(ada, stranger)
        assert {await anext(hers) for _ in range(3)} == {ListChanged(each) for each in LISTS}
        server.tools.remove("hidden2")
        server.tool(name="open2")(lambda: None)
        await call_back(ada, stranger)
        server.prompt(name="open2")(lambda: "")
        assert await anext(hers) == ListChanged("tools")
        assert await anext(theirs) == ListChanged("tools")  # nothing before the visible one
        assert await anext(theirs) == ListChanged("prompts")


LISTS: list[Any] = ["tools", "prompts", "resources"]


async def call_back(*clients: Client) -> None:
    """Return when what was sent to the clients before has arrived."""
    for client in clients:
        await client.call_tool("open")


async def test_an_entry_that_a_thread_registers_is_hidden_from_listeners() -> None:
    server = make_server("entry")

    def work() -> None:
        server.tools.add(lambda: None, name="hidden2", visible=only_ada)
        server.prompts.add(lambda: "", name="open2")

    async with two_clients(server) as (_, stranger), stranger.listen(tools=True, prompts=True) as changes:
        await trio.to_thread.run_sync(work)
        assert await anext(changes) == ListChanged("prompts")


async def test_a_modern_client_cannot_listen_to_a_hidden_resource() -> None:
    server = make_server("entry")
    uris = ["open:one", "hidden:one", "hidden:of/tea", "open:of/tea", "absent:one"]

    async with (
        two_clients(server) as (ada, stranger),
        ada.listen(resources=uris) as hers,
        stranger.listen(resources=uris) as theirs,
    ):
        assert list(hers.honored.resources) == uris[:4]
        assert list(theirs.honored.resources) == ["open:one", "open:of/tea"]


async def test_a_legacy_client_cannot_subscribe_to_a_hidden_resource() -> None:
    async with two_clients(make_server("entry"), "2025-11-25") as (ada, stranger):
        subscribe = partial(Client.request, method="resources/subscribe", result=types.EmptyResult)
        await subscribe(ada, params={"uri": "hidden:one"})
        hidden = await refusal(subscribe(stranger, params={"uri": "hidden:one"}))
        unknown = await refusal(subscribe(stranger, params={"uri": "absent:one"}))

    assert hidden == (unknown[0], *(text.replace("absent", "hidden") for text in unknown[1:]))


# --- Predicates that fail ---


class Aborted(BaseException):
    """An exception that is no `Exception`."""


@pytest.mark.parametrize("failure", [ValueError("of the predicate"), SystemExit(3), Aborted()], ids=repr)
@both_ways
async def test_a_predicate_that_raises_hides_the_entry_and_is_logged(
    how: str, failure: BaseException, caplog: pytest.LogCaptureFixture
) -> None:
    def fail(entry: Any, _: Access | None) -> bool:
        if entry.name == "broken":
            raise failure
        return True

    server = Server("s", visible=fail if how == "server" else None)
    server.tool(name="broken", visible=None if how == "server" else fail)(lambda: None)
    server.tool(name="seen")(lambda: None)

    async with open_client(server) as client:
        assert [tool.name async for tool in client.tools()] == ["seen"]
        assert (await refusal(client.call_tool("broken")))[1] == "no tool 'broken'"
        await client.call_tool("seen")

    # once for the list, and twice for the call: similar names are looked for among what the caller sees
    errors = [record for record in caplog.records if record.levelno == logging.ERROR]
    assert [record.getMessage() for record in errors] == ["visible= of tool 'broken' failed, which hides it"] * 3
    assert all(record.exc_info and record.exc_info[1] is failure for record in errors)


async def test_a_predicate_that_returns_a_coroutine_hides_the_entry(caplog: pytest.LogCaptureFixture) -> None:
    def lazy(entry: object, access: Access | None) -> Any:
        return later(entry, access)

    server = Server("s")
    server.tool(name="t", visible=lazy)(lambda: None)

    async with open_client(server) as client:
        assert [tool async for tool in client.tools()] == []
    assert "it must be a plain function" in caplog.text


async def test_a_predicate_may_return_any_value_for_true_and_false() -> None:
    values: list[Any] = [{"write"}, "yes", set(), None, 0]
    server = Server("s")
    for number, value in enumerate(values):
        server.tool(name=f"n{number}", visible=lambda _, __, value=value: value)(lambda: None)  # type: ignore[misc]  # its inferred type has a third parameter

    async with open_client(server) as client:
        assert [tool.name async for tool in client.tools()] == ["n0", "n1"]


def test_an_interrupt_in_a_predicate_is_raised() -> None:
    def interrupt(_: object, __: Access | None) -> bool:
        raise KeyboardInterrupt

    server = Server("s")
    server.tool(name="t", visible=interrupt)(lambda: None)

    with pytest.raises(KeyboardInterrupt):
        server.tools.input_schema("t", None)


async def later(_: object, __: Access | None) -> bool:
    return True


def of_one(_: object) -> bool:
    return True


INVALID: dict[str, Any] = {"async": later, "constant": True, "one parameter": of_one}


@pytest.mark.parametrize("invalid", INVALID.values(), ids=INVALID)
def test_what_is_no_plain_predicate_is_refused(invalid: Any) -> None:
    server = Server("s")
    expected = partial(pytest.raises, TypeError, match="visible=.*: must be a plain function of an entry and an Access")

    with expected():
        Server("s", visible=invalid)
    with expected():
        server.tool(name="t", visible=invalid)(lambda: None)
    with expected():
        server.resource("a:b", name="r", visible=invalid)(lambda: "")
    with expected():
        server.resource("a:{x}", name="r", visible=invalid)(of_x)
    with expected():
        server.prompt(name="p", visible=invalid)(lambda: "")
    assert not server.tools.catalog.offered


def test_a_predicate_without_a_readable_signature_is_accepted() -> None:
    unreadable: Any = max  # Python cannot tell its parameters
    server = Server("s")

    server.tool(name="t", visible=unreadable)(lambda: None)
    assert server.tools.catalog.varies


# --- Beside scopes, header fields and rate limits ---


def test_a_hidden_entry_needs_no_scopes_which_would_show_that_it_exists() -> None:
    server = Server("s")
    register(server, "hidden", visible=only_ada, scopes=["money"])
    requests: list[tuple[str, dict[str, Any]]] = [
        ("tools/call", {"name": "hidden"}),
        ("prompts/get", {"name": "hidden"}),
        ("resources/read", {"uri": "hidden:one"}),
        ("resources/read", {"uri": "hidden:of/tea"}),
        ("completion/complete", {"ref": {"type": "ref/prompt", "name": "hidden"}}),
        ("completion/complete", {"ref": {"type": "ref/resource", "uri": "hidden:of/{x}"}}),
        ("subscriptions/listen", {"notifications": {"resourceSubscriptions": ["hidden:one", "hidden:of/tea"]}}),
    ]

    for method, params in requests:
        assert server.needed_scopes(method, params, Access("ada")) == {"money"}
        assert server.needed_scopes(method, params, Access("bo")) == set()
        assert server.needed_scopes(method, params, None) == set()


def test_the_schema_of_a_hidden_tool_is_not_known() -> None:
    server = Server("s")
    server.tool(name="t", visible=only_ada)(lambda: None)

    assert server.tools.input_schema("t", Access("ada")) == {"type": "object", "additionalProperties": False}
    assert server.tools.input_schema("t", Access("bo")) is None


async def test_a_hidden_tool_has_no_bucket_of_its_own_in_a_rate_limit() -> None:
    limit = RateLimit(per_second=0.001, burst=1, by=["tool"], methods=["tools/call"])
    server = make_server("entry", middleware=[limit])

    async with open_client(server) as client:
        assert (await refusal(client.call_tool("absent")))[1] == "no tool 'absent'"
        assert "too many requests" in (await refusal(client.call_tool("hidden")))[1]
        await client.call_tool("open")


MIRRORED = {"type": "object", "properties": {"region": {"type": "string", "x-mcp-header": "Region"}}}


@every_revision
async def test_over_http_a_hidden_tool_cannot_be_told_from_an_unknown_one(revision: str) -> None:
    deployment = Deployment()
    server = deployment.shop.server

    def visible(_: types.Tool, access: Access | None) -> bool:
        return access is not None and "buy" in access.scopes

    server.tool(name="hidden", scopes=["buy"], visible=visible, input_schema=MIRRORED)(lambda region="": region)

    async with deployment.open(), deployment.client(user_credentials(deployment.auth), revision=revision) as client:
        hidden = await refusal(client.call_tool("hidden", {"region": "eu"}))
        unknown = await refusal(client.call_tool("absent", {"region": "eu"}))
        before = [tool.name async for tool in client.tools()]
        await client.call_tool("buy")  # the user grants the scope
        after = [tool.name async for tool in client.tools()]
        assert not (await client.call_tool("hidden", {"region": "eu"})).is_error

    assert hidden == (unknown[0], *(text.replace("absent", "hidden") for text in unknown[1:]))
    assert "hidden" not in before
    assert after == [*before, "hidden"]
