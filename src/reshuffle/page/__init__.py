"""The page of `reshuffle explore`: what the library answers, to play with in a browser. It holds no mathematics."""
