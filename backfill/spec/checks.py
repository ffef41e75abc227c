"""The job file's `checks:`: limits of the built-in checks, and the user's own expectations."""

from __future__ import annotations

import re
import types
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Annotated, Any

from pydantic import PlainValidator

from backfill.errors import BackfillError, JobFileError, did_you_mean
from backfill.quality.builtin import BUILTIN, BUILTINS, EVENTS, RECONCILIATION, Builtin, Scope
from backfill.quality.checks import Check, Severity
from backfill.spec.document import Quoted
from backfill.time.durations import Fixed, fixed

_SEVERITIES = ("error", "warn")
_OFF = "off"
_SUITE = "suite"
_NUMBER = re.compile(r"[-+]?(\d[\d_]*)")
_DECIMAL = re.compile(r"[-+]?(\d+\.\d*|\.\d+|\d+)([eE][-+]?\d+)?")


@dataclass(frozen=True)
class Suite:
    """An existing suite of expectations.

    Attributes:
        path: the path of its JSON file.
    """

    path: str
    severity: Severity


@dataclass(frozen=True, kw_only=True)
class Checks:
    """What a job checks before it publishes.

    Attributes:
        builtin: the built-in checks to make, with their limits, by name.
        own: the user's expectations by their subject: `events`, a window's name, or
            `reconciliation`.
    """

    builtin: Mapping[str, Builtin]
    own: Mapping[str, tuple[Check, ...]]

    def about(self, kinds: Collection[Scope]) -> dict[str, Builtin]:
        """The built-in checks with these scopes."""
        return {name: check for name, check in self.builtin.items() if check.scope in kinds}


def builtins(value: object) -> dict[str, Builtin]:
    """Reads `checks.builtin`.

    Raises:
        JobFileError: an unknown name or an invalid limit.
    """
    if value == _OFF:
        return {}
    if not isinstance(value, dict):
        raise JobFileError("must be a mapping or off", way_out=f"Checks: {', '.join(BUILTINS)}")
    checks = dict(BUILTINS)
    for name, setting in value.items():
        if name not in BUILTINS:
            way_out = did_you_mean(name, BUILTINS)
            raise JobFileError("no such check", field=name, way_out=way_out)
        try:
            one = _set(BUILTINS[name], setting)
        except BackfillError as error:
            raise error.within(name) from None
        if one is None:
            del checks[name]
        else:
            checks[name] = one
    return checks


def entries(value: object) -> list[Check | Suite]:
    """Reads a list of expectations.

    Raises:
        JobFileError: an invalid entry, or an unknown expectation.
    """
    if not isinstance(value, list):
        raise JobFileError("must be a list of expectations")
    expectations = []
    for place, expectation in enumerate(value):
        try:
            expectations.append(_entry(expectation))
        except BackfillError as error:
            raise error.within(f"[{place}]") from None
    return expectations


def collected(
    settings: Mapping[str, Any], windows: Iterable[str], suites: Mapping[str, Iterable[Check]]
) -> Checks:
    """The checks of a job file.

    Args:
        settings: `checks`, validated part by part.
        windows: the names of the job's windows.
        suites: the expectations of the suites, by their subject.

    Raises:
        JobFileError: a check is about something that the job does not have.
    """
    allowed = [BUILTIN, EVENTS, *windows, RECONCILIATION]
    own: dict[str, tuple[Check, ...]] = {}
    for name, listed in settings.items():
        if name not in allowed:
            way_out = did_you_mean(name, allowed)
            raise JobFileError(
                "the job has no window or check group with this name", field=name, way_out=way_out
            )
        if name != BUILTIN:
            given = [check for check in listed if isinstance(check, Check)]
            own[name] = _distinct([*given, *suites.get(name, ())])
    wanted = settings.get(BUILTIN, dict(BUILTINS))
    return Checks(builtin=types.MappingProxyType(wanted), own=types.MappingProxyType(own))


def _distinct(checks: list[Check]) -> tuple[Check, ...]:
    """The same checks, with distinct names."""
    seen: dict[str, int] = {}
    renamed = []
    for check in checks:
        seen[check.name] = seen.get(check.name, 0) + 1
        again = seen[check.name] > 1
        renamed.append(replace(check, name=f"{check.name} {seen[check.name]}") if again else check)
    return tuple(renamed)


def _set(check: Builtin, setting: object) -> Builtin | None:
    if setting == _OFF:
        return None
    if isinstance(setting, str) and setting in _SEVERITIES:
        return replace(check, severity=_severity(setting))
    if isinstance(setting, dict):
        for name in setting:
            if name not in ("limit", "severity"):
                way_out = did_you_mean(name, ("limit", "severity"))
                raise JobFileError("no such setting", field=name, way_out=way_out)
        if "severity" in setting:
            check = replace(check, severity=_severity(setting["severity"]))
        return _limited(check, setting["limit"]) if "limit" in setting else check
    return _limited(check, setting)


def _limited(check: Builtin, value: object) -> Builtin:
    if check.limit is None:
        way_out = "Give off, warn or error"
        raise JobFileError(
            "has no limit to set: the check allows no violations", value=value, way_out=way_out
        )
    if isinstance(check.limit, Fixed):
        span = fixed(value, field="")
        if span.us < 0:
            raise JobFileError("must not be negative", value=str(value))
        return replace(check, limit=span)
    if not isinstance(value, str) or not _DECIMAL.fullmatch(value):
        raise JobFileError("must be a share, such as 0.01", value=value)
    share = float(value)
    if not 0 <= share <= 1:
        raise JobFileError("must be a share between 0 and 1", value=value)
    return replace(check, limit=share)


def _severity(value: object) -> Severity:
    if value == "error":
        return "error"
    if value == "warn":
        return "warn"
    way_out = did_you_mean(str(value), _SEVERITIES)
    raise JobFileError("no such severity", field="severity", value=value, way_out=way_out)


def _entry(value: object) -> Check | Suite:
    if not isinstance(value, dict) or not value:
        way_out = "Write it like {expect_column_values_to_not_be_null: {column: user_id}}"
        raise JobFileError("must be an expectation with its arguments", way_out=way_out)
    severity = _severity(value.get("severity", "error"))
    named = [name for name in value if name != "severity"]
    if len(named) != 1:
        names = ", ".join(named) or "none"
        raise JobFileError(f"must name exactly one expectation, found: {names}")
    (name,) = named
    given = value[name]
    if name == _SUITE:
        if not isinstance(given, str):
            raise JobFileError("must be the path of a suite's JSON file", field=name)
        return Suite(given, severity)
    if given is not None and not isinstance(given, dict):
        raise JobFileError("must be a mapping of arguments", field=name, value=given)
    # Great Expectations takes seconds to import, so this is done only for jobs that need it.
    from backfill.quality.suites import own_check

    arguments = {parameter: typed(argument) for parameter, argument in (given or {}).items()}
    return own_check(name, arguments, severity)


def typed(value: Any) -> Any:
    """A value of the file as expectations take it: unquoted numbers, true and false as such."""
    if isinstance(value, dict):
        return {name: typed(part) for name, part in value.items()}
    if isinstance(value, list):
        return [typed(element) for element in value]
    if not isinstance(value, str) or isinstance(value, Quoted):
        return value
    if value in ("true", "false"):
        return value == "true"
    if _NUMBER.fullmatch(value):
        return int(value)
    return float(value) if _DECIMAL.fullmatch(value) else value


def _part(name: str, value: object) -> object:
    return builtins(value) if name == BUILTIN else entries(value)


def _read(value: object) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise JobFileError(
            "must be a mapping", way_out=f"Use {BUILTIN}, {EVENTS} or names of windows"
        )
    parts = {}
    for name, part in value.items():
        try:
            parts[name] = _part(name, part)
        except BackfillError as error:
            raise error.within(name) from None
    return parts


Settings = Annotated[dict[str, Any], PlainValidator(_read)]
