"""Rows that do not fit into memory."""
