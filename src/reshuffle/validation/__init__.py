"""The test error without the truth: rows that are left out, and predicted by what was learned without them."""

from reshuffle.validation.leave_one_out import LeaveOneOut, LeftOutAnswer

__all__ = ["LeaveOneOut", "LeftOutAnswer"]
