"""Making untrusted text safe to show: on one line, without control characters or passwords."""

import math
import re

#: The user and the password, or the two parts of an access key, in an address.
KEYS = r"[^\s/@:]+:[^\s@]+"

_LONGEST = 400
#: Sequences that color text in a terminal.
_COLOURS = re.compile(r"\x1b\[[\d;]*m")


def printable(text: str) -> str:
    """The text with control characters, line ends and direction marks written as escapes."""
    if text.isprintable():
        return text
    return "".join(
        character if character.isprintable() else repr(character)[1:-1] for character in text
    )


def shown(path: str) -> str:
    """The path in a form that may be shown: without the user and password that a URL can have."""
    return re.sub(rf"(?<=://)({KEYS}|[^/@\s]*)@", "", path)


def not_finite(value: float) -> str:
    """A number that JSON can't represent, as text."""
    if math.isnan(value):
        return "NaN"
    return "Infinity" if value > 0 else "-Infinity"


def one_line(error: BaseException) -> str:
    """A library's message of several lines, each more exact than the one before, as one line."""
    text = _COLOURS.sub("", str(error))
    return shown(" ".join(text.split()))[:_LONGEST].rstrip(".") or type(error).__name__


def first_line(error: BaseException) -> str:
    """The first line of a library's message, without its final period."""
    lines = _COLOURS.sub("", str(error)).strip().splitlines()
    return lines[0].rstrip(".") if lines else type(error).__name__


def spark_reason(error: BaseException) -> str:
    """What Spark says is wrong, without its plan and its error class."""
    return first_line(error).split("] ", 1)[-1].split(" SQLSTATE")[0].rstrip(" .;")
