"""Errors with fields, whose messages any front end can write in words of its own."""

import pickle

import pytest

import reshuffle as rs


def test_an_argument_error_has_fields_and_survives_another_process():
    with pytest.raises(ValueError, match="batches must be a whole number between 1 and 3") as caught:
        rs.RandomReshuffling(batches=7).steps(3)
    error = pickle.loads(pickle.dumps(caught.value))
    assert isinstance(error, rs.ArgumentError)
    assert (error.argument, error.given) == ("batches", "it is 7")
    assert error.worded({"batches": "--batches"}).startswith("--batches must be")
    assert str(error) == str(caught.value)


def test_alternatives_that_a_front_end_has_no_word_for_are_left_out():
    problem = rs.gaussian(30, 4, seed=0)
    with pytest.raises(rs.BudgetError) as caught:
        _ = rs.descend(problem, rs.RandomReshuffling(batches=30), alpha=0.1, method="exact").risk(1)
    assert str(caught.value).endswith('; try fewer batches or descend(..., method="auto").')
    assert caught.value.worded({}).endswith("; try fewer batches.")
    assert pickle.loads(pickle.dumps(caught.value)).hint == caught.value.hint
