"""Doctests and the tests of the core on several kinds of processor and numbers of threads: `make test-processors`.

OpenBLAS chooses its kernels by the processor, and each rounds in its own way. `OPENBLAS_CORETYPE` makes it take
those of another one; kernels that this processor cannot run are left out, which is said.
"""

import os
import subprocess
import sys

try:
    import numpy._core._multiarray_umath as machine
except ModuleNotFoundError:  # before numpy 2
    import numpy.core._multiarray_umath as machine

KERNELS = {
    "Prescott": ("SSE3",),
    "Sandybridge": ("AVX",),
    "Haswell": ("AVX2", "FMA3"),
    "SkylakeX": ("AVX512_SKX",),
}
THREADS = (1, 2)
PARTS = [
    "README.md",
    "docs",
    "src",
    "tests/core",
    "tests/epoch",
    "tests/run",
    "tests/schemes",
    "tests/validation",
]


def main() -> int:
    """Run everything, and return how many of the runs failed."""
    core = sorted(f"tests/{name}" for name in os.listdir("tests") if name.startswith("test_"))
    failed = []
    for kernel, needed in KERNELS.items():
        missing = [feature for feature in needed if not machine.__cpu_features__.get(feature, False)]
        if missing:
            print(f"{kernel}: left out, since this processor has no {' and no '.join(missing)}", flush=True)
            continue
        for threads in THREADS:
            print(f"{kernel}, threads: {threads}", flush=True)
            environment = {**os.environ, "OPENBLAS_CORETYPE": kernel, "OPENBLAS_NUM_THREADS": str(threads)}
            command = [sys.executable, "-m", "pytest", "-q", *sys.argv[1:], *PARTS, *core]
            if subprocess.run(command, env=environment).returncode:
                failed.append(f"{kernel} with {threads} threads")
    print(f"failed: {', '.join(failed)}" if failed else "all passed")
    return len(failed)


if __name__ == "__main__":
    sys.exit(main())
