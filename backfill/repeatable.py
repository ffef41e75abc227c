"""Finding user expressions that can give another value for the same event in another run."""

from __future__ import annotations

import re

#: Comments, text and names in backticks; or what depends on chance, on the clock, or on which files
#: and tasks rows happen to be in.
_TOKEN = re.compile(
    r"""--[^\n]* | /\*.*?\*/ | [rR]'[^']*' | [rR]"[^"]*" | `[^`]*`
    | '(?:[^'\\]|\\.)*' | "(?:[^"\\]|\\.)*"
    | (?<![\w.])(?:(?:system\s*\.\s*)?builtin\s*\.\s*)?(?P<name>(?:
        rand | randn | random | randstr | uniform | uuid | shuffle
        | now | curdate | current_date | current_time | current_timestamp | localtimestamp
        | monotonically_increasing_id | spark_partition_id
        | input_file_name | input_file_block_start | input_file_block_length
    )\s*\( | (?:current_date | current_time | current_timestamp | localtimestamp)\b(?!\s*\.)
    | unix_timestamp\s*\(\s*\))""",
    re.DOTALL | re.IGNORECASE | re.VERBOSE,
)

#: What errors say of such a function, and what to do.
CHANGES = "calls {}, which can give the same event another value in another run"
INSTEAD = "Leave it out, or read its value from the source; quote a column of this name with `"


def changing_function(text: str) -> str | None:
    """The Spark SQL function that makes an expression change from run to run; None without one.

    A run that computes some dates again must find the same for an event as an earlier run. Texts
    that Spark takes as the time of the query (`timestamp 'now'`) are not noticed.

    Args:
        text: an expression.

    Example:
        >>> changing_function("amount * rand() > 1")
        'rand'
        >>> changing_function("page = 'rand()'")
    """
    names = (token["name"] for token in _TOKEN.finditer(text) if token["name"])
    name = next(names, None)
    return None if name is None else name.partition("(")[0].strip()
