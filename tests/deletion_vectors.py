"""Deletion vectors, written into the log of a Delta table as its protocol describes them."""

from __future__ import annotations

import base64
import json
import uuid
import zlib
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from pyroaring import BitMap64

_MAGIC = (1681511377).to_bytes(4, "little")
#: The alphabet of Python's base 85, and that of Z85.
_PYTHON = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz!#$%&()*+-;<=>?@^_`{|}~"
_Z85 = "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ.-:+=^!/*?&<>()[]{}@%$#"


def delete_places(
    table: Path, storage: str, places: Mapping[str, Iterable[int]], folder: Path | None = None
) -> None:
    """Commits deletions of files' rows.

    Args:
        table: the table's folder.
        storage: where vectors are: `i` (in the log), `u` (in a file of the table) or `p` (in any).
        places: the places of all rows deleted by now, by the file's name in the log.
        folder: where the file is written for `p`.
    """
    logged = live(table)
    actions: list[dict[str, Any]] = []
    for name, deleted in places.items():
        data = _MAGIC + BitMap64(deleted).serialize()
        actions += replaced(logged[name], _vector(data, storage, table, folder, len(set(deleted))))
    commit(table, actions)


def replaced(add: Mapping[str, Any], vector: Mapping[str, Any]) -> list[dict[str, Any]]:
    """The actions that give a file other deletions."""
    old = {name: add[name] for name in ("path", "deletionVector") if name in add}
    change = {"dataChange": True, "deletionTimestamp": add["modificationTime"]}
    return [
        {"remove": {**old, **change}},
        {"add": {**add, "dataChange": True, "deletionVector": vector}},
    ]


def live(table: Path) -> dict[str, dict[str, Any]]:
    """The newest action that added each file, by the file's name in the log."""
    adds: dict[str, dict[str, Any]] = {}
    for log in sorted((table / "_delta_log").glob("*.json")):
        for action in map(json.loads, log.read_text().splitlines()):
            if "remove" in action:
                adds.pop(action["remove"]["path"], None)
        for action in map(json.loads, log.read_text().splitlines()):
            if "add" in action:
                adds[action["add"]["path"]] = action["add"]
    return adds


def commit(table: Path, actions: Iterable[Mapping[str, Any]]) -> None:
    """Writes the next commit, as a writer that knows deletion vectors."""
    log = table / "_delta_log"
    version = len(list(log.glob("*.json")))
    features = ["deletionVectors"]
    protocol = {
        "minReaderVersion": 3,
        "minWriterVersion": 7,
        "readerFeatures": features,
        "writerFeatures": features,
    }
    lines = [{"protocol": protocol}, *actions]
    (log / f"{version:020}.json").write_text("\n".join(map(json.dumps, lines)))


def _vector(
    data: bytes, storage: str, table: Path, folder: Path | None, count: int
) -> dict[str, Any]:
    descriptor = {"storageType": storage, "sizeInBytes": len(data), "cardinality": count}
    if storage == "i":
        return {**descriptor, "pathOrInlineDv": _z85(data + bytes(-len(data) % 4))}
    name = uuid.uuid4()
    path = (table if folder is None or storage == "u" else folder) / f"deletion_vector_{name}.bin"
    checksum = zlib.crc32(data).to_bytes(4, "big")
    path.write_bytes(b"\x01" + len(data).to_bytes(4, "big") + data + checksum)
    text = _z85(name.bytes) if storage == "u" else f"file://{path}"
    return {**descriptor, "pathOrInlineDv": text, "offset": 1}


def _z85(data: bytes) -> str:
    return base64.b85encode(data).decode().translate(str.maketrans(_PYTHON, _Z85))
