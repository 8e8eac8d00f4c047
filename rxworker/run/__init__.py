"""A run: its driver, the loop of turns, and its end."""
