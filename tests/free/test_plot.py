"""The plot draws on the axes it is given."""

import matplotlib as mpl
import numpy as np

from reshuffle import free

mpl.use("Agg")
from matplotlib import pyplot as plt


def test_plot_returns_its_axes_with_density_histogram_and_atom():
    x, y = free.variables(free.Projection(0.5), free.Semicircle())
    figure, ax = plt.subplots()
    s = free.spectrum(x * y * x)
    assert s.plot(ax, sample=60) is ax
    assert [text.get_text() for text in ax.texts if text.get_text()] == ["0.5"]
    curve = ax.lines[0]
    np.testing.assert_allclose(curve.get_ydata(), s.density(curve.get_xdata()))
    plt.close(figure)
    own = s.plot()
    assert len(own.lines) == len(s.support)
