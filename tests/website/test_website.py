"""The site of the documentation: its staged pages, its reference, its texts for models, and the checks of a built site.

The session `docs` builds the site itself.
"""

from __future__ import annotations

import json
import re
import tomllib
from importlib import import_module
from pathlib import Path

import pytest

from trio_mcp.cli._arguments import actions_of_commands
from website import (
    COMMANDS,
    MODULES,
    PAGES,
    broken_links,
    classes_of_reference,
    entry_members,
    entry_text,
    first_sentence,
    groups_of,
    linked,
    listed_members,
    names_on,
    navigation,
    order_search,
    outside_assets,
    outside_of_blocks,
    public_names,
    shown_names,
    stage_pages,
    stage_reference,
    summaries,
    summary_of,
    text_of,
    value_of,
    without_async,
    write_llms,
)

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def pages(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder with all staged pages."""
    folder = tmp_path_factory.mktemp("staged") / "pages"
    stage_pages(folder)
    stage_reference(folder / "reference")
    return folder


def test_the_navigation_has_each_page_once_and_no_other(pages: Path) -> None:
    listed = [file for _, _, file in navigation()]
    staged = [path.relative_to(pages).as_posix() for path in pages.rglob("*.md")]

    assert len(set(listed)) == len(listed)
    assert sorted(listed) == sorted(file for file in staged if not file.startswith("files/"))


def test_the_navigation_has_the_five_sections_in_order() -> None:
    project = tomllib.loads((ROOT / "zensical.toml").read_text(encoding="utf-8"))["project"]

    assert [title for entry in project["nav"] for title in entry] == [
        "Home", "Start", "Guides", "Coming from", "Reference", "Design",
    ]  # fmt: skip


def test_the_lines_of_programs_fit_on_a_screen() -> None:
    long = [
        f"{page.name}: {line}"
        for page in sorted((ROOT / "docs").glob("*.md"))
        for program in re.findall(r"(?ms)^```python[^\n]*\n(.*?)^```", page.read_text(encoding="utf-8"))
        for line in program.splitlines()
        if len(line) > 92  # as `docs/ruff.toml` says, which does not break texts
    ]

    assert long == []


def test_the_index_has_the_order_of_the_navigation() -> None:
    indexed = [*summaries()]

    assert indexed == [file for _, _, file in navigation() if file in indexed]


def test_links_of_staged_pages_lead_to_staged_pages(pages: Path) -> None:
    for page in pages.rglob("*.md"):
        if "files" in page.relative_to(pages).parts:
            continue  # they show files as they are
        prose = "".join(text for outside, text in outside_of_blocks(page.read_text(encoding="utf-8")) if outside)
        for link in re.findall(r"\]\(([^)\s#]+)[^)\s]*\)", prose):
            assert "://" in link or (page.parent / link).exists(), f"{page}: {link}"


def test_a_linked_program_has_a_page_that_shows_it(pages: Path) -> None:
    program = (ROOT / "examples" / "chat_host.py").read_text(encoding="utf-8")

    assert program in (pages / "files" / "examples" / "chat_host.py.md").read_text(encoding="utf-8")


def test_a_linked_folder_has_a_page_with_its_files(pages: Path) -> None:
    shown = (pages / "files" / "examples" / "deployment.md").read_text(encoding="utf-8")

    for file in (ROOT / "examples" / "deployment").iterdir():
        assert f"## {file.name}\n" in shown


def test_a_bar_in_the_code_of_a_table_has_no_backslash(pages: Path) -> None:
    assert "| `limit: int | None = None` |" in (pages / "troubleshooting.md").read_text(encoding="utf-8")


def test_links_inside_of_blocks_are_text() -> None:
    text = "a\n```text\n[b](c)\n```\nd\n````md\n```\ne\n```\n````\n"

    parts = list(outside_of_blocks(text))

    assert parts == [
        (True, "a\n"),
        (False, "```text\n[b](c)\n```"),
        (True, "\nd\n"),
        (False, "````md\n```\ne\n```\n````"),
        (True, "\n"),
    ]


def test_each_public_name_is_on_exactly_one_page() -> None:
    shown = [name for page in PAGES for name in names_on(page)]
    top = [f"trio_mcp.{name}" for name in public_names("trio_mcp") if name != "types"]

    assert len(set(shown)) == len(shown)
    assert sorted(name for name in shown if name.count(".") == 1) == sorted(top)
    assert sorted(shown) == sorted(shown_names()), "add the missing names to website/reference.toml"


def test_the_reference_lists_only_names_that_exist() -> None:
    listed = [entry for page in PAGES.values() for names in page.groups.values() for entry in names if "*" not in entry]

    assert len(set(listed)) == len(listed)
    assert [name for name in listed if f"trio_mcp.{name}" not in shown_names()] == []


def test_the_members_that_the_reference_hides_or_places_first_exist() -> None:
    classes = [cls for _, cls in classes_of_reference()]
    members = {(base.__name__, key) for cls in classes for base in cls.__mro__ for key in dir(base)}
    annotated = {(cls.__name__, key) for cls in classes for key in getattr(cls, "__annotations__", ())}

    assert set(listed_members()) <= members | annotated


@pytest.mark.parametrize("page", PAGES)
def test_each_page_of_the_reference_has_an_introduction_with_a_link_to_a_guide(page: str, pages: Path) -> None:
    text = (pages / "reference" / f"{page}.md").read_text(encoding="utf-8")
    introduction = text.partition("\n\n")[2].partition("\n\n**")[0]

    assert len(introduction.split()) >= 15
    assert re.search(r"\]\(\.\./[\w-]+\.md\)", introduction)


@pytest.mark.parametrize("page", PAGES)
def test_each_page_of_the_reference_lists_its_names_with_a_sentence_and_by_groups(page: str, pages: Path) -> None:
    text = (pages / "reference" / f"{page}.md").read_text(encoding="utf-8")
    lines = re.findall(r"^- \[`[\w.]+`\]\(#([\w.]+)\): (.+)$", text, re.MULTILINE)

    assert [name for name, _ in lines] == names_on(page)
    assert re.findall(r"^## (.+)$", text, re.MULTILINE) == list(groups_of(page))
    assert re.findall(r"^::: (\S+)$", text, re.MULTILINE) == names_on(page)


@pytest.mark.parametrize("page", PAGES)
def test_each_name_and_method_of_the_reference_has_a_text(page: str) -> None:
    classes = dict(classes_of_reference())
    texts = {name: entry_members(classes[name]) for name in names_on(page) if name in classes}
    members = {f"{name}.{key}": text for name, found in texts.items() for key, text in found.items()}

    assert [name for name in names_on(page) if not summary_of(name)] == []
    assert [name for name, text in members.items() if not text] == []


def test_an_alias_has_the_text_of_its_own_and_not_that_of_its_type() -> None:
    assert value_of("trio_mcp.types.Cursor") is str
    assert entry_text("trio_mcp.types.Cursor").startswith("The opaque position of a page in a list.")


def test_a_class_has_the_members_of_bases_without_an_entry() -> None:
    members = entry_members(value_of("trio_mcp.Client"))

    assert {"call_tool", "request", "start_task"} <= members.keys()
    assert "answer_forwarded" not in entry_members(value_of("trio_mcp.HttpApp"))


def test_what_most_readers_need_comes_first(pages: Path) -> None:
    http = (pages / "reference" / "http.md").read_text(encoding="utf-8")
    server = (pages / "reference" / "server.md").read_text(encoding="utf-8")

    assert "::: trio_mcp.HttpApp\n    options:\n      members: [run, lifespan, wrap, stop," in http
    assert "::: trio_mcp.Server\n    options:\n      members: [tool, resource, prompt," in server


def test_names_in_docstrings_are_links_to_their_entries() -> None:
    def link(text: str) -> str:
        return linked(text, "trio_mcp.server._server", "Server")

    assert link("See `Context.elicit`.") == "See [`Context.elicit`][trio_mcp.Context.elicit]."
    assert link("See `tool`.") == "See [`tool`][trio_mcp.Server.tool]."
    assert link("An `abc.Tap`.") == "An [`abc.Tap`][trio_mcp.abc.Tap]."
    assert link("A `Server`, ``tool`` or `Annotated`.") == "A `Server`, ``tool`` or `Annotated`."
    assert link("Specification: https://example.com/a") == "[Specification](https://example.com/a)"


def test_the_examples_of_the_client_without_async_have_no_async() -> None:
    text = "Await it.\n\n    async with open_client(x) as client:\n        await client.ping()"

    assert without_async(text) == "Await it.\n\n    with open_client(x) as client:\n        client.ping()"
    assert not re.search(r"^ {4,}.*\bawait ", text_of("sync"), re.MULTILINE)


def test_the_search_has_guides_first_and_finds_attributes_by_their_class(tmp_path: Path) -> None:
    def item(location: str, title: str) -> dict[str, object]:
        return {"location": location, "title": title, "text": f"Text of {title}.", "path": ["Reference"]}

    items = [
        item("reference/lowlevel.html#trio_mcp.lowlevel.Peer", "Peer"),
        item("reference/server.html#trio_mcp.Context", "Context"),
        item("reference/server.html#trio_mcp.Context.revision", "revision  <small><code>property</code></small>"),
        item("reference/server.html#trio_mcp.Context.elicit", "elicit  <small><code>async</code></small>"),
        item("files/a.html", "a"),
        item("context.html", "Context, state and lifespan"),
    ]
    (tmp_path / "search.json").write_text(json.dumps({"config": {}, "items": items}), encoding="utf-8")

    order_search(tmp_path)

    found = json.loads((tmp_path / "search.json").read_text(encoding="utf-8"))["items"]
    assert [each["title"] for each in found] == ["Context, state and lifespan", "Context", "elicit", "Peer", "a"]
    assert "<p>revision: Text of revision" in found[1]["text"]
    assert found[2]["path"] == ["Reference", "Context"]


@pytest.mark.parametrize("module", MODULES)
def test_the_reference_has_each_class_and_function_of_a_public_module(module: str) -> None:
    shown = {id(getattr(import_module(name.rpartition(".")[0]), name.rpartition(".")[2])) for name in all_names()}
    values = {name: getattr(import_module(module), name) for name in public_names(module)}

    assert [name for name, value in values.items() if callable(value) and id(value) not in shown] == []


def all_names() -> list[str]:
    """Return the names on all pages of the reference."""
    return [name for page in PAGES for name in names_on(page)]


def test_the_page_of_commands_has_the_help_of_each_command(pages: Path) -> None:
    page = (pages / "reference" / f"{COMMANDS}.md").read_text(encoding="utf-8")

    for command, _, actions in actions_of_commands():
        help_of_command = page.partition(f"## trio-mcp {command}\n")[2].partition("\n## ")[0]
        for action in actions:
            for option in action.option_strings:
                assert option in help_of_command, f"{command} {option}"


def test_the_text_of_a_page_has_signatures_and_docstrings() -> None:
    text = text_of("client")

    assert "## trio_mcp.open_client(" in text
    assert "### trio_mcp.Client.call_tool(" in text
    assert "Raises:" in text


@pytest.mark.parametrize("page", PAGES)
def test_the_text_of_a_page_shows_signatures_as_they_are_written(page: str) -> None:
    text = text_of(page)

    assert " at 0x" not in text
    assert not re.search(r"^#+ .*(?:NOTHING|: Never|: '|-> ')", text, re.MULTILINE)
    assert not re.search(r"^#+ .*(?:\._\w|[=\[ ]_\w)", text, re.MULTILINE), "a private name"


def test_the_text_of_a_page_has_attributes_and_constants() -> None:
    client, http = text_of("client"), text_of("http")

    assert "\n- `server_capabilities`: The capabilities that the server declared.\n" in client
    assert re.search(r"^### trio_mcp.HttpRoute\n\n\w", http, re.MULTILINE)
    assert "\n### trio_mcp.Client\n\nA connection to a server." in client, "programs do not make clients"


def test_the_texts_for_models_have_every_page(pages: Path, tmp_path: Path) -> None:
    for _, _, file in navigation():
        (tmp_path / file).parent.mkdir(exist_ok=True)

    write_llms(pages, tmp_path)

    overview = (tmp_path / "llms.txt").read_text(encoding="utf-8")
    everything = (tmp_path / "llms-full.txt").read_text(encoding="utf-8")
    links = re.findall(r"^- \[[^\]]+\]\(([^)]+)\): \S", overview, re.MULTILINE)
    megabytes = len(everything.encode()) / 1_000_000
    assert overview.startswith("# trio-mcp\n\n> ")
    assert f"[llms-full.txt](llms-full.txt), {megabytes:.1f} MB of Markdown" in overview
    assert "(reference/types-messages.md): The messages from `trio_mcp.types` with their envelopes: method," in overview
    assert links == [file for _, _, file in navigation()]
    assert all((tmp_path / file).read_text(encoding="utf-8") in everything for file in links)


def test_the_markdown_of_each_linked_file_is_on_the_site(pages: Path, tmp_path: Path) -> None:
    for _, _, file in navigation():
        (tmp_path / file).parent.mkdir(exist_ok=True)

    write_llms(pages, tmp_path)

    assert "ResourceServer" in (tmp_path / "files/examples/protected_server.py.md").read_text(encoding="utf-8")
    assert [line for line in broken_links(tmp_path) if "images/" not in line] == []


def test_the_texts_for_models_have_the_description_of_a_picture(pages: Path, tmp_path: Path) -> None:
    for _, _, file in navigation():
        (tmp_path / file).parent.mkdir(exist_ok=True)

    write_llms(pages, tmp_path)

    everything = (tmp_path / "llms-full.txt").read_text(encoding="utf-8")
    assert "(Picture: A parked handler. Revision 2026-07-28. The handler asks a question." in everything
    assert "<svg" not in everything


def test_the_index_says_what_the_pages_of_the_navigation_have() -> None:
    files = {file for _, _, file in navigation()}

    assert set(summaries()) <= files
    assert len(summaries()) > 25


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("# Title\n\nOne [link](a.md) here. Another.\n", "One link here."),
        ("# Title\n\n```text\nblock\n```\n\nThese are\nthe parts: one.\n", "These are the parts"),
        ("# Title\n", ""),
    ],
)
def test_the_first_sentence_of_a_page_is_its_summary(text: str, sentence: str) -> None:
    assert first_sentence(text) == sentence


@pytest.mark.parametrize(
    "html",
    [
        '<script src="https://cdn.example.com/a.js"></script>',
        '<link rel="stylesheet" href="//fonts.example.com/a.css">',
        '<img src="http://example.com/a.png">',
        "<style>@import 'https://example.com/a.css';</style>",
        '<p style="background: url(https://example.com/a.png)">',
    ],
)
def test_an_asset_of_another_host_is_found(tmp_path: Path, html: str) -> None:
    (tmp_path / "page.html").write_text(html, encoding="utf-8")

    assert len(list(outside_assets(tmp_path))) == 1


def test_a_font_of_another_host_is_found_in_a_style(tmp_path: Path) -> None:
    (tmp_path / "a.css").write_text("@font-face { src: url('https://example.com/a.woff2') }", encoding="utf-8")

    assert list(outside_assets(tmp_path)) == ["a.css loads https://example.com/a.woff2"]


def test_own_assets_and_links_to_other_hosts_are_allowed(tmp_path: Path) -> None:
    html = '<script src="a.js"></script><a href="https://example.com">x</a><img src="data:image/png;base64,AA">'
    (tmp_path / "page.html").write_text(html, encoding="utf-8")

    assert [*outside_assets(tmp_path), *broken_links(tmp_path)] == []


def test_links_to_missing_pages_and_fragments_are_found(tmp_path: Path) -> None:
    links = ("other.html", "other.html#there", "#here", "missing.html", "other.html#missing", "#missing")
    html = "".join(f'<a href="{link}">x</a>' for link in links)
    (tmp_path / "page.html").write_text(f'<h1 id="here">x</h1>{html}', encoding="utf-8")
    (tmp_path / "other.html").write_text('<h1 id="there">x</h1>', encoding="utf-8")

    broken = list(broken_links(tmp_path))

    assert broken == [
        f"page.html links to {link}, which does not exist"
        for link in ("missing.html", "other.html#missing", "#missing")
    ]


def test_links_of_markdown_to_missing_files_are_found(tmp_path: Path) -> None:
    links = ("other.md", "other.md#there", "#here", "https://example.com/", "missing.md", "missing.md#there")
    text = "".join(f"[x]({link})\n" for link in links) + "```text\n[x](in-a-block.md)\n```\n"
    (tmp_path / "page.md").write_text(text, encoding="utf-8")
    (tmp_path / "other.md").write_text("x", encoding="utf-8")

    broken = list(broken_links(tmp_path))

    assert broken == [f"page.md links to {link}, which does not exist" for link in ("missing.md", "missing.md#there")]
