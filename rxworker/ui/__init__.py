"""User interfaces: the web server and its page, the terminal app."""
