"""The arena's address map."""

from tencache.plan.address_map import AddressMap


def test_a_layout_joins_its_gaps():
    layout = AddressMap(4096)
    for unit in range(4):
        layout.place(unit, layout.window_at(unit * 1024, 1024), lambda _: 0)
    for unit in (1, 2, 0):
        layout.remove(unit, 0)
    assert [window.evicts for window in layout.windows(3072, lambda unit: unit == 3)] == [()]
