"""What mini-batch gradient descent does to a least-squares problem, exactly and without training."""
