"""Who refers to the arena's bytes is counted."""

import torch

from tencache.runtime.memory.device_arena import users


def test_users_of_a_storage_are_counted():
    tensor = torch.zeros(16)
    before = users(tensor)
    view = tensor[:4]
    assert users(tensor) == before + 1
    del view
    assert users(tensor) == before
