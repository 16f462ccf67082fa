"""Run every benchmark: `python -m benchmarks`."""

from benchmarks import core

core.main()
