"""Dashboards, the runs of a log together, metrics, and the links that show them."""
