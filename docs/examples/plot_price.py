"""
First
=====

Text.
"""

print(1)
