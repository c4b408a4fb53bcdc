"""A sign test that stays valid however often it is looked at."""


def shown(favourable: int, total: int, confidence: float) -> bool:
    """Whether more than half of all devices are favourable, given that ``favourable`` of ``total`` are.

    If half or fewer were, this would ever be true, at any of infinitely many looks as devices arrive, with a
    probability of at most 1 - ``confidence`` (Ville's inequality; Robbins, Ann. Math. Stat. 41(5), 1970). The evidence
    is the likelihood ratio of the shares above one half, weighted alike, against one half:
    the integral of p**w * (1-p)**(n-w) over p from 1/2 to 1, times 2**(n+1), which is the sum of C(n+1, j) over j <= w,
    divided by (n+1) * C(n, w).
    """
    needed = (total + 1) / (1 - confidence)
    # The terms C(n+1, j) / C(n, w) from j = w downwards. All are positive, so the sum may end as soon as it suffices.
    term = (total + 1) / (total + 1 - favourable)
    evidence = 0.0
    for place in range(favourable, -1, -1):
        evidence += term
        if evidence >= needed:
            return True
        term *= place / (total + 2 - place)
    return False


def can_show(total: int, confidence: float) -> bool:
    """Whether so many devices suffice if all of them are favourable."""
    return shown(total, total, confidence)
