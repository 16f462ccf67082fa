"""`reshuffle advise`: the plan for one's own table, told, drawn, and as programs that really train."""

import io
import json
import re
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import reshuffle as rs
from reshuffle.cli import reader
from tests.cli.terminal import answer, run, shown
from tests.looped import for_all

rng = np.random.default_rng(5)
N = 90
FLATS = pd.DataFrame(
    {
        "id": [f"flat {number}" for number in range(N)],
        "size": rng.normal(100, 20, N).round(3),
        "rooms": rng.integers(1, 6, N),
        "city": rng.choice(["none", "Paris", "Köln, Mitte"], N),
        "seven": 7.5,
    }
)
FLATS["price"] = 3 * FLATS["size"] + 20 * FLATS.rooms + 90 * (FLATS.city == "Paris") + rng.normal(0, 40, N)
FLATS["rent"] = 5 + FLATS.price / 200 + rng.normal(0, 0.3, N)
HELD_OUT, TRAINED = FLATS[60:], FLATS[:60]
SEEDS = 16
QUICK = "--one-hot city --drop id --batch-size 16 --epochs 50"
PRICE = f"advise --data mine.csv --target price --drop rent {QUICK}"


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "120")
    TRAINED.to_csv("mine.csv", index=False)
    # Other columns in another order, and a category less.
    HELD_OUT[HELD_OUT.city != "none"].iloc[:, ::-1].drop(columns="id").to_csv("other.csv", index=False)


def features(table):
    """The features of the flats, as pandas has them."""
    return pd.get_dummies(table[["size", "rooms", "city"]], columns=["city"], dtype=float)


def executed(program, seed=0):
    """The variables that a program leaves behind."""
    found = {}
    exec(compile(program.replace("manual_seed(0)", f"manual_seed({seed})"), "<program>", "exec"), found)
    return found


def test_it_is_the_plan_for_the_table(capsys):
    line = "advise --data mine.csv --target price --drop rent --one-hot city --drop id --epochs 300"
    found = answer(capsys, line)
    plan = rs.plan(features(TRAINED).to_numpy(), TRAINED.price.to_numpy(), epochs=300)
    told = found["recommendation"]
    assert (told["batch_size"], told["epochs"]) == (plan.best.batch_size, plan.best.epochs)
    assert told["learning_rate"] == pytest.approx(plan.best.step, rel=1e-9)
    assert told["test_error"] == pytest.approx(plan.test_error, rel=1e-9)
    assert found["safe_learning_rate"] == pytest.approx(plan.best.step / plan.best.share)
    assert found["data"]["features"] == list(features(TRAINED).columns)
    assert found["data"]["constant"] == ["seven"]
    assert found["data"]["dropped"] == ["rent", "id"]
    slopes, intercept = plan.coefficients
    np.testing.assert_allclose(np.ravel(found["coefficients"]), slopes, rtol=1e-9)
    np.testing.assert_allclose(found["intercept"], [intercept], rtol=1e-9)
    assert {one["name"] for one in found["choices"]} >= {"recommended", "least squares", "ridge"}


def test_it_speaks_as_a_person_would(capsys):
    text = shown(capsys, f"{PRICE} --test other.csv")
    words = " ".join(text.split())
    assert (
        "mine.csv: 60 rows, 5 features; target price; encoded city (3 categories); left out rent, id; "
        "left out as constant seven." in words
    )
    assert re.search(
        r"Train with batches of 16, learning rate [\d.e-]+, for \d+ epochs?; "
        r"expect a test error of [\d.]+ ± [\d.]+ \(RMSE, 95% interval [\d.]+ to [\d.]+; "
        r"price has a standard deviation of [\d.]+\), a mean square of \d+ ± \d+\.",
        words,
    )
    assert re.search(
        r"The learning rate is [\d.]+ times [\d.]+, below which convergence is guaranteed; "
        r"single runs converge up to [\d.]+( ± [\d.e-]+)?\. Single runs vary by [\d.]+% of the test error: "
        r"to see that a recipe is 1% better takes \d+ runs? of each\. Without training: ",
        words,
    )
    assert words.count("guaranteed") == 1
    assert "least squares " in words
    assert re.search(
        r"On the \d+ rows of other\.csv the mean over all orders has an error of [\d.]+ ± [\d.]+", words
    )
    for line in ("recommended ", "rate too small ", "trained too long ", "ridge "):
        assert f"\n{line}" in text
    assert "expected test error (RMSE of price)" in text
    assert "⠉" in text or "⠤" in text
    # Programs are not folded: every line of theirs can be copied.
    for program in answer(capsys, f"{PRICE} --test other.csv")["snippets"].values():
        assert program in text


def spread_of_training(found, table):
    """The standard deviation over orders of the coefficients of a single run, by the run itself."""
    X, y = features(table).to_numpy(), table.price.to_numpy()
    prepared = rs.LeastSquares((X - X.mean(axis=0)) / X.std(axis=0), y - y.mean())
    told = found["recommendation"]
    recipe = {"momentum": told["momentum"], "penalty": told["weight_decay"]}
    scheme = rs.SampleReshuffling(batch_size=told["batch_size"])
    run_ = rs.descend(prepared, scheme, told["learning_rate"], **recipe)
    factor = run_.covariance(told["epochs"]).factor
    return np.sqrt(np.square(factor).sum(axis=1)) / X.std(axis=0)


@pytest.mark.slow
@pytest.mark.parametrize("recipe", ["", "--momentum 0.5 --penalty 0.05"])
def test_the_torch_program_trains_what_was_predicted(capsys, recipe):
    found = answer(capsys, f"{PRICE} {recipe}")
    program = found["snippets"]["torch"]
    trained = []
    for seed in range(SEEDS):
        left = executed(program, seed)
        trained.append(left["model"].weight.detach().numpy()[0] / left["x_scale"].to_numpy())
    deviation = spread_of_training(found, TRAINED)
    mean = np.ravel(found["coefficients"])
    assert (deviation > 1e-4 * np.abs(mean).max()).all()
    away = (np.mean(trained, axis=0) - mean) / (deviation / np.sqrt(SEEDS))
    assert np.abs(away).max() < 4
    # The variance of 16 runs, times 15, is chi-squared with 15 degrees of freedom: 99% of it is within these ends.
    ratio = np.var(trained, axis=0, ddof=1) / deviation**2
    assert ratio.min() > 4.6 / 15
    assert ratio.max() < 32.8 / 15
    rows = features(HELD_OUT)
    predicted = left["predict"](rows)[:, 0]
    assert predicted == pytest.approx(rows.to_numpy() @ mean + found["intercept"][0], rel=0.05)


@for_all("targets", ["--target price --drop rent", "--target price --target rent"])
def test_the_learning_rate_for_mean_squared_loss_is_right(capsys, targets):
    """The comment of the torch program says what nn.MSELoss would need: with it the run is the same."""
    program = answer(capsys, f"advise --data mine.csv {targets} {QUICK} --penalty 0.05")["snippets"]["torch"]
    rate, decay = re.search(r"with it, take lr=([\d.e-]+), weight_decay=([\d.e-]+)\.", program).groups()
    other = re.sub(r"loss = .*", "loss = nn.MSELoss()(model(x), answer)", program)
    other = re.sub(r"lr=[\d.e-]+, weight_decay=[\d.e-]+\)", f"lr={rate}, weight_decay={decay})", other)
    assert other != program
    one, two = (executed(text)["model"].weight.detach().numpy() for text in (program, other))
    np.testing.assert_allclose(one, two, rtol=1e-3, atol=1e-5 * np.abs(one).max())


def test_the_units_of_several_targets_do_not_matter(capsys):
    both = f"advise --data mine.csv --target price --target rent {QUICK} --test other.csv"
    plain = answer(capsys, both)
    TRAINED.assign(rent=1000 * TRAINED.rent).to_csv("mine.csv", index=False)
    HELD_OUT.assign(rent=1000 * HELD_OUT.rent).to_csv("other.csv", index=False)
    other = answer(capsys, both)
    intervals = [one["recommendation"].pop("interval") for one in (other, plain)]
    assert intervals[0] == pytest.approx(intervals[1])
    assert other["recommendation"] == pytest.approx(plain["recommendation"])
    np.testing.assert_allclose(np.array(other["coefficients"]) / plain["coefficients"], [[1.0, 1000.0]] * 5)
    np.testing.assert_allclose(np.array(other["intercept"]) / plain["intercept"], [1.0, 1000.0])
    ratio = np.array(other["test_error_of_targets"]) / plain["test_error_of_targets"]
    np.testing.assert_allclose(ratio, [1.0, 1e6])
    words = " ".join(shown(capsys, both).split())
    assert re.search(r"[\d.]+ ± [\d.]+ of the variance of the targets .* \(RMSE: price [\d.]+ ± ", words)


@for_all("way", ["semicolons", "decimal commas", "spaces", "names of rows", "parquet", "index"])
def test_the_programs_read_the_file_as_it_was_read(capsys, way):
    name, drop = "mine.parquet" if way in ("parquet", "index") else "mine.csv", "rent"
    if way == "parquet":
        TRAINED.to_parquet(name)
    elif way == "index":
        TRAINED.set_index(["id", "size"]).to_parquet(name)
    elif way == "names of rows":
        TRAINED.set_index("house " + TRAINED.id.astype(str)).rename_axis(None).to_csv(name)
        drop = "rent --drop ''"
    elif way == "spaces":
        TRAINED.rename(columns=lambda column: f" {column} ").to_csv(name, index=False)
    else:
        TRAINED.to_csv(name, index=False, sep=";", decimal="," if way == "decimal commas" else ".")
    outcome = run(capsys, f"advise --data {name} --target price --drop {drop} {QUICK} --json -")
    assert outcome.code == 0, outcome.err
    assert ("has decimal commas" in outcome.err) == (way == "decimal commas")
    left = executed(json.loads(outcome.out)["snippets"]["torch"])
    names = json.loads(outcome.out)["data"]["features"]
    assert list(left["X"]) == names
    pd.testing.assert_frame_equal(left["X"], features(TRAINED)[names], check_dtype=False)
    np.testing.assert_allclose(left["y"].to_numpy()[:, 0], TRAINED.price)


def test_programs_for_standard_input_read_it_from_there(capsys, monkeypatch):
    reader._standard_input.cache_clear()
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(Path("mine.csv").read_bytes())))
    line = PRICE.replace("mine.csv", "-")
    assert shown(capsys, line).startswith("standard input: 60 rows")
    program = answer(capsys, line)["snippets"]["scikit_learn"]
    reader._standard_input.cache_clear()
    assert "read_csv(open(0), " in program
    left = executed(program.replace("open(0)", '"mine.csv"'))
    pd.testing.assert_frame_equal(left["X"], features(TRAINED), check_dtype=False)


@pytest.mark.slow
def test_files_and_pictures(capsys):
    line = "advise --data mine.csv --target price --drop rent --one-hot city --drop id --epochs 50 --test other.csv"
    for picture in ("a.png", "a.svg"):
        shown(capsys, f"{line} --plot {picture} --csv a.csv")
        assert Path(picture).stat().st_size > 10_000
    table = pd.read_csv("a.csv")
    assert list(table) == ["batch_size", "learning_rate", "weight_decay", "epoch", "mean_square", "spread"]
    assert set(table.batch_size) == {16, 32, 60}
    least = (table.mean_square + table.spread).min()
    assert least == pytest.approx(answer(capsys, line)["recommendation"]["test_error"], rel=0.05)


@pytest.mark.slow
def test_what_is_predicted_is_tried_on_held_out_rows(capsys, monkeypatch):
    read, paths = pd.read_csv, []
    with monkeypatch.context() as patch:
        patch.setattr(
            pd, "read_csv", lambda file, **settings: (paths.append(file.name), read(file, **settings))[1]
        )
        found = answer(capsys, f"{PRICE} --momentum 0.5 --penalty 0.05 --test other.csv")
    assert paths == ["mine.csv", "other.csv"]
    rows = HELD_OUT[HELD_OUT.city != "none"]
    X = features(rows).reindex(columns=found["data"]["features"], fill_value=0.0).to_numpy()
    squares = np.square(X @ np.ravel(found["coefficients"]) + found["intercept"][0] - rows.price)
    tried = found["test"]
    assert tried["rows"] == len(rows)
    assert tried["mean_run"] == pytest.approx(squares.mean(), rel=1e-9)
    assert tried["standard_error"] == pytest.approx(squares.std() / np.sqrt(len(rows)), rel=1e-9)
    assert tried["predicted"] == found["recommendation"]["test_error"]
    # The names of the last release.
    assert (tried["promised"], tried["promised_error"]) == (tried["predicted"], tried["predicted_error"])
    assert tried["single_run"] != tried["mean_run"]
    assert tried["single_run"] == pytest.approx(tried["mean_run"], rel=0.1)
    # The program of torch tells the held-out error of its run, and that of scikit-learn has the mean run.
    executed(found["snippets"]["torch"])
    printed = re.search(r"test error: \{'price': ([\d.]+)\}", capsys.readouterr().out)
    assert float(printed[1]) == pytest.approx(tried["mean_run"], rel=0.1)
    model = executed(found["snippets"]["scikit_learn"])["model"]
    np.testing.assert_allclose(np.ravel(model.coef_), np.ravel(found["coefficients"]), rtol=1e-3)
    np.testing.assert_allclose(model.intercept_, found["intercept"], rtol=1e-3)


def test_what_is_odd_about_a_table_is_told(capsys):
    line = (
        "advise --data mine.csv --target price --drop rent --one-hot city --drop id --batch-size 60 --epochs"
    )
    found = answer(capsys, f"{line} 1")
    assert found["ridge"]["mean_square"] < 0.9 * found["recommendation"]["test_error"]
    assert re.search("Here (ridge|least squares) does better than training.", shown(capsys, f"{line} 1"))
    assert "does better" not in shown(capsys, f"{line} 100")
    TRAINED[["size", "rooms"]].assign(area=0.1 * TRAINED["size"]).to_csv("leak.csv", index=False)
    notes = answer(capsys, "advise --data leak.csv --target area --batch-size 16 --epochs 50")["notes"]
    assert "'size' alone determines y: check for a leak" in notes
    noise = np.random.default_rng(1).normal(size=len(TRAINED))
    TRAINED.assign(price=noise).to_csv("mine.csv", index=False)
    assert "That is no better than always predicting the mean." in shown(capsys, PRICE)
    # An index, and categories that are new.
    TRAINED.assign(id=range(len(TRAINED))).to_csv("mine.csv", index=False)
    HELD_OUT.assign(id=range(30), city="Rome").to_csv("other.csv", index=False)
    outcome = run(capsys, f"{PRICE.replace(' --drop id', '')} --test other.csv --json -")
    assert outcome.code == 0, outcome.err
    assert "warning: mine.csv has what looks like an index of its rows" in outcome.err
    assert "warning: other.csv: column 'city' has categories that mine.csv has not: Rome." in outcome.err


def classified(kind, rows=150):
    """A table with two features, and a target of three classes or two, by the sign of a score with noise."""
    rng = np.random.default_rng(5)
    X = rng.normal(size=(rows, 2))
    score = X @ [2.0, -1.0] + 0.5 * rng.normal(size=rows)
    number = np.digitize(score, [-1.0, 1.0]) if kind in ("text", "numbers") else (score > 0).astype(int)
    names = {"text": ["ham", "eggs", "spam"], "numbers": [3, 1, 2], "flags": [False, True]}[kind]
    return pd.DataFrame(X, columns=["a", "b"]).assign(kind=np.array(names)[number])


@for_all("kind", ["text", "numbers", "flags"])
def test_classes_are_learned(capsys, kind):
    table = classified(kind)
    table[:100].to_csv("mine.csv", index=False)
    table[100:].to_csv("other.csv", index=False)
    line = "advise --data mine.csv --target kind --test other.csv" + " --classes" * (kind == "numbers")
    found = answer(capsys, line)
    plan = rs.plan(table[["a", "b"]][:100], table.kind[:100], classes=True)
    assert found["classes"] == plan.classes.tolist() == np.unique(table.kind).tolist()
    assert found["accuracy"] == pytest.approx(plan.accuracy)
    np.testing.assert_allclose(found["confusion"], plan.classification.confusion)
    assert (
        np.sum(found["confusion"], axis=1).tolist()
        == np.unique(table.kind[:100], return_counts=True)[1].tolist()
    )
    # The programs, run on the held-out rows, tell as many of them right as the run that was trained.
    for program in found["snippets"].values():
        capsys.readouterr()
        executed(program)
        printed = float(re.search(r"accuracy: ([\d.]+)", capsys.readouterr().out)[1])
        assert printed == pytest.approx(found["test"]["accuracy"], abs=0.05)
    assert found["test"]["accuracy"] == pytest.approx(found["accuracy"], abs=0.15)
    words = " ".join(shown(capsys, line).split())
    assert re.search(r"expect an accuracy of 0\.\d+ ± 0\.\d+ .*, a mean square of ", words)
    first, counted = plan.classes[0], plan.classification.confusion[0]
    assert f"Of {counted.sum():g} rows of {first}, a single run is expected to tell " in words
    assert "That run tells 0." in words
    assert "; the accuracy is the share of new rows that " in words


def test_numbers_are_classes_only_if_that_is_told(capsys):
    classified("numbers").to_csv("mine.csv", index=False)
    line = "advise --data mine.csv --target kind"
    assert answer(capsys, line)["classes"] is None
    assert "if they are classes, reshuffle advise --classes learns them." in " ".join(
        shown(capsys, line).split()
    )


def test_classes_that_cannot_be_learned_are_refused(capsys):
    table = classified("text")
    table.to_csv("mine.csv", index=False)
    line = "advise --data mine.csv --target kind"
    table.assign(kind="toast").to_csv("other.csv", index=False)
    assert "column 'kind' has others: toast." in run(capsys, f"{line} --test other.csv").err
    assert "is 'toast' in every row" in run(capsys, line.replace("mine", "other")).err
    assert "--classes must come with a single --target" in run(capsys, f"{line} --target a --classes").err
    table.assign(kind=table.kind.where(table.index != 7)).to_csv("gap.csv", index=False)
    assert "1 missing value, the first in line 9" in run(capsys, line.replace("mine", "gap")).err
    # Text that is meant as numbers or dates is none.
    for pair in (("12.5%", "3 %"), ("2024-01-31", "2024-02-29"), ("one", "2")):
        table.assign(kind=[*pair] * 75).to_csv("odd.csv", index=False)
        assert "column 'kind' must be a number, but it is" in run(capsys, line.replace("mine", "odd")).err
    # Commands about numbers say who learns classes.
    for command in ("stability", "curve --step 0.1", "sweep --out a.nc", "influence --row 1 --step 0.1"):
        assert "reshuffle advise --classes learns classes" in run(capsys, f"{command} --data mine.csv").err
