"""The demo's server through an in-memory client: every tool, the resource and the prompt."""

from __future__ import annotations

from typing import Any

import pytest

from trio_mcp import Client, types

TOOLS = {
    "list_tables": True,
    "describe_table": True,
    "read_query": True,
    "write_query": None,
    "create_table": None,
    "recount": True,
    "recount_outcome": True,
    "append_insight": None,
}


async def value(client: Client, tool: str, **arguments: object) -> Any:
    """Call a tool; return its structured content, or the value inside it."""
    structured = (await client.call_tool(tool, arguments, raise_on_error=True)).structured_content
    return structured["result"] if structured.keys() == {"result"} else structured


async def refusal(client: Client, tool: str, **arguments: object) -> str:
    """Call a tool that fails; return the message of the tool error."""
    result = await client.call_tool(tool, arguments)
    assert result.is_error
    (block,) = result.content
    assert isinstance(block, types.TextContent)
    return block.text


async def test_every_tool_has_a_description_and_a_read_only_hint(client: Client) -> None:
    tools = [tool async for tool in client.tools()]

    assert {tool.name: tool.annotations and tool.annotations.read_only_hint for tool in tools} == TOOLS
    assert all(tool.description for tool in tools)
    assert all(tool.output_schema is not None for tool in tools)


async def test_every_argument_is_described(client: Client) -> None:
    undescribed: list[tuple[str, str]] = []
    async for tool in client.tools():
        schemas: dict[str, dict[str, Any]] = tool.input_schema.get("properties", {})
        undescribed += [(tool.name, name) for name, schema in schemas.items() if not schema.get("description")]

    assert undescribed == []


async def test_tables_are_listed_and_described(client: Client) -> None:
    tables = await value(client, "list_tables")
    columns = await value(client, "describe_table", table="beds")

    assert tables == ["beds", "plants", "waterings"]
    assert columns[0] == {"name": "id", "type": "INTEGER", "required": True, "primary_key": True}
    assert [column["name"] for column in columns] == ["id", "name", "light"]


async def test_a_query_returns_columns_and_rows(client: Client) -> None:
    found = await value(client, "read_query", query="SELECT name, price FROM plants WHERE bed_id = 4 ORDER BY name")

    assert found == {
        "columns": ["name", "price"],
        "rows": [["fern", 8.3], ["hosta", 9.6], ["the one nobody can name", None]],
        "truncated": False,
    }


async def test_a_table_is_created_filled_and_read(client: Client) -> None:
    created = await value(client, "create_table", query="CREATE TABLE seeds (name TEXT)")
    inserted = await value(client, "write_query", query="INSERT INTO seeds VALUES ('poppy'), ('flax')")
    found = await value(client, "read_query", query="SELECT name FROM seeds ORDER BY name")

    assert created == "created"
    assert inserted == 2
    assert found["rows"] == [["flax"], ["poppy"]]


@pytest.mark.parametrize(
    ("tool", "arguments", "message"),
    [
        ("describe_table", {"table": "weeds"}, "there is no table 'weeds'; the tables are beds, plants, waterings"),
        ("read_query", {"query": "SELEC 1"}, 'SQLite: near "SELEC": syntax error'),
        ("read_query", {"query": "DROP TABLE beds"}, "read_query takes one SELECT and changes nothing; this"),
        ("write_query", {"query": "SELECT 1"}, "write_query takes one INSERT, UPDATE or DELETE; this"),
        ("create_table", {"query": "DROP TABLE beds"}, "create_table takes one CREATE TABLE; this"),
        ("recount", {"table": "weeds"}, "there is no table 'weeds'"),
        ("recount_outcome", {}, "nothing has been recounted yet"),
    ],
)
async def test_a_failure_is_a_tool_error_with_a_clear_message(
    tool: str, arguments: dict[str, object], message: str, client: Client
) -> None:
    assert (await refusal(client, tool, **arguments)).startswith(message)


async def test_a_pause_out_of_bounds_is_refused_before_anything_is_counted(client: Client) -> None:
    await refusal(client, "recount", table="beds", pause=2)

    assert await refusal(client, "recount_outcome") == "nothing has been recounted yet"


async def test_a_recount_reports_every_row_and_ends_with_their_number(client: Client) -> None:
    async with client.open_call("recount", {"table": "beds", "pause": 0}) as call:
        updates = [(update.progress, update.total, update.message) async for update in call.updates]
        result = await call.result()
    outcome = await value(client, "recount_outcome")

    assert updates == [(row, 4, f"row {row} of 4") for row in range(1, 5)]
    assert result.structured_content == {"result": 4}
    assert outcome == {"table": "beds", "counted": 4, "total": 4, "cancelled": False}


async def test_the_outcome_of_a_cancelled_recount_reports_its_end(client: Client) -> None:
    async with client.open_call("recount", {"table": "waterings", "pause": 1}) as call:
        await anext(aiter(call.updates))

    outcome = await value(client, "recount_outcome")

    assert outcome == {"table": "waterings", "counted": 1, "total": 48, "cancelled": True}


async def test_the_memo_grows_with_each_insight(client: Client) -> None:
    before = await client.read_resource("memo://insights")
    answers = [await value(client, "append_insight", insight=insight) for insight in ("Figs are thirsty.", "So am I.")]
    after = await client.read_resource("memo://insights")

    def memo(text: str) -> types.TextResourceContents:
        return types.TextResourceContents(uri="memo://insights", mime_type="text/markdown", text=text)

    assert answers == ["the memo holds 1 now", "the memo holds 2 now"]
    assert before.contents == [memo("# Insights\n\nNone so far.")]
    assert after.contents == [memo("# Insights\n\n- Figs are thirsty.\n- So am I.")]


async def test_the_resource_and_the_prompt_are_listed(client: Client) -> None:
    (resource,) = (await client.list_resources()).resources
    (prompt,) = (await client.list_prompts()).prompts

    assert (resource.uri, resource.mime_type) == ("memo://insights", "text/markdown")
    assert resource.description == "The findings about the database so far."
    assert prompt.name == "explore"
    assert prompt.arguments == [types.PromptArgument(name="topic", description="what to find out", required=True)]


async def test_the_prompt_contains_its_topic(client: Client) -> None:
    (message,) = (await client.get_prompt("explore", {"topic": "thirsty plants"})).messages

    assert message.role == "user"
    assert isinstance(message.content, types.TextContent)
    assert message.content.text.startswith("Find out about thirsty plants in the database")
