"""A frozen record of right answers: seeded questions of all kinds, with their answers, errors and kinds of error.

`python -m tests.golden` compares, `python -m tests.golden --write` writes the record anew (`--only WORD` for the
cases whose name contains a word). A changed answer is a decision: say in the commit why it changed.
"""
