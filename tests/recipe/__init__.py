"""Recipes: schedules, momentum, penalties, against enumeration and against torch."""
