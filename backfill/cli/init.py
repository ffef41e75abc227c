"""`backfill init`: a job file to start from."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from backfill.cli.options import Json, Verbose
from backfill.cli.output import print_json, print_line
from backfill.errors import JobFileError

TEMPLATE = Path(__file__).with_name("job.yaml")


def init(
    path: Annotated[Path, typer.Argument(help="The file to write.")] = Path("job.yaml"),
    as_json: Json = False,
    verbose: Verbose = False,
) -> None:
    """Write a commented job file; never overwrites an existing file."""
    try:
        with path.open("x", encoding="utf-8") as file:
            file.write(TEMPLATE.read_text(encoding="utf-8"))
    except FileExistsError:
        raise JobFileError(
            "already exists", field=str(path), way_out="Choose another name or remove the file"
        ) from None
    except OSError as error:
        problem = f"can't be written: {error.strerror or error}"
        raise JobFileError(problem, field=str(path)) from error
    if as_json:
        print_json({"ok": True, "path": str(path)})
    else:
        print_line(f"Wrote {path}. Edit it, then: backfill run {path}")
