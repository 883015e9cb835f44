"""The command line."""

import re
import sys
from collections.abc import Sequence
from typing import Annotated, Any

import typer

from leastnoise import __version__
from leastnoise.cli.registry import register
from leastnoise.errors import DataError, LeastnoiseError, StoppedError

__all__ = ["app", "main"]

STOPPED = 130  # as shells have it for Ctrl-C
CODES: dict[type[Exception], int] = {
    DataError: 3,
    StoppedError: STOPPED,
}  # other errors are mistakes in the call or the spec: 2
NUMBERS = {"float_parsing": "number", "int_parsing": "whole number", "int_from_float": "whole number"}
_REFUSAL: Any = typer.BadParameter.__mro__[2]  # of arguments; its name and place differ between versions of Typer

app = typer.Typer(no_args_is_help=True, pretty_exceptions_enable=False)
register(app)


def _version(requested: bool) -> None:
    if requested:
        typer.echo(f"leastnoise {__version__}")
        raise typer.Exit


@app.callback(epilog="Example: leastnoise plan examples/survey.yaml")
def _options(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version.")
    ] = False,
) -> None:
    """Differentially private statistics with the least noise that is provably possible."""


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the command line. What goes wrong is one line on stderr.

    Exits with 2 where the call or the spec must change, with 3 where the data or its engine fails, with 130 after
    Ctrl-C, and with 1 where an audit refutes its claim or a check lists problems.
    """
    try:
        code = app(args=arguments, standalone_mode=False)
    except _REFUSAL as refusal:
        if not refusal.format_message():  # a command without anything shows its help
            refusal.show()
            sys.exit(refusal.exit_code)
        sys.exit(_print(_of_call(refusal), refusal.exit_code))
    except (LeastnoiseError, OSError, MemoryError) as error:
        code = next((code for kind, code in CODES.items() if isinstance(error, kind)), 2)
        sys.exit(_print(_one_line(error), code))
    sys.exit(_print("stopped", code) if code == STOPPED else code)


def _of_call(refusal: Any) -> str:
    """What is wrong with the arguments, and which help says more."""
    errors = getattr(refusal.__context__, "errors", None)  # of pydantic, which does not name the value
    error = errors()[0] if callable(errors) else {"type": "", "input": None}
    if error["type"] in NUMBERS:
        refusal.message = f"{error['input']!r} is no {NUMBERS[error['type']]}"
    text = " ".join(refusal.format_message().split()).replace("Value error, ", "").rstrip(".")
    command, context = "", refusal.ctx
    while context is not None and context.parent is not None:
        command, context = f" {context.info_name}{command}", context.parent
    return f"{text[:1].lower()}{text[1:]}{'' if text.endswith('?') else ';'} see leastnoise{command} --help"


def _print(line: str, code: int) -> int:
    print(f"leastnoise: {without_passwords(line)}", file=sys.stderr)
    return code


def without_passwords(text: str) -> str:
    """A text in which no URI shows its password.

    >>> without_passwords("unexpected (postgresql://me:s3cret@host/db)")
    'unexpected (postgresql://me:...@host/db)'
    """
    return re.sub(r"(\w://[^\s/:@]*):\S*@", r"\1:...@", text)


def _one_line(error: Exception) -> str:
    if isinstance(error, OSError) and error.filename is not None:
        return f"{error.filename}: {error.strerror}"
    if isinstance(error, MemoryError):
        return f"out of memory ({error}); use coarser values or fewer ways"
    from leastnoise.cli.words import in_shell_words

    return in_shell_words(" ".join(str(error).split()))
