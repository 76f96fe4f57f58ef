"""Completion of prompt arguments and of template variables."""

from __future__ import annotations

import enum
import itertools
import threading
from collections.abc import Iterator
from typing import Any, Literal, cast

import pytest

from trio_mcp import Context, ErrorResponse, Server, open_client, types

Tea = Literal["tea"]
Cake = Literal["cake"]


class Size(enum.Enum):
    small = "S"
    large = "L"


def of_x(x: str) -> str:
    return x


def none(typed: str) -> list[str]:
    return []


def same(typed: str) -> list[str]:
    return [typed]


def of_nothing() -> list[str]:
    return []


def of_typed_and_style(typed: str, style: str | None) -> list[str]:
    return []


def make_server() -> Server:
    server = Server("s")

    @server.prompt
    def review(code: str, language: Literal["Python", "python2", "Rust"], deep: bool = False) -> str:
        return code

    @server.resource("repo://{owner}/{name}")
    async def repo(owner: str, name: str) -> str:
        return name

    return server


PROMPT = types.PromptReference(name="review")
TEMPLATE = types.ResourceTemplateReference(uri="repo://{owner}/{name}")


@pytest.mark.parametrize("revision", types.REVISIONS)
async def test_a_completion_receives_the_typed_string_and_the_arguments_that_are_already_known(revision: str) -> None:
    server = make_server()
    received: list[tuple[str, str | None]] = []

    @server.completion(template="repo://{owner}/{name}", argument="name")
    async def repo_names(ctx: Context, typed: str, owner: str | None) -> list[str]:
        assert ctx.revision == revision
        received.append((typed, owner))
        return [f"{typed}1", f"{typed}2"]

    async with open_client(server, revision=revision) as client:
        first = await client.complete(TEMPLATE, "name", "li", context={"owner": "ada"})
        await client.complete(TEMPLATE, "name", "")

    assert first == types.Completion(values=["li1", "li2"], total=2, has_more=False)
    assert received == [("li", "ada" if revision >= "2025-06-18" else None), ("", None)]


async def test_a_plain_function_can_be_a_completion() -> None:
    server = make_server()

    @server.completion(prompt="review", argument="code")
    def snippets(typed: str) -> Iterator[str]:
        return iter([typed + "!"])

    async with open_client(server) as client:
        assert (await client.complete(PROMPT, "code", "x")).values == ["x!"]


@pytest.mark.requirement("B.19-S2")
async def test_at_most_100_values_are_sent_and_the_rest_is_counted() -> None:
    server = make_server()

    def of_numbers(typed: str) -> list[str]:
        return [str(n) for n in range(250)]

    def of_many(typed: str) -> types.Completion:
        return many

    def of_few(typed: str) -> types.Completion:
        return few

    server.completion(prompt="review", argument="code")(of_numbers)
    many = types.Completion(values=[str(n) for n in range(101)], total=5000)
    server.completion(template="repo://{owner}/{name}", argument="owner")(of_many)
    few = types.Completion(values=["a"], total=2, has_more=True)
    server.completion(template="repo://{owner}/{name}", argument="name")(of_few)

    async with open_client(server) as client:
        cut = await client.complete(PROMPT, "code", "")
        counted = await client.complete(TEMPLATE, "owner", "")
        assert await client.complete(TEMPLATE, "name", "") == few

    assert cut == types.Completion(values=[str(n) for n in range(100)], total=250, has_more=True)
    assert counted == types.Completion(values=[str(n) for n in range(100)], total=5000, has_more=True)


async def test_arguments_with_fixed_values_are_completed_without_a_function() -> None:
    server = make_server()

    @server.prompt
    def order(size: Size | None = None, count: int = 1, kind: Tea | Cake = "tea") -> str:
        return ""

    async with open_client(server) as client:
        assert client.server_capabilities.completions is not None
        assert (await client.complete(PROMPT, "language", "PY")).values == ["Python", "python2"]
        assert (await client.complete(PROMPT, "deep", "")).values == ["true", "false"]
        assert (await client.complete(PROMPT, "code", "")).values == []
        order_ref = types.PromptReference(name="order")
        assert (await client.complete(order_ref, "size", "")).values == ["S", "L"]
        assert (await client.complete(order_ref, "count", "")).values == []
        assert (await client.complete(order_ref, "kind", "c")).values == ["cake"]


@pytest.mark.requirement("B.19-S1")
async def test_the_capability_is_declared_if_an_argument_can_be_completed() -> None:
    server = Server("s")
    server.prompt(name="p")(of_x)

    async with open_client(server) as client:
        assert client.server_capabilities.completions is None
        with pytest.raises(ErrorResponse, match="no method 'completion/complete'"):
            ref: Any = {"ref": {"type": "ref/prompt", "name": "p"}, "argument": {"name": "x", "value": ""}}
            await client.request("completion/complete", ref, types.CompleteResult)

    server.completion(prompt="p", argument="x")(none)
    async with open_client(server) as client:
        assert client.server_capabilities.completions == {}


@pytest.mark.requirement("B.19-S3b", "B.19-S4c")
@pytest.mark.parametrize(
    ("ref", "argument", "fault"),
    [
        (types.PromptReference(name="no"), "code", r"\$\.ref: there is nothing to complete for 'no'"),
        (types.ResourceTemplateReference(uri="a:b"), "code", r"\$\.ref: .* 'a:b'"),
        (PROMPT, "style", r"\$\.argument\.name: 'review' has no argument 'style'"),
    ],
)
async def test_a_completion_of_an_unknown_reference_or_argument_is_refused(ref: Any, argument: str, fault: str) -> None:
    async with open_client(make_server()) as client:
        with pytest.raises(ErrorResponse, match=fault) as caught:
            await client.complete(ref, argument, "")

    assert caught.value.code == -32602


async def test_suggestions_that_are_not_strings_are_an_internal_error_that_the_log_explains(
    caplog: pytest.LogCaptureFixture,
) -> None:
    server = make_server()

    @server.completion(prompt="review", argument="code")
    def numbers(typed: str) -> list[int]:
        return [1]

    async with open_client(server) as client:
        with pytest.raises(ErrorResponse, match="the server's log says why"):
            await client.complete(PROMPT, "code", "")
    assert "a completion suggested 1; suggestions must be strings" in caplog.text


def test_an_invalid_completion_is_refused_at_its_registration() -> None:
    server = make_server()
    server.completion(prompt="review", argument="code")(none)

    with pytest.raises(ValueError, match="either prompt= or template="):
        server.completion(argument="code")(none)
    with pytest.raises(ValueError, match="either prompt= or template="):
        server.completion(prompt="review", template="a:{b}", argument="code")(none)
    with pytest.raises(ValueError, match="there is no prompt 'no'; register it before"):
        server.completion(prompt="no", argument="code")(none)
    with pytest.raises(ValueError, match="there is no resource template 'a:b'"):
        server.completion(template="a:b", argument="code")(none)
    with pytest.raises(ValueError, match="'review' has no argument 'style'; it has code, deep, language"):
        server.completion(prompt="review", argument="style")(none)
    with pytest.raises(ValueError, match="'code' of 'review' is registered already"):
        server.completion(prompt="review", argument="code")(none)
    with pytest.raises(TypeError, match="the first parameter of a completion must take the string"):
        server.completion(prompt="review", argument="deep")(of_nothing)
    with pytest.raises(TypeError, match=r"parameter 'style: .*' is not one of the other arguments \(code, language\)"):
        server.completion(prompt="review", argument="deep")(of_typed_and_style)


async def test_a_prompt_that_is_registered_again_does_not_inherit_completions() -> None:
    server = make_server()
    server.completion(prompt="review", argument="code")(none)
    server.prompts.remove("review")

    @server.prompt
    def review(code: str) -> str:
        return code

    server.completion(template="repo://{owner}/{name}", argument="name")(none)
    async with open_client(server) as client:
        assert (await client.complete(PROMPT, "code", "x")).values == []
        server.completion(prompt="review", argument="code")(same)
        assert (await client.complete(PROMPT, "code", "x")).values == ["x"]


async def test_a_prompt_and_a_template_of_the_same_name_have_separate_completions() -> None:
    server = Server("s")
    server.prompt(name="a:{x}")(of_x)
    server.resource("a:{x}")(of_x)
    server.completion(prompt="a:{x}", argument="x")(same)
    server.completion(template="a:{x}", argument="x")(none)

    async with open_client(server) as client:
        of_prompt = await client.complete(types.PromptReference(name="a:{x}"), "x", "a")
        of_template = await client.complete(types.ResourceTemplateReference(uri="a:{x}"), "x", "a")

    assert (of_prompt.values, of_template.values) == (["a"], [])


async def test_a_declared_completion_capability_remains_after_its_prompt_was_removed() -> None:
    server = make_server()

    async with open_client(server) as client:
        server.prompts.remove("review")
        with pytest.raises(ErrorResponse, match="there is nothing to complete for 'review'"):
            await client.complete(PROMPT, "language", "")
    assert server.capabilities.completions == {}


async def test_the_suggestions_of_a_plain_function_are_iterated_in_its_worker_thread() -> None:
    server, threads = make_server(), list[threading.Thread]()

    @server.completion(prompt="review", argument="code")
    def lazily(typed: str) -> Iterator[str]:
        def rows() -> Iterator[str]:
            threads.append(threading.current_thread())
            yield typed

        return rows()

    async with open_client(server) as client:
        assert (await client.complete(PROMPT, "code", "x")).values == ["x"]
    assert len(threads) == 1
    assert threading.current_thread() not in threads


async def test_an_endless_iterator_of_suggestions_is_cut_off_without_a_total() -> None:
    server = make_server()

    @server.completion(prompt="review", argument="code")
    def numbers(typed: str) -> Iterator[str]:
        return map(str, itertools.count())

    async with open_client(server) as client:
        answer = await client.complete(PROMPT, "code", "")

    assert answer == types.Completion(values=[str(n) for n in range(100)], total=None, has_more=True)


@pytest.mark.parametrize("suggested", ["abc", None, types.Completion(values=[cast("str", 1)])])
async def test_a_completion_that_does_not_return_a_list_of_strings_fails(
    suggested: Any, caplog: pytest.LogCaptureFixture
) -> None:
    server = make_server()

    @server.completion(prompt="review", argument="code")
    def wrong(typed: str) -> Any:
        return suggested

    async with open_client(server) as client:
        with pytest.raises(ErrorResponse, match="the server's log says why"):
            await client.complete(PROMPT, "code", "")
    assert "a completion suggested" in caplog.text
