"""The options that several commands share, and the values that options take. It loads nothing but argparse."""

from __future__ import annotations

import argparse
import math
import re
from collections.abc import Mapping

__all__ = [
    "LEVELS",
    "NAME_OPTION",
    "OPTIONAL_VALUES",
    "add_call_arguments",
    "add_common",
    "add_http",
    "add_output",
    "count",
    "port",
    "process",
    "seconds",
    "tokens",
]

LEVELS = ("debug", "info", "notice", "warning", "error", "critical", "alert", "emergency")
"""The levels of log messages, as the protocol names them."""
OPTIONAL_VALUES: Mapping[str, tuple[str, re.Pattern[str]]] = {
    "--metrics": ("/metrics", re.compile(r"/.*(?<!\.py)")),
    "--access-log": ("text", re.compile("text|json")),
}
"""The options whose value may be left out, each with its default and the form of a value. Another argument that follows
is an argument of its own, such as the file of the server."""
NAME_OPTION = "--config-name"
"""The option into which the name after the file of `--config` is turned; users do not need it."""


def add_common(common: argparse.ArgumentParser) -> None:
    """Add the options of the commands that connect to a server."""
    common.add_argument(
        "--config",
        metavar="FILE [NAME]",
        help="a server of an mcpServers file; without a name its only one, or for `tools` all",
    )
    common.add_argument(NAME_OPTION, help=argparse.SUPPRESS)
    common.add_argument(
        "--header",
        action="append",
        default=[],
        metavar="NAME:VALUE",
        help="a header to send with each request to a URL, such as Authorization; may be repeated",
    )
    common.add_argument(
        "--login",
        action="store_true",
        help="sign in with the browser if the server requires authentication; the tokens are stored for later commands",
    )
    common.add_argument(
        "--answer", metavar="FILE", help="answer the forms of the server with the values of a JSON file, for scripts"
    )
    common.add_argument("--json", action="store_true", help="print the result as JSON, as received, and nothing else")
    common.add_argument("--revision", metavar="R", help="use only this protocol revision, such as 2025-06-18")
    common.add_argument(
        "--timeout", type=seconds, metavar="SECONDS", help="the time limit of connecting and of each request"
    )
    common.add_argument(
        "--trace", metavar="FILE", help="write each message to FILE as it is sent or received; - is standard error"
    )
    common.add_argument("--log-level", choices=LEVELS, metavar="LEVEL", help=f"show log messages: {', '.join(LEVELS)}")
    common.add_argument(
        "--root",
        action="append",
        default=[],
        metavar="DIR",
        help="offer a folder to the server as a root; may be repeated",
    )


def add_http(parser: argparse.ArgumentParser) -> None:
    """Add the options of commands that serve over HTTP."""
    parser.add_argument("--http", type=port, metavar="PORT", help="serve over HTTP; 0 takes any free port")
    parser.add_argument("--host", metavar="HOST", help="the host name or address to listen on (default: 127.0.0.1)")
    parser.add_argument("--path", metavar="PATH", help="the path of the endpoint (default: /mcp)")
    parser.add_argument(
        "--allow-host",
        action="append",
        metavar="NAME",
        help="a host name that clients may use, such as example.com:*, or 'any'; may be repeated",
    )
    parser.add_argument(
        "--allow-origin",
        action="append",
        metavar="ORIGIN",
        help="an origin whose web pages may connect, such as https://example.com, or 'any'; may be repeated",
    )
    parser.add_argument(
        "--auth",
        action="append",
        metavar="ISSUER",
        help="accept only requests with an access token of this authorization server; may be repeated",
    )
    parser.add_argument("--auth-url", metavar="URL", help="with --auth: the URL by which clients reach this server")
    parser.add_argument(
        "--auth-scope",
        action="append",
        metavar="SCOPE",
        help="with --auth: a scope that every request needs; may be repeated",
    )
    parser.add_argument("--certfile", metavar="FILE", help="serve over HTTPS with this certificate (PEM)")
    parser.add_argument("--keyfile", metavar="FILE", help="the certificate's private key, if it is in another file")
    parser.add_argument(
        "--health-path",
        metavar="PATH",
        help="answer a check of the process at this path, such as /healthz: 200 as long as it lives",
    )
    parser.add_argument(
        "--ready-path",
        metavar="PATH",
        help="answer a check for load balancers at this path, such as /readyz: 200, or 503 once a stop was requested",
    )
    parser.add_argument(
        "--drain-delay",
        type=seconds,
        metavar="SECONDS",
        help="go on serving for this time after a stop was requested (default: 0); a second signal ends it",
    )
    parser.add_argument(
        "--metrics",
        metavar="[PATH]",
        help="serve a page for Prometheus at this path (default: /metrics); everybody can read it",
    )
    parser.add_argument(
        "--access-log",
        choices=("text", "json"),
        metavar="[json]",
        help="write a line for each request to standard error: method, path, status, duration, principal; with json "
        "also an id of the request, as a JSON object",
    )


def add_call_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the name of a tool and its arguments."""
    parser.add_argument("name", metavar="NAME", help="the tool")
    parser.add_argument(
        "pairs",
        nargs="*",
        default=[],
        metavar="KEY=VALUE",
        help="an argument: a string, or JSON if the tool's schema requires another type; KEY:=JSON is always JSON",
    )
    parser.set_defaults(row="pairs")
    parser.add_argument(
        "--arguments",
        metavar="JSON",
        help="all arguments as a JSON object, @FILE to read it from a file, or - for standard input",
    )


def add_output(parser: argparse.ArgumentParser) -> None:
    """Add the option that writes the content to a file."""
    parser.add_argument(
        "-o",
        "--output",
        metavar="FILE",
        help="write the content to FILE: its binary parts, or its text if there are none",
    )


def seconds(text: str) -> float:
    """Read a number of seconds."""
    try:
        number = float(text)
    except ValueError:
        number = math.nan
    if not 0 < number < math.inf:
        raise argparse.ArgumentTypeError(f"expected a number of seconds above 0, got {text!r}")
    return number


def tokens(text: str) -> int:
    """Read a number of tokens."""
    return _whole_number(text, 1, 10_000_000)


def port(text: str) -> int:
    """Read the number of a port."""
    return _whole_number(text, 0, 65_535)


def count(text: str) -> int:
    """Read a number of things."""
    return _whole_number(text, 1, 1_000)


def process(text: str) -> int:
    """Read the id of a process."""
    return _whole_number(text, 1, 999_999_999)


def _whole_number(text: str, least: int, most: int) -> int:
    number = int(text) if text.isascii() and text.isdigit() and len(text) < 10 else -1
    if not least <= number <= most:
        raise argparse.ArgumentTypeError(f"expected a number from {least} to {most}, got {text!r}")
    return number
