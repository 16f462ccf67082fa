"""What `reshuffle limits` answers beside learning curves, one file per question."""
