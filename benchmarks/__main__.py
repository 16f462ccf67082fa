"""Run every benchmark: `python -m benchmarks`."""

from benchmarks import (
    asymptotics,
    busy_cores,
    centred_maps,
    core,
    expected_risk,
    free_spectrum,
    leave_one_out,
    models,
    page,
    schemes,
    shuffle_once,
    startup,
    sweeps,
    training,
)

core.main()
busy_cores.main()
schemes.main()
shuffle_once.main()
expected_risk.main()
free_spectrum.main([])
asymptotics.main()
training.main()
centred_maps.main()
leave_one_out.main()
models.main()
sweeps.main()
startup.main()
page.main()
