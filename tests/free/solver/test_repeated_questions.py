"""Questions that are asked again, and the threads that answer them."""

import numpy as np
import pytest
from threadpoolctl import threadpool_info, threadpool_limits

from reshuffle.free.progress import SINGLE_THREAD
from reshuffle.free.spectrum import Engine
from tests.free.oracles import two_batches


def test_a_second_question_solves_nothing_and_shares_nothing(monkeypatch):
    law, t = two_batches(), np.linspace(0.15, 0.7, 50)
    first = law.cauchy(t)
    expected = first.copy()
    first[:] = 0.0
    monkeypatch.setattr(Engine, "resolvent", None)
    assert (law.cauchy(t) == expected).all()
    assert (law.density(t) == -expected.imag / np.pi).all()
    # The same number of other points is another question.
    with pytest.raises(TypeError):
        law.cauchy(t + 1e-9)


def test_points_that_change_in_place_are_other_points():
    law, t = two_batches(), np.linspace(0.15, 0.7, 5)
    law.density(t)
    t += 0.01
    assert law.density(t) == pytest.approx(two_batches().density(t), rel=1e-10)


def test_blas_has_one_thread_inside_and_its_own_again_afterwards():
    def threads():
        return {library["num_threads"] for library in threadpool_info() if library["user_api"] == "blas"}

    with threadpool_limits(2, user_api="blas"):
        before = threads()
        with SINGLE_THREAD:
            with SINGLE_THREAD:
                assert threads() == {1}
            assert threads() == {1}
        assert threads() == before
        two_batches().density(0.3)
        assert threads() == before
