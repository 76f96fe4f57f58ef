"""The grammar of the command line. It loads nothing but argparse, so that `--help` answers at once."""

from __future__ import annotations

import argparse
import re
import shlex
import shutil
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NoReturn

from .._version import VERSION
from ._errors import STATUSES
from ._options import (
    LEVELS,
    NAME_OPTION,
    OPTIONAL_VALUES,
    add_call_arguments,
    add_common,
    add_http,
    add_output,
    count,
    port,
    process,
    seconds,
    tokens,
)

__all__ = ["HOST_NAMES", "LEVELS", "TASK_ACTIONS", "actions_of_commands", "missing_dashes", "read_arguments"]


HOST_NAMES = ("claude-desktop", "claude-code", "cursor", "vscode", "json")
"""The hosts that `install` knows."""

TASK_ACTIONS = ("get", "watch", "answer", "cancel")
"""What `task` does with a task."""

_TARGET = "(FILE.py | -- COMMAND [ARG ...] | -- URL | --config FILE [NAME])"
_PAIRS = "[KEY=VALUE ...]"
_SERVER = "python server.py"
_PROGRAM = re.compile(r"([^=-][^=]*\.py)(?::[A-Za-z_]\w*)?")
"""A Python file, and the name of its server, if an argument is one."""
_SERVER_LEVELS = ("debug", "info", "warning", "error")
_SERVING = frozenset({"serve", "gateway"})
"""The commands that can serve over HTTP."""
_AUTH_ONLY = ("auth_url", "auth_scope")
"""The options of `serve` that need `--auth`."""
_HTTP_ONLY = (
    "host",
    "path",
    "allow_host",
    "allow_origin",
    "auth",
    *_AUTH_ONLY,
    "certfile",
    "keyfile",
    "workers",
    "worker_timeout",
    "shared",
    "health_path",
    "ready_path",
    "drain_delay",
    "metrics",
    "access_log",
)
"""The options of `serve` that need `--http`."""


def read_arguments(arguments: Sequence[str]) -> argparse.Namespace:
    """Return the options of a command line.

    Its `target` holds the command or URL of the server: the arguments after the first `--`, or the command that serves
    a Python file; None without one. Its `config` holds the file of `--config`, and the server's name if there is one.
    Its `words` are the command line itself.

    Raises:
        SystemExit: the command line is wrong (status 2), or requests the help or the version (status 0).
    """
    target: list[str] | None = None
    given = arguments
    if "--" in arguments:  # argparse treats it differently in different versions of Python
        at = [*arguments].index("--")
        arguments, target = arguments[:at], [*arguments[at + 1 :]]
    arguments = _with_values(arguments)
    if arguments and arguments[0] == "--config":
        arguments = ["servers", *arguments]
    parser = _Parser(prog="trio-mcp", description="The Model Context Protocol from a shell.", epilog=STATUSES)
    parser.add_argument("--version", action=_Version, nargs=0, help="show the version and exit")
    commands = _add_commands(parser)
    if arguments and arguments[0] in commands and commands[arguments[0]].takes_server:
        arguments = _with_separate_name(arguments)
        if target is None and "--config" not in arguments:
            arguments, target = _with_file_served(arguments, commands[arguments[0]])
    options, rest = parser.parse_known_args(arguments)
    options.target = target
    options.words = given
    _put_operands(options, rest)
    _check_target(options, options.parser)
    _check_serving(options, options.parser)
    return options


def _with_values(arguments: Sequence[str]) -> Sequence[str]:
    """Return the arguments with the default values of options that have none; argparse would take what follows."""
    if not arguments or arguments[0] not in _SERVING:
        return arguments
    completed = [*arguments]
    for at, word in enumerate(arguments):
        default, form = OPTIONAL_VALUES.get(word, ("", None))
        if form is not None and not form.fullmatch(next(iter(arguments[at + 1 :]), "")):
            completed[at] = f"{word}={default}"
    return completed


def _with_separate_name(arguments: Sequence[str]) -> Sequence[str]:
    """Return the arguments with an option for the name that may follow the file of `--config`."""
    at = [*arguments, "--config"].index("--config") + 2
    if at >= len(arguments) or arguments[at].startswith("-"):
        return arguments
    return [*arguments[:at], NAME_OPTION, *arguments[at:]]


def _with_file_served(arguments: Sequence[str], parser: _Parser) -> tuple[Sequence[str], list[str] | None]:
    """Return the arguments without the first one that is a Python file, and the command that serves it."""
    valued = {name for action in parser.known for name in action.option_strings if action.nargs != 0}
    for at, word in enumerate(arguments):
        program = _PROGRAM.fullmatch(word)
        if program is not None and arguments[at - 1] not in valued and "://" not in word:
            if not Path(program[1]).is_file():
                parser.error(f"{program[1]}: no such file")
            command = [sys.executable, "-m", "trio_mcp", "serve", word]
            return [*arguments[:at], *arguments[at + 1 :]], command
    return arguments, None


def _put_operands(options: argparse.Namespace, rest: Sequence[str]) -> None:
    """Give the remaining arguments to the command, if it takes any number: argparse stops collecting at an option."""
    row: str | None = getattr(options, "row", None)
    unknown: list[str] = [each for each in rest if each.startswith("-") or row is None]
    if row is not None and not unknown:
        setattr(options, row, [*getattr(options, row), *rest])
    if options.command == "complete":
        options.value, *more = options.values or [""]
        unknown += more
    if options.command == "tools":
        options.name = options.names[0] if options.names else None
        is_command = len(options.names) > 1 and options.target is None and options.config is None
        unknown += options.names[0 if is_command else 1 :]
    if unknown:
        _refuse(unknown, options.target, options, options.parser)


def _refuse(
    unknown: Sequence[str], target: Sequence[str] | None, options: argparse.Namespace, parser: argparse.ArgumentParser
) -> None:
    words = " ".join(unknown)
    if target is None and getattr(options, "config", True) is None and not unknown[0].startswith("-"):
        parser.error(f"no server given: write -- before its command or URL, as in -- {words}")
    parser.error(f"unknown arguments: {words}{missing_dashes(options, unknown[0])}")


def missing_dashes(options: argparse.Namespace, word: str) -> str:
    """Return a remark on a missing ``--``, to end a message with; empty if *word* does not seem to begin a server.

    Args:
        options: the options of the command line.
        word: the argument that the command cannot use.
    """
    words: Sequence[str] = options.words
    if getattr(options, "config", "") is not None or "--" in words or word not in words[1:]:
        return ""
    at = [*words].index(word, 1)  # the first is the name of the command
    if not word.startswith(("http://", "https://", "ws://", "wss://")) and (
        at == len(words) - 1 or shutil.which(word) is None
    ):
        return ""
    return f"; is `--` missing? write: trio-mcp {shlex.join(words[:at])} -- {shlex.join(words[at:])}"


def _check_target(options: argparse.Namespace, parser: argparse.ArgumentParser) -> None:
    if not hasattr(options, "config"):
        if options.target is not None:
            parser.error("this command takes no server after --")
    elif options.config is not None:
        options.config = [options.config] if options.config_name is None else [options.config, options.config_name]
        if options.target is not None:
            parser.error("two servers given: use either --config FILE [NAME] or a command or URL after --")
    elif not options.target:
        words = getattr(options, getattr(options, "row", ""), ())
        remarks = [remark for word in words if (remark := missing_dashes(options, word))]
        add = f": add -- and its command or URL, as in -- {_SERVER}, or --config FILE [NAME]"
        parser.error(f"no server given{remarks[0] if remarks else add}")


def _check_serving(options: argparse.Namespace, parser: argparse.ArgumentParser) -> None:
    if options.command not in _SERVING:
        return
    if options.http is None and (useless := _given(options, _HTTP_ONLY)):
        parser.error(f"{useless} can only be used with --http PORT")
    if options.auth is None and (useless := _given(options, _AUTH_ONLY)):
        parser.error(f"{useless} can only be used with --auth ISSUER")
    if options.auth is not None and options.auth_url is None:
        parser.error("--auth needs --auth-url URL, the URL by which clients reach this server")


def _given(options: argparse.Namespace, names: Sequence[str]) -> str:
    """Return those of the options that the command line has."""
    return ", ".join(f"--{name.replace('_', '-')}" for name in names if getattr(options, name) is not None)


class _Parser(argparse.ArgumentParser):
    """A parser that reports an error in one line, and remembers its options."""

    def __init__(self, **options: Any) -> None:
        self.purpose = ""
        self.takes_server = False
        self.known: list[argparse.Action] = [each for parent in options.get("parents", ()) for each in parent.known]
        super().__init__(allow_abbrev=False, formatter_class=argparse.RawDescriptionHelpFormatter, **options)

    def add_argument(self, *names: Any, **options: Any) -> argparse.Action:
        """Add an option or an argument."""
        action = super().add_argument(*names, **options)
        self.known.append(action)
        return action

    def error(self, message: str) -> NoReturn:
        self.exit(2, f"{self.prog}: {message} (see {self.prog} --help)\n")


class _Version(argparse.Action):
    """The option that prints the version and exits."""

    def __call__(self, parser: argparse.ArgumentParser, *_: object) -> NoReturn:
        sys.stdout.write(f"trio-mcp {VERSION}\n")
        parser.exit()


def _add_commands(parser: _Parser) -> dict[str, _Parser]:
    commands = parser.add_subparsers(dest="command", metavar="COMMAND", required=True)
    _Adder(commands).add_all()
    return commands.choices


def actions_of_commands() -> Iterator[tuple[str, str, Sequence[argparse.Action]]]:
    """Yield the name of each command, its purpose, and its options and arguments."""
    for name, parser in _add_commands(_Parser(prog="trio-mcp")).items():
        yield name, parser.purpose, [action for action in parser.known if action.help != argparse.SUPPRESS]


class _Adder:
    """A builder that adds each command with its own help."""

    def __init__(self, commands: argparse._SubParsersAction[_Parser]) -> None:
        self._commands = commands
        self._common = _Parser(add_help=False)
        add_common(self._common)

    def add_all(self) -> None:
        self._add_lists()
        self._add_call()
        self._add_texts()
        self._add_skill()
        self._add_task()
        self._add_watch()
        self._add_serve()
        self._add_gateway()
        self._add_hosts()
        self._add_dev()
        self._add_inspect()
        self._connected("stubs", "print a typed Python client of the server", "stubs")
        self._add("demo", "start a SQLite server in a child process and demonstrate a client with it", "demo")
        completion = self._add(
            "completion", "print a script by which a shell completes command lines of trio-mcp", "completion bash"
        )
        completion.add_argument("shell", choices=("bash", "zsh", "fish"), metavar="SHELL", help="bash, zsh or fish")

    def _add_serve(self) -> None:
        serve = self._add(
            "serve",
            "serve a Server of a Python program, over standard input and output or over HTTP",
            "serve server.py --http 8000",
        )
        serve.add_argument(
            "server",
            metavar="MODULE[:NAME]",
            help="a module or the path of a Python file, and the name of its Server (default: server, or the only one)",
        )
        serve.add_argument(
            "--log-level",
            choices=_SERVER_LEVELS,
            metavar="LEVEL",
            help=f"log on standard error, from info on with a line for each request: {', '.join(_SERVER_LEVELS)}",
        )
        add_http(serve)
        serve.add_argument(
            "--workers",
            type=count,
            metavar="N",
            help="serve from N processes, which share sessions and changes",
        )
        serve.add_argument(
            "--shared",
            metavar="PLACE",
            help="what the processes of one service share, on this machine and on others: redis://HOST:PORT/0, or the "
            "path of a file on this machine",
        )
        serve.add_argument(
            "--worker-timeout",
            type=seconds,
            metavar="SECONDS",
            help="replace a process that is stopped, or blocked by a handler, for this long (default: 30)",
        )
        serve.add_argument(
            "--inspect",
            action="store_true",
            help="permit `trio-mcp inspect`, as TRIO_MCP_INSPECT=1 in the environment does",
        )

    def _add_gateway(self) -> None:
        gateway = self._add(
            "gateway",
            "serve the servers of a file, or one server, as one: over stdio or HTTP",
            "gateway --config mcp.json --http 8000",
        )
        gateway.usage = f"%(prog)s [OPTIONS]\n       {_TARGET}"
        gateway.takes_server = True
        gateway.add_argument(
            "--config", metavar="FILE [NAME]", help="an mcpServers file; with a name, only that server of it"
        )
        gateway.add_argument(NAME_OPTION, help=argparse.SUPPRESS)
        gateway.add_argument("--name", default="gateway", metavar="NAME", help="the name of the gateway (gateway)")
        gateway.add_argument(
            "--prefix",
            action="store_true",
            help="call every tool and prompt SERVER__NAME; by default only where names clash",
        )
        gateway.add_argument(
            "--only",
            action="append",
            metavar="PATTERN",
            help="show only tools, prompts and resources whose name matches, such as 'find_*'; may be repeated",
        )
        gateway.add_argument(
            "--without",
            action="append",
            default=[],
            metavar="PATTERN",
            help="hide those whose name matches; may be repeated",
        )
        gateway.add_argument(
            "--search",
            type=tokens,
            metavar="TOKENS",
            help="if the tools need more than about this number of tokens, list two tools that find and use them",
        )
        gateway.add_argument(
            "--header",
            action="append",
            default=[],
            metavar="NAME:VALUE",
            help="a header to send with each request to a URL, such as Authorization; may be repeated",
        )
        gateway.add_argument(
            "--login",
            action="store_true",
            help="sign in with the browser if a server requires authentication; the tokens are stored",
        )
        gateway.add_argument(
            "--timeout", type=seconds, metavar="SECONDS", help="the time limit of each request to a server"
        )
        gateway.add_argument(
            "--trace", metavar="FILE", help="write each message to and from a server to FILE; - is standard error"
        )
        gateway.add_argument(
            "--log-level",
            choices=_SERVER_LEVELS,
            metavar="LEVEL",
            help=f"log on standard error (default: info): {', '.join(_SERVER_LEVELS)}",
        )
        add_http(gateway)
        gateway.set_defaults(workers=None, worker_timeout=None, shared=None)

    def _add_hosts(self) -> None:
        install = self._add(
            "install", "add a server to the configuration of an MCP host", "install server.py --host claude-desktop"
        )
        install.add_argument(
            "server", metavar="FILE[:NAME]", help="the Python file of the server, and the name of the Server in it"
        )
        install.add_argument(
            "--host", choices=HOST_NAMES, required=True, metavar="HOST", help=f"the host: {', '.join(HOST_NAMES)}"
        )
        install.add_argument("--name", metavar="NAME", help="the name of the entry (default: the name of the server)")
        install.add_argument(
            "--file", metavar="FILE", help="the file to change (default: that of the user; for json: mcp.json)"
        )
        install.add_argument(
            "--env",
            action="append",
            default=[],
            metavar="NAME=VALUE",
            help="an environment variable that the host sets for the server; may be repeated",
        )
        install.add_argument("--force", action="store_true", help="replace another entry of this name")
        install.add_argument("--dry-run", action="store_true", help="show the change, and write nothing")
        servers = self._add("servers", "list the servers of an mcpServers file", "servers --config mcp.json")
        servers.add_argument("--config", dest="file", required=True, metavar="FILE", help="the file")
        servers.add_argument("--json", action="store_true", help="print the list as JSON")
        hosts = self._add("hosts", "list the servers that the MCP hosts of this machine are configured with", "hosts")
        hosts.add_argument("--json", action="store_true", help="print the list as JSON")

    def _add_dev(self) -> None:
        dev = self._add(
            "dev", "serve a program over HTTP, anew after each change, and open the MCP Inspector", "dev server.py"
        )
        dev.add_argument("server", metavar="FILE[:NAME]", help="as of serve: a Python file, and the name of its Server")
        dev.add_argument("--port", type=port, default=8000, metavar="PORT", help="the port (default: 8000); 0 is any")
        dev.add_argument("--no-inspector", dest="inspector", action="store_false", help="do not open the MCP Inspector")

    def _add_inspect(self) -> None:
        inspect = self._add("inspect", "show what a server process does, and where its handlers stand", "inspect 4711")
        inspect.add_argument("pid", metavar="PID", type=process, help="the id of the process, or of its parent")
        inspect.add_argument("--json", action="store_true", help="print the result as JSON, and nothing else")

    def _add_lists(self) -> None:
        self._connected("info", "show the name, version and capabilities of the server")
        ping = self._connected("ping", "measure the time that the server takes to answer")
        ping.add_argument("-c", "--count", type=count, default=4, metavar="N", help="the number of requests (4)")
        tools = self._connected("tools", "list the tools, or show one with its whole schema", "tools", "[NAME]")
        tools.add_argument("names", nargs="*", default=[], metavar="NAME", help="the tool to show")
        tools.set_defaults(row="names")
        self._connected("resources", "list the resources and resource templates")
        self._connected("prompts", "list the prompts")
        self._connected("skills", "list the skills")

    def _add_call(self) -> None:
        call = self._connected("call", "call a tool", "call add a=1 b=2", f"NAME {_PAIRS}")
        add_call_arguments(call)
        add_output(call)
        call.add_argument(
            "--detach",
            action="store_true",
            help="start a task, print its id, and exit; `trio-mcp task` shows, follows, answers and cancels it",
        )
        app = self._connected(
            "app", "call a tool, and show its app in the browser", "app sales year=2026", f"NAME {_PAIRS}"
        )
        add_call_arguments(app)
        app.add_argument(
            "--no-browser", dest="browser", action="store_false", help="print the URL of the page, and open no browser"
        )

    def _add_texts(self) -> None:
        read = self._connected("read", "read a resource", "read greeting://Ada", "URI")
        read.add_argument("uri", metavar="URI", help="the resource")
        add_output(read)
        prompt = self._connected("prompt", "get a prompt", "prompt review code=x+1", f"NAME {_PAIRS}")
        prompt.add_argument("name", metavar="NAME", help="the prompt")
        prompt.add_argument("pairs", nargs="*", default=[], metavar="KEY=VALUE", help="an argument, always a string")
        prompt.set_defaults(row="pairs")
        complete = self._connected(
            "complete", "suggest values for an argument", "complete prompt:review code x", "OF ARGUMENT [VALUE]"
        )
        complete.add_argument("reference", metavar="OF", help="prompt:NAME, or the URI template of a resource")
        complete.add_argument("argument", metavar="ARGUMENT", help="the name of the argument")
        complete.add_argument("values", nargs="*", default=[], metavar="VALUE", help="the value typed so far")
        complete.set_defaults(row="values")
        complete.add_argument(
            "--context", action="append", default=[], metavar="KEY=VALUE", help="an argument that already has its value"
        )

    def _add_skill(self) -> None:
        skill = self._connected(
            "skill", "show a skill, or save its files", "skill skill://pdf-processing/SKILL.md", "URI [FILE]"
        )
        skill.add_argument("uri", metavar="URI", help="the SKILL.md of the skill")
        skill.add_argument("file", nargs="?", default="SKILL.md", metavar="FILE", help="another file of the skill")
        skill.add_argument("--save", metavar="DIR", help="write all files, verified, to a new folder in DIR")

    def _add_task(self) -> None:
        task = self._connected(
            "task", "show a task, follow it to its end, answer it, or cancel it", "task watch ID", "ACTION ID"
        )
        task.add_argument("action", choices=TASK_ACTIONS, metavar="ACTION", help=", ".join(TASK_ACTIONS))
        task.add_argument("id", metavar="ID", help="the id of the task, as `call --detach` prints it")
        add_output(task)

    def _add_watch(self) -> None:
        watch = self._connected(
            "watch",
            "show log messages and changes until Ctrl+C",
            "watch file:///config.json",
            "[URI ...]",
        )
        watch.add_argument("uris", nargs="*", default=[], metavar="URI", help="a resource whose changes to show")
        watch.set_defaults(row="uris")

    def _connected(self, name: str, purpose: str, example: str = "", operands: str = "") -> _Parser:
        """Add a command that connects to a server."""
        parser = self._add(name, purpose, f"{example or name} -- {_SERVER}", self._common)
        parser.usage = f"{' '.join(['%(prog)s [OPTIONS]', *operands.split()])}\n       {_TARGET}"
        parser.takes_server = True
        return parser

    def _add(self, name: str, purpose: str, example: str, *parents: _Parser) -> _Parser:
        parser = self._commands.add_parser(
            name,
            parents=parents,
            help=purpose,
            description=f"{purpose[0].upper()}{purpose[1:]}.",
            epilog=f"example:\n  trio-mcp {example}",
        )
        parser.purpose = purpose
        parser.set_defaults(parser=parser)
        return parser
