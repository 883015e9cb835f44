"""Write docs/reference/cli.md from the command line itself: every command, its arguments and options.

`make reference` writes the page; `python -m tools.cli_reference --check` fails where it is out of date.
"""

import re
import sys
from collections.abc import Iterator
from enum import Enum
from pathlib import Path
from typing import Any, get_args

import typer.main

from leastnoise.cli import app

PAGE = Path(__file__).parents[1] / "docs" / "reference" / "cli.md"
HEAD = """\
# The command line

<!-- Written by `make reference` from the commands themselves; do not edit. -->

`leastnoise COMMAND --help` prints the same. `--json` prints one JSON object and `--no-progress` hides the progress of
long work. A mistake is one line on stderr, and [the tutorial](../tutorial.md#when-something-goes-wrong) lists the exit
codes.
"""


def page() -> str:
    """The whole page."""
    commands = list(_commands(typer.main.get_command(app), "leastnoise"))
    index = "\n".join(
        f"| [`{path}`](#{path.replace(' ', '-')}) | {_first_sentence(command)} |" for path, command in commands
    )
    parts = [HEAD, f"| command | purpose |\n|---|---|\n{index}\n"]
    return "\n".join([*parts, *(_section(path, command) for path, command in commands)])


# Commands and parameters are Any: Typer has them from Click or, in later versions, from a copy with other types.
def _commands(stand_in: Any, path: str, parent: Any = None) -> Iterator[tuple[str, Any]]:
    """All commands below one, in the order of `--help`; groups themselves do nothing and are left out."""
    context = stand_in.make_context(path, [], parent, resilient_parsing=True)
    command = context.command  # commands may be imported only when they are called
    if not hasattr(command, "list_commands"):
        yield path, command
        return
    for name in command.list_commands(context):
        yield from _commands(command.get_command(context, name), f"{path} {name}", context)


def _section(path: str, command: Any) -> str:
    arguments = [p for p in command.params if p.param_type_name == "argument"]
    options = [p for p in command.params if p.param_type_name == "option" and not p.hidden and p.name != "help"]
    usage = " ".join([path, *(_argument(p) for p in arguments), *(["[OPTIONS]"] if options else [])])
    lines = [f"## {path}", "", _text(command.help), "", f"    {usage}", ""]
    if arguments:
        lines += _table("argument", [(f"`{_placeholder(p)}`", p) for p in arguments])
    if options:
        lines += _table("option", [(_option(p), p) for p in options])
    if example := re.fullmatch(r"Example: (.*)", _text(command.epilog)):
        lines += [f"Example: ``{example[1]}``", ""]
    return "\n".join(lines)


def _table(kind: str, rows: list[tuple[str, Any]]) -> list[str]:
    head = [f"| {kind} | meaning | default |", "|---|---|---|"]
    return [*head, *(f"| {name} | {_cell(_text(p.help))} | {_default(p)} |" for name, p in rows), ""]


def _placeholder(parameter: Any) -> str:
    """What stands for a value, without brackets: versions of Typer differ in whether they add them."""
    return re.sub(r"[\[\]]|\.\.\.$", "", parameter.metavar or parameter.name.upper())


def _choices(parameter: Any) -> list[str]:
    """The words an option takes, if it takes only some; versions of Typer keep them in different places."""
    annotation = getattr(getattr(parameter, "type_descriptor", None), "annotation", None)
    if isinstance(annotation, type) and issubclass(annotation, Enum):
        return [str(choice.value) for choice in annotation]
    choices = getattr(getattr(parameter, "type", None), "choices", get_args(annotation))
    return [choice for choice in choices if isinstance(choice, str)]  # of list[str] the arguments are types


def _argument(parameter: Any) -> str:
    name = _placeholder(parameter) + ("..." if parameter.nargs == -1 else "")
    return name if parameter.required else f"[{name}]"


def _option(parameter: Any) -> str:
    """Names, with a placeholder where they take a value: `--out OUT`, `--json`."""
    names = [*parameter.opts, *parameter.secondary_opts]
    value = "" if parameter.is_flag else f" {'|'.join(_choices(parameter)) or _placeholder(parameter)}"
    return _cell(", ".join(f"`{name}{value}`" for name in names))


def _default(parameter: Any) -> str:
    if parameter.required:
        return "required"
    value = parameter.default
    if value is None or value is False or value in ("", (), []) or callable(value):
        return ""
    return f"`{getattr(value, 'value', value)}`"


def _first_sentence(command: Any) -> str:
    return _cell(re.split(r"(?<=\.) ", _text(command.help), maxsplit=1)[0].rstrip("."))


def _text(text: str | None) -> str:
    """Help as one line, without the marks of Click."""
    return " ".join((text or "").replace("\b", "").split("\f")[0].split())


def _cell(text: str) -> str:
    return text.replace("|", "\\|")


def main(check: bool) -> int:
    """Write the page, or compare it; the exit code."""
    text = page()
    if not check:
        PAGE.write_text(text, encoding="utf-8")
        return 0
    same = PAGE.is_file() and PAGE.read_text(encoding="utf-8") == text
    print("docs/reference/cli.md is up to date" if same else "docs/reference/cli.md is out of date: run make reference")
    return not same


if __name__ == "__main__":
    sys.exit(main("--check" in sys.argv[1:]))
