"""Errors that are a user's to mend: one sentence, an exit code, no traceback."""

from collections.abc import Iterable

_MOST_WORDS = 60  # in one sentence: a site has thousands of users
TOLERATED = 0.01  # of the jobs that a cluster can never run; with more left out, a result is of another workload


class InputError(ValueError):
    """Something given from outside is wrong; the message says what, where and what would be right."""


class TooManyRefusedError(InputError):
    """The history does not go with the cluster: so many jobs can never run that the rest is another workload."""


def unknown(what: str, name: object, known: Iterable[str], purpose: str = "", *, more: str = "") -> InputError:
    """Make the error for a word that is not known: the nearest known word, if one is near, and all there are.

    `known` may hold forms such as `noisy[:sigma]`. The purpose is said after the name ("no metric 'x' to evaluate by"),
    `more` after the known words.
    """
    words = tuple(known)
    wrong = f"no {what} {name!r} {purpose}".rstrip()
    more_words = f", ... ({len(words)} in all)" if len(words) > _MOST_WORDS else ""
    there = f"there are: {', '.join(words[:_MOST_WORDS])}{more_words}" if words else "there is none"
    near = nearest(str(name), words)
    meant = f"did you mean {near}? " if near and near != name else ""
    return InputError(f"{wrong}; {meant}{there}{more}")


def nearest(name: str, known: Iterable[str], likeness: float = 0.6) -> str | None:
    """Return the known word that is nearest to a name, if one is as near as that (1: the same).

    Two letters that changed places are nearer than a letter that is wrong.
    """
    from difflib import get_close_matches  # here: a command's help needs none of it

    plain = {word.partition("[")[0].casefold(): word for word in known}
    wrong = name.casefold()
    swapped = (f"{wrong[:i]}{wrong[i + 1]}{wrong[i]}{wrong[i + 2 :]}" for i in range(len(wrong) - 1))
    near = get_close_matches(wrong, plain, n=1, cutoff=likeness)
    if not near or wrong in plain:
        return plain[near[0]] if near else None
    return next((plain[word] for word in swapped if word in plain), plain[near[0]])


def shown(value: object) -> str:
    """Return how a message quotes a value: 2 rather than np.int32(2), 'a' rather than np.str_('a')."""
    item = getattr(value, "item", None)  # of numpy's scalars; this module needs no numpy for it
    return repr(value if item is None else item())


def told(error: BaseException) -> str:
    """Return in a few words what somebody else's code raised."""
    return f"{type(error).__name__}: {error}"
