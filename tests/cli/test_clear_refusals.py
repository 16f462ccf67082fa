"""Refusals that were messages of numpy, or of the insides of a solver."""

import numpy as np
import pytest

from reshuffle.cli import main


@pytest.mark.parametrize("command", ["curve --step 0.1", "stability"])
def test_a_file_with_several_outputs_is_refused_by_the_name_of_the_array(tmp_path, capsys, command):
    path = tmp_path / "outputs.npz"
    np.savez(path, X=np.eye(3), y=np.ones((3, 2)))
    assert main([*command.split(), "--data", str(path)]) == 2
    assert "y must be a vector, one response per row, but its shape is (3, 2)" in capsys.readouterr().err


@pytest.mark.slow
def test_an_alpha_beyond_all_precision_is_named(capsys):
    assert main(["limits", "--aspect", "1", "--alpha", "1e8", "--batches", "4"]) == 1
    message = capsys.readouterr().err
    assert "alpha is so large" in message
    assert "critical_alpha" in message
