"""The command `app`: it calls a tool, and shows the app of the tool in the browser, with every message that passes.

Rules of this file:

1. The page in the browser passes messages on. The host of the view is this process (`apps.open_view`): it calls the
   tools that the view calls, and asks the user, in the page, before a link is opened, a message is sent or a file is
   saved.
2. The tool is called once, when the first page is opened. A page that is loaded again shows the same call.
3. The preview is stopped in the order of a host: the views are asked to end, and then the servers of the pages.
"""

from __future__ import annotations

import base64
from collections.abc import Sequence
from typing import Any

import trio
from attrs import define, field

from .. import auth, types
from .._errors import TrioMcpError
from .._util import owned_nursery
from ..apps import App, AppHost, View, ViewLogged, open_view
from ..apps.types import McpUiHostContext, McpUiUpdateModelContextRequestParams
from ..types import JSONObject
from ..wire import is_object
from ._commands import Job, arguments_of, find_tool
from ._errors import UsageError
from ._output import json_line, piece_of
from ._preview import PageSocket, open_preview
from ._terminal import visible_line

__all__ = ["show_app"]

_MOST_SHOWN = 200
"""The number of characters of a message that a line shows; `--json` prints all of them."""
_CLOSE_SECONDS = 1.0
"""The seconds that a view has to save what it has, when the command is stopped."""


async def show_app(job: Job) -> None:
    """Show the app of a tool until a signal arrives.

    Raises:
        UsageError: the server has no such tool, the tool has no app, or the arguments do not fit.
        OSError: no port can be bound, or the output cannot be written.
    """
    tool = await find_tool(job, job.options.name)
    arguments = arguments_of(job, tool)
    app = await job.client.app_of(tool)
    if app is None:
        raise UsageError(f"the tool {tool.name!r} has no app")
    preview = _Preview(job, tool, arguments, app)
    async with owned_nursery() as nursery:
        url: str = await nursery.start(preview.run)
        try:
            job.notes.say(f"the app of {tool.name} is at {url} (press Ctrl+C to stop)")
            if job.options.browser:
                await _open_browser(job, url)
            await preview.messages.wait_unwritable()
        finally:
            with trio.CancelScope(shield=True):
                await preview.stop()


async def _open_browser(job: Job, url: str) -> None:
    if not await trio.to_thread.run_sync(auth.show_in_browser, url, abandon_on_cancel=True):
        job.notes.say("(no browser could be opened here)")


@define(eq=False)
class _MessagePrinter:
    """Prints each message that passes between view and host, until the output cannot be written."""

    _job: Job
    _failure: OSError | UsageError | None = field(default=None, init=False)
    _failed: trio.Event = field(factory=trio.Event, init=False)

    def show(self, sender: str, message: Any) -> None:
        """Print a message of ``"view"`` or ``"host"``."""
        if self._job.options.json:
            line = json_line({"from": sender, "message": message})
        else:
            line = visible_line(f"{'-->' if sender == 'view' else '<--'} {_summary(message)}")
        try:
            self._job.output.line(line)
            self._job.output.flush()
        except (OSError, UsageError) as error:
            self._failure = error
            self._failed.set()

    async def wait_unwritable(self) -> None:
        """Wait until the output cannot be written; raise the reason."""
        await self._failed.wait()
        assert self._failure is not None
        raise self._failure


def _summary(message: Any) -> str:
    """Return the method and the beginning of the rest of a message."""
    members = message if is_object(message) else {"result": message}
    id = f" #{members['id']}" if "id" in members else ""
    rest = members.get("params", members.get("result", members.get("error", {})))
    text = f"{members.get('method', 'error' if 'error' in members else 'result')}{id} {json_line(rest)}"
    return text if len(text) <= _MOST_SHOWN else f"{text[:_MOST_SHOWN]}..."


@define(eq=False)
class _Preview:
    """The preview of one call: the servers of its pages, and the views of the pages that are open."""

    _job: Job
    _tool: types.Tool
    _arguments: JSONObject
    _app: App
    messages: _MessagePrinter = field(init=False)
    _outcome: types.CallToolResult | str | None = field(default=None, init=False)
    """The result of the call, or the reason why there is none; None before."""
    _has_outcome: trio.Event = field(factory=trio.Event, init=False)
    _has_begun: bool = field(default=False, init=False)
    """True once the tool is called (rule 2)."""
    _stopping: trio.Event = field(factory=trio.Event, init=False)
    _stopped: trio.Event = field(factory=trio.Event, init=False)
    _nursery: trio.Nursery = field(init=False)
    _views: set[View] = field(factory=set[View], init=False)
    _pages: int = field(default=0, init=False)
    """The number of open pages."""
    _page_left: trio.lowlevel.ParkingLot = field(factory=trio.lowlevel.ParkingLot, init=False)

    def __attrs_post_init__(self) -> None:
        self.messages = _MessagePrinter(self._job)

    async def run(self, *, task_status: trio.TaskStatus[str]) -> None:
        """Serve pages until `stop` is called, also if this task is cancelled (rule 3)."""
        server, uri = self._job.client.server_info, self._app.uri
        title = self._tool.title or self._tool.name
        about = uri if server is None else f"{uri}, an app of {server.title or server.name}"
        origins = dict.fromkeys([*self._app.csp.connect, *self._app.csp.resources, *self._app.csp.frames])
        about += f"; it may use {', '.join(origins) or 'no other origin'}"
        with trio.CancelScope(shield=True):
            try:
                async with (
                    owned_nursery() as self._nursery,
                    open_preview(self._app, self._serve, title=title, about=about) as url,
                ):
                    task_status.started(url)
                    await self._stopping.wait()
                    with trio.move_on_after(_CLOSE_SECONDS):
                        for view in [*self._views]:
                            await view.close("the preview is stopped")
                        while self._pages:  # they are told that their views have ended
                            await self._page_left.park()
            finally:
                self._stopped.set()

    async def stop(self) -> None:
        """Ask the views to end, stop the servers, and wait until they have stopped."""
        self._stopping.set()
        await self._stopped.wait()

    async def _serve(self, socket: PageSocket) -> None:
        """Show a view in a page, until the view or the page is closed."""
        self._pages += 1
        try:
            await self._show(socket)
            await socket.send({"isClosed": True})
        finally:
            self._pages -= 1
            self._page_left.unpark_all()

    async def _show(self, socket: PageSocket) -> None:
        client, tool = self._job.client, self._tool
        send, receive = trio.open_memory_channel[Any](0)
        page = _OpenPage(socket, self.messages, self._job, send)
        async with (
            owned_nursery() as nursery,
            open_view(client, self._app, page.send, receive, host=page.host(self._app), tool=tool) as view,
        ):
            self._views.add(view)
            nursery.start_soon(page.read, view, nursery)
            nursery.start_soon(self._tell_call, view)
            await view.wait_closed()
            self._views.discard(view)

    async def _tell_call(self, view: View) -> None:
        """Tell a view about the call, which begins with the first view."""
        await view.tool_input(self._arguments)
        if not self._has_begun:
            self._has_begun = True
            self._nursery.start_soon(self._call)
        await self._has_outcome.wait()
        if isinstance(self._outcome, types.CallToolResult):
            await view.tool_result(self._outcome)
        else:
            await view.tool_cancelled(self._outcome)

    async def _call(self) -> None:
        try:
            self._outcome = await self._job.client.call_tool(self._tool.name, self._arguments)
        except TrioMcpError as error:
            self._job.notes.say(f"the call of {self._tool.name} failed: {error}")
            self._outcome = f"the call failed ({type(error).__name__})"
        self._has_outcome.set()


@define(eq=False)
class _OpenPage:
    """A page that is open in the browser: the way to its view, and to its user."""

    _socket: PageSocket
    _messages: _MessagePrinter
    _job: Job
    _from_view: trio.MemorySendChannel[Any]
    _questions: int = field(default=0, init=False)
    _answers: dict[int, trio.Event] = field(factory=dict[int, trio.Event], init=False)
    """The questions that the user has not answered, by number."""
    _allowed: set[int] = field(factory=set[int], init=False)

    async def send(self, value: Any) -> None:
        """Send a message to the view."""
        self._messages.show("host", value)
        await self._socket.send({"view": value})

    async def read(self, view: View, nursery: trio.Nursery) -> None:
        """Take what the page says, until it leaves. The nursery holds what must not keep this task from reading."""
        with self._from_view:
            async for message in self._socket.messages():
                match message:
                    case {"view": said}:
                        self._messages.show("view", said)
                        await self._from_view.send(said)
                    case {"answer": {"id": int(number), "isAllowed": bool(is_allowed)}} if number in self._answers:
                        if is_allowed:
                            self._allowed.add(number)
                        self._answers[number].set()
                    case {"context": {"theme": "light" | "dark" as theme}}:
                        await view.change_context(McpUiHostContext(theme=theme))
                    case {"close": True}:
                        nursery.start_soon(view.close, "the user has closed the view")
                    case _:
                        pass

    def host(self, app: App) -> AppHost:
        """Return the host that this page is for its view."""
        return AppHost(
            on_open_link=self._ask_link,
            on_message=self._ask_message,
            on_download=self._ask_download,
            on_model_context=_take,
            on_view_log=_take,
            context=McpUiHostContext(theme="light", platform="web", available_display_modes=["inline"]),
            permissions=app.permissions,
            close_seconds=_CLOSE_SECONDS,
        )

    async def _ask_link(self, url: str) -> bool:
        return await self._ask("The view wants to open this page:", url, url=url)

    async def _ask_message(self, content: Sequence[types.ContentBlock]) -> bool:
        return await self._ask("The view wants to send this message to the model:", _text_of(content))

    async def _ask_download(self, contents: Sequence[types.EmbeddedResource | types.ResourceLink]) -> bool:
        files = [await self._file(each) for each in contents]
        names = "\n".join(f"{each['name']} ({each['type']})" for each in files)
        return await self._ask("The view wants to save these files:", names, files=files)

    async def _ask(self, question: str, subject: str, **more: Any) -> bool:
        """Ask the user in the page; return True if the user allows it."""
        self._questions += 1
        number, answered = self._questions, trio.Event()
        self._answers[number] = answered
        try:
            asked = {"id": number, "question": question, "subject": subject, **more}
            await self._socket.send({"question": asked})
            await answered.wait()
            return number in self._allowed
        finally:
            del self._answers[number]
            self._allowed.discard(number)

    async def _file(self, contents: types.EmbeddedResource | types.ResourceLink) -> dict[str, str]:
        """Return a file as the page takes it; contents that are only linked are read from the server."""
        if isinstance(contents, types.ResourceLink):
            resource = (await self._job.client.read_resource(contents.uri)).contents[0]
        else:
            resource = contents.resource
        if isinstance(resource, types.TextResourceContents):
            data = base64.b64encode(resource.text.encode()).decode()
        else:
            data = resource.blob
        name = resource.uri.rstrip("/").rpartition("/")[2] or "file"
        return {"name": name, "type": resource.mime_type or "application/octet-stream", "base64": data}


async def _take(_: McpUiUpdateModelContextRequestParams | ViewLogged) -> None:
    """Do nothing: the message was printed when it passed."""


def _text_of(content: Sequence[types.ContentBlock]) -> str:
    return "\n".join(piece_of(each).text for each in content)
