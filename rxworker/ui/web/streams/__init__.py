"""What is streamed to clients: the records of runs, and published streams."""
