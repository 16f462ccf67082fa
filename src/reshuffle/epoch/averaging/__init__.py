"""The mean over the orders of an epoch: exactly, by the cavity equation, or from drawn orders."""
