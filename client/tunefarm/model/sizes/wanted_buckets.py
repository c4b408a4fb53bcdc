"""The buckets that a user asks for."""

import math
import re
from collections.abc import Mapping, Sequence
from typing import Final

from tunefarm_schemas.bad_input import BadInput
from tunefarm_schemas.frozen import Frozen

FIELD: Final = "bucket"
MAX_BUCKETS: Final = 8
"""Default of the most sizes that are chosen for a range."""
MAX_COMBINATIONS: Final = 64
"""Each combination of sizes is an entry that is imported, prepared and compiled."""
MAX_RANGE: Final = 4096
_FORMS: Final = "Write NAME=1,8,32 or NAME=1..128, with a dimension's name, or INPUT.AXIS such as x.0."
_NUMBER: Final = re.compile(r"[0-9]{1,9}")


class WantedDimension(Frozen):
    """A dynamic dimension, and its sizes, or the range that sizes are chosen in.

    ``places`` are the name of a dimension, or inputs with an axis: several have the same size.
    """

    places: tuple[str, ...]
    sizes: tuple[int, ...] = ()
    low: int = 0
    high: int = 0

    @property
    def name(self) -> str:
        """As the user gave it."""
        return ",".join(self.places)

    @property
    def is_range(self) -> bool:
        """Whether its sizes are to be chosen."""
        return not self.sizes

    @property
    def largest(self) -> int:
        """The largest size that it may have."""
        return self.high if self.is_range else self.sizes[-1]


class WantedBuckets(Frozen):
    """All that a user says of a model's dynamic dimensions.

    Attributes:
        dimensions: at least one.
        padding: what inputs are padded with, by name; zero for others.
        max_buckets: the most sizes that are chosen for a range.
        is_exact: inputs are not padded; only the given sizes are served.
    """

    dimensions: tuple[WantedDimension, ...]
    padding: Mapping[str, float] = {}
    max_buckets: int = MAX_BUCKETS
    is_exact: bool = False

    def require_usable(self) -> None:
        """Raise BadInput for contradictions, and for too many combinations of sizes."""
        if self.max_buckets < 1:
            raise BadInput("max_buckets", f"it is {self.max_buckets}.", "Give a positive number.")
        places = [place for each in self.dimensions for place in each.places]
        if twice := sorted({place for place in places if places.count(place) > 1}):
            raise BadInput(FIELD, f"{', '.join(twice)} is given twice.", "Give all sizes of a dimension at once.")
        if self.is_exact and any(each.is_range for each in self.dimensions):
            raise BadInput(FIELD, "sizes of a range are chosen for padded inputs.", "Name exact sizes: NAME=1,8,32.")
        if self.is_exact and self.padding:
            raise BadInput("pad", "inputs of exact sizes are not padded.", "Leave out --pad or --exact-buckets.")
        count = math.prod(len(each.sizes) or self.max_buckets for each in self.dimensions)
        if count > MAX_COMBINATIONS:
            fix = f"Give fewer sizes, or a smaller --max-buckets: at most {MAX_COMBINATIONS} combinations are built."
            raise BadInput(FIELD, f"the sizes have up to {count} combinations.", fix)


def named_sizes(places: Sequence[str], sizes: Sequence[int]) -> WantedDimension:
    """A dimension with these sizes. Raises BadInput if one is not positive."""
    if not places or not sizes or min(sizes) < 1 or not all(places):
        raise BadInput(FIELD, f"{','.join(places)!r} has the sizes {list(sizes)}.", _FORMS)
    return WantedDimension(places=tuple(places), sizes=tuple(sorted(set(sizes))))


def size_range(places: Sequence[str], low: int, high: int) -> WantedDimension:
    """A dimension with any size from ``low`` to ``high``. Raises BadInput for an empty or too long range."""
    if not places or not all(places) or not 1 <= low <= high:
        raise BadInput(FIELD, f"{','.join(places)!r} has the sizes {low}..{high}.", _FORMS)
    if high - low >= MAX_RANGE:
        fix = f"Name sizes, such as NAME=128,512,2048: a range has at most {MAX_RANGE} sizes."
        raise BadInput(FIELD, f"{','.join(places)} has {high - low + 1} sizes.", fix)
    return WantedDimension(places=tuple(places), low=low, high=high)


def parse_bucket(text: str) -> WantedDimension:
    """Parse ``NAME=1,8,32`` or ``NAME=1..128``. Raises BadInput."""
    name, equals, right = text.rpartition("=")
    places = name.split(",")
    numbers = right.split("..") if ".." in right else right.split(",")
    if not equals or not all(_NUMBER.fullmatch(each) for each in numbers):
        raise BadInput(FIELD, f"{text!r} is not NAME=N,N,... or NAME=N..N.", _FORMS)
    if ".." not in right:
        return named_sizes(places, [int(each) for each in numbers])
    if len(numbers) != 2:
        raise BadInput(FIELD, f"{text!r} is not a range.", _FORMS)
    return size_range(places, int(numbers[0]), int(numbers[1]))


def parse_padding(text: str) -> tuple[str, float]:
    """Parse ``INPUT=VALUE``. Raises BadInput."""
    name, equals, value = text.rpartition("=")
    try:
        number = float(value)
    except ValueError:
        number = math.nan
    if not name or not equals or math.isnan(number):
        raise BadInput("pad", f"{text!r} is not INPUT=VALUE.", "Write, say, --pad attention_mask=0.")
    return name, number


def wanted_buckets(
    buckets: Sequence[str], padding: Sequence[str] = (), max_buckets: int = MAX_BUCKETS, *, is_exact: bool = False
) -> WantedBuckets | None:
    """What a command line asks for; None without buckets.

    Raises:
        BadInput: an option is invalid, or is given without buckets.
    """
    if not buckets:
        if padding or is_exact:
            field = "pad" if padding else "exact_buckets"
            raise BadInput(field, "there is no bucket.", "Give the sizes of a dimension: --bucket NAME=1,8,32.")
        return None
    wanted = WantedBuckets(
        dimensions=tuple(parse_bucket(each) for each in buckets),
        padding=dict(parse_padding(each) for each in padding),
        max_buckets=max_buckets,
        is_exact=is_exact,
    )
    wanted.require_usable()
    return wanted


def require_runs(wanted: WantedBuckets, *, is_verified: bool) -> None:
    """Raise BadInput where buckets cannot be built without running the model."""
    if not wanted.is_exact and not is_verified:
        problem = "whether padding changes results is tested by running the model."
        raise BadInput("verify", problem, "Leave out --no-verify, or add --exact-buckets.")
