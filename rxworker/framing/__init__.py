"""Bytes to frames: machines with ``feed`` and ``finish``, without any input or output of their own."""
