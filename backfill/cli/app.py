"""The command `backfill`: its subcommands, and how errors are reported."""

from __future__ import annotations

import logging
import os
import sys
import traceback
from collections.abc import Sequence
from typing import Annotated

import typer
from typer.exceptions import TyperException

from backfill import __version__
from backfill.cli.changes import changes
from backfill.cli.checks import as_documents, print_failed
from backfill.cli.clean import clean
from backfill.cli.docs import docs
from backfill.cli.expire import expire
from backfill.cli.forget import forget
from backfill.cli.generate import generate
from backfill.cli.history import history
from backfill.cli.init import init
from backfill.cli.output import print_json, print_line, tell
from backfill.cli.plan import plan
from backfill.cli.prepare import prepare
from backfill.cli.pull import pull
from backfill.cli.recompute import recompute
from backfill.cli.reconcile import reconcile
from backfill.cli.restore import restore
from backfill.cli.run import run
from backfill.cli.show import show
from backfill.cli.stream import stream
from backfill.cli.validate import validate
from backfill.errors import BackfillError
from backfill.quality.errors import ChecksFailed

INTERRUPTED = 130


def _print_version(wanted: bool) -> None:
    if wanted:
        print_line(f"backfill {__version__}")
        raise typer.Exit


app = typer.Typer(
    name="backfill",
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
    context_settings={"help_option_names": ["-h", "--help"]},
)


@app.callback()
def _options(
    version: Annotated[
        bool,
        typer.Option(
            "--version", callback=_print_version, is_eager=True, help="Print the version and stop."
        ),
    ] = False,
) -> None:
    """Recompute in batch, on Spark, what a streaming window operator produces."""


for _verb in (
    init,
    pull,
    run,
    plan,
    recompute,
    show,
    changes,
    history,
    restore,
    expire,
    forget,
    clean,
    validate,
    docs,
    stream,
    reconcile,
    generate,
    prepare,
):
    app.command()(_verb)


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs a command line.

    Args:
        arguments: without the program's name; None for the process's own.

    Returns:
        The exit code: 0 success; 1 completed with differences or failed checks; 2 could not run;
        130 interrupted.
    """
    given = list(sys.argv[1:] if arguments is None else arguments)
    # Read here and not by the subcommand, since arguments can be rejected before it runs.
    as_json, verbose = "--json" in given, "--verbose" in given
    # py4j logs stack traces of its own, especially when it is interrupted.
    logging.disable(logging.NOTSET if verbose else logging.ERROR)
    try:
        code = app(given or ["--help"], prog_name="backfill", standalone_mode=False)
        sys.stdout.flush()
        if code == INTERRUPTED:  # how Typer reports the signal
            raise KeyboardInterrupt
        return int(code or 0)
    except (BrokenPipeError, SystemExit):
        # The reader of our output has closed it (`backfill show … | head`). Typer and rich turn
        # that into a SystemExit, and nothing else.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except (KeyboardInterrupt, typer.Abort):
        return _report("Interrupted", "interrupted", INTERRUPTED, as_json=as_json)
    except Exception as error:
        if verbose:
            traceback.print_exc()
        return _fail(error, as_json=as_json, verbose=verbose)
    finally:
        logging.disable(logging.NOTSET)


def _fail(error: Exception, *, as_json: bool, verbose: bool) -> int:
    known = error if isinstance(error, BackfillError) else _translated(error)
    facts: dict[str, object] = {}
    if isinstance(known, ChecksFailed):
        if as_json:
            facts["checks"] = as_documents(known.outcomes)
        else:
            print_failed(known.outcomes)
    if known is not None:
        kind, message, code = type(known).__name__, str(known), known.exit_code
        facts |= {"field": known.field, "value": known.value, "way_out": known.way_out}
    elif isinstance(error, TyperException):
        kind, code = "UsageError", error.exit_code
        command = getattr(getattr(error, "ctx", None), "command_path", "backfill")
        message = f"{error.format_message()} (see: {command} --help)"
    else:
        hint = "" if verbose else " (run again with --verbose to see where)"
        lines = str(error).strip().splitlines() or [""]
        kind, code = type(error).__name__, 2
        message = f"unexpected {kind}: {lines[0]}{hint}"
    return _report(kind, message, code, as_json=as_json, **facts)


def _report(kind: str, message: str, code: int, *, as_json: bool, **facts: object) -> int:
    if as_json:
        print_json({"ok": False, "error": {"type": kind, "message": message, **facts}})
    else:
        tell(message)
    return code


def _translated(error: Exception) -> BackfillError | None:
    """Spark's error in our words, or None; Spark is not imported to find out."""
    if "pyspark" not in sys.modules:
        return None
    from backfill.events import translate

    return translate(error)
