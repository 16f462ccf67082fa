"""Right answers by enumeration of every order, in exact rational arithmetic."""
