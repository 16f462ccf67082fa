"""Run every benchmark: `python -m benchmarks`."""

from benchmarks import core, free_spectrum

core.main()
free_spectrum.main()
