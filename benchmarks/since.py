"""Compare the speed of every public question with that at an earlier commit: `python -m benchmarks.since COMMIT`.

Both sources answer the same questions in separate processes, in turns, so that a busy machine slows down both, and
processor time is compared. A question may use only names that both commits know. `--only WORD` asks those whose
name contains a word. The last line is the geometric mean of all ratios.
"""

import json
import math
import os
import subprocess
import sys
import tarfile
import tempfile
from io import BytesIO
from pathlib import Path

from rich.progress import track

from benchmarks.harness import arguments, show, table

_ROOT = Path(__file__).parent.parent
_ENOUGH = 1.0
"""Seconds after which a question is not repeated within a process."""
_LONGEST = 600
"""Seconds of wall clock after which a question is given up."""

_SHORT = """
def B(batches):
    return rs.RandomReshuffling(batches=batches)
def S(batch_size):
    return rs.SampleReshuffling(batch_size=batch_size)
def go(scheme, **recipe):
    return rs.descend(problem, scheme, **recipe)
"""
_DIGITS = """
from sklearn.datasets import load_digits
X, y = load_digits(return_X_y=True)
X = X[:, X.std(axis=0) > 0]
X = (X - X.mean(axis=0)) / X.std(axis=0)
problem = rs.LeastSquares(X, y - y.mean())
samples = rs.SampleReshuffling(batch_size=32)
def digits(**recipe):
    return rs.descend(problem, samples, step=0.01, **recipe)
"""
_DIABETES = """
from sklearn.datasets import load_diabetes
X, y = load_diabetes(return_X_y=True)
X, y = X / X.std(axis=0), y - y.mean()
problem = rs.LeastSquares(X, y)
"""
_FREE = """
from reshuffle import free
x, y = free.variables(free.MarchenkoPastur(ratio=0.5), free.Semicircle(variance=1.0))
p, q = free.variables(free.Projection(0.5), free.Projection(0.4))
law = free.Discrete([1.0, 3.0, 10.0], [0.5, 0.25, 0.25])
"""
_LIMITS = "from reshuffle import asymptotics\n"
_FRESH = "a process of its own"
"""In place of a preparation: the whole process is timed."""

_DRAWN = [
    ("risk, B = 4", 2000, 300, "go(B(4), alpha=0.5).risk(range(300))"),
    ("risk, B = 8", 200, 400, "go(B(8), alpha=0.2).risk(range(300))"),
    ("risk, B = 64", 640, 50, "go(B(64), alpha=0.02).risk(range(100))"),
    ("risk with momentum, B = 4", 400, 60, "go(B(4), alpha=0.2, momentum=0.5).risk([1, 10, 100])"),
    ("risk under a schedule, B = 4", 400, 60, "go(B(4), alpha=rs.schedules.CosineAnnealing(0.4, "
     "30)).risk([1, 10, 30])"),
    ("risk of an average per visit, B = 4", 400, 60, "go(B(4), alpha=0.2, average=rs.EMA(0.9, "
     "per='visit')).risk([1, 10, 100])"),
    ("risk in stages", 400, 60, "stages = rs.Stages([(5, rs.RandomReshuffling(batches=8)), (None, "
     "rs.RandomReshuffling(batches=2))]); go(stages, step=0.05).risk([1, 10, 100])"),
    ("risk, shuffled once, B = 5", 200, 20, "go(rs.ShuffleOnce(batches=5), alpha=0.5).risk([1, 10, 100])"),
    ("iterate and limit, B = 4", 400, 100, "run = go(B(4), alpha=0.5); run.iterate([1, 1e6]); run.limit()"),
    ("comparison with least squares, B = 4", 400, 100, "go(B(4), alpha=0.5).compare_limit()"),
    ("degrees of freedom, B = 4", 400, 100, "go(B(4), alpha=0.5).degrees_of_freedom(range(100))"),
    ("equivalent ridge, B = 4", 400, 100, "go(B(4), alpha=0.5).ridge_equivalent([1, 10])"),
    ("best epoch, B = 3", 300, 200, "go(B(3), alpha=0.2).best_epoch()"),
    ("gradient flow", 400, 100, "rs.gradient_flow(problem).risk([0.1, 1.0, 10.0])"),
    ("expected risk, B = 4", 400, 100, "go(B(4), alpha=0.5).expected_risk([1, 10, 30])"),
    ("expected risk with Nesterov, B = 4", 200, 30, "go(B(4), alpha=0.1, momentum=0.8, "
     "nesterov=True).expected_risk([1, 10, 30])"),
    ("expected risk in the end, B = 4", 200, 30, "go(B(4), alpha=0.5).expected_risk(float('inf'))"),
    ("expected risk of shuffled samples", 200, 20, "go(S(20), alpha=0.5).expected_risk([1, 10])"),
    ("covariance, B = 4", 200, 30, "go(B(4), alpha=0.5).covariance([1, 10]).matrix"),
    ("500 simulated runs, B = 4", 200, 50, "rs.simulate(problem, B(4), step=0.05, epochs=[1, 10], runs=500, "
     "seed=0)"),
    ("stability, B = 4", 400, 100, "go(B(4), alpha=0.5).stability()"),
    ("mean square stability, B = 8", 200, 8, "go(B(8), alpha=0.5).mean_square_stability()"),
    ("critical step, B = 4", 200, 30, "rs.critical_step(problem, B(4), mean_square=False)"),
    ("critical step in mean square, B = 4", 100, 8, "rs.critical_step(problem, B(4), mean_square=True)"),
    ("critical step with momentum, B = 4", 100, 8, "rs.critical_step(problem, B(4), momentum=0.5, "
     "mean_square=False)"),
    ("critical step of shuffled samples", 100, 8, "rs.critical_step(problem, S(10), mean_square=False)"),
    ("critical step of shuffled samples in mean square", 100, 8, "rs.critical_step(problem, S(10), "
     "mean_square=True)"),
    ("leave-one-out, B = 4", 400, 100, "go(B(4), alpha=0.5).leave_one_out(range(100))"),
    ("leave-one-out of the full batch", 1000, 500, "go(rs.FullBatch(), alpha=0.5).leave_one_out(range(100))"),
    ("compare schemes", 60, 5, "rs.compare_schemes(problem, [B(4), rs.SampleReshuffling(batches=4), "
     "rs.WithReplacement(batches=4)], alpha=0.5)"),
]  # fmt: skip
"""Of problems that are drawn: what is asked, rows and columns, and the question."""

_QUESTIONS: dict[str, tuple[str, str]] = {
    # Starting.
    "import": (_FRESH, "-c 'import reshuffle; reshuffle.descend'"),
    "command line, --help": (_FRESH, "-m reshuffle --help"),
    "command line, stability": (_FRESH, "-m reshuffle stability --n 200 --p 20 --batches 1,2,4"),
    **{
        f"{what}, n = {n}, p = {p}": (f"problem = rs.gaussian({n}, {p}, noise=0.5, seed=1)\n", question)
        for what, n, p, question in _DRAWN
    },
    # The mean over orders.
    "training loss of digits, shuffled samples": (_DIGITS, "digits().training_loss([1, 10, 100])"),
    "training loss of digits with momentum": (_DIGITS, "digits(momentum=0.9).training_loss([1, 10, 100])"),
    # Single runs: second moments.
    "spread of predictions of digits": (_DIGITS, "digits().predict(X[:100], 10, return_std=True)"),
    "spread of predictions of digits with momentum": (
        _DIGITS,
        "digits(momentum=0.9).predict(X[:100], 10, return_std=True)",
    ),
    # Thresholds.
    # Rows that are left out.
    "leave-one-out of digits": (_DIGITS, "digits().leave_one_out([1, 10])"),
    "leave-one-out of digits with momentum": (_DIGITS, "digits(momentum=0.9).leave_one_out([1, 10])"),
    "leave-one-out of single runs, diabetes": (
        _DIABETES,
        "go(S(64), step=0.05).leave_one_out([1, 10], of_run=True)",
    ),
    "five folds, diabetes": (_DIABETES, "go(S(64), step=0.05).cross_validate([1, 10])"),
    # Planning.
    "plan, diabetes": (_DIABETES, "rs.plan(X, y)"),
    "plan with momentum, diabetes": (_DIABETES, "rs.plan(X, y, momenta=[0.0, 0.9])"),
    "plan, digits": (_DIGITS, "rs.plan(X, y)"),
    "match, diabetes": (_DIABETES, "rs.match(go(B(4), step=0.1), batch_size=64, epochs=20)"),
    "explain, diabetes": (
        _DIABETES + "run = go(B(4), step=0.1); fit = run.iterate(7)\n",
        "rs.explain(X, y, fit, run, epochs=7)",
    ),
    "sweep of 60 recipes, diabetes": (
        _DIABETES,
        "rs.sweep(problem, over={'batches': [1, 2, 4], 'step': [0.01 * k for k in range(1, 21)]}, "
        "ask=['training_loss', 'leave_one_out'], epochs=[1, 10, 100])",
    ),
    "sweep of shuffled samples, diabetes": (
        _DIABETES,
        "rs.sweep(problem, over={'batch_size': [32, 64], 'step': [0.01, 0.05]}, "
        "scheme=rs.SampleReshuffling, ask=['training_loss', 'leave_one_out'], epochs=[1, 10, 100])",
    ),
    "accumulated pieces, n = 20000, p = 50": (
        "problem = rs.gaussian(20_000, 50, seed=1)\npieces = [(problem.X[i::20], problem.y[i::20], "
        "i % 4) for i in range(20)]\n",
        "kept = rs.Accumulator(batches=4)\n    for rows, responses, batch in pieces: kept.add(rows, "
        "responses, batch=batch)\n    rs.descend(kept.problem(), B(4), step=0.1).iterate(10)",
    ),
    "kernel of 300 samples": (
        _DIABETES + "import numpy as np\nK = np.exp(-((X[:300, None] - X[:300]) ** 2).sum(axis=-1) / 20)\n",
        "rs.descend(rs.LeastSquares.from_kernel(K, y[:300]), B(4), step=0.5).training_loss([1, 10])",
    ),
    "estimator, diabetes": (
        _DIABETES + "from reshuffle.sklearn import MiniBatchRegressor\n",
        "MiniBatchRegressor(learning_rate=0.05, epochs=20).fit(X, y).predict(X)",
    ),
    "estimator with its choice, diabetes": (
        _DIABETES + "from reshuffle.sklearn import MiniBatchRegressorCV\n",
        "MiniBatchRegressorCV(batch_sizes=(32, 64)).fit(X, y)",
    ),
    "probe of a frozen backbone": (
        "import torch\nfrom torch.utils.data import DataLoader, TensorDataset\nimport reshuffle.torch\n"
        "torch.manual_seed(0)\ninputs, labels = torch.randn(300, 20), torch.arange(300) % 3\n"
        "loader = DataLoader(TensorDataset(inputs, labels), batch_size=32, shuffle=True)\n"
        "backbone = torch.nn.Sequential(torch.nn.Linear(20, 30), torch.nn.ReLU())\n",
        "head = reshuffle.torch.probe(backbone, loader)\n    head.accuracy(rs.descend(head.problem, S(32), "
        "step=0.05), [1, 10])",
    ),
    # Limits with no data.
    "limiting curve, B = 2": (_LIMITS, "asymptotics.learning_curve(0.5, 0.5, 2).risk([1, 10, 100])"),
    "limiting curve, B = 4": (_LIMITS, "asymptotics.learning_curve(0.5, 0.5, 4).risk([1, 10, 100])"),
    "limiting curve, B = 4, two eigenvalues": (
        _LIMITS,
        "asymptotics.learning_curve(0.5, 0.1, 4, covariance=[1.0, 4.0]).risk([1, 10, 100])",
    ),
    "limiting support, B = 8": (_LIMITS, "asymptotics.batch_spectrum(0.5, 0.4, 8).support"),
    "limiting support with a gap, B = 8": (
        _LIMITS,
        "asymptotics.batch_spectrum(0.5, 0.005, 8, [1.0, 100.0]).support",
    ),
    "critical alpha, B = 2": (_LIMITS, "asymptotics.critical_alpha(0.5, 2)"),
    "critical alpha, B = 3": (_LIMITS, "asymptotics.critical_alpha(0.5, 3)"),
    "best recipe, B = 2, three epochs": (
        _LIMITS,
        "asymptotics.best_recipe(0.5, noise=0.5, batches=2, epochs=3)",
    ),
    "best recipe, B = 4, one epoch": (_LIMITS, "asymptotics.best_recipe(0.5, 0.5, batches=4, epochs=1)"),
    "one pass, p = 10000": (
        _LIMITS + "power, source = asymptotics.PowerLaw(1.5, 10_000), asymptotics.PowerLaw(0.8, 10_000)\n",
        "asymptotics.one_pass(power, source, 4, 0.1, [1, 100, 1000])",
    ),
    "compute frontier": (
        _LIMITS,
        "asymptotics.compute_frontier(asymptotics.PowerLaw(1.5), asymptotics.PowerLaw(0.8), 4, 0.1, [1e5, 1e7])",
    ),
    # Free probability.
    "free density, 400 points": (
        _FREE + "import numpy as np\n",
        "free.spectrum(x + y - (x * y + y * x) / 4).density(np.linspace(-5, 8, 400))",
    ),
    "free support and atoms": (_FREE, "s = free.spectrum(x * y + y * x); s.support, s.atoms"),
    "free support, two projections": (_FREE, "free.spectrum(p + q).support"),
    "free cdf and quantile": (_FREE, "s = free.spectrum(x + y); s.cdf(1.0), s.quantile(0.3)"),
    "free moments": (_FREE, "free.spectrum(x * y * x + y).moments(8)"),
    "free multiplicative convolution": (_FREE, "free.multiply(law, free.MarchenkoPastur(0.1)).support"),
    "free deconvolution": (
        _FREE + "seen = free.multiply(law, "
        "free.MarchenkoPastur(0.1)).quantile([(k + 0.5) / 200 for k in range(200)])\n",
        "free.divide(seen, free.MarchenkoPastur(0.1)).law",
    ),
    "Brown measure": (_FREE, "free.brown(x + 1j * y).density([0.1 + 0.1j, 1.0 + 0.5j])"),
}
"""What is done before, and what is timed."""


def unpacked(commit: str, where: Path) -> Path:
    """The sources of a commit, in a folder."""
    archive = subprocess.run(
        ["git", "archive", commit, "src"], cwd=_ROOT, check=True, capture_output=True
    ).stdout
    with tarfile.open(fileobj=BytesIO(archive)) as files:
        files.extractall(where, filter="data")
    return where / "src"


def _program(before: str, question: str) -> str:
    """A program that prints the shortest processor time of a question, asked until a second has passed."""
    if before == _FRESH:
        return (
            "import resource, shlex, subprocess, sys\n"
            f"subprocess.run([sys.executable, *shlex.split({question!r})], check=True, capture_output=True)\n"
            "used = resource.getrusage(resource.RUSAGE_CHILDREN)\n"
            "print(used.ru_utime + used.ru_stime)"
        )
    return (
        f"import json, time, warnings\nimport reshuffle as rs\nwarnings.simplefilter('ignore')\n"
        f"{_SHORT}{before}\n"
        f"taken = []\nwhile len(taken) < 5 and sum(taken) < {_ENOUGH}:\n    begin = time.process_time()\n"
        f"    {question}\n    taken.append(time.process_time() - begin)\nprint(min(taken))"
    )


def seconds(source: Path, before: str, question: str) -> float:
    """Processor time of a question with the given sources; inf where it fails or takes too long."""
    settings = {**os.environ, "PYTHONPATH": str(source), "OPENBLAS_NUM_THREADS": "1"}
    # Both are compiled once: an import that compiles is no import that anyone waits for twice.
    settings.pop("PYTHONDONTWRITEBYTECODE", None)
    try:
        done = subprocess.run(
            [sys.executable, "-c", _program(before, question)],
            check=True,
            capture_output=True,
            text=True,
            env=settings,
            timeout=_LONGEST,
        )
    except subprocess.TimeoutExpired:
        return math.inf
    except subprocess.CalledProcessError as failure:
        print(f"{question}\n{failure.stderr}", file=sys.stderr)
        return math.inf
    return float(done.stdout.splitlines()[-1])


def main() -> None:
    """Print both times and their ratio for each question, and the geometric mean of the ratios."""
    options = arguments(
        __doc__,
        _commit="HEAD",
        only=("", "questions whose name contains this"),
        rounds=(3, "how often both are asked in turns"),
        json=("", "a file for the numbers"),
    )
    made = table(f"Since {options.commit}", "question", "seconds then", "now", "now / then")
    numbers: dict[str, tuple[float, float]] = {}
    with tempfile.TemporaryDirectory() as folder:
        sources = unpacked(options.commit, Path(folder)), _ROOT / "src"
        chosen = {name: both for name, both in _QUESTIONS.items() if options.only in name}
        for name, (before, question) in track(chosen.items(), "asking", total=len(chosen)):
            rounds = [
                [seconds(source, before, question) for source in sources] for _ in range(options.rounds)
            ]
            then, now = (min(column) for column in zip(*rounds, strict=True))
            numbers[name] = then, now
            made.add_row(name, f"{then:.3g}", f"{now:.3g}", f"{now / then:.2f}")
            if options.json:
                # A run that is cut short leaves the rows it has.
                Path(options.json).write_text(json.dumps(numbers, indent=1))
    known = [now / then for then, now in numbers.values() if math.isfinite(now) and math.isfinite(then)]
    mean = math.exp(sum(map(math.log, known)) / max(len(known), 1))
    made.add_row(f"geometric mean of {len(known)}", "", "", f"{mean:.2f}")
    show(lambda: made, width=110)


if __name__ == "__main__":
    main()
