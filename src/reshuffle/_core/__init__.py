"""What every room stands on: array types, checks at the door, small linear algebra, threads, progress."""
