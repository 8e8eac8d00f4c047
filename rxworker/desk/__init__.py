"""The desk of every door: which conversations a log has, what the last run of one waits for, and how it goes on."""
