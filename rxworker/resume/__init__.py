"""How a run goes on after it has paused, or its process has ended."""
