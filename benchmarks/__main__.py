"""Run every benchmark: `python -m benchmarks`."""

from benchmarks import asymptotics, core, free_spectrum, startup

core.main()
free_spectrum.main()
asymptotics.main()
startup.main()
