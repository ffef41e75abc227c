"""Make data/samples/events again: `.venv/bin/python data/samples/make.py`.

Three days of a small web shop, some events late and some delivered twice, and six rows that
cannot be used, as real sources have them: three without a user, three without a time.
"""

from __future__ import annotations

import shutil
from datetime import date, datetime, timedelta, timezone
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from backfill import spark
from backfill.generate import generate

EVENTS = Path(__file__).with_name("events")
UNUSABLE_ARRIVED = datetime(2026, 1, 12, 9, 30, tzinfo=timezone.utc)


def unusable() -> list[dict[str, object]]:
    """Three rows without a user and three without a time, a minute apart."""
    rows: list[dict[str, object]] = []
    for number in range(6):
        received = UNUSABLE_ARRIVED + timedelta(minutes=number)
        anonymous = number < 3
        rows.append(
            {
                "event_id": f"{number:016x}",
                "user_id": None if anonymous else f"u{number:07d}",
                "event_time": received - timedelta(seconds=1) if anonymous else None,
                "event_type": "view",
                "page": "/item/1",
                "amount": 1.0,
                "received_at": received,
            }
        )
    return rows


def main() -> None:
    """Write the folder anew."""
    shutil.rmtree(EVENTS, ignore_errors=True)
    made = generate(
        spark.session(),
        str(EVENTS),
        events=5_000,
        days=3,
        keys=120,
        late=0.02,
        duplicates=0.01,
        seed=7,
        start=date(2026, 1, 10),
    )
    for leftover in ("_SUCCESS", "._SUCCESS.crc"):
        (EVENTS / leftover).unlink(missing_ok=True)
    for checksum in EVENTS.rglob(".*.crc"):
        checksum.unlink()
    folder = EVENTS / f"received_date={UNUSABLE_ARRIVED.date()}"
    written = pq.read_schema(next(folder.glob("*.parquet")))
    schema = pa.schema([field.with_nullable(True) for field in written])
    table = pa.Table.from_pylist(unusable(), schema=schema)
    pq.write_table(table, folder / "unusable.parquet")
    print(made)


if __name__ == "__main__":
    main()
