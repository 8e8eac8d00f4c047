"""The runs and conversations that a server keeps, for each user."""
