import shutil
import subprocess
from importlib import resources

import pytest

from rltune.live.control_settings import ControlSettings, Scope
from rltune.live.control_settings_file import load_settings

FOLDER = resources.files("rltune") / "deploy"


def test_the_settings_shipped_are_the_defaults(tmp_path):
    """Whoever copies the file and reads its comments is told the truth; only the scope is an example."""
    file = tmp_path / "control.toml"
    file.write_text((FOLDER / "control.toml").read_text())
    shipped = load_settings(file)
    assert shipped.model_copy(update={"scope": Scope()}) == ControlSettings()
    text = (FOLDER / "control.toml").read_text()
    for key in _keys(shipped.model_dump()):
        table, _, name = key.rpartition(".")
        of_table = text.partition(f"[{table}]")[2].partition("\n[")[0] if table else text
        assert table == "scope" or f"\n{name} = " in of_table, key


def _keys(table, prefix=""):
    """Name every setting by the tables that it is in."""
    for name, value in table.items():
        if isinstance(value, dict):
            yield from _keys(value, f"{prefix}{name}.")
        else:
            yield f"{prefix}{name}"


def test_every_setting_stands_in_the_reference(request):
    """A key that exists is documented, by its whole name below `advanced` or beside it."""
    text = (request.config.rootpath / "docs/reference/control.md").read_text()
    plain, _, advanced = text.partition("## Advanced settings")
    for key in _keys(ControlSettings().model_dump()):
        part = advanced if key.startswith("advanced.") else plain
        assert f"| `{key.removeprefix('advanced.')}` |" in part, key


def test_the_service_is_well_hardened(tmp_path):
    """systemd's own judgement: an exposure below 2 of 10; and a stop of any kind frees all jobs."""
    if not shutil.which("systemd-analyze"):
        pytest.skip("systemd-analyze is not here")
    unit = tmp_path / "rltune-control.service"
    unit.write_text((FOLDER / "rltune-control.service").read_text())
    judged = subprocess.run(
        ["systemd-analyze", "security", "--offline=true", "--threshold=20", "--no-pager", str(unit)],
        capture_output=True,
        text=True,
        check=False,
    )
    assert judged.returncode == 0, judged.stdout[-2000:] + judged.stderr
    assert "ExecReload=/bin/kill -HUP $MAINPID" in unit.read_text()
    assert "ExecStopPost=-/opt/rltune/bin/rltune control --release" in unit.read_text()
