"""Where the events are: one source, or several of files."""

from __future__ import annotations

from typing import Annotated

from pydantic import AfterValidator, Field, model_validator

from backfill.errors import JobFileError, did_you_mean
from backfill.events import FORMATS
from backfill.spec import names
from backfill.spec.parts import Part, Text

#: Formats that a job can have several sources of.
FILES = ("parquet", "csv", "json")


def _format(value: str) -> str:
    if value not in FORMATS:
        raise JobFileError("no such format", value=value, way_out=did_you_mean(value, FORMATS))
    return value


def _file_format(value: str) -> str:
    if value in FORMATS and value not in FILES:
        raise JobFileError(
            "can't be one of several sources", value=value, way_out=f"Allowed: {', '.join(FILES)}"
        )
    return _format(value)


class Source(Part):
    """Where the events are and how they are read."""

    path: Annotated[Text, AfterValidator(names.check_source_path)]
    format: Annotated[str, AfterValidator(_format)]
    ddl: Text | None = Field(None, alias="schema")
    options: dict[str, str] = Field(default_factory=dict, repr=False)
    date_column: Text | None = None
    catalog: Annotated[Text, AfterValidator(names.check_source)] | None = None
    topic: Text | None = None

    @model_validator(mode="after")
    def _check_topic(self) -> Source:
        if self.format != "kafka":
            if self.topic is not None:
                raise JobFileError(
                    "has no meaning for this format", field="topic", way_out="Leave it out"
                )
            return self
        needed = {
            "topic": (self.topic, "Name the topic"),
            "schema": (
                self.ddl,
                'Name the fields of the values, as in "user_id string, at string"',
            ),
            "options.bootstrap.servers": (
                self.options.get("bootstrap.servers"),
                "Give the brokers' addresses, such as localhost:9092",
            ),
        }
        for name, (value, way_out) in needed.items():
            if value is None:
                raise JobFileError("is missing", field=name, way_out=way_out)
        return self

    @model_validator(mode="after")
    def _check_catalog(self) -> Source:
        if (self.format == "iceberg") == (self.catalog is None):
            if self.catalog is not None:
                raise JobFileError(
                    "has no meaning for this format", field="catalog", way_out="Leave it out"
                )
            raise JobFileError(
                "is missing",
                field="catalog",
                way_out="Give the name that pyiceberg is configured with for the table's catalog",
            )
        return self


class FileSource(Part):
    """One of several sources."""

    path: Annotated[Text, AfterValidator(names.check_source_path)]
    format: Annotated[str, AfterValidator(_file_format)]
    ddl: Text | None = Field(None, alias="schema")
    options: dict[str, str] = Field(default_factory=dict, repr=False)


Sources = Annotated[
    dict[Annotated[str, AfterValidator(names.check_source)], FileSource],
    AfterValidator(names.some("source")),
]
