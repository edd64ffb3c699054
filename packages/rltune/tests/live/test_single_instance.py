import pytest

from rltune.errors import InputError
from rltune.live.single_instance import only_one


def test_one_at_a_time(tmp_path):
    """A second controller is refused, and told who the first is; after it the lock is free."""
    path = tmp_path / "state" / "j.lock"
    with (
        only_one(path),
        pytest.raises(InputError, match=r"another controller \(process \d+\) is at work"),
        only_one(path),
    ):
        pass
    with only_one(path):
        pass


def test_a_lock_that_cannot_be_taken_is_told(tmp_path):
    """A file where a folder should be."""
    (tmp_path / "file").touch()
    with pytest.raises(InputError, match="the lock cannot be taken"), only_one(tmp_path / "file" / "j.lock"):
        pass
