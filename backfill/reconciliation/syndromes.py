"""Which keys of a bucket differ, from sums over all of its windows."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

#: By so many powers of its key's weight a window is weighed, from 0.
POWERS = 3


def weights(sums: Sequence[npt.NDArray[np.int64]], bits: int) -> Sequence[Sequence[int]]:
    """The weights of the keys that left these sums, where they are of one or two weights.

    What a bucket's two sides have in common is no longer in their difference. What is, is weighed
    by the powers of a number of each key's, as the syndromes of a code weigh its errors (Peterson,
    IRE Transactions on Information Theory 6, 1960, with the integers for a field).

    Args:
        sums: what is left of each power's, from 0, of each bucket.
        bits: a weight's.

    Returns:
        for each bucket the weights, with others where the sums allow for several answers; none
        where they are more than two, or where the sums tell nothing.
    """
    s0, s1, s2 = sums
    pairs = np.zeros((len(s0), 1 << bits), dtype=bool)
    alone = np.zeros_like(pairs)
    for weight in range(1 << bits):
        # Of weights v and w that leave a and b the sums are a + b, av + bw, avv + bww.
        one, two = s1 - weight * s0, s2 - weight * s1
        alone[:, weight] = (one == 0) & (two == 0) & (s0 != 0)
        # Taking a's part away leaves b(w - v) and bw(w - v), whose ratio is w.
        some = one != 0
        other, rest = np.divmod(two, np.where(some, one, 1))
        whole = some & (rest == 0) & (other >= 0) & (other < 1 << bits)
        pairs[:, weight] |= whole
        pairs[np.flatnonzero(whole), other[whole]] = True
    found = np.where(alone.any(axis=1, keepdims=True), alone, pairs)
    return [np.flatnonzero(each).tolist() for each in found]
