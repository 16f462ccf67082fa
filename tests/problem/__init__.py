"""Problems: their data, their outputs and weights, and what is accepted at the door."""
