"""Web server access logs, in the common and the combined format."""

from __future__ import annotations

from functools import reduce

from pyspark.sql import Column, DataFrame, SparkSession, Window
from pyspark.sql import functions as F

from backfill.events.files import for_spark, place
from backfill.events.model import CORRUPT, FILE, SOURCE, InputFile

SCHEMA = (
    "host STRING, ident STRING, user STRING, time TIMESTAMP, method STRING, path STRING, "
    "protocol STRING, status INT, bytes BIGINT, referer STRING, agent STRING, line BIGINT"
)
ARRIVAL = (FILE, "line")

# A quote ends a field unless an odd number of backslashes comes before it.
_END = r'(?<=(?<!\\)(?:\\\\){0,9})"'
# In Java's form with comments: a blank counts only after a backslash. With atomic groups (?>…),
# each part ends at the first place where what must follow it follows. So a line that does not
# parse, however long, is not tried in every other way.
# Lines end at \n only, so a dot need not leave out other line ends: paths may hold U+2028.
_LINE = rf"""(?sx)
^(\S++)\ (\S++)\                        # host, ident
(?>(-(?=\ \[)|(?!-\ ).+?)\              # user, perhaps with blanks; "- x" is a field too many
  \[(\d{{2}}/[A-Za-z]{{3}}/\d{{4}}:\d{{2}}:\d{{2}}:\d{{2}}\ [+-]\d{{4}})\]\ )  # time
(?>"(.*?){_END}\                        # request
  (\d{{3}}|-)\ (\d{{1,18}}|-)(?=\s|$))  # status, bytes
(?:\s*                                  # here the common format ends
  |(\ )(?>"(.*?){_END}\ ")              # referer, after a blank: only in the combined format
  (.*))$                                # agent, to the end: some servers do not escape its quotes
"""
_FIELDS = 10
_BETWEEN = "\x01"  # no line of a log that a server wrote has it: control characters are escaped
_TIME = "dd/MMM/yyyy:HH:mm:ss Z"
_METHOD = r"^([!#$%&'*+.^_`|~0-9A-Za-z-]+) "


def read_access_log(spark: SparkSession, files: tuple[InputFile, ...]) -> DataFrame:
    r"""Every line of the logs that is not blank, one row each.

    `-` is NULL. A request is split into method, path and protocol if it has the form of one:
    `GET /` (HTTP/0.9) has no protocol; what is not a request (`\\x16\\x03\\x01`) is kept whole in
    `path`, with NULL for the method. Escapes in quoted fields stay as they were logged. A line
    that does not parse, or has a time that does not exist (`99/Foo/2015`), is kept in `_corrupt`,
    and all columns except `line` are NULL.

    Args:
        spark: the session.
        files: plain or compressed; `line` counts from 1 in each, blank lines included.

    Returns:
        The columns of SCHEMA, `_corrupt`, `_source` (`path:line`) and `_file`. A plan that uses
        neither `line` nor `_source` does not pay for counting lines.
    """
    text = spark.read.options(
        lineSep="\n", ignoreCorruptFiles="false", ignoreMissingFiles="false"
    ).text(for_spark(files))
    lines = text.select(
        F.regexp_replace("value", "\r$", "").alias("value"),
        place().alias(FILE),
        F.input_file_block_start().alias("_block"),
        F.monotonically_increasing_id().alias("_row"),
    )
    # A large plain file is read in several splits: within one, the ids are in the order of lines;
    # the splits are ordered by where they start.
    in_file = Window.partitionBy(FILE).orderBy("_block", "_row")
    numbered = lines.withColumn("line", F.row_number().over(in_file).cast("bigint"))
    return _parsed(numbered.filter(F.col("value").rlike(r"\S")))


def _parsed(lines: DataFrame) -> DataFrame:
    # One pass of the expression for all fields: extracting each by itself would take ten.
    groups = _BETWEEN.join(f"${group}" for group in range(1, _FIELDS + 1))
    split = F.split(F.regexp_replace("value", _LINE, groups), _BETWEEN)
    # As a generator of one row: a plain expression would be copied into every use of a field.
    lines = lines.withColumn("_parts", F.explode(F.array(split)))
    parts = F.col("_parts")
    host, ident, user, time, request, status, size, tail, referer, agent = [
        F.get(parts, index) for index in range(_FIELDS)
    ]
    # What looks like a further field after the agent would be read as part of it.
    whole = (F.size(parts) == _FIELDS) & ~agent.contains('" "')
    instant = F.when(whole, F.try_to_timestamp(time, F.lit(_TIME)))
    good = instant.isNotNull()

    def field(part: Column) -> Column:
        return F.when(good & (part != "-"), part)

    # The common format ends before the referer.
    def combined_field(part: Column) -> Column:
        return F.when(good & (tail != "") & (part != "-"), part)

    protocol = F.nullif(F.regexp_extract(request, r" (HTTP/[0-9.]+)$", 1), F.lit(""))
    method = F.nullif(F.regexp_extract(request, _METHOD, 1), F.lit(""))
    path = reduce(
        lambda text, pattern: F.regexp_replace(text, pattern, ""),
        [r" HTTP/[0-9.]+$", _METHOD],
        request,
    )
    return lines.select(
        field(host).alias("host"),
        field(ident).alias("ident"),
        field(user).alias("user"),
        instant.alias("time"),
        F.when(good & (request != "-"), method).alias("method"),
        F.when(good & (request != "-"), path).alias("path"),
        F.when(good & (request != "-"), protocol).alias("protocol"),
        field(status).try_cast("int").alias("status"),
        field(size).try_cast("bigint").alias("bytes"),
        combined_field(referer).alias("referer"),
        combined_field(F.regexp_replace(agent, r'"?\s*$', "")).alias("agent"),
        "line",
        F.when(instant.isNull(), F.col("value")).alias(CORRUPT),
        F.concat_ws(":", F.col(FILE), F.col("line").cast("string")).alias(SOURCE),
        FILE,
    )
