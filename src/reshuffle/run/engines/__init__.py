"""What stands behind a run: the modes of one symmetric map, or an affine map that is repeated."""
