"""A small lending library as an MCP server over stdio: ``python library_server.py``.

It shows most features of a server: tools that return data or a picture and report progress; static, templated and
binary resources; prompts with typed arguments; completion; pagination; and log messages.
"""

import base64
import json
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Annotated, Literal

import msgspec
import trio
from attrs import asdict, define, field, frozen

from trio_mcp import Context, Image, McpError, ResourceNotFound, Server, ToolError, serve_stdio, types

Genre = Literal["adventure", "crime", "science"]


@frozen
class Book:
    """A book in the catalogue."""

    id: str
    title: str
    author: str
    genre: Genre
    pages: int


@frozen
class Loan:
    """A book that is not on its shelf."""

    book: str
    reader: str
    weeks: int


BOOKS = {
    book.id: book
    for book in (
        Book("treasure", "Treasure Island", "Robert Louis Stevenson", "adventure", 292),
        Book("kidnapped", "Kidnapped", "Robert Louis Stevenson", "adventure", 245),
        Book("leagues", "Twenty Thousand Leagues Under the Seas", "Jules Verne", "adventure", 426),
        Book("moonstone", "The Moonstone", "Wilkie Collins", "crime", 528),
        Book("baskerville", "The Hound of the Baskervilles", "Arthur Conan Doyle", "crime", 256),
        Book("origin", "On the Origin of Species", "Charles Darwin", "science", 502),
        Book("candle", "The Chemical History of a Candle", "Michael Faraday", "science", 223),
    )
}

STAMP = base64.b64decode(
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNkYPhfDwAChwGA60e6kgAAAABJRU5ErkJggg=="
)
RULES = """# Rules

1. A book is lent for one to six weeks.
2. One reader at a time.
"""


@define
class Desk:
    """The state of a running server; handlers find it in `ctx.state`."""

    loans: dict[str, Loan] = field(factory=dict[str, Loan])


@asynccontextmanager
async def lifespan(_: Server) -> AsyncGenerator[Desk]:
    """Create the desk when the server starts; code after the `yield` would run when the server stops."""
    yield Desk()


server = Server("library", version="1.0", instructions="Search before you lend.", lifespan=lifespan, page_size=2)


# Tools. The return annotation of a tool becomes its output schema.


@server.tool(title="Search the catalogue", annotations=types.ToolAnnotations(read_only_hint=True))
async def search(words: Annotated[str, "part of a title or of an author's name"] = "") -> list[Book]:
    """Find books."""
    return [book for book in BOOKS.values() if words.lower() in f"{book.title} {book.author}".lower()]


@server.tool
async def lend(ctx: Context[Desk], book: str, reader: str, weeks: Annotated[int, msgspec.Meta(ge=1, le=6)] = 3) -> Loan:
    """Lend a book.

    Args:
        book: the id that `search` has found
        reader: who takes it home
        weeks: how long it may be kept
    """
    desk = ctx.state
    if book not in BOOKS:
        await ctx.log("warning", {"asked_for": book}, logger="desk")
        raise ToolError(f"there is no book {book!r}; search for its id")  # the model receives this message
    if book in desk.loans:
        raise ToolError(f"{desk.loans[book].reader} has {BOOKS[book].title}")
    loan = desk.loans[book] = Loan(book, reader, weeks)
    await ctx.log("info", {"lent": book, "to": reader}, logger="desk")
    return loan


@server.tool
async def take_stock(ctx: Context[Desk], seconds_per_book: float = 0.01) -> list[str]:
    """Look for every book on its shelf, and return the missing ones."""
    missing: list[str] = []
    for done, book in enumerate(BOOKS.values(), start=1):
        await trio.sleep(seconds_per_book)  # a cancellation by the client stops the work here
        if book.id in ctx.state.loans:
            missing.append(book.title)
            await ctx.log("notice", f"{book.title} is not on its shelf", logger="stock")
        await ctx.report_progress(done, total=len(BOOKS), message=book.title)
    return missing


@server.tool
async def show_cover(book: str) -> Image:
    """Show the cover of a book."""
    if book not in BOOKS:
        raise ToolError(f"there is no book {book!r}")
    return Image(draw_cover(BOOKS[book]), "image/svg+xml")


# Resources. The function of a template receives the values of the template's variables in the URI.

server.resources.add_static("library://rules", RULES, name="rules", title="Rules", mime_type="text/markdown")
server.resources.add_static("library://stamp", STAMP, name="stamp", mime_type="image/png")


@server.resource("library://loans", mime_type="application/json")
async def loans(ctx: Context[Desk]) -> str:
    """The lent books and their readers."""
    return json.dumps({loan.book: loan.reader for loan in ctx.state.loans.values()})


@server.resource("library://books/{book}", title="One book", mime_type="application/json")
async def about(book: str) -> str:
    """The catalogue entry of one book."""
    return json.dumps(asdict(entry(book)))


@server.resource("library://covers/{book}", mime_type="image/svg+xml")
async def cover(book: str) -> bytes:
    """The cover of one book."""
    return draw_cover(entry(book))


@server.resource("library://shelf{?genre,author}", mime_type="text/plain")
async def shelf(genre: Genre, author: str = "") -> str:
    """The titles of one genre, limited to one author if the URI names one."""
    return "\n".join(book.title for book in BOOKS.values() if book.genre == genre and author in book.author)


def entry(book: str) -> Book:
    """Return the book with an id from a URI."""
    if book not in BOOKS:
        raise ResourceNotFound(f"there is no book {book!r}")
    return BOOKS[book]


def draw_cover(book: Book) -> bytes:
    """Draw an SVG picture."""
    svg = '<svg xmlns="http://www.w3.org/2000/svg" width="300" height="40"><text y="25">{}</text></svg>'
    return svg.format(book.title).encode()


# Prompts. Their arguments are strings in the protocol; the annotations select the conversion.


@server.prompt(title="Ask for a recommendation")
async def recommend(
    genre: Genre, age: Annotated[int, msgspec.Meta(ge=3, description="of the reader, in years")], short: bool = False
) -> str:
    """Ask which book to read next."""
    length = "short " if short else ""
    return f"Which {length}{genre} book should a reader of {age} years take home?"


@server.prompt
async def compare(first: str, second: str) -> list[types.PromptMessage | str]:
    """Ask for a comparison of two books, and include their catalogue entries."""
    for book in (first, second):
        if book not in BOOKS:
            raise McpError(-32602, f"there is no book {book!r}")
    return [
        types.PromptMessage(role="user", content=await embedded(first)),
        types.PromptMessage(role="user", content=await embedded(second)),
        "Which of these two should I read first?",
        types.PromptMessage(role="assistant", content=types.TextContent(text="Let me compare them.")),
    ]


async def embedded(book: str) -> types.EmbeddedResource:
    """Return the resource of a book as the content of a message."""
    uri, text = f"library://books/{book}", await about(book)
    return types.EmbeddedResource(resource=types.TextResourceContents(uri=uri, mime_type="application/json", text=text))


@server.prompt
async def remind(reader: str, ctx: Context[Desk]) -> str:
    """Ask for a friendly letter to a reader who has books at home."""
    titles = [BOOKS[loan.book].title for loan in ctx.state.loans.values() if loan.reader == reader]
    return f"Write a friendly letter to {reader}, who is to bring back: {', '.join(titles) or 'nothing'}."


# Completion. An argument with a fixed set of values, such as a genre, is completed automatically.


@server.completion(template="library://books/{book}", argument="book")
@server.completion(template="library://covers/{book}", argument="book")
@server.completion(prompt="compare", argument="first")
def suggest_book(typed: str) -> list[str]:
    """Suggest the ids that start with the typed string."""
    return [book for book in BOOKS if book.startswith(typed)]


@server.completion(prompt="compare", argument="second")
def suggest_other(typed: str, first: str | None) -> list[str]:
    """Suggest books of the same genre as *first*."""
    genre = BOOKS[first].genre if first in BOOKS else None
    return [book for book in suggest_book(typed) if book != first and genre in {None, BOOKS[book].genre}]


@server.completion(template="library://shelf{?genre,author}", argument="author")
def suggest_author(typed: str, genre: str | None) -> list[str]:
    """Suggest authors, limited to the genre if it is already known."""
    authors = {book.author for book in BOOKS.values() if genre in {None, book.genre}}
    return sorted(author for author in authors if author.startswith(typed))


@server.completion(prompt="remind", argument="reader")
def suggest_reader(typed: str, ctx: Context[Desk]) -> list[str]:
    """Suggest the readers with lent books."""
    readers = {loan.reader for loan in ctx.state.loans.values()}
    return sorted(reader for reader in readers if reader.startswith(typed))


if __name__ == "__main__":
    trio.run(serve_stdio, server)
