"""The mean and the second moments of one epoch, and the one place that chooses how they are computed."""
