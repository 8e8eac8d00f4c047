"""User interfaces: the web server with its page, and the terminal app."""
