"""One pass, replacement and scaling laws."""
