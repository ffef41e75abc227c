"""JSON lines are read as Spark reads them, and nothing that a line holds is lost."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from tests.inputs import opened

pytestmark = [pytest.mark.usefixtures("interpreted"), pytest.mark.spark_only]

SCHEMA = (
    "s string, n bigint, d double, b boolean, day date, m decimal(30,5), at timestamp, "
    "st struct<a:int,b:string>, ar array<int>, mp map<string,string>, `q r` int, `a.b` int"
)
#: Lines with one object or none, and blank lines.
LINES = r"""
{"s":"a","n":1,"d":1.5,"b":true,"day":"2026-01-02","m":1.25,"at":"2026-01-02T03:04:05Z"}
{}
{"other":1}
 {"s":"a"}
{"s":"a"}TAB
{"s":"a","n":1,"n":2}
{"s":null,"n":null}
{"s":1.0}
{"s":1e5}
{"s":123456789012345678901234567890}
{"s":true}
{"s":{"a": 1, "b":[1 ,2]}}
{"s":"\u00e9\n\t\"\\\/ } {"}
{"s":"a}","n":"x"}
{"s":"{\"s\":1}{\"s\":2}"}
{'s':'a'}
{s:"a"}
{"s":"a",}
{"s":"a
{"s":"a" /*c*/}
{"n":"1"}
{"n":1.0}
{"n":9223372036854775808}
{"d":NaN}
{"d":NaN,"st":{"a":1}}
{"d":"-Infinity"}
{"d":true}
{"b":1}
{"m":12345678901234567890123.12345}
{"m":"1.25"}
{"day":"2026-02-30"}
{"at":"2026-01-02 03:04:05"}
{"at":"x"}
{"st":{"a":1,"b":"x"}}
{"st":{"a":"1"}}
{"st":{}}
{"st":[]}
{"ar":[1,2,null]}
{"ar":["1"]}
{"mp":{"a":"x","b":null}}
{"mp":{"a":{"b":1}}}
{"q r":1,"a.b":2}
null
"s"
1
x
{"S":"a"}
é
"""
#: Lines with more than one object, or with something after it.
MORE = [
    '{"s":"a"}{"s":"b"}',
    '{"s":"a"} {"s":"b"}',
    '{"s":"a"},{"s":"b"}',
    '{"st":{"a":1}}{"st":{"a":1}}',
    '{"s":"a"} x',
    '{"s":"a"}}',
    '{"s":"}"}{"s":"b"}',
    '[{"s":"a"}] x',
    '[{"s":"a"}][{"s":"b"}]',
]


def _written(folder: Path, *lines: str) -> Path:
    path = folder / "a.json"
    path.write_text("\n".join(lines), encoding="utf-8")
    return path


def test_a_line_is_read_as_spark_reads_it(spark: SparkSession, tmp_path: Path) -> None:
    path = _written(tmp_path, f"\ufeff{LINES.strip()}".replace("TAB", "\t"), " ", "", "")
    with path.open("ab") as file:
        file.write(b'{"s":"\xff"}\r\n{"s":"last"}')
    zone = spark.conf.get("spark.sql.session.timeZone")
    ours = opened(spark, "json", path, schema=SCHEMA, timezone=zone).frame.drop("_source")
    reader = spark.read.schema(f"{SCHEMA}, _corrupt string")
    theirs = reader.option("columnNameOfCorruptRecord", "_corrupt").json(str(path))
    expected, rows = (sorted(map(repr, frame.collect())) for frame in (theirs, ours))
    assert len(expected) == len(LINES.split("\n"))
    assert rows == expected


def test_what_follows_an_object_is_not_lost(spark: SparkSession, tmp_path: Path) -> None:
    path = _written(tmp_path, *MORE, '{"s":1}{"st":2}')
    frame = opened(spark, "json", path, schema="s string, st struct<a:int>").frame
    bad = {row._corrupt for row in frame.collect() if row._corrupt is not None}
    assert bad == {*MORE, '{"s":1}{"st":2}'}
    assert frame.where("_corrupt IS NOT NULL").count() == len(bad)
    # The first object counts, as Spark reads it.
    assert frame.where("_corrupt IS NULL").count() == len(MORE) + 1
    assert {row._source for row in frame.collect()} == {str(path)}


def test_a_line_can_be_an_array_of_objects(spark: SparkSession, tmp_path: Path) -> None:
    lines = [
        '[{"s":"a","m":12345678901234567.891},{"s":"c","st":{"a":1}}]',
        " [ ] ",
        '[1, {"s":"d"}]',
        '[{"s":"f"},{"s":"b","n":"x"}]',
        '{"s":"e"}',
    ]
    path = _written(tmp_path, *lines)
    frame = opened(spark, "json", path, schema=SCHEMA).frame
    rows = {(row.s, str(row.m), row._corrupt) for row in frame.collect()}
    assert rows == {
        ("a", "12345678901234567.89100", None),
        ("f", "None", lines[3]),
        ("b", "None", lines[3]),
        ("c", "None", None),
        (None, "None", lines[2]),
        ("e", "None", None),
    }


def test_columns_from_folders(spark: SparkSession, tmp_path: Path) -> None:
    for day in ("2026-01-01", "2026-01-02"):
        folder = tmp_path / f"day={day}" / "kind=x"
        folder.mkdir(parents=True)
        _written(folder, '{"s":"a","day":"2000-01-01"}{}', '{"s":"b"}')
    inferred = opened(spark, "json", tmp_path).frame
    given = opened(spark, "json", tmp_path, schema="day string, s string").frame
    for frame in (inferred, given):
        assert {*frame.columns} == {"s", "day", "kind", "_corrupt", "_source"}
        # The type is the schema's, and the value is the folder's.
        assert frame.schema["day"].dataType.simpleString() == "string"
        good = frame.where("_corrupt IS NULL").select("s", F.col("day").cast("string"), "kind")
        assert {tuple(row) for row in good.collect()} == {
            (name, day, "x") for name in "ab" for day in ("2026-01-01", "2026-01-02")
        }
        assert frame.where("_corrupt IS NOT NULL").count() == 2


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"multiLine": "true"}, b'{"s":\n"a"}'),
        ({"multiLine": "true"}, b'[\n {"s": "a"}\n]\n'),
        ({"encoding": "UTF-16LE", "lineSep": "\n"}, '{"s":"a"}\n'.encode("utf-16-le")),
        ({"lineSep": "|"}, b'{"s":"a"}|{"s":"b"}{"s":"c"}|'),
        ({"lineSep": "|", "Encoding": "utf-8"}, b'{"s":"a"}|{"s":"b"}{"s":"c"}|'),
        ({"lineSep": "|", "charset": "UTF-8"}, b'{"s":"a"}|{"s":"b"}{"s":"c"}|'),
        ({"allowComments": "true"}, b'{"s":"a", "st":{"a":1} /* } { */}\n'),
    ],
)
def test_options(spark: SparkSession, tmp_path: Path, options: dict[str, str], text: bytes) -> None:
    path = tmp_path / "a.json"
    path.write_bytes(text)
    frame = opened(spark, "json", path, schema="s string, st struct<a:int>", options=options).frame
    rows = sorted(((row._corrupt is not None, row.s) for row in frame.collect()), key=repr)
    more = [(False, "b"), (True, None)] if "lineSep" in options and b"|" in text else []
    assert rows == [(False, "a"), *more]


def test_objects_of_several_lines_one_after_the_other(spark: SparkSession, tmp_path: Path) -> None:
    text = '{"s":\n"a"}\n{"s":\n"b"}\n'
    path = _written(tmp_path, text)
    options = {"multiLine": "true"}
    frame = opened(spark, "json", path, schema="s string", options=options).frame
    assert {(row.s, row._corrupt) for row in frame.collect()} == {("a", None), (None, text)}
