"""Data that are not in memory, at the door: files, tables and the arrays of clusters, read in chunks."""
