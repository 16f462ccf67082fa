"""All cases by name."""

from tests.golden import limits, planning, runs, thresholds
from tests.golden.record import Case

CASES: dict[str, Case] = {
    name: case for part in (runs, thresholds, planning, limits) for name, case in part.cases()
}
