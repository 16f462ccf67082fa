"""Run every benchmark: `python -m benchmarks`."""

from benchmarks import asymptotics, busy_cores, core, expected_risk, free_spectrum, schemes, startup

core.main()
busy_cores.main()
schemes.main()
expected_risk.main()
free_spectrum.main()
asymptotics.main()
startup.main()
