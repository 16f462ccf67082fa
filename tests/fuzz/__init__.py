"""Random questions about random runs, judged by exact arithmetic."""
