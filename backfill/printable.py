"""Untrusted text as it may be shown: on one line, without control characters or passwords."""

import re


def printable(text: str) -> str:
    """The text with control characters, line ends and direction marks written as escapes."""
    if text.isprintable():
        return text
    return "".join(each if each.isprintable() else repr(each)[1:-1] for each in text)


def shown(path: str) -> str:
    """The path as it may be shown: without the user and password that a URL can carry."""
    return re.sub(r"(?<=://)[^/@\s]*@", "", path)


def first_line(error: BaseException) -> str:
    """The first line of a library's message, without its final dot."""
    lines = str(error).strip().splitlines()
    return lines[0].rstrip(".") if lines else type(error).__name__
