"""Expressions of the user that give the same for an event whenever they are computed."""

from __future__ import annotations

import re

# Text, and names in backticks.
_QUOTED = re.compile(r"""'(?:[^'\\]|\\.)*'|"(?:[^"\\]|\\.)*"|`[^`]*`""", re.DOTALL)
_COMMENT = re.compile(r"--[^\n]*|/\*.*?\*/", re.DOTALL)
#: What depends on chance, on the clock, or on which files and tasks rows happen to be in.
_CHANGING = re.compile(
    r"""(?<![\w.])(?:(?:
        rand | randn | random | randstr | uniform | uuid | shuffle
        | now | curdate | current_date | current_time | current_timestamp | localtimestamp
        | monotonically_increasing_id | spark_partition_id
        | input_file_name | input_file_block_start | input_file_block_length
    )\s*\( | (?:current_date | current_time | current_timestamp | localtimestamp)\b(?!\s*\.)
    | unix_timestamp\s*\(\s*\))""",
    re.IGNORECASE | re.VERBOSE,
)

#: What errors say of such a function, and what to do.
CHANGES = "calls {}, by which the same event gives something else in another run"
INSTEAD = "Leave it out, or have it in a column of the source; quote a column of this name with `"


def changing_function(text: str) -> str | None:
    """The function in Spark SQL by which an expression is another one each time; None without one.

    A run that computes some dates again has to find for an event what an earlier run found.

    Args:
        text: an expression.

    Example:
        >>> changing_function("amount * rand() > 1")
        'rand'
        >>> changing_function("page = 'rand()'")
    """
    found = _CHANGING.search(_COMMENT.sub(" ", _QUOTED.sub("''", text)))
    return None if found is None else found[0].partition("(")[0].strip()
