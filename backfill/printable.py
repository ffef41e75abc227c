"""Untrusted text as it may be shown: on one line, without control characters or passwords."""

import re

#: The user and the password, or the two parts of an access key, in an address.
KEYS = r"[^\s/@:]+:[^\s@]+"

_LONGEST = 400


def printable(text: str) -> str:
    """The text with control characters, line ends and direction marks written as escapes."""
    if text.isprintable():
        return text
    return "".join(each if each.isprintable() else repr(each)[1:-1] for each in text)


def shown(path: str) -> str:
    """The path as it may be shown: without the user and password that a URL can carry."""
    return re.sub(rf"(?<=://)({KEYS}|[^/@\s]*)@", "", path)


def one_line(error: BaseException) -> str:
    """A library's message of several lines, which say more and more exactly what is wrong."""
    return shown(" ".join(str(error).split()))[:_LONGEST].rstrip(".") or type(error).__name__


def first_line(error: BaseException) -> str:
    """The first line of a library's message, without its final dot."""
    lines = str(error).strip().splitlines()
    return lines[0].rstrip(".") if lines else type(error).__name__
