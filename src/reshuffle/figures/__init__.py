"""The figures of the paper, one a file: each computes its numbers first and draws them second."""
