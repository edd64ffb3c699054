"""Bytes and how they move: device, host, file, and the threads between them. No parameter is known here."""
