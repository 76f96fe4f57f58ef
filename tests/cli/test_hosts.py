"""`trio-mcp install` and `trio-mcp hosts`, on files as the hosts write them."""

from __future__ import annotations

import json
import os
import stat
import subprocess
import sys
from pathlib import Path
from types import ModuleType
from typing import Any, TypeAlias

import pytest

from tests.cli.command import environment
from tests.cli.conftest import Command
from trio_mcp.cli._arguments import HOST_NAMES
from trio_mcp.cli._hosts import HOSTS, User, description_of, user_files

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="the places of the files are those of Linux")

PROGRAM = """
from trio_mcp import Server

server = Server("My notes!")
other = Server("other")


@server.tool
async def add(a: int, b: int) -> int:
    return a + b
"""

CLAUDE_DESKTOP = """{
  "mcpServers": {
    "filesystem": {
      "command": "npx",
      "args": ["-y", "@modelcontextprotocol/server-filesystem", "/Users/ada/Desktop"]
    }¶
  },
  "globalShortcut": "Alt+Space",
  "preferences": {"menuBarEnabled": true, "scale": 1.0}
}
"""
CLAUDE_CODE = """{
  "numStartups": 184,
  "installMethod": "native",
  "tipsHistory": {
    "new-user-warmup": 1
  },
  "projects": {
    "/home/ada/notes": {
      "allowedTools": [],
      "mcpServers": {
        "postgres": {
          "type": "stdio",
          "command": "pg-mcp",
          "args": ["--database", "notes"],
          "env": {"PGPASSWORD": "hunter2"}
        }
      },
      "hasTrustDialogAccepted": true
    },
    "/home/ada/other": {}
  },
  "mcpServers": {
    "sentry": {
      "type": "http",
      "url": "https://mcp.sentry.dev/mcp"
    }¶
  },
  "userID": "5cd0\\u00e9"
}"""
CURSOR = """{
  "mcpServers": {
    // the documentation of our team
    "docs": {
      "url": "https://ada:secret@example.com/mcp?key=secret",
      "headers": { "Authorization": "Bearer secret" }
    }¶
  }
}
"""
VSCODE = """{
\t// Servers of this machine; the tokens are asked for.
\t"inputs": [
\t\t{ "type": "promptString", "id": "token", "description": "GitHub token", "password": true },
\t],
\t"servers": {
\t\t"github": {
\t\t\t"type": "http",
\t\t\t"url": "https://api.githubcopilot.com/mcp/", /* the remote one */
\t\t},
\t\t"time": { "type": "stdio", "command": "uvx", "args": ["mcp-server-time"] }¶ // local time
\t}
}
"""
JSON = '{"mcpServers":{"a":{"command":"a-server","disabled":true}¶}}'

Files: TypeAlias = dict[str, tuple[str, str]]
FILES: Files = {
    "claude-desktop": (".config/Claude/claude_desktop_config.json", CLAUDE_DESKTOP),
    "claude-code": (".claude.json", CLAUDE_CODE),
    "cursor": (".cursor/mcp.json", CURSOR),
    "vscode": (".config/Code/User/mcp.json", VSCODE),
}
"""The file of each host on Linux, below the home directory, and its text; ¶ marks the end of the last entry."""


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return the home directory of a user, with a program in it, and make it that of this process."""
    home = tmp_path / "home"
    home.mkdir()
    (home / "notes.py").write_text(PROGRAM)
    monkeypatch.setenv("HOME", str(home))
    for name in ("XDG_CONFIG_HOME", "CLAUDE_CONFIG_DIR"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.chdir(home)
    monkeypatch.setattr(sys, "path", [*sys.path])
    for module in ("notes", "strange"):
        monkeypatch.setitem(sys.modules, module, ModuleType(module))
    return home


def run(*arguments: str, cwd: Path) -> subprocess.CompletedProcess[str]:
    """Run the command in a process."""
    command = [sys.executable, "-m", "trio_mcp", *arguments]
    return subprocess.run(
        command, capture_output=True, encoding="utf-8", cwd=cwd, env=environment(), timeout=60, check=False
    )


def written(home: Path, host: str, text: str | None = None) -> Path:
    """Write the file of a host as it is before the command; return its path."""
    where, example = FILES[host]
    path = home / where
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(example.replace("¶", "", 1) if text is None else text)
    return path


def entry(home: Path, *, has_type: bool = True) -> dict[str, Any]:
    started = {"command": sys.executable, "args": ["-m", "trio_mcp", "serve", str(home / "notes.py")]}
    return {"type": "stdio"} | started if has_type else started


@pytest.mark.parametrize("host", ["claude-desktop", "claude-code", "cursor"])
def test_an_entry_is_added_and_no_other_character_of_the_file_changes(host: str, home: Path) -> None:
    path = written(home, host)
    path.chmod(0o640)
    before = path.read_text()

    done = run("install", "notes.py", "--host", host, cwd=home)

    added = json.dumps(entry(home, has_type=host != "claude-desktop"), indent=2).replace("\n", "\n    ")
    assert done.returncode == 0, done.stderr
    assert path.read_text() == FILES[host][1].replace("¶", f',\n    "My-notes": {added}', 1)
    copy = path.with_name(f"{path.name}.bak1")
    assert copy.read_text() == before
    assert stat.S_IMODE(path.stat().st_mode) == stat.S_IMODE(copy.stat().st_mode) == 0o640
    assert sorted(path.parent.glob(f".{path.name}.*")) == []
    assert done.stderr == f"the old file is kept as {copy}\nwritten: {path}; {HOSTS[host].hint}\n"
    assert '\n+    "My-notes": {\n' in done.stdout
    assert done.stdout.startswith(f"--- {path}\n+++ {path}\n@@ ")


def test_comments_and_trailing_commas_of_vs_code_stay(home: Path) -> None:
    path = written(home, "vscode")

    done = run("install", "notes.py", "--host", "vscode", "--name", "notes", cwd=home)

    added = json.dumps(entry(home), indent="\t").replace("\n", "\n\t\t")
    expected = VSCODE.replace("¶", ",").replace("// local time\n", f'// local time\n\t\t"notes": {added}\n')
    assert (done.returncode, path.read_text()) == (0, expected)


def test_a_file_of_comments_alone_keeps_them(home: Path) -> None:
    path = written(home, "vscode", "// my servers\n\n")

    done = run("install", "notes.py", "--host", "vscode", "--name", "notes", cwd=home)

    table = {"servers": {"notes": entry(home)}}
    assert (done.returncode, path.read_text()) == (0, f"// my servers\n{json.dumps(table, indent=2)}\n")


def test_servers_in_a_table_that_the_host_does_not_read_are_named(home: Path, command: Command) -> None:
    written(home, "vscode", '{"mcpServers": {"a": {"command": "a"}}}')

    done = command("install", "notes.py", "--host", "vscode")

    fault = "VS Code reads the member 'servers', but this file has 'mcpServers': its servers are not found\n"
    assert done.err.startswith(fault)


def test_a_file_on_one_line_stays_on_one_line(home: Path, command: Command) -> None:
    path = home / "mcp.json"
    path.write_text(JSON.replace("¶", ""))

    done = command("install", "notes.py:other", "--host", "json", "--env", "KEY=a b", "--env", "MODE=x=y")

    started: dict[str, Any] = entry(home, has_type=False) | {"env": {"KEY": "a b", "MODE": "x=y"}}
    started["args"][-1] += ":other"
    assert done.status == 0
    assert path.read_text() == JSON.replace("¶", f', "other": {json.dumps(started)}')


def test_the_entry_starts_the_server_from_any_folder(home: Path, tmp_path: Path) -> None:
    assert run("install", "notes.py", "--host", "json", "--name", "notes", cwd=home).returncode == 0

    done = run("call", "add", "a=1", "b=2", "--config", str(home / "mcp.json"), "notes", cwd=tmp_path)

    assert (done.returncode, done.stdout) == (0, "3\n")


@pytest.mark.parametrize("host", HOST_NAMES)
def test_a_missing_file_is_created_for_the_owner_alone(host: str, home: Path, command: Command) -> None:
    done = command("install", "notes.py", "--host", host, "--file", "new/settings.json")

    path = home / "new" / "settings.json"
    table = "servers" if host == "vscode" else "mcpServers"
    has_type = host not in {"claude-desktop", "json"}
    assert done.status == 0
    assert done.err.startswith(f"{HOSTS[host].title} may not be installed: there was no folder new\nwritten: new/")
    assert json.loads(path.read_text()) == {table: {"My-notes": entry(home, has_type=has_type)}}
    assert path.read_text().endswith("}\n")
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert [each.name for each in path.parent.iterdir()] == ["settings.json"]


def test_an_entry_that_is_there_already_is_left_as_it_is(home: Path, command: Command) -> None:
    command("install", "notes.py", "--host", "cursor")
    before = (home / ".cursor" / "mcp.json").stat().st_ino

    done = command("install", "notes.py", "--host", "cursor")

    assert (done.status, done.out) == (0, "")
    assert done.err == f"{home}/.cursor/mcp.json has this server already\n"
    assert (home / ".cursor" / "mcp.json").stat().st_ino == before
    assert len(list((home / ".cursor").iterdir())) == 1


def test_another_entry_of_the_name_is_replaced_only_by_force(home: Path, command: Command) -> None:
    path = written(home, "cursor")
    before = path.read_text()

    refused = command("install", "notes.py", "--host", "cursor", "--name", "docs")
    kept = path.read_text()
    done = command("install", "notes.py", "--host", "cursor", "--name", "docs", "--force")

    assert refused.status == 2
    assert '\n-      "url": "https' in refused.out
    assert refused.err == (
        f"trio-mcp install: {path} has another server 'docs'; replace it with --force, or choose another --name\n"
    )
    assert kept == before
    assert done.status == 0
    replaced = json.dumps(entry(home), indent=2).replace("\n", "\n    ")
    assert path.read_text() == before[: before.index("{\n      ")] + replaced + "\n  }\n}\n"


def test_every_old_file_is_kept(home: Path, command: Command) -> None:
    path = written(home, "cursor")
    texts = [path.read_text()]
    for name in ("one", "two"):
        command("install", "notes.py", "--host", "cursor", "--name", name)
        texts.append(path.read_text())

    assert [path.with_name(f"mcp.json.bak{number}").read_text() for number in (1, 2)] == texts[:2]


def test_a_dry_run_shows_the_change_and_writes_nothing(home: Path, command: Command) -> None:
    path = written(home, "cursor")
    before = path.read_text()

    done = command("install", "notes.py", "--host", "cursor", "--dry-run")

    assert done.status == 0
    assert '+    "My-notes": {' in done.out
    assert done.err == "nothing was written, because of --dry-run\n"
    assert path.read_text() == before
    assert len(list(path.parent.iterdir())) == 1


@pytest.mark.parametrize(
    ("host", "content", "fault"),
    [
        ("cursor", b'{"mcpServers": {', "not JSON: line 1, column 17: expected a value"),
        ("cursor", b"\xff\xfe{\x00}\x00", "not JSON: the text is not UTF-8"),
        ("cursor", b"[]", "expected a JSON object"),
        ("cursor", b'{"mcpServers": []}', "'mcpServers' must be an object: the servers by name"),
        ("vscode", b'{"servers": 1}', "'servers' must be an object: the servers by name"),
        ("claude-desktop", b"{} // mine\n", "has comments or trailing commas, which Claude Desktop cannot read"),
        ("claude-code", b'{"a": 1,}', "has comments or trailing commas, which Claude Code cannot read"),
    ],
)
def test_a_file_that_the_host_cannot_read_is_never_changed(
    host: str, content: bytes, fault: str, home: Path, command: Command
) -> None:
    path = written(home, host)
    path.write_bytes(content)

    done = command("install", "notes.py", "--host", host, "--force")
    listed = command("hosts")

    assert (done.status, done.out) == (2, "")
    assert done.err == f"trio-mcp install: {path}: {fault}; the file is left as it is\n"
    assert path.read_bytes() == content
    assert [*path.parent.glob(f"*{path.name}*")] == [path]
    assert (listed.status, listed.out) == (0, f"{host}\t\t{fault}\t{path}\n")


def test_a_folder_in_the_place_of_the_file_is_reported(home: Path, command: Command) -> None:
    (home / ".cursor" / "mcp.json").mkdir(parents=True)

    assert command("install", "notes.py", "--host", "cursor").err.endswith(
        "/mcp.json: cannot be read: Is a directory; the file is left as it is\n"
    )


def test_a_file_that_cannot_be_written_is_reported(home: Path, command: Command) -> None:
    done = command("install", "notes.py", "--host", "cursor", "--file", "/proc/none/mcp.json")

    assert done.status == 2
    assert done.err.splitlines()[-1].startswith("trio-mcp install: cannot write /proc/none/mcp.json: ")


def test_a_read_only_file_is_not_replaced(home: Path, command: Command) -> None:
    path = written(home, "cursor")
    path.chmod(0o444)
    before = path.read_text()

    done = command("install", "notes.py", "--host", "cursor")

    assert (done.status, done.err) == (2, f"trio-mcp install: {path} is read-only, and is left as it is\n")
    assert path.read_text() == before
    assert list(path.parent.iterdir()) == [path]


def test_the_shown_change_has_no_line_for_the_end_of_the_file(home: Path, command: Command) -> None:
    written(home, "cursor", '{\n  "mcpServers": {}\n}\n')

    done = command("install", "notes.py", "--host", "cursor", "--dry-run")

    assert done.out.endswith("\n }\n")
    assert "@@ -1,3 +1," in done.out


def test_a_full_disk_leaves_the_file_as_it_is(home: Path, command: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    path = written(home, "cursor")
    before = path.read_text()

    def fail(_: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", fail)
    done = command("install", "notes.py", "--host", "cursor")

    assert done.status == 2
    assert f"cannot write {path}: No space left on device; the file is left as it is\n" in done.err
    assert (path.read_text(), len(list(path.parent.iterdir()))) == (before, 1)


@pytest.mark.parametrize(
    ("content", "words"), [("{}", "has changed meanwhile; run the command again"), ("\udcff", "is not UTF-8")]
)
def test_a_file_that_the_host_changes_meanwhile_is_not_overwritten(
    content: str, words: str, home: Path, command: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = written(home, "cursor")

    def change(_: int) -> None:
        path.write_bytes(content.encode("utf-8", "surrogateescape"))

    monkeypatch.setattr(os, "fsync", change)
    done = command("install", "notes.py", "--host", "cursor")

    assert done.status == 2
    assert words in done.err
    assert path.read_bytes() == content.encode("utf-8", "surrogateescape")
    assert len(list(path.parent.iterdir())) == 1


def test_a_link_to_the_file_stays_a_link(home: Path, command: Command) -> None:
    path = written(home, "cursor")
    target = home / "dotfiles.json"
    path.replace(target)
    path.symlink_to(target)

    assert command("install", "notes.py", "--host", "cursor").status == 0
    assert path.is_symlink()
    assert "My-notes" in target.read_text()
    assert (home / "dotfiles.json.bak1").exists()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["notes"], "notes: name the file of the program, as in server.py: a host starts it in another folder"),
        (["none.py"], "none.py: no such file"),
        (["notes.py:third"], "notes.py: 'third' does not exist; it has server, other"),
        (["notes.py", "--name", "a b"], "'a b' is not a name for hosts: use letters, digits, '-' and '_'"),
        (["strange.py"], "'' is not a name for hosts: use letters, digits, '-' and '_', as in --name notes"),
        (["notes.py", "--env", "KEY"], "expected KEY=VALUE, got 'KEY'"),
    ],
)
def test_a_server_that_cannot_be_installed_is_reported(
    arguments: list[str], message: str, home: Path, command: Command
) -> None:
    (home / "strange.py").write_text("from trio_mcp import Server\nserver = Server('???')\n")

    done = command("install", *arguments, "--host", "cursor")

    assert (done.status, done.out) == (2, "")
    assert done.err.startswith(f"trio-mcp install: {message}")
    assert not (home / ".cursor").exists()


def test_a_path_that_json_cannot_hold_is_refused(home: Path, command: Command) -> None:
    folder = home / "\udcff"
    folder.mkdir()
    (folder / "notes.py").write_text(PROGRAM)

    done = command("install", f"{folder}/notes.py", "--host", "cursor")

    assert done.status == 2
    assert "is not UTF-8, which JSON requires" in done.err


# --- The places of the files ---


def paths(host: str, platform: str, **environment: str) -> list[str]:
    user = User(platform, Path("/home/ada"), environment)
    return [str(path) for path in user_files(HOSTS[host], user)]


@pytest.mark.parametrize(
    ("host", "mac", "windows", "linux"),
    [
        (
            "claude-desktop",
            "Library/Application Support/Claude/claude_desktop_config.json",
            "AppData/Roaming/Claude/claude_desktop_config.json",
            ".config/Claude/claude_desktop_config.json",
        ),
        ("claude-code", ".claude.json", ".claude.json", ".claude.json"),
        ("cursor", ".cursor/mcp.json", ".cursor/mcp.json", ".cursor/mcp.json"),
        (
            "vscode",
            "Library/Application Support/Code/User/mcp.json",
            "AppData/Roaming/Code/User/mcp.json",
            ".config/Code/User/mcp.json",
        ),
    ],
)
def test_every_platform_has_its_own_places(host: str, mac: str, windows: str, linux: str) -> None:
    assert paths(host, "darwin") == [f"/home/ada/{mac}"]
    assert paths(host, "win32") == [f"/home/ada/{windows}"]
    assert paths(host, "linux") == [f"/home/ada/{linux}"]


def test_variables_of_the_environment_move_the_files() -> None:
    assert paths("vscode", "win32", APPDATA="/roaming") == ["/roaming/Code/User/mcp.json"]
    assert paths("vscode", "linux", XDG_CONFIG_HOME="/settings") == ["/settings/Code/User/mcp.json"]
    assert paths("vscode", "linux", XDG_CONFIG_HOME="settings") == ["/home/ada/.config/Code/User/mcp.json"]
    assert paths("claude-code", "linux", CLAUDE_CONFIG_DIR="/claude") == ["/claude/.claude.json"]
    assert paths("json", "linux") == ["mcp.json"]


def test_a_packaged_claude_desktop_on_windows_has_its_own_file(tmp_path: Path) -> None:
    package = tmp_path / "Packages" / "Claude_pzs8sxrjxfjjc"
    package.mkdir(parents=True)

    assert paths("claude-desktop", "win32", LOCALAPPDATA=str(tmp_path), APPDATA="/roaming") == [
        str(package / "LocalCache" / "Roaming" / "Claude" / "claude_desktop_config.json"),
        "/roaming/Claude/claude_desktop_config.json",
    ]


def test_the_file_that_exists_is_changed_and_else_the_one_whose_folder_exists(
    home: Path, command: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    local, roaming = home / "AppData" / "Local", home / "AppData" / "Roaming"
    monkeypatch.setattr("trio_mcp.cli._hosts.User", lambda: User("win32", home, {}))
    packaged = local / "Packages" / "Claude_pzs8sxrjxfjjc" / "LocalCache" / "Roaming" / "Claude"
    named = "claude_desktop_config.json"

    (roaming / "Claude").mkdir(parents=True)
    first = command("install", "notes.py", "--host", "claude-desktop", "--name", "a", "--dry-run")
    packaged.mkdir(parents=True)
    second = command("install", "notes.py", "--host", "claude-desktop", "--name", "b", "--dry-run")
    (roaming / "Claude" / named).write_text("{}")
    third = command("install", "notes.py", "--host", "claude-desktop", "--name", "c", "--dry-run")

    for done, path in ((first, roaming / "Claude"), (second, packaged), (third, roaming / "Claude")):
        assert done.out.startswith(f"--- {path / named}\n")


# --- The command hosts ---


def test_hosts_lists_the_servers_of_the_user_and_of_the_folder_without_secrets(home: Path, command: Command) -> None:
    for host in FILES:
        written(home, host)
    (home / "project" / ".vscode").mkdir(parents=True)
    (home / "project" / ".vscode" / "mcp.json").write_text('{"mcpServers": {"a": {}}}')
    (home / "project" / ".vscode" / "settings.json").write_text('{"mcp": {"servers": {"old": {"command": "o"}}}, /**/}')
    (home / ".config" / "Code" / "User" / "settings.json").write_text('{"mcp": {"inputs": []}, "servers": 1}')
    (home / "project" / "mcp.json").write_text(JSON.replace("¶", ""))

    done = run("hosts", cwd=home / "project")
    as_json = run("hosts", "--json", cwd=home / "project")

    fault = "VS Code reads the member 'servers', but this file has 'mcpServers'"
    desktop, code, cursor, vscode = (home / where for where, _ in FILES.values())
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.splitlines() == [
        f"claude-desktop\tfilesystem\tnpx -y @modelcontextprotocol/server-filesystem /Users/ada/Desktop\t{desktop}",
        f"claude-code\tsentry\thttps://mcp.sentry.dev/mcp\t{code}",
        f"claude-code\tpostgres\tpg-mcp --database notes\t{code} (/home/ada/notes)",
        f"cursor\tdocs\thttps://example.com/mcp\t{cursor}",
        f"vscode\tgithub\thttps://api.githubcopilot.com/mcp/\t{vscode}",
        f"vscode\ttime\tuvx mcp-server-time\t{vscode}",
        f"vscode\t\t{fault}\t{home}/project/.vscode/mcp.json",
        f"vscode\told\to\t{home}/project/.vscode/settings.json",
        f"json\ta\ta-server (disabled)\t{home}/project/mcp.json",
    ]
    servers = json.loads(as_json.stdout)["servers"]
    assert servers[3] == {
        "host": "cursor",
        "server": "docs",
        "target": "https://example.com/mcp",
        "file": str(cursor),
    }
    assert servers[6]["error"].startswith("VS Code reads")
    assert "secret" not in done.stdout + as_json.stdout
    assert "hunter2" not in done.stdout + as_json.stdout


def test_hosts_without_servers_are_reported(home: Path, command: Command) -> None:
    done = command("hosts")

    assert (done.status, done.out, done.err) == (0, "", "no host has a server\n")


HIDDEN = "a --api-key *** --token=*** -e DB_PASSWORD=*** Cookie:***"


@pytest.mark.parametrize(
    ("written_entry", "words"),
    [
        (3, "not valid: expected an object"),
        ({}, "not valid: it has neither 'command' nor 'url'"),
        ({"command": "a b", "args": ["c d"]}, "'a b' 'c d'"),
        ({"command": "a", "args": 1}, "a 1"),
        (
            {"command": "npx", "args": ["mcp-remote", "https://u:p@e.org/?k=1", "--header", "Authorization: Bearer x"]},
            "npx mcp-remote https://e.org/ --header ***",
        ),
        ({"command": "a", "args": ["--api-key", "x", "--token=x", "-e", "DB_PASSWORD=x", "Cookie: x"]}, HIDDEN),
        ({"command": "a", "args": ["--max-tokens", "5", "--token", "--port=80"]}, "a --max-tokens 5 --token --port=80"),
        ({"url": "http://[::1/"}, "not valid: its 'url' is not a URL"),
        ({"url": "https://u:p@e.org:8443/mcp?k=1#f", "disabled": True}, "https://e.org:8443/mcp (disabled)"),
    ],
)
def test_an_entry_is_described_by_its_command_or_url(written_entry: object, words: str) -> None:
    assert description_of(written_entry) == words


def test_the_command_line_names_every_host() -> None:
    assert [*HOSTS] == [*HOST_NAMES]
