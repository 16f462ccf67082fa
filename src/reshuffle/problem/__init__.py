"""What is learned: the data, the truth where it is known, and the row space in which everything happens."""
