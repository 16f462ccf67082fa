"""Numbers that others have published, and data sets that decide what theorems left open."""
