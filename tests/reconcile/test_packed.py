"""Packed differences are the same, in the same order, however they are asked for."""

from __future__ import annotations

import pickle
from collections import Counter

import pytest

from backfill.reconciliation import packed
from backfill.reconciliation.explaining.case import Explanation
from backfill.reconciliation.explaining.matching import Difference
from backfill.reconciliation.packed import Packed, in_order_of, merged
from backfill.reconciliation.result import Explained, Reconciled
from backfill.reconciliation.rows import Row

pytestmark = pytest.mark.one_lane

CAUSES = [("late",), ("rounded", "late"), ("unexplained",), ("late", "pending")]


def difference(place: int) -> Explained:
    """One of a key's three differences."""
    return Explained(
        (f"u{place // 3}", None),
        Difference((Row(place, place + 1, {"n": place, "of": 0.1 * place}),), ()),
        Explanation(CAUSES[place % 4], place % 8 != 5, {"left_out": [{"time_us": place}]}),
    )


def test_packed_as_a_list(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(packed, "_BLOCK", 10)
    every = sorted(map(difference, range(95)), key=in_order_of)
    runs = [[each for each in every if int(each.key[0][1:]) % 3 == part] for part in range(3)]
    joined = merged([*map(Packed, runs), []])
    assert isinstance(joined, Packed)
    assert merged([every]) is every
    for one in (joined, pickle.loads(pickle.dumps(joined))):
        assert (len(one), list(one), list(reversed(one))) == (95, every, every[::-1])
    assert [joined[place] for place in (0, 9, 10, 94, -1, -95)] == [
        every[place] for place in (0, 9, 10, 94, -1, -95)
    ]
    for part in (slice(10), slice(8, 23), slice(-3, None), slice(90, 5, -7), slice(200, 300)):
        assert joined[part] == every[part]
    for outside in (95, -96):
        with pytest.raises(IndexError):
            joined[outside]
    assert not Packed([])

    whole = Reconciled("sessions", 5, joined, 100, 100, True)
    assert whole.causes == {"late": 47, "rounded": 24, "unexplained": 24}
    proved = Counter(each.explanation.causes[0] for each in every if each.explanation.proved)
    assert whole.proved == proved
    assert whole.possible == sum(
        not each.explanation.proved and each.explanation.causes[0] != "unexplained"
        for each in every
    )
    assert not whole.ok(["late", "rounded", "pending", "possible"])
    explained = Packed(each for each in every if each.explanation.causes[0] != "unexplained")
    rest = Reconciled("sessions", 5, explained, 100, 100, True)
    assert rest.ok(["late", "rounded", "pending", "possible"])
    assert not rest.ok(["late", "rounded", "pending"])
    assert not rest.ok(["late", "rounded", "possible"])
