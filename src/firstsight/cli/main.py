"""`firstsight`: the entry point, its commands, and how a mistake is told."""

from __future__ import annotations

import contextlib
import os
import sys
import warnings
from typing import Any

import typer
from typer.core import TyperGroup

from firstsight._io.terminal import screen, set_volume, shown_on_screen, visible
from firstsight.cli import benchmark, classes, data, demo, fit, methods, predict, serve, tune
from firstsight.errors import FirstsightError


class Interrupted(Exception):
    """Ctrl-C. Typer has an answer of its own to KeyboardInterrupt, which says nothing about the work."""


class Commands(TyperGroup):
    def invoke(self, ctx: Any) -> Any:
        try:
            return super().invoke(ctx)
        except KeyboardInterrupt:
            raise Interrupted from None


app = typer.Typer(
    cls=Commands,
    help="Recognise classes nobody has labelled, from their descriptions.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode="rich",
)
app.command("demo")(demo.demo)
app.command("embed")(data.embed)
app.command("describe")(data.describe)
app.command("learn")(fit.learn)
app.add_typer(data.app, name="data", help="Look at data sets, and make your own.")
app.command("methods")(methods.methods)
app.command("evaluate")(benchmark.evaluate)
app.command("fit")(fit.fit)
app.command("predict")(predict.predict)
app.add_typer(classes.app, name="classes", help="Show, add, change and remove a model's classes.")
app.command("add")(classes.add_images)
app.command("serve")(serve.serve)
app.command("export")(fit.export)
app.command("tune")(tune.tune)
app.command("benchmark")(benchmark.benchmark)
app.command("report")(benchmark.report)


@app.callback(invoke_without_command=True)
def options(
    version: bool = typer.Option(False, "--version", help="Show the version and stop."),
    quiet: bool = typer.Option(False, "--quiet", "-q", help="Say only what went wrong; no progress bars."),
    verbose: bool = typer.Option(False, "--verbose", "-v", help="Say everything."),
) -> None:
    set_volume(quiet, verbose)
    if version:
        import firstsight

        print(firstsight.__version__)
        raise typer.Exit


def main() -> None:
    """Run a command; a mistake of the caller is one sentence and exit code 2, a bug keeps its traceback."""
    of_python = warnings.formatwarning
    warnings.formatwarning = _warning
    _open_closed()
    try:
        with shown_on_screen():
            try:
                app()
            finally:
                sys.stdout.flush()  # what a full disk refuses is told below, not by the interpreter at its end
    except FirstsightError as error:
        _say(str(error))
        sys.exit(2)
    except Interrupted:
        _say(
            "Interrupted; nothing that was there before is lost. What was saved on the way serves when the same "
            "command runs again."
        )
        sys.exit(130)
    except UnicodeEncodeError as error:  # the terminal's own letters, or half a character
        _say(
            f"The output holds letters that {error.encoding} cannot write; set PYTHONIOENCODING=utf-8, or give a file."
        )
        sys.exit(2)
    except BrokenPipeError:  # the reader of our output has left: `firstsight … | head`
        sys.stderr.close()
        sys.exit(1)
    except OSError as error:  # of the system: a full disk behind the output, a folder that may not be searched
        if error.errno is None:
            raise
        _say(_of_the_system(error))
        sys.exit(2)
    finally:
        warnings.formatwarning = of_python


def _open_closed() -> None:
    """What the caller has closed (`firstsight … >&-`) leads nowhere from now on.

    Else the next file to be opened, a model perhaps, would get the number that libraries print to.
    """
    for number, name in enumerate(("stdin", "stdout", "stderr")):
        if getattr(sys, name) is None:
            with contextlib.suppress(OSError):
                os.dup2(os.open(os.devnull, os.O_RDWR), number)
            setattr(sys, name, os.fdopen(number, "w" if number else "r", encoding="utf-8", closefd=False))


def _of_the_system(error: OSError) -> str:
    if error.filename is not None:
        return (
            f"{error.filename} cannot be used ({error.strerror}); check the path, and the permissions of its folders."
        )
    with contextlib.suppress(OSError, ValueError):  # what is still to be written would be tried again at the end
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    return f"Could not write the output ({error.strerror}); free some space, or send it elsewhere."


def _warning(message: Warning | str, *_: Any, **__: Any) -> str:
    # A person need not know the line of code that has something to say.
    return f"warning: {visible(' '.join(str(message).split()))}\n"


def _say(message: str) -> None:
    screen(stderr=True, markup=True).print(f"[bold red]error:[/] {_plain(message)}")


def _plain(message: str) -> str:
    from rich.markup import escape

    return escape(" ".join(message.split()))
