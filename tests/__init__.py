"""The tests mirror src/; oracles/ holds the slow, obviously right versions."""
