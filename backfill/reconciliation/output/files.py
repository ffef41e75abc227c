"""The files of a stream's output as rows, before anything in them is decoded."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from os.path import isdir, join

from pyspark.errors import AnalysisException
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql import types as T

from backfill.columns import column
from backfill.errors import ColumnError, SourceError, did_you_mean
from backfill.events import SourceOptions, open_source
from backfill.events.failures import spark_errors
from backfill.events.files import base_path, for_spark, list_files, local_path
from backfill.events.model import CORRUPT, SOURCE, InputFile, Source
from backfill.printable import shown
from backfill.reconciliation.output.options import StreamOptions
from backfill.reconciliation.output.sink import not_committed
from backfill.runtimes.differences import needs_spark, runtime_of
from backfill.runtimes.folder_columns import check_characters
from backfill.runtimes.row_numbers import numbered_copies

_ONCE = "_once"
#: The number of a row in its file, if the runtime does not provide it.
_NUMBER = "_number_in_file"

_ENDINGS = {"parquet": "parquet", "csv": "csv", "json": "json", "jsonl": "json", "ndjson": "json"}
_PACKED = (".gz", ".bz2", ".zst", ".lz4", ".snappy", ".deflate")


@dataclass(frozen=True)
class Value:
    """A column as it was written, and its type."""

    column: Column
    type: T.DataType


@dataclass(frozen=True)
class Written:
    """Rows as a stream wrote them.

    Attributes:
        frame: the rows' columns under our names, then `_corrupt` and `_source` as in Source; in
            order of file, and of row in a file.
        kind: parquet, csv, json or delta.
        numbered: the frame has the number of each row in its file, as the last column.
    """

    frame: DataFrame
    kind: str
    numbered: bool = False

    @property
    def values(self) -> dict[str, Value]:
        """Their columns, by name; a struct `window` gives `window_start` and `window_end` too."""
        types = {field.name: field.dataType for field in self.frame.schema}
        own = {name: Value(column(name), types[name]) for name in self._own}
        window = own.get("window")
        bounds = fields_of(window, prefix="window_") if window else {}
        return {**bounds, **own}

    @property
    def raw(self) -> Column:
        """The row as text: the line that did not parse, or all columns as JSON."""
        own = [column(name) for name in self._own]
        whole = F.to_json(F.struct(*own), {"ignoreNullFields": "false", "timeZone": "UTC"})
        return F.coalesce(F.col(CORRUPT), whole)

    @property
    def place(self) -> list[Column]:
        """What puts rows in order where nothing else does: the file, and where in it they are."""
        file = F.col(SOURCE).alias("_file")
        if self.numbered:
            return [file, F.col(_NUMBER).alias("_row")]
        block, row = F.input_file_block_start(), F.monotonically_increasing_id()
        return [file, block.alias("_block"), row.alias("_row")]

    @property
    def _own(self) -> list[str]:
        ours = (CORRUPT, SOURCE, _NUMBER) if self.numbered else (CORRUPT, SOURCE)
        return [name for name in self.frame.columns if name not in ours]


class Steps:
    """Columns that are computed once and used several times.

    An expression that is used twice would be copied; if it uses another one twice, that one would
    be there four times. Spark keeps projections apart to avoid this.
    """

    def __init__(self, frame: DataFrame) -> None:
        self.frame = frame
        self.runtime = runtime_of(frame.sparkSession)
        self._count = 0

    def once(self, value: Column) -> Column:
        """The same column, computed in a step of its own."""
        name = f"{_ONCE}{self._count}"
        self._count += 1
        self.frame = self.frame.withColumn(name, value)
        return F.col(name)


Once = Callable[[Column], Column]
"""`Steps.once`."""


def fields_of(value: Value, prefix: str = "") -> dict[str, Value]:
    """The fields of a struct, by name; {} if it is not a struct."""
    if not isinstance(value.type, T.StructType):
        return {}
    return {
        prefix + field.name: Value(value.column.getField(field.name), field.dataType)
        for field in value.type
    }


def read_written(
    spark: SparkSession, options: StreamOptions, zone: str, *, in_order: bool
) -> Written:
    """The rows at the stream's path.

    From the folder of a Spark file sink, only the rows of files that the sink has committed.

    Args:
        spark: classic or Spark Connect.
        options: path and columns.
        zone: of times without one.
        in_order: whether `Written.place` will be used.

    Raises:
        SourceError: nothing is there, or files that cannot be read or do not fit together.
        ColumnError: a column to be renamed is not there.
        SetupError: the runtime can't read such files.
    """
    try:
        with spark_errors():
            kind, source = _source(spark, options.path, zone)
            opened = open_source(spark, source)
            left = not_committed(options.path, [file.path for file in opened.snapshot.inputs])
            numbered = in_order and not runtime_of(spark).names_files
            frame = _numbered(spark, source, opened) if numbered else opened.frame
            rows = frame.where(~F.col(SOURCE).isin(left)) if left else frame
    except SourceError as error:
        # Files are read as a source's are, but these are the stream's, which has other settings.
        field = (error.field or "source").replace("source", "stream", 1)
        way_out = None if "source." in (error.way_out or "") else error.way_out
        raise SourceError(
            f"{error.problem} (got {error.value!r})", field=field, way_out=way_out
        ) from error
    ours = [CORRUPT, SOURCE, _NUMBER] if numbered else [CORRUPT, SOURCE]
    own = [name for name in rows.columns if name not in ours]
    return Written(rows.select(*_renamed(own, options), *ours), kind, numbered)


def _numbered(spark: SparkSession, source: SourceOptions, opened: Source) -> DataFrame:
    """The rows of files, with their numbers."""
    if _NUMBER in opened.frame.columns:
        needs_spark(spark, "a column of this name is read", field=_NUMBER)
    base = base_path(source.path)
    copies = numbered_copies([file.path for file in opened.snapshot.inputs], base, _NUMBER)
    own = [field for field in opened.frame.schema if field.name not in (CORRUPT, SOURCE)]
    schema = T.StructType(own).add(_NUMBER, T.LongType())
    rows = open_source(spark, replace(source, path=copies, schema=schema.toDDL())).frame
    inside = F.substring(F.col(SOURCE), F.lit(len(join(copies, "")) + 1), F.length(SOURCE))
    return rows.withColumn(SOURCE, F.concat(F.lit(join(base, "")), inside))


def _renamed(own: list[str], options: StreamOptions) -> list[Column]:
    for theirs in options.columns:
        if theirs not in own:
            raise ColumnError(
                "the stream has no such column to rename",
                field="stream.columns",
                value=theirs,
                way_out=did_you_mean(theirs, own),
            )
    names = {name: options.columns.get(name, name) for name in own}
    for theirs, ours in names.items():
        if list(names.values()).count(ours) > 1 or ours.startswith(_ONCE):
            raise ColumnError(
                "the stream has two columns with this name, or the name is reserved",
                field="stream.columns",
                value=ours,
                way_out=f"Rename {theirs!r} to something else",
            )
    return [column(theirs).alias(ours) for theirs, ours in names.items()]


def _source(spark: SparkSession, path: str, zone: str) -> tuple[str, SourceOptions]:
    if local_path(path) is None:
        needs_spark(spark, "output in an object store is read", field="stream.path")
    if _is_delta(spark, path):
        needs_spark(spark, "output in a Delta table is read", field="stream.path")
        return "delta", SourceOptions(format="delta", path=path, timezone=zone)
    files = list_files(spark, path)
    kinds = {_kind(file): file.path for file in files if file.size}
    if len(kinds) > 1:
        first, second, *_ = kinds
        raise SourceError(
            f"a {second} file among {first} files",
            field=shown(kinds[second]),
            way_out="Point to files of one kind, as in folder/*.parquet",
        )
    kind = next(iter(kinds))
    if kind != "parquet":
        needs_spark(spark, f"output in {kind} files is read", field="stream.path")
    for name in (path, *(file.path for file in files)):
        check_characters(name, spark, field="stream.path")
    # Text stays text until the wanted type is known: a hexadecimal key can look like a number.
    if kind == "csv":
        header = spark.read.option("header", "true").csv(for_spark(files)).schema
        return kind, SourceOptions(format=kind, path=path, schema=header.toDDL(), timezone=zone)
    options = {"primitivesAsString": "true"} if kind == "json" else {}
    return kind, SourceOptions(format=kind, path=path, options=options, timezone=zone)


def _is_delta(spark: SparkSession, path: str) -> bool:
    local = local_path(path)
    if local is not None:
        return isdir(join(local, "_delta_log"))
    try:
        return bool(spark.read.text(f"{path.rstrip('/')}/_delta_log").columns)
    except AnalysisException as error:
        if "PATH_NOT_FOUND" in str(error):
            return False
        raise


def _kind(file: InputFile) -> str:
    """The kind of a file, by its ending or by its first bytes."""
    name = file.path.rsplit("/", 1)[-1].lower()
    for packed in _PACKED:
        name = name.removesuffix(packed)
    ending = name.rsplit(".", 1)[-1] if "." in name else ""
    if ending in _ENDINGS:
        return _ENDINGS[ending]
    if local_path(file.path) is None or file.path.endswith(_PACKED):
        raise SourceError(
            "its name does not show its format",
            field=shown(file.path),
            way_out="Name it .parquet, .csv or .json",
        )
    with open(file.path, "rb") as stream:
        begin = stream.read(4096)
    if begin.startswith(b"PAR1"):
        return "parquet"
    return "json" if begin.lstrip().startswith(b"{") else "csv"
