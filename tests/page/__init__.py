"""The page: its parts one by one, and the whole in a real browser."""
