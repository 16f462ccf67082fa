"""One epoch as an affine map on a state, where it is not symmetric: momentum, penalties, fixed orders."""
