"""`reshuffle limits`: learning curves, best recipes and one pass, one file per answer."""
