"""What people use today, kept small."""
