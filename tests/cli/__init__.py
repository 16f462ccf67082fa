"""The command line, through its entry point."""
