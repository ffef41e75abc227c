"""The options of a stream's output: where it is, and in which form."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType

from backfill.engines import Engine, engine
from backfill.errors import JobFileError, did_you_mean
from backfill.spec.stream import FIRINGS, KEY_FORMATS, PANES, VALUE_FORMATS


@dataclass(frozen=True, kw_only=True)
class Form:
    """One form that a stream's output can have: a row of data per `format`.

    Attributes:
        engine: the engine whose bounds the rows follow; None: the job's.
        takes: which options of `StreamOptions` have a meaning for it.
        order: columns by which rows of one window are put in order, before file and row.
        needs: which of them must be there.
        sessions: the engine writes session windows in this form.
        keyed_bytes: rows are Kafka's records, of a windowed key and a value.
        retracts: a column `op` says whether a row adds or takes back.
        complete: every batch repeats the whole table.
        emit: the operator's emission policy that gives this output; None: its usual one.
    """

    engine: str | None
    takes: frozenset[str] = frozenset()
    order: tuple[str, ...] = ()
    needs: tuple[str, ...] = ()
    sessions: bool = True
    keyed_bytes: bool = False
    retracts: bool = False
    complete: bool = False
    emit: str | None = None


FORMS: Mapping[str, Form] = MappingProxyType(
    {
        "kafka-streams": Form(
            engine="kafka-streams",
            takes=frozenset({"bytes", "key_format", "value_format", "topic"}),
            order=("partition", "offset"),
            needs=("partition", "offset"),
            keyed_bytes=True,
        ),
        "spark-append": Form(engine="spark", order=("batch_id",)),
        "spark-update": Form(
            engine="spark",
            order=("batch_id",),
            needs=("batch_id",),
            sessions=False,
            emit="update",
        ),
        "spark-complete": Form(engine="spark", order=("batch_id",), complete=True, emit="complete"),
        "flink": Form(engine="flink", takes=frozenset({"firing"}), retracts=True),
        "beam": Form(engine="beam", takes=frozenset({"panes"}), order=("pane_index",)),
        "storm": Form(engine="storm"),
        "samza": Form(engine="samza", takes=frozenset({"panes"}), order=("pane_index",)),
        "table": Form(engine=None),
    }
)

_CHOICES: Mapping[str, tuple[str, ...]] = MappingProxyType(
    {
        "bytes": ("raw", "hex", "base64"),
        "key_format": KEY_FORMATS,
        "value_format": VALUE_FORMATS,
        "topic": ("output", "changelog"),
        "firing": ("once", *FIRINGS),
        "panes": ("once", *PANES),
    }
)


@dataclass(frozen=True, kw_only=True)
class StreamOptions:
    """Where a stream's output is, and how it is read.

    Attributes:
        path: a file, a folder or a glob of Parquet, JSON lines or CSV files, or the folder of a
            Delta table.
        format: one of FORMS.
        columns: maps their column names to ours.
        bytes: how a file holds bytes: `raw` (Parquet's binary), `hex` or `base64` (text).
        key_format: what the bytes of a key are, without the window's: `string` (UTF-8), `long`
            (8 bytes, big-endian), `json` (an object of the key columns, or the only one's value);
            `struct`: columns that are decoded already.
        value_format: the same for values; also `double` (8 bytes, IEEE 754).
        topic: which form of a windowed key it is: `output` or `changelog`.
        firing: what a repeated row of Flink's DataStream is: `accumulating` (all of the window
            again) or `delta` (what came since); `once`: rows do not repeat.
        panes: the same for Beam and Samza: `accumulating` or `discarding`; for Beam also
            `retracting`, where a column `is_retraction` says which rows take a pane back.

    Raises:
        JobFileError: a value that is not one of these, or an option that the format does not take.
    """

    path: str
    format: str
    columns: Mapping[str, str] = field(default_factory=dict)
    bytes: str = "raw"
    key_format: str = "string"
    value_format: str = "long"
    topic: str = "output"
    firing: str = "once"
    panes: str = "once"

    def __post_init__(self) -> None:
        if self.format not in FORMS:
            raise JobFileError(
                "there is no such format",
                field="stream.format",
                value=self.format,
                way_out=did_you_mean(self.format, FORMS),
            )
        for name, choices in _CHOICES.items():
            value = getattr(self, name)
            if value not in choices:
                raise JobFileError(
                    "no such choice",
                    field=f"stream.{name}",
                    value=value,
                    way_out="Allowed: " + ", ".join(choices),
                )
            if name not in self.form.takes and value != getattr(type(self), name):
                raise JobFileError(
                    f"has no meaning for the format {self.format}",
                    field=f"stream.{name}",
                    value=value,
                    way_out="Leave it out",
                )
        if self.retracting and self.form.engine != "beam":
            raise JobFileError(
                f"the format {self.format} does not take panes back",
                field="stream.panes",
                value=self.panes,
                way_out="Allowed: accumulating, discarding",
            )
        self._check_columns()

    @property
    def form(self) -> Form:
        """The row of FORMS."""
        return FORMS[self.format]

    @property
    def deltas(self) -> bool:
        """A row holds what came since the one before it."""
        return self.firing == "delta" or self.panes == "discarding"

    @property
    def repeats(self) -> bool:
        """A row repeats all of its window, and of sessions that were merged into it."""
        return "accumulating" in (self.firing, self.panes)

    @property
    def retracting(self) -> bool:
        """Rows take back others, by a column of their own."""
        return self.panes == "retracting"

    def engine(self, jobs: Engine) -> Engine:
        """The engine whose bounds the rows follow, in a job of the given engine."""
        return jobs if self.form.engine is None else engine(self.form.engine)

    def _check_columns(self) -> None:
        ours = list(self.columns.values())
        for name in ours:
            if ours.count(name) > 1:
                raise JobFileError(
                    "two columns are given the same name", field="stream.columns", value=name
                )
