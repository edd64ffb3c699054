"""The progress bar shows only to those who watch and wait."""

import io

from tencache.progress_bar import progress


class Terminal(io.StringIO):
    def isatty(self):
        return True


def test_progress_is_silent_when_nobody_watches(monkeypatch):
    monkeypatch.setattr("tencache.progress_bar.PATIENCE_S", 0.0)
    for stream, shown in ((io.StringIO(), False), (Terminal(), True)):
        assert list(progress([1, 2, 3], "work", stream)) == [1, 2, 3]
        assert bool(stream.getvalue()) == shown
    counted = Terminal()
    list(progress(iter([1, 2]), "work", counted))
    assert "work 1" in counted.getvalue()


def test_progress_waits_before_it_shows(monkeypatch):
    now = [100.0]
    monkeypatch.setattr("tencache.progress_bar.time.monotonic", lambda: now[0])
    stream = Terminal()
    items = progress(range(3), "work", stream)
    assert next(items) == 0
    now[0] += 1.9
    assert next(items) == 1
    assert stream.getvalue() == ""
    now[0] += 0.2
    assert next(items) == 2
    assert "2/3" in stream.getvalue()
