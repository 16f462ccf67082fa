"""An epoch as a random affine map on a state, and its first two moments."""
