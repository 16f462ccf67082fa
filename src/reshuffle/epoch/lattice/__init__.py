"""The exact mean over the orders of a handful of batches, on the lattice of their subsets."""
