"""Random questions with every answer checked by enumeration in exact arithmetic: `python -m fuzz --minutes 5`."""
