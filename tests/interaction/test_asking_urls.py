"""Requirements for servers that ask their users to visit a URL."""

from __future__ import annotations

from typing import Any

import pytest

from tests.interaction.asking import (
    PAGE,
    Wire,
    capable,
    in_both_modes,
    never_answer,
    serve,
    success_text,
    text,
    visited,
    work,
)
from tests.interaction.asking_server import Mode
from tests.interaction.scripted_peers import MODERN
from tests.interaction.serving_with_principal import ServingWithPrincipal
from trio_mcp import (
    Context,
    ErrorResponse,
    Visit,
    open_client,
    types,
)
from trio_mcp.testing import open_memory_client


@pytest.mark.requirement("B.23-S3a")
@pytest.mark.parametrize("revision", ["2025-11-25", MODERN])
@pytest.mark.parametrize(
    "url", ["example.com", "javascript:alert(1)", "https://", "https://a b", "http://[", "file:///a", ""]
)
async def test_an_invalid_url_is_not_sent(url: str, revision: str) -> None:
    async def handler(ctx: Context) -> str:
        with pytest.raises(ValueError, match="is not the address of a page"):
            await ctx.elicit("Pay", url=url)
        return "fine"

    async with open_client(serve(handler), revision=revision, on_elicit=never_answer, elicit_modes=["url"]) as client:
        assert success_text(await work(client)) == "fine"


@in_both_modes
@pytest.mark.parametrize("revision", ["2025-11-25", MODERN])
async def test_a_url_question_has_an_id_only_in_the_revision_that_defines_one(mode: Mode, revision: str) -> None:
    requests: list[Any] = []

    async def on_elicit(request: Any) -> types.ElicitResult:
        requests.append(request)
        return await visited(request)

    async def handler(ctx: Context) -> str:
        first = await ctx.elicit("Pay", url=PAGE)
        second = await ctx.elicit("Pay", url=PAGE, elicitation_id="mine")
        return f"{first} {second}"

    async with open_client(
        serve(handler, mode), revision=revision, on_elicit=on_elicit, elicit_modes=["url"]
    ) as client:
        assert success_text(await work(client)) == "Accepted(value=None) Accepted(value=None)"
    ids = [getattr(request, "elicitation_id", None) for request in requests]
    if revision == MODERN:
        assert ids == [None, None]
    else:
        assert ids[1] == "mine"
        assert len(str(ids[0])) > 16


@pytest.mark.requirement("B.23-L1")
@pytest.mark.parametrize("revision", types.REVISIONS)
async def test_only_the_client_of_the_call_is_notified_that_an_elicitation_is_complete(revision: str) -> None:
    async def handler(ctx: Context) -> None:
        await ctx.elicitation_complete("the-id")

    one, other = Wire(), Wire()
    server = serve(handler)
    async with (
        server.serving() as serving,
        connected_to(serving, revision, one) as client,
        connected_to(serving, revision, other) as other_client,
    ):
        await work(client)
        await other_client.list_tools()
    expected = [{"elicitationId": "the-id"}] if revision == "2025-11-25" else []
    assert one.received("notifications/elicitation/complete") == expected
    assert other.received("notifications/elicitation/complete") == []


def connected_to(serving: Any, revision: str, wire: Wire) -> Any:
    return open_memory_client(ServingWithPrincipal(serving, None), **capable(revision=revision, tap=wire))


@pytest.mark.requirement("B.23-L3")
@pytest.mark.parametrize("revision", types.REVISIONS)
async def test_the_url_elicitation_error_lists_ids_and_is_sent_only_in_its_revision(revision: str) -> None:
    async def handler(ctx: Context) -> None:
        raise ctx.url_elicitation_required(Visit("Pay", PAGE, elicitation_id="1"), Visit("Log in", PAGE))

    async with open_client(
        serve(handler), revision=revision, on_elicit=visited, elicit_modes=["form", "url"]
    ) as client:
        if revision == "2025-11-25":
            with pytest.raises(ErrorResponse, match=r"visit these pages first: Pay .*; Log in ") as caught:
                await work(client)
            assert caught.value.code == -32042
            pay, log_in = caught.value.data["elicitations"]
            assert pay == {"mode": "url", "message": "Pay", "url": PAGE, "elicitationId": "1"}
            assert log_in["elicitationId"] not in {"", "1"}
        elif revision == MODERN:
            with pytest.raises(ErrorResponse) as caught:
                await work(client)
            assert caught.value.code == -32021
        else:
            result = await work(client)
            assert result.is_error
            assert "elicitation" in text(result) or "by URL" in text(result) or "revision" in text(result)

    async with open_client(serve(handler), revision="2025-11-25", on_elicit=visited) as client:
        result = await work(client)  # it cannot open pages
        assert result.is_error
