r"""The command `completion`: scripts by which bash, zsh and fish complete command lines of `trio-mcp`.

A script holds the whole grammar, so that the shell starts no process when the user presses Tab. It is made from the
parsers of the command line, and so it always fits them.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Final

from attrs import frozen

from ._arguments import actions_of_commands
from ._output import Output

__all__ = ["completion"]

_FILES: Final = ("FILE", "FILE [NAME]", "DIR", "FILE[:NAME]", "MODULE[:NAME]")
"""The words that the help uses for values that are files or folders."""


@frozen
class _Option:
    """An option, or an argument without a name."""

    names: Sequence[str]
    help: str
    takes_value: bool
    values: Sequence[str]
    """The possible values; empty if they are not known."""
    is_file: bool
    repeats: bool

    @classmethod
    def of(cls, action: argparse.Action) -> _Option:
        """Return what a script needs to know of an action."""
        metavar = action.metavar[0] if isinstance(action.metavar, tuple) else action.metavar
        return cls(
            action.option_strings,
            (action.help or "").replace("%%", "%"),
            action.nargs != 0,
            [*map(str, action.choices or ())],
            metavar in _FILES,
            "may be repeated" in (action.help or ""),
        )


@frozen
class _Grammar:
    """A command: its name, its purpose, and what may follow it."""

    name: str
    purpose: str
    known: Sequence[_Option]

    @property
    def options(self) -> Sequence[_Option]:
        """The options."""
        return [option for option in self.known if option.names]

    @property
    def values(self) -> Sequence[str]:
        """The possible values of the arguments without a name; empty if they are not known."""
        return [value for option in self.known if not option.names for value in option.values]


def completion(options: argparse.Namespace) -> None:
    """Print the script for a shell."""
    grammars = [_Grammar(name, purpose, [*map(_Option.of, known)]) for name, purpose, known in actions_of_commands()]
    output = Output()
    for line in _SCRIPTS[options.shell](grammars):
        output.line(line)


# --- bash ---

_BASH = """\
# To use it in this shell: source <(trio-mcp completion bash)
_trio_mcp() {
    local current=${COMP_WORDS[COMP_CWORD]} previous= command= words= word
    COMPREPLY=()
    if ((COMP_CWORD > 1)); then
        for word in "${COMP_WORDS[@]:2:COMP_CWORD-2}"; do
            if [[ $word == -- ]]; then return; fi  # the command of a server follows
        done
        previous=${COMP_WORDS[COMP_CWORD-1]} command=${COMP_WORDS[1]}
    fi
    case $command:$previous:$current in"""
_BASH_END = """\
    esac
    COMPREPLY=($(compgen -W "$words" -- "$current"))
}
complete -o default -F _trio_mcp trio-mcp  # file names where there is no word"""


def _bash(grammars: Sequence[_Grammar]) -> Iterator[str]:
    yield _BASH
    yield _bash_case("::*", ["--help", "--version", *(grammar.name for grammar in grammars)])
    for grammar in grammars:
        for option in grammar.options:
            if option.takes_value:
                patterns = "|".join(f"{grammar.name}:{name}:*" for name in option.names)
                yield _bash_case(patterns, option.values)
        yield _bash_case(f"{grammar.name}:*:-*", [name for option in grammar.options for name in option.names])
        if grammar.values:
            yield _bash_case(f"{grammar.name}:*", grammar.values)
    yield _BASH_END


def _bash_case(pattern: str, words: Sequence[str]) -> str:
    return f'        {pattern}) words="{" ".join(words)}" ;;'


# --- zsh ---

_ZSH = """\
#compdef trio-mcp
# To use it in this shell, after compinit: source <(trio-mcp completion zsh)
_trio-mcp() {
    local -a commands
    if (( CURRENT == 2 )); then
        commands=("""
_ZSH_COMMANDS_END = """\
        )
        _describe command commands
        return
    fi
    shift words
    (( CURRENT-- ))
    if (( ${words[(i)--]} < CURRENT )); then  # the command of a server follows
        _files
        return
    fi
    case $words[1] in"""
_ZSH_END = """\
    esac
}
if [[ $funcstack[1] == _trio-mcp ]]; then _trio-mcp "$@"; else compdef _trio-mcp trio-mcp; fi"""


def _zsh(grammars: Sequence[_Grammar]) -> Iterator[str]:
    yield _ZSH
    for grammar in grammars:
        yield f"            {_quoted(f'{grammar.name}:{grammar.purpose}')}"
    yield _ZSH_COMMANDS_END
    for grammar in grammars:
        yield f"        {grammar.name})"
        yield "            _arguments \\"
        for option in grammar.options:
            for name in option.names:
                yield f"                {_quoted(_zsh_option(option, name))} \\"
        yield f"                {_quoted(f'*:argument:{_zsh_values(grammar.values)}')}"
        yield "            ;;"
    yield _ZSH_END


def _zsh_option(option: _Option, name: str) -> str:
    explained = option.help.replace("[", "\\[").replace("]", "\\]")
    value = ""
    if option.takes_value:
        value = f":value:{'_files' if option.is_file else _zsh_values(option.values) if option.values else ''}"
    return f"{'*' if option.repeats else ''}{name}[{explained}]{value}"


def _zsh_values(values: Sequence[str]) -> str:
    return f"({' '.join(values)})" if values else "_files"


def _quoted(text: str) -> str:
    return "'" + text.replace("'", "'\\''") + "'"


# --- fish ---

_FISH = """\
# To use it in this shell: trio-mcp completion fish | source
complete -c trio-mcp -f"""


def _fish(grammars: Sequence[_Grammar]) -> Iterator[str]:
    yield _FISH
    for grammar in grammars:
        yield f"complete -c trio-mcp -n __fish_use_subcommand -a {grammar.name} -d {_fish_quoted(grammar.purpose)}"
        start = f"complete -c trio-mcp -n '__fish_seen_subcommand_from {grammar.name}'"
        yield f"{start} -a '{' '.join(grammar.values)}'" if grammar.values else f"{start} -F"
        for option in grammar.options:
            names = " ".join(f"-l {name[2:]}" if name.startswith("--") else f"-s {name[1:]}" for name in option.names)
            yield f"{start} {names}{_fish_value(option)} -d {_fish_quoted(option.help)}"


def _fish_value(option: _Option) -> str:
    if not option.takes_value:
        return ""
    if option.is_file:
        return " -r -F"
    return f" -x -a '{' '.join(option.values)}'"


def _fish_quoted(text: str) -> str:
    return "'" + text.replace("\\", "\\\\").replace("'", "\\'") + "'"


_SCRIPTS: Mapping[str, Callable[[Sequence[_Grammar]], Iterator[str]]] = {"bash": _bash, "zsh": _zsh, "fish": _fish}
