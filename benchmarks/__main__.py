"""Run every benchmark that measures time: `python -m benchmarks`."""

import subprocess
import sys

for name in (
    "against_training", "schemes", "free_spectrum", "free_survey", "divide", "asymptotics", "one_pass",
    "single_runs", "scaling_laws", "centred_maps", "models", "sweeps", "startup", "page",
):  # fmt: skip
    subprocess.run([sys.executable, "-m", f"benchmarks.{name}"], check=True)
