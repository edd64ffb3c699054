"""Errors that are a user's to mend: one sentence, exit code 2, no traceback."""


class InputError(ValueError):
    """Something given from outside is wrong; the message says what, where and what would be right."""
