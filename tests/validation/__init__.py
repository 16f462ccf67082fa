"""The test error without the truth."""
