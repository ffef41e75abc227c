"""The job file's `joins:`: pairs of the job's events; each join is a table of its own."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Annotated, Any

from pydantic import AfterValidator, Field, PlainValidator, ValidationInfo, model_validator

from backfill.columns import LEFT_TIME, RIGHT_TIME
from backfill.errors import JobFileError
from backfill.events import NAME
from backfill.spec import names
from backfill.spec.metrics import metric_tables, twice
from backfill.spec.parts import Columns, Part, Text, number
from backfill.windows.join_window import RIGHT, JoinWindow


def _within(value: object) -> object:
    """Bare numbers as numbers, so that the error can say what is missing; before without a minus.

    Written as an offset, as Flink's lower bound is, it is how much later the right event may be.
    """
    if not isinstance(value, list):
        return number(value)
    before = value[0] if value else None
    if isinstance(before, str) and before.startswith("-"):
        value = [before[1:], *value[1:]]
    return [number(bound) for bound in value]


class JoinTable(Part):
    """One entry of `joins`: the parameters of `JoinWindow`, which checks them."""

    left: Text
    right: Text
    within: Annotated[Any, PlainValidator(_within)]
    on: Columns | None = None
    how: Text = "inner"
    where: Text | None = None
    columns: dict[Text, Text] = Field(default_factory=dict)

    @model_validator(mode="after")
    def _fits(self, info: ValidationInfo[Any]) -> JoinTable:
        key, id = info.context.key, info.context.id
        if self.on is not None and self.on != key:
            raise JobFileError(
                "the events of a pair always share the job's key, which is "
                f"{', '.join(key) or 'none'}",
                field="on",
                value=", ".join(self.on),
                way_out="Leave it out; further columns that must be equal go into where, such as "
                "left.shop = right.shop",
            )
        window = self.window(info.context.sources)
        info.context.engine.check(window)
        names.check_distinct(self.columns)
        # Includes the columns of other kinds of joins: the kind may change.
        taken = [*window.own_columns(None if id in key else id), LEFT_TIME, RIGHT_TIME]
        for name in self.columns:
            try:
                _check_name(name, key, taken)
            except JobFileError as error:
                raise error.within(f"columns.{name}") from None
        _check_own(key, id)
        return self

    def window(self, sources: Collection[str]) -> JoinWindow:
        """The window; a side can be one of these sources."""
        return JoinWindow(
            left=_side(self.left, sources),
            right=_side(self.right, sources),
            within=self.within,
            how=self.how,
            where=self.where,
            columns=self.columns,
        )


def _side(text: str, sources: Collection[str]) -> str:
    return f"{NAME} = '{text}'" if text in sources else text


def _check_name(name: str, key: tuple[str, ...], taken: list[str]) -> None:
    names.check_aggregate(name, key)
    if name.lower() in map(str.lower, taken):
        raise JobFileError("is already a column of joins' tables", way_out="Leave it out")


def _check_own(key: tuple[str, ...], id: str | None) -> None:
    """Checks the columns that identify a pair's events, besides the key and the id."""
    names.check_id(id, key, ())
    own = [LEFT_TIME, RIGHT_TIME, *([] if id is None else [f"{id}_{RIGHT}"])]
    given = [column.lower() for column in (*key, id) if column is not None]
    for name in own:
        if name.lower() in given:
            raise JobFileError(
                f"a join's table has its own column {name!r}, and the key or the id uses that name",
                way_out="Rename the column in the source",
            )


def _checked(value: dict[str, JoinTable], info: ValidationInfo[Any]) -> dict[str, JoinTable]:
    names.check_distinct(value)
    given = [*info.data.get("windows", ()), *metric_tables(info.data.get("metrics", {}))]
    others = [table.lower() for table in given]
    for name in value:
        if name.lower() in others:
            raise twice(name, "join")
    return value


def join_windows(
    settings: Mapping[str, JoinTable], sources: Collection[str]
) -> dict[str, JoinWindow]:
    """The windows of the joins, by the names of their tables.

    Args:
        settings: the entries by name.
        sources: the names of the job's sources, if it has several.
    """
    return {name: join.window(sources) for name, join in settings.items()}


Joins = Annotated[
    dict[Annotated[str, AfterValidator(names.check_window)], JoinTable], AfterValidator(_checked)
]
