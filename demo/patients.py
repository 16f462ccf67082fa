"""The data of the demonstration: patients to train on, and held-out patients."""

from dataclasses import dataclass

import numpy as np
from sklearn.datasets import load_diabetes
from sklearn.preprocessing import PolynomialFeatures, scale


@dataclass(frozen=True)
class Patients:
    """Features (rows, columns) and responses (rows,)."""

    X: np.ndarray
    y: np.ndarray


def patients(kept=300, seed=0):
    """Return some patients of scikit-learn's diabetes data to learn from, and the others.

    The ten measurements come with their squares and products, 65 columns in all: enough for least squares to
    learn too much.
    """
    measured, progression = load_diabetes(return_X_y=True, scaled=False)
    features = PolynomialFeatures(2, include_bias=False).fit_transform(scale(measured))
    order = np.random.default_rng(seed).permutation(len(progression))
    return tuple(Patients(features[rows], progression[rows]) for rows in (order[:kept], order[kept:]))
