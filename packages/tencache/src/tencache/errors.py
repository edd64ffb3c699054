"""What can go wrong, by kind: a user can act on each differently."""


class RefusedError(RuntimeError):
    """Something that tencache cannot keep its promise for; the sentence says what to change."""


class CorruptedError(RuntimeError):
    """`verify=True` found bytes that are not those which were written."""


class CopyError(RuntimeError):
    """A copy thread died; raised where its result was waited for."""


class UpdateError(RuntimeError):
    """An update of the optimizer failed after `step()` had returned; raised at every later access."""


class PeerError(RuntimeError):
    """Another process that holds a share of the model has ended or left; raised where it is waited for."""


class Notice(UserWarning):
    """Something works, but not as well as asked for."""
