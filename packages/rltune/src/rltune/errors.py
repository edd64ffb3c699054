"""Errors that are a user's to mend: one sentence, exit code 2, no traceback."""


class InputError(ValueError):
    """Something given from outside is wrong; the message says what, where and what would be right."""


def shown(value: object) -> str:
    """Return how a message quotes a value: 2 rather than np.int32(2), 'a' rather than np.str_('a')."""
    item = getattr(value, "item", None)  # of numpy's scalars; this module needs no numpy for it
    return repr(value if item is None else item())
