"""Run every benchmark: `python -m benchmarks`."""

from benchmarks import (
    against_training,
    asymptotics,
    centred_maps,
    divide,
    free_spectrum,
    free_survey,
    models,
    one_pass,
    page,
    scaling_laws,
    schemes,
    single_runs,
    startup,
    sweeps,
)

against_training.main([])
schemes.main()
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
