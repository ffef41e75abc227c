"""Records of a Kafka topic that were copied into a Delta table; their values are JSON objects."""

from __future__ import annotations

from dataclasses import replace

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import StructType

from backfill.errors import SourceError
from backfill.events.json_lines import OBJECT, with_object
from backfill.events.model import CORRUPT, FILE, OURS, SOURCE, InputFile, Source, refuse_our_names
from backfill.events.text import reading, with_corrupt

#: The columns that an event has from its record, by the names of the record's parts.
_OF_RECORD = {
    "key": "kafka_key",
    "partition": "partition",
    "offset": "offset",
    "timestamp": "kafka_timestamp",
}


def of_records(records: Source, schema: StructType, timezone: str) -> Source:
    """The events in the records' values, each with its record's key, place and timestamp.

    A value that is not a JSON object in UTF-8, or has a field of another type, is kept whole in
    `_corrupt`.
    `_source` is `path:partition:offset`, and the records are in the order of partition and offset.

    Args:
        records: the copied records.
        schema: the schema of the wanted fields of the values.
        timezone: the zone of times in them without a zone.

    Raises:
        SourceError: a field has the name of a column that is added.
    """
    for name in schema.names:
        if name.lower() in _OF_RECORD.values():
            raise SourceError(
                "is the name of a column that each event gets from its record",
                field="source.schema",
                value=name,
                way_out="Leave it out of the schema",
            )
    refuse_our_names(schema.names)

    given = with_corrupt(schema)
    options = {**reading("json", {}), "timeZone": timezone}

    def read(files: tuple[InputFile, ...], where: Column | None) -> DataFrame:
        rows = with_object(records.read(files, None), F.col("value"), given, options)
        events = rows.select(
            *(F.col(OBJECT).getField(name).alias(name) for name in schema.names),
            _text_or_hex("key").alias(_OF_RECORD["key"]),
            *(F.col(part).alias(name) for part, name in _OF_RECORD.items() if part != "key"),
            CORRUPT,
            F.concat_ws(":", SOURCE, "partition", "offset").alias(SOURCE),
            F.col(SOURCE).alias(FILE),
        )
        return events if where is None else events.where(where)

    frame = read(records.snapshot.inputs, None)
    own = StructType([field for field in frame.schema if field.name not in OURS])
    return replace(
        records,
        frame=frame,
        snapshot=replace(records.snapshot, format="kafka", schema=own.toDDL()),
        read=read,
        arrival=("partition", "offset"),
        statistics={
            path: {
                _OF_RECORD[part]: extent for part, extent in extents.items() if part in _OF_RECORD
            }
            for path, extents in records.statistics.items()
        },
    )


def _text_or_hex(name: str) -> Column:
    """Bytes as text: in hexadecimal digits if they are not UTF-8, so that none are lost."""
    text = F.col(name).cast("string")
    return F.when(F.is_valid_utf8(text), text).otherwise(F.concat(F.lit("0x"), F.hex(name)))
