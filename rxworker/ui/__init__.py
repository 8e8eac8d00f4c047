"""What people look at: the web server with its page, the terminal app, and runs in notebooks."""
