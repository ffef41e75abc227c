"""`backfill plan`: what a run would do, and why."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated, Any

import typer

from backfill.cli.options import JobFile, Json, Remote, Runtime, Settings, Verbose, job_session
from backfill.cli.output import iso_utc, print_json, print_line, print_table, tell
from backfill.cli.selection import Chunk, From, Missing, One, To, selected

if TYPE_CHECKING:
    from backfill.planning.stages import Beyond, Moved, Plan, Rewritten, Stage
    from backfill.spec import JobSpec


def plan(
    job: JobFile,
    start: From = None,
    end: To = None,
    date: One = None,
    missing: Missing = False,
    chunk: Chunk = None,
    recompute: Annotated[
        bool, typer.Option("--recompute", help="Plan a `recompute` instead of a `run`.")
    ] = False,
    late: Annotated[
        str | None,
        typer.Option(
            "--late", metavar="PATH", help="With --recompute: a file or folder of late events."
        ),
    ] = None,
    expire: Annotated[
        bool, typer.Option("--expire", help="Plan an `expire` instead of a `run`.")
    ] = False,
    as_json: Json = False,
    verbose: Verbose = False,
    spark: Settings = None,
    remote: Remote = None,
    runtime: Runtime = None,
) -> None:
    """Show what `run`, `recompute` or `expire` would do, and why, without writing anything."""
    from backfill.job import Job

    loaded = Job.load(job)
    selection = selected(start, end, date, missing, chunk)
    # The tables' logs show what expires, so no session is needed.
    session = None if expire else job_session(loaded, spark, remote, runtime, late=late)
    planned = loaded.plan(
        session, **selection, recompute=recompute, late=late, expire=expire, progress=tell
    )
    if as_json:
        print_json(_document(planned, loaded.spec))
    else:
        _print(planned, loaded.spec)
    if planned.refused is not None:
        raise typer.Exit(1)


def _document(plan: Plan, spec: JobSpec) -> dict[str, Any]:
    return {
        "ok": plan.refused is None,
        "windows": {
            name: [{**_range(state.dates), **_facts(asdict(state))} for state in states]
            for name, states in plan.windows.items()
        },
        "stages": [_stage(stage, spec) for stage in plan.stages],
        "refused": plan.refused,
        "without_input": [_range(dates) for dates in plan.without_input.ranges],
        "waiting": plan.waiting,
        "files": plan.files,
        "bytes": plan.size,
        "beyond": [
            {
                "window": beyond.window,
                **_range(beyond.dates),
                "keys": beyond.keys,
                "read_from": None if beyond.low is None else iso_utc(beyond.low),
                "read_to": None if beyond.high is None else iso_utc(beyond.high),
                "affected": beyond.affected,
                "rewritten": _rewritten(beyond.rewritten),
                "slices": beyond.slices
                and dict(zip(("table", "files", "rows"), beyond.slices, strict=True)),
            }
            for beyond in plan.reads
        ],
    }


def _stage(stage: Stage, spec: JobSpec) -> dict[str, Any]:
    from backfill.planning.explain import explained
    from backfill.planning.stages import ExpireStage, FullStage, MergeStage, RangeStage

    facts: dict[str, Any] = {}
    if isinstance(stage, MergeStage):
        facts["late"] = [
            {
                "tables": late.tables,
                "inputs": sorted(late.inputs),
                "events": late.events,
                "affected": late.affected,
                "moved": [asdict(one) for one in late.moved],
                "rewritten": {name: _rewritten(one) for name, one in late.rewritten.items()},
                **({} if late.bots is None else {"bots": asdict(late.bots)}),
            }
            for late in stage.late
        ]
        facts["again"] = sorted(stage.again)
    if isinstance(stage, ExpireStage):
        files = [*stage.whole, *stage.mixed]
        facts |= {"before": iso_utc(stage.limit), "files": sorted(files)}
    if isinstance(stage, RangeStage):
        facts |= _range(stage.dates)
        if spec.bots is not None:
            facts["judged"] = [_range(dates) for dates in stage.judged.ranges]
    if isinstance(stage, FullStage | RangeStage):
        done = stage.done if isinstance(stage, RangeStage) else None
        combining = None if stage.combining is None else asdict(stage.combining)
        facts |= {"events": stage.events, "done": done, "combining": combining}
    return facts | asdict(explained(stage, spec))


def _rewritten(rewritten: Rewritten) -> dict[str, int]:
    return {
        "files": rewritten.files,
        "of": rewritten.of,
        "rows": rewritten.rows,
        "bytes": rewritten.size,
    }


def _range(dates: tuple[Any, Any]) -> dict[str, str]:
    return {"from": str(dates[0]), "to": str(dates[1])}


def _facts(state: dict[str, Any]) -> dict[str, Any]:
    return {name: state[name] for name in ("state", "events", "late", "detail")}


def _print(plan: Plan, spec: JobSpec) -> None:
    for name, entry in spec.windows.items():
        print_line(f"{name}: {entry.window}")
    print_line()
    if not plan.windows:
        for stage in plan.stages:
            _print_stage(stage, spec)
        if not plan.stages:
            print_line("Nothing to do.")
        return
    rows = [
        (
            name,
            f"[{state.dates[0]}, {state.dates[1]})",
            state.state.replace("_", " "),
            f"{state.events:,}",
            f"{state.late:,}",
            state.detail or "",
        )
        for name, states in plan.windows.items()
        for state in states
    ]
    columns = ("window", "dates", "state", "events", "late", "why")
    print_table(columns, rows, right=("events", "late"))
    print_line()
    for dates in plan.without_input.ranges:
        print_line(f"No input, skipped: [{dates[0]}, {dates[1]}).")
    if plan.waiting:
        print_line(f"{plan.waiting:,} late events wait for a run of their dates.")
    if plan.refused is not None:
        print_line(f"This run would be refused. {plan.refused}")
        return
    for stage in plan.stages:
        _print_stage(stage, spec)
    for part in dict.fromkeys(
        (read.dates, read.low, read.high) for read in plan.reads if not read.keys
    ):
        dates, *span = part
        print_line(
            f"For [{dates[0]}, {dates[1]}) events are read {_span(*span)}, to include windows and "
            "session gaps that cross its boundaries."
        )
    for beyond in plan.reads:
        _print_beyond(beyond, spec)
    print_line(f"Read {plan.files:,} files, {plan.size:,} bytes.")


def _print_stage(stage: Stage, spec: JobSpec) -> None:
    from backfill.kinds import times_of
    from backfill.planning.stages import ExpireStage, FullStage, MergeStage, RangeStage

    if isinstance(stage, MergeStage):
        for late in stage.late:
            print_line(
                f"Merge {late.events or 0:,} events of {len(late.inputs):,} inputs into "
                f"{', '.join(late.tables)}: the windows that they belong to or join are replaced."
            )
            if late.bots is not None:
                print_line(
                    f"Rules for bots: {late.bots.late:,} late rows are bots' events; of the events "
                    f"counted before, {late.bots.became:,} now count as bots' and "
                    f"{late.bots.ceased:,} no longer do."
                )
            for name in late.tables:
                affected = late.affected.get(name)
                if affected is not None:
                    single = times_of(spec.windows[name].window)[0] != "window_start"
                    rows = "rows" if single else "windows"
                    print_line(f"{name}: up to {affected:,} published {rows} are computed again.")
                if _endless(spec, name):
                    print_line(
                        f"{name}: a late event changes all later rows of its key, since its "
                        "windows have no start; all of the key's events are read."
                    )
            for moved in late.moved:
                print_line(_moving(moved, spec))
            for name, rewritten in late.rewritten.items():
                _print_rewritten(name, rewritten)
        if stage.again:
            print_line(
                f"Quarantine: {len(stage.again):,} inputs are read again, because not all tables "
                "have counted them, or a run was killed."
            )
        return
    if isinstance(stage, ExpireStage):
        print_line(
            f"{stage.table}: drop windows that ended before {iso_utc(stage.limit)}; "
            f"{len(stage.whole):,} whole files, {len(stage.mixed):,} files in part."
        )
        return
    what, done = "everything", ""
    if isinstance(stage, RangeStage):
        what = f"[{stage.dates[0]}, {stage.dates[1]})"
        done = f", already committed by run {stage.done}" if stage.done else ""
        for low, high in stage.judged.ranges:
            print_line(
                f"Rules for bots: windows of [{low}, {high}) are computed as well, because "
                "events there are judged differently."
            )
    if isinstance(stage, FullStage | RangeStage):
        print_line(f"Compute {what}: {stage.events:,} events{done}.")
        if stage.combining is not None:
            combined = stage.combining.combined
            way = "combined into slices before the shuffle" if combined else "shuffled one by one"
            print_line(f"  They are {way}: {stage.combining.why}.")


def _moving(moved: Moved, spec: JobSpec) -> str:
    """What late events cost in a table where they move other events to other windows."""
    from backfill.windows import SessionWindow, key_of

    window = spec.windows[moved.table].window
    if moved.events is None:
        return (
            f"{moved.table}: a late event changes the neighboring pairs of its key; for "
            f"{moved.keys:,} keys all events are read again and {moved.rows:,} rows computed again."
        )
    again = f"{moved.events:,} events are read again and {moved.rows:,} rows computed again."
    if isinstance(window, SessionWindow):
        what = "a late message can join sessions of its key anywhere"
    elif key_of(window, ("key",)):
        what = "a late event moves every later window of its key"
    else:
        return f"{moved.table}: a late event moves every later window of the whole stream; {again}"
    return f"{moved.table}: {what}; for {moved.keys:,} keys {again}"


def _endless(spec: JobSpec, name: str) -> bool:
    """Whether an event is in the windows of all later events of its key."""
    from backfill.windows import SlidingWindow

    window = spec.windows[name].window
    return isinstance(window, SlidingWindow) and window.size is None


def _print_beyond(beyond: Beyond, spec: JobSpec) -> None:
    if beyond.keys:
        print_line(
            f"{beyond.window}: {beyond.keys:,} keys have windows open across the boundary; their "
            f"events are read {_span(beyond.low, beyond.high)}."
        )
    if beyond.slices is not None:
        table, files, rows = beyond.slices
        print_line(
            f"{beyond.window}: up to {rows:,} rows in {files:,} files of {table} are read rather "
            "than events outside the range."
        )
    if beyond.affected is not None:
        print_line(
            f"{beyond.window}: {beyond.affected:,} rows outside [{beyond.dates[0]}, "
            f"{beyond.dates[1]}) are computed again: {_which(spec, beyond.window)} that events of "
            "the range can be in."
        )
    _print_rewritten(beyond.window, beyond.rewritten)


def _print_rewritten(name: str, rewritten: Rewritten) -> None:
    if rewritten.files:
        print_line(
            f"{name}: up to {rewritten.files:,} of {rewritten.of:,} files are rewritten "
            f"({rewritten.rows:,} rows, {rewritten.size:,} bytes)."
        )


def _which(spec: JobSpec, name: str) -> str:
    """Which rows outside a range the range's events can be in."""
    from backfill.kinds import reach
    from backfill.windows import by_place

    window = spec.windows[name].window
    if not by_place(window):
        return "all later rows" if _endless(spec, name) else "rows"
    return "all rows" if reach(window, spec.engine).behind is None else "all later rows"


def _span(low: int | None, high: int | None) -> str:
    start = "the beginning" if low is None else iso_utc(low)
    end = "the end" if high is None else iso_utc(high)
    return f"from {start} to {end}"
