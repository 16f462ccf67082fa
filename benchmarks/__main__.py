"""Run every benchmark: `python -m benchmarks`."""

from benchmarks import (
    against_training,
    asymptotics,
    busy_cores,
    centred_maps,
    core,
    divide,
    expected_risk,
    free_spectrum,
    free_survey,
    models,
    one_pass,
    page,
    scaling_laws,
    schemes,
    shuffle_once,
    single_runs,
    startup,
    sweeps,
)

against_training.main([])
core.main()
busy_cores.main()
schemes.main()
shuffle_once.main()
expected_risk.main()
free_spectrum.main([])
free_survey.main([])
divide.main([])
asymptotics.main()
one_pass.main()
single_runs.main()
scaling_laws.main()
centred_maps.main()
models.main()
sweeps.main()
startup.main()
page.main()
