"""Property-based tests: the same examples on every machine, and no deadline on a shared one."""

from hypothesis import settings

settings.register_profile("reshuffle", deadline=None, derandomize=True, max_examples=60)
settings.load_profile("reshuffle")
