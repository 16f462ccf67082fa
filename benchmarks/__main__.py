"""Run every benchmark: `python -m benchmarks`."""

from benchmarks import asymptotics, core, expected_risk, free_spectrum, schemes, startup

core.main()
schemes.main()
expected_risk.main()
free_spectrum.main()
asymptotics.main()
startup.main()
