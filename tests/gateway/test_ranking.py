"""The ranking of tools: its rules one by one, and how often it finds the right tool among those of many servers.

The queries of the corpus were written before the ranking. Its weights and most of its groups of words were chosen with
the half called "tuning". When the half called "held-out" was first looked at, the right tool was among the first five
for 84 of its 96 queries. Since then the ranking got some words of everyday language that the misses had shown to be
missing, so both halves are now guards against a ranking that gets worse. New queries are expected to do as the first
look did: those that use words of the tool, as models do, nearly always find it, and four of five of the others.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trio_mcp import Server
from trio_mcp._util import CHARACTERS_PER_TOKEN
from trio_mcp.gateway._ranking import (
    MAX_FIELD_LENGTH,
    MAX_QUERY_LENGTH,
    MAX_QUERY_WORDS,
    ToolIndex,
)
from trio_mcp.lowlevel import estimated_tokens
from trio_mcp.openapi import add_openapi

CORPUS: Final[Mapping[str, Any]] = json.loads(Path(__file__).with_name("tool_corpus.json").read_text(encoding="utf-8"))
FIRST = 5
"""The number of tools that a model is shown."""
NEEDED = 0.95


def tool(name: str, description: str = "", **members: Any) -> dict[str, Any]:
    return {"name": name, "description": description, **members}


def with_parameters(name: str, **parameters: Any) -> dict[str, Any]:
    return tool(name, inputSchema={"type": "object", "properties": parameters})


def found(query: str, *tools: dict[str, Any]) -> list[str]:
    """Return the names of the tools that a search among *tools* finds, the best one first."""
    return [tools[position]["name"] for position in ToolIndex(tools).search(query, len(tools))]


# --- The corpus ---


def test_the_corpus_has_many_tools_and_queries_of_both_kinds_in_both_halves() -> None:
    names = [each["name"] for each in CORPUS["tools"]]
    groups = [(each["half"], each["kind"]) for each in CORPUS["queries"]]

    assert len(names) == len(set(names)) >= 400
    assert len(groups) >= 120
    for half in ("tuning", "held-out"):
        assert min(groups.count((half, "direct")), groups.count((half, "paraphrase"))) >= 30
    assert {name for each in CORPUS["queries"] for name in each["tools"]} <= set(names)


@pytest.mark.parametrize("half", ["tuning", "held-out", "all"])
def test_the_right_tool_is_among_the_first_five(half: str) -> None:
    tools: list[dict[str, Any]] = CORPUS["tools"]
    queries = [each for each in CORPUS["queries"] if half in {each["half"], "all"}]
    index = ToolIndex(tools)
    misses: list[str] = []
    for each in queries:
        names = [tools[position]["name"] for position in index.search(each["query"], FIRST)]
        if not {*names} & {*each["tools"]}:
            misses.append(f"{each['query']!r} ({each['kind']}) needs {each['tools']}, found {names}")

    share = 1 - len(misses) / len(queries)
    assert share >= NEEDED, "\n".join([f"{share:.1%} of {len(queries)} queries", *misses])


def test_the_words_of_a_tool_always_find_it() -> None:
    tools: list[dict[str, Any]] = CORPUS["tools"]
    index = ToolIndex(tools)
    misses: list[str] = []
    for each in CORPUS["queries"]:
        names = [tools[position]["name"] for position in index.search(each["query"], FIRST)]
        if each["kind"] == "direct" and not {*names} & {*each["tools"]}:
            misses.append(each["query"])

    assert misses == []


def test_the_name_of_each_tool_finds_it_first() -> None:
    index = ToolIndex(CORPUS["tools"])

    for position, each in enumerate(CORPUS["tools"]):
        assert index.search(each["name"], 1) == [position]


# --- Fields ---


def test_the_name_counts_most_then_title_description_and_parameters() -> None:
    described = with_parameters("d", x={"description": "parrot"})
    named = with_parameters("c", parrot={})
    tools = [described, named, tool("b", "parrot"), tool("a", title="parrot"), tool("parrot_z")]

    assert found("the parrot", *tools)[:3] == ["parrot_z", "a", "b"]
    assert sorted(found("the parrot", *tools)[3:]) == ["c", "d"]


def test_the_title_in_the_annotations_counts_if_there_is_no_other() -> None:
    assert found("parrot", tool("a", annotations={"title": "Parrot"})) == ["a"]
    assert found("parrot", tool("a", title=1, annotations={"title": "Parrot"})) == ["a"]
    assert found("parrot", tool("a", title="Dog", annotations={"title": "Parrot"})) == []


def test_the_values_that_a_parameter_may_have_are_found() -> None:
    assert found("squash", with_parameters("merge", method={"enum": ["squash", 1, None]})) == ["merge"]


def test_a_rare_word_counts_more_than_a_frequent_one() -> None:
    tools = [*(tool(f"t{number}", "message") for number in range(5)), tool("z", "parrot")]

    assert found("message parrot", *tools)[0] == "z"


def test_a_word_counts_less_in_a_longer_description() -> None:
    assert found("parrot", tool("a", "a parrot in a wide green forest"), tool("b", "a parrot")) == ["b", "a"]


def test_a_tool_that_has_more_words_of_the_query_is_better() -> None:
    tools = [tool("a", "green"), tool("b", "forest"), tool("c", "green forest")]

    assert found("green forest", *tools)[0] == "c"


# --- Results ---


def test_the_tool_whose_name_is_the_query_comes_first() -> None:
    better = tool("create_issue_comment", "Create an issue comment. " * 3, title="Create issue")
    tools = [better, tool("createIssue")]

    for query in ("create_issue", "createIssue", "Create issue", " create-issue "):
        assert found(query, *tools)[0] == "createIssue"


def test_a_name_of_ignored_words_is_found_by_itself() -> None:
    assert found("get_me", tool("a", "me"), tool("get_me")) == ["get_me"]
    assert found("me", tool("a", "me"), tool("get_me")) == []


@pytest.mark.parametrize("query", ["", " ", "?!", "_", "the", "what is it", "\ud800", "qwertz"])
def test_a_query_without_a_word_that_a_tool_has_finds_nothing(query: str) -> None:
    assert found(query, tool("create_issue", "It is the way"), tool("_")) == []


def test_an_index_of_no_tools_finds_nothing() -> None:
    assert ToolIndex([]).search("create", 5) == []


def test_at_most_so_many_tools_are_found() -> None:
    index = ToolIndex([tool("a", "parrot"), tool("b", "parrot parrot"), tool("c", "dog")])

    assert [index.search("parrot", most) for most in (-1, 0, 1, 2, 3)] == [[], [], [1], [1, 0], [1, 0]]


def test_equal_tools_keep_their_order() -> None:
    assert ToolIndex([tool("a", "parrot")] * 5).search("parrot", 4) == [0, 1, 2, 3]
    assert ToolIndex([tool("parrot")] * 3).search("parrot", 5) == [0, 1, 2]


# --- Words ---


@pytest.mark.parametrize(
    "name",
    [
        *("send_mail_now", "send-mail-now", "send.mail.now", "send/mail/now", "sendMailNow", "SendMailNow", "SENDMail"),
        *("x2mail", "mail2", "listMAIL2Send", "Mail: send", "e-mail"),
    ],
)
def test_a_name_is_split_into_words(name: str) -> None:
    assert found("mail", tool(name)) == [name]


@pytest.mark.parametrize(
    ("query", "text"),
    [
        *(("s3", "listS3Buckets"), ("s3", "s3_list"), ("http", "HTTPServer"), ("server", "HTTPServer")),
        *(("iphone", "iPhone"), ("github", "GitHub"), ("hub", "GitHub"), ("64", "base64"), ("base64", "base64")),
    ],
)
def test_a_word_of_mixed_case_or_with_digits_is_found_as_a_whole_and_by_its_parts(query: str, text: str) -> None:
    assert found(query, tool("t", text)) == ["t"]


def test_one_small_letter_before_a_capital_is_no_word() -> None:
    assert found("phone", tool("t", "iPhone")) == []


@pytest.mark.parametrize(
    ("query", "text"),
    [
        *(("queries", "query"), ("query", "queries"), ("boxes", "box"), ("files", "file"), ("addresses", "address")),
        *(("sharing", "share"), ("shared", "shares"), ("running", "run"), ("stopped", "stop"), ("billing", "bill")),
        *(("deployment", "deploy"), ("deploying", "deployments"), ("movies", "movie"), ("user's", "users")),
        *(("branches", "branch"), ("closed", "closing"), ("tries", "tried"), ("keys", "key"), ("don\u2019t", "don")),
    ],
)
def test_the_forms_of_a_word_are_one_word(query: str, text: str) -> None:
    tools = [tool("t", text), tool("related", "parrot")]

    assert found(query, *tools) == ["t"]


@pytest.mark.parametrize(
    ("query", "text"),
    [
        *(("string", "str"), ("plus", "plu"), ("feed", "fe"), ("comment", "com"), ("this", "thi")),
        *(("access", "acces"), ("iris", "iri"), ("speed", "spe"), ("thing", "th")),
    ],
)
def test_an_ending_that_belongs_to_the_word_stays(query: str, text: str) -> None:
    assert found(query, tool("t", text)) == []


@pytest.mark.parametrize(
    ("query", "text"),
    [
        *(
            ("cafe", "Café"),
            ("CAFÉ", "cafe"),
            ("strasse", "Straße"),
            ("ПОГОДА", "Прогноз: погода"),
            ("\uff4d\uff41\uff49\uff4c", "mail"),
        ),
        *(
            ("天气", "查询天气预报"),
            ("查天气", "天气"),
            ("카페", "카페"),
            ("モール", "ショッピングモール"),
            ("मौसम", "मौसम की जानकारी"),
        ),
        *(("อากาศ", "พยากรณ์อากาศ"), ("雨", "雨"), ("PDF", "合并PDF文件"), ("文件", "合并PDF文件")),
    ],
)
def test_words_of_any_language_are_found_whatever_their_case_and_marks(query: str, text: str) -> None:
    assert found(query, tool("t", text)) == ["t"]


# --- Related words ---


@pytest.mark.parametrize(
    ("query", "text"),
    [
        *(("remove", "Delete a file"), ("erased", "deletes"), ("mail", "Send an email"), ("folder", "directories")),
        *(("find", "search"), ("notifying", "alerts"), ("picture", "photos")),
    ],
)
def test_a_word_finds_those_of_its_group(query: str, text: str) -> None:
    assert found(query, tool("t", text), tool("parrot")) == ["t"]


def test_the_word_itself_counts_more_than_related_ones() -> None:
    assert found("remove", tool("delete_a"), tool("remove_a"), tool("erase_a"))[0] == "remove_a"


def test_several_related_words_count_as_one() -> None:
    both = tool("a", "delete remove erase drop destroy")

    assert found("delete parrot", both, tool("b", "delete the green parrot now"))[0] == "b"


@pytest.mark.parametrize(
    ("query", "text", "is_found"),
    [
        *(("config", "configure", True), ("configure", "config", True), ("translation", "translate", True)),
        *(("cat", "cats", True), ("cat", "catalog", False), ("inter", "internationally", False)),
        *(("internationally", "inter", False), ("data", "dative", False)),
    ],
)
def test_a_word_finds_those_that_it_begins_or_that_begin_with_it(query: str, text: str, *, is_found: bool) -> None:
    assert found(query, tool("t", text)) == (["t"] if is_found else [])


@pytest.mark.parametrize(
    ("query", "text"), [("back up the disk", "backup"), ("log in", "login"), ("sign in", "password")]
)
def test_a_word_that_the_query_splits_in_two_is_found(query: str, text: str) -> None:
    assert found(query, tool("t", text)) == ["t"]


# --- Servers that are not trusted ---


@pytest.mark.parametrize("wrong", [None, 1, True, [], ["parrot"], {}, {"parrot": 1}, "dog"])
@pytest.mark.parametrize("member", ["name", "title", "description", "annotations", "inputSchema"])
def test_a_member_of_the_wrong_shape_counts_as_missing(member: str, wrong: Any) -> None:
    tools = [{"name": "z", "description": "parrot"}, {**tool("a", "parrot", title="parrot"), member: wrong}]

    assert 0 in ToolIndex(tools).search("parrot", 5)


@pytest.mark.parametrize("properties", [None, "parrot", ["parrot"], {"x": None}, {"x": {"description": 1, "enum": 1}}])
def test_a_schema_of_the_wrong_shape_counts_as_missing(properties: Any) -> None:
    odd = tool("a", inputSchema={"properties": properties, "type": "parrot"})

    assert found("parrot", odd, tool("z", "parrot")) == ["z"]


def test_a_tool_without_members_is_never_found() -> None:
    assert ToolIndex([{}, tool("a")]).search("a tool", 5) == []
    assert ToolIndex([{}, tool("parrot")]).search("parrot", 5) == [1]


@pytest.mark.parametrize("field", ["name", "title", "description"])
def test_only_the_beginning_of_a_long_text_is_read(field: str) -> None:
    text = "x" * (MAX_FIELD_LENGTH - 4)

    assert ToolIndex([{"name": "t", field: f"{text} cat" + " dog" * 10**6}]).search("cat", 1) == [0]
    assert ToolIndex([{"name": "t", field: f"{text} cat" + " dog" * 10**6}]).search("dog", 1) == []
    assert ToolIndex([{"name": "t", field: f"{text}x cat"}]).search("cat", 1) == []


def test_only_the_first_of_many_parameters_are_read() -> None:
    many = {f"dog{number}": {"description": "cat"} for number in range(MAX_FIELD_LENGTH)}
    tools = [with_parameters("last", **many, parrot={"description": "parrot"}), with_parameters("first", parrot={})]

    assert found("parrot", *tools) == ["first"]
    assert found("cat", *tools) == ["last"]


def test_a_character_that_stands_for_many_is_not_read_at_length() -> None:
    text = "\ufdfa" * MAX_FIELD_LENGTH  # each is eighteen characters in its plain form
    assert found("parrot", tool("t", f"{text} parrot")) == []


def test_only_the_beginning_of_a_long_query_is_read() -> None:
    many = " ".join(f"dog{number}" for number in range(MAX_QUERY_WORDS))

    assert found(" " * MAX_QUERY_LENGTH + "parrot", tool("a", "parrot")) == []
    assert found(f"{many} parrot", tool("a", "parrot")) == []
    assert found("dog " * MAX_QUERY_WORDS + "parrot", tool("a", "parrot")) == ["a"]


def test_many_words_with_one_beginning_are_not_all_searched() -> None:
    words = [f"parrot{letter}{other}" for letter in "abcdefgh" for other in "abcdefgh"]

    assert len(found("parrot", *(tool(f"t{number}", word) for number, word in enumerate(words)))) < len(words)


JSON: st.SearchStrategy[Any] = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=8,
)
MEMBERS = st.sampled_from(["name", "title", "description", "inputSchema", "annotations", "properties"])


@given(st.lists(st.dictionaries(MEMBERS, JSON), max_size=5), st.text(max_size=30), st.integers(0, 5))
def test_any_tools_and_any_query_have_a_result_that_is_always_the_same(
    tools: Sequence[dict[str, Any]], query: str, most: int
) -> None:
    positions = ToolIndex(tools).search(query, most)

    assert len(positions) == len({*positions}) <= most
    assert {*positions} <= {*range(len(tools))}
    assert ToolIndex(tools).search(query, most) == positions


# --- Tokens ---


@pytest.mark.parametrize("value", [{}, tool("a"), tool("天气", "查询" * 50), tool("\ud800"), tool("a", x=[1.5, None])])
def test_a_token_is_estimated_for_every_four_characters(value: dict[str, Any]) -> None:
    assert estimated_tokens(value) == len(json.dumps(value, ensure_ascii=False)) // CHARACTERS_PER_TOKEN


def test_the_estimate_is_that_of_the_tools_of_a_web_api() -> None:
    description = "Weather in all towns. " * 9 + "Or in one."
    operation: dict[str, Any] = {"operationId": "weather", "description": description, "responses": {}}
    info = {"title": "t", "version": "1"}
    document: dict[str, Any] = {"openapi": "3.1.0", "info": info, "paths": {"/w": {"get": operation}}}
    added = add_openapi(Server("web"), document, include=["*"], base_url="http://localhost")
    schema: dict[str, Any] = {"type": "object", "properties": {}, "additionalProperties": False}
    published = {"name": "weather", "description": description, "schema": schema}

    assert added.names == ["weather"]
    assert estimated_tokens(published) == added.estimated_tokens


def test_a_tool_that_is_nested_too_deeply_has_no_estimate() -> None:
    schema: dict[str, Any] = {}
    for _ in range(200_000):
        schema = {"items": schema}

    assert found("parrot", tool("parrot", inputSchema=schema)) == ["parrot"]
    with pytest.raises(RecursionError):
        estimated_tokens(tool("parrot", inputSchema=schema))
