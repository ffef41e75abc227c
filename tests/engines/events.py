"""Write the events that all engines are fed: `python tests/engines/events.py`.

One file in order of arrival. An event's delay is how far its arrival lags behind its time, so the
largest time seen never runs ahead of the arrivals. A *pin*, an event without delay, sets stream
time to a chosen moment: that is how events exactly at an engine's edges are made.
"""

from __future__ import annotations

import json
import random
from pathlib import Path

FOLDER = Path(__file__).with_name("recorded")
PARTITIONS = 4
SECOND, MINUTE, HOUR = 1_000, 60_000, 3_600_000

START = 1_743_292_200_000  # 2025-03-29 23:50 UTC; clocks in Berlin jump to summer time at 01:00 UTC
SPAN = 150 * MINUTE
RESTART = START + 75 * MINUTE
GAP, SIZE, GRACES = 30 * SECOND, MINUTE, (0, 10 * SECOND, HOUR)
REGULAR = [f"k{number:02}" for number in range(24)]

#: Arrival (ms), key, time (ms).
Arrival = tuple[int, "str | None", int]


def partition_of(key: str) -> int:
    """Kafka's default partition of a key: murmur2 of its bytes."""
    mask, factor = 0xFFFFFFFF, 0x5BD1E995
    data = key.encode()
    whole = len(data) & ~3
    hashed = 0x9747B28C ^ len(data)
    for at in range(0, whole, 4):
        word = int.from_bytes(data[at : at + 4], "little") * factor & mask
        hashed = (hashed * factor & mask) ^ ((word ^ word >> 24) * factor & mask)
    if data[whole:]:
        hashed = (hashed ^ int.from_bytes(data[whole:], "little")) * factor & mask
    hashed = (hashed ^ hashed >> 13) * factor & mask
    return ((hashed ^ hashed >> 15) & 0x7FFFFFFF) % PARTITIONS


def delay(chance: random.Random) -> int:
    """No delay for six in ten, up to a minute for most others, minutes to hours for 2 %."""
    kind = chance.random()
    if kind < 0.62:
        return 0
    if kind < 0.98:
        return int(min(chance.expovariate(1 / 9), 60) * SECOND)
    return int(2 * MINUTE * 60 ** chance.random())


def visits(chance: random.Random) -> list[Arrival]:
    """Regular keys come now and then, one is there all the time, and some events have no key."""
    arrivals: list[Arrival] = []

    def add(key: str | None, time: int) -> None:
        arrivals.append((time + delay(chance), key, time))

    for key in REGULAR:
        for _ in range(5):
            time = START + int(chance.random() * SPAN)
            for _ in range(3 + int(chance.random() * 18)):
                add(key, time)
                time += int(chance.expovariate(1 / 13) * SECOND)
    time = START
    while time < START + SPAN:
        add("hot", time)
        time += int(chance.expovariate(1 / 18) * SECOND)
    for _ in range(24):
        add(None, START + int(chance.random() * SPAN))
    return arrivals


def gap_edges() -> list[Arrival]:
    """Pairs a gap apart, or a gap and 1 ms, in both orders, and a last event that joins two."""
    arrivals: list[Arrival] = []
    for number in range(4):
        key, time = f"gap-{number}", START + (10 + 7 * number) * MINUTE
        for apart in (GAP, GAP + 1):
            arrivals += [(time, key, time), (time + apart, key, time + apart)]
            time += 5 * MINUTE
            arrivals += [(time + apart, key, time + apart), (time + apart + 1, key, time)]
            time += 5 * MINUTE
            arrivals += [(time, key, time), (time + 2 * apart, key, time + 2 * apart)]
            arrivals += [(time + 2 * apart + 1, key, time + apart)]
            time += 5 * MINUTE
    return arrivals


def late_edges() -> list[Arrival]:
    """Events that arrive when stream time is just before, at and after what closes their window."""
    arrivals: list[Arrival] = []
    for place, grace in enumerate(GRACES):
        key = f"late-{place}"
        # A key of the same partition, so that its clock is pinned too.
        pin = next(regular for regular in REGULAR if partition_of(regular) == partition_of(key))
        for number, past in enumerate((-1, 0, 1)):
            # A session (and look-back window) is final at its last event + gap + grace; the late
            # event, of the same time or a little later, would extend it.
            for step, later in enumerate((0, 1, 2 * SECOND)):
                time = START + (14 + 16 * number + 5 * step) * MINUTE + 7
                now = time + later + GAP + grace + past
                arrivals += [(time, key, time), (now, pin, now), (now, key, time + later)]
            # A tumbling window is final at its end + grace.
            end = START + (60 + 3 * number) * MINUTE
            now = end + grace + past
            arrivals += [
                (end - 5, key, end - 5),
                (now, pin, now),
                (now, key, end - 1),
                (now, key, end),
            ]
    return arrivals


def after_restart() -> list[Arrival]:
    """What waited while the application was down: one late event or two in every partition.

    They are dropped by a clock that has seen what came before, but not by one that starts anew.
    """
    return [
        (RESTART, key, RESTART - minutes * MINUTE)
        for minutes in (5, 3)
        for key in ("back-0", "back-1", "back-2", "back-3", "back-4", "back-5")
    ]


def two_streams() -> list[dict[str, object]]:
    """For joins: from 1970 on, on half seconds, so that many are exactly as far apart as allowed.

    Now and then half a minute passes at once, and events come up to five minutes late.
    """
    chance = random.Random(20)
    rows: list[dict[str, object]] = []
    now = 0
    for arrival in range(900):
        now += chance.choice([0, 0, 500, 500, 1_000, 2_000])
        if chance.random() < 0.02:
            now += 30 * SECOND
        late = chance.choices([0, 500, 5_000, 20_000, 90_000, 300_000], [60, 15, 12, 8, 3, 2])[0]
        key = chance.choices(["a", "b", "c", "d", "bb", None], [30, 25, 20, 10, 10, 5])[0]
        rows.append(
            {
                "arrival": arrival,
                "side": chance.choice(["left", "right"]),
                "key": key,
                "time": max(0, now - chance.choice([late, late * chance.randrange(3) // 2])),
                "empty": chance.random() < 0.03,
            }
        )
    return rows


def main() -> None:
    chance = random.Random(7)
    arrivals = [*visits(chance), *gap_edges(), *late_edges(), *after_restart()]
    # Some are delivered again, a little later.
    originals: list[tuple[int, int, str | None, int, int]] = [
        (arrived, number, key, time, 1 + int(chance.random() * 99))
        for number, (arrived, key, time) in enumerate(arrivals)
    ]
    again = [
        (arrived + int(chance.random() * MINUTE), *rest)
        for arrived, *rest in originals
        if chance.random() < 0.012
    ]
    offsets = [0] * PARTITIONS
    rows = []
    for arrival, (_, number, key, time, amount) in enumerate(sorted([*originals, *again])):
        partition = arrival % PARTITIONS if key is None else partition_of(key)
        row = {"arrival": arrival, "id": number, "key": key, "time": time, "amount": amount}
        rows.append(row | {"partition": partition, "offset": offsets[partition]})
        offsets[partition] += 1
    write("events", rows)

    # Around 1970: windows would start before the epoch, as some of the events do.
    times = (-70_000, -30_001, -1, 0, 15_000, -20_000, 59_999, 60_000, -1, 30_000)
    write(
        "before_epoch",
        [
            {"arrival": at, "id": at, "key": "a", "time": time, "amount": 1}
            | {"partition": 0, "offset": at}
            for at, time in enumerate(times)
        ],
    )
    write("joins", two_streams())


def write(name: str, rows: list[dict[str, object]]) -> None:
    FOLDER.mkdir(exist_ok=True)
    lines = (json.dumps(row, separators=(",", ":")) for row in rows)
    (FOLDER / f"{name}.jsonl").write_text("".join(f"{line}\n" for line in lines))


if __name__ == "__main__":
    main()
