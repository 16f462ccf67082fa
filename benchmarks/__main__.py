"""Run every benchmark: `python -m benchmarks`."""

from benchmarks import core, free_spectrum, startup

core.main()
free_spectrum.main()
startup.main()
