import pytest

from rltune.errors import InputError
from rltune.serve.tokens import Role, Tokens, new_token


def _kept(path, *lines, mode=0o600):
    path.write_text("".join(lines))
    path.chmod(mode)
    return path


def test_a_new_token_is_known_by_the_file_and_no_other_is(tmp_path):
    token, lines = new_token("grafana", Role.VIEWER, "ann")
    assert token not in lines
    tokens = Tokens.read(_kept(tmp_path / "t.toml", lines))
    caller = tokens.caller(token)
    assert (caller.name, caller.role, caller.user) == ("grafana", "viewer", "ann")
    assert tokens.caller(token[:-1]) is None
    assert tokens.caller("") is None


def test_a_caller_with_a_user_sees_that_users_jobs_alone():
    token, lines = new_token("a", Role.VIEWER, "ann")
    assert token
    assert 'user = "ann"' in lines
    from rltune.serve.tokens import Caller

    assert Caller("a", Role.VIEWER, "ann").may_see("ann")
    assert not Caller("a", Role.VIEWER, "ann").may_see("bob")
    assert Caller("a", Role.VIEWER).may_see("bob")


@pytest.mark.parametrize(
    ("lines", "mode", "why"),
    [
        ((), 0o600, "holds no token"),
        (("[[token]]\n",), 0o600, "name"),
        (("[[token]\n",), 0o600, "not TOML"),
        (('[[token]]\nname = "a"\nsha256 = "12"\n',), 0o600, "sha256"),
        ((new_token("a", Role.VIEWER, "")[1],), 0o640, "chmod 600"),
        ((new_token("a", Role.VIEWER, "")[1],) * 2, 0o600, None),
    ],
)
def test_a_file_that_is_no_good_is_refused_in_one_sentence(tmp_path, lines, mode, why):
    path = _kept(tmp_path / "t.toml", *lines, mode=mode)
    with pytest.raises(InputError, match=why or "twice"):
        Tokens.read(path)


def test_a_name_cannot_break_out_of_its_line():
    with pytest.raises(InputError, match="quotes"):
        new_token('a"\nrole = "operator', Role.VIEWER, "")
