"""Untrusted text as it may be shown: on one line, without terminal control characters."""


def printable(text: str) -> str:
    """The text with control characters, line ends and direction marks written as escapes."""
    if text.isprintable():
        return text
    return "".join(each if each.isprintable() else repr(each)[1:-1] for each in text)
