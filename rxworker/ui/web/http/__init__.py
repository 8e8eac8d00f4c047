"""Requests, responses, and the settings of a server."""
