"""The mean of one epoch over the orders of visits: an affine map."""
