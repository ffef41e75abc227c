"""Finds which keys of a bucket differ, from sums over all of its windows."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

#: How many sums there are: one for each power, from 0, of the key's weight.
POWERS = 3


def weights(sums: Sequence[npt.NDArray[np.int64]], bits: int) -> Sequence[Sequence[int]]:
    """The weights of the keys that left these sums, if they have only one or two weights.

    What a bucket's two sides have in common cancels out. The rest is multiplied by powers of each
    key's weight, as the syndromes of a code weigh its errors (Peterson, IRE Transactions on
    Information Theory 6, 1960, with the integers for a field).

    Args:
        sums: for each power, from 0, what is left of the sum of each bucket.
        bits: how many bits a weight has.

    Returns:
        for each bucket the weights, and others too if the sums allow for several answers; none if
        there are more than two weights, or if the sums tell nothing.
    """
    s0, s1, s2 = sums
    pairs = np.zeros((len(s0), 1 << bits), dtype=bool)
    alone = np.zeros_like(pairs)
    for weight in range(1 << bits):
        # If weights v and w leave a and b, the sums are a + b, av + bw, avv + bww.
        one, two = s1 - weight * s0, s2 - weight * s1
        alone[:, weight] = (one == 0) & (two == 0) & (s0 != 0)
        # Taking a's part away leaves b(w - v) and bw(w - v), whose ratio is w.
        some = one != 0
        other, rest = np.divmod(two, np.where(some, one, 1))
        whole = some & (rest == 0) & (other >= 0) & (other < 1 << bits)
        pairs[:, weight] |= whole
        pairs[np.flatnonzero(whole), other[whole]] = True
    masks = np.where(alone.any(axis=1, keepdims=True), alone, pairs)
    return [np.flatnonzero(mask).tolist() for mask in masks]
