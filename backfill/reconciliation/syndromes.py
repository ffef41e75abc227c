"""Which keys of a bucket differ, from sums over all of its windows."""

from __future__ import annotations

import math
from collections.abc import Sequence

#: By so many powers of its key's weight a window is weighed, from 0: two keys are four unknowns.
POWERS = 4


def weights(sums: Sequence[int], bits: int) -> Sequence[int | None]:
    """The weights of the keys that left these sums, if they are of one or two weights.

    What a bucket's two sides have in common is no longer in their difference. What is, is weighed
    by the powers of a number of each key's, as the syndromes of a code weigh its errors (Peterson,
    IRE Transactions on Information Theory 6, 1960, with the integers for a field).

    Args:
        sums: what is left of each power's, from 0.
        bits: a weight's.

    Returns:
        the weights; [None] where they are more, or where the sums tell nothing.
    """
    s0, s1, s2, s3 = sums
    # Of weights v and w that leave a and b the sums are a + b, av + bw, avv + bww, avvv + bwww.
    scale = s0 * s2 - s1 * s1
    if scale:
        total, rest = divmod(s0 * s3 - s1 * s2, scale)
        product, other = divmod(s1 * s3 - s2 * s2, scale)
        square = total * total - 4 * product
        root = math.isqrt(max(0, square))
        whole = not rest and not other and square == root * root
        found = [(total - root) // 2, (total + root) // 2]
    else:
        weight, rest = divmod(s1, s0) if s0 else (-1, 0)
        found, whole = [weight], not rest
    return found if whole and 0 <= found[0] <= found[-1] < 1 << bits else [None]
