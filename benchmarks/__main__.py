"""Run every benchmark: `python -m benchmarks`."""

from benchmarks import core, free_spectrum, schemes

core.main()
schemes.main()
free_spectrum.main()
