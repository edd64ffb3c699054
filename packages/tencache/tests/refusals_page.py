"""Makes docs/tencache/refusals.md from the tests: `python packages/tencache/tests/refusals_page.py`."""

import importlib.util
import re
import sys
from pathlib import Path
from textwrap import fill
from types import ModuleType

TESTS = Path(__file__).parent
PAGE = TESTS.parents[2] / "docs" / "tencache" / "refusals.md"
MODULES = (
    "runtime/hooks/test_refusals.py",
    "runtime/hooks/test_unasked_functions.py",
    "runtime/tensors/test_activations.py",
    "runtime/tensors/test_recomputing.py",
    "runtime/test_right_or_refused.py",
    "runtime/test_memory_of_the_user.py",
    "runtime/test_past_the_router.py",
    "runtime/hooks/test_large_operations.py",
    "runtime/test_working_copies.py",
    "runtime/test_ddp.py",
    "runtime/test_sharding.py",
    "runtime/test_partly_on_device.py",
)
sys.path[:0] = [str(TESTS), str(TESTS / "fuzz"), str(TESTS / "runtime")]

HEAD = """# What is kept, what is refused?

Losses, parameters and optimizer state are those of the unwrapped run, bit for bit, or the program is refused with a
`RefusedError` whose sentence says what to change. This page is made from the tests: each line stands for one.

**Kept, bit for bit:**

"""
FUZZ = """
A fuzzer draws training programs (modules, aliases, views, casts, hooks, loops, shared weights, precisions, optimizers,
loop shapes), and compares every bit with the unwrapped run. These are in it by name, and are never refused:
"""
REFUSED = """
**Refused.** Most refusals are solved by one line in your code.

| refused | do this instead |
| --- | --- |
"""
TAIL = """
**Not seen:** writes to a parameter's memory by its address (`data_ptr()`), and `wrap()` or `unwrap()` inside an
`autocast` that goes on, which then casts anew. A node of the graph that accumulates a parameter's gradient, taken while
the model is wrapped (`register_multi_grad_hook` holds such nodes), means nothing after `unwrap()`: take it again.
Optimizer state that lies in the memory of an array, and an array of `np.memmap(..., mode="c")`, if they are read there.
With `nvme=` and a `state_dict()` of the optimizer that is held: a value that is assigned to the optimizer's state
later (`state["exp_avg"] = value`); what is written into its tensors is seen. Under autocast, torch's
`CheckpointError` where a view of a parameter is given to checkpointing that was frozen in forward and is thawed
before backward.
With `activations=` and a graph that is kept (`retain_graph=True`): what the first backward wrote, unseen by torch, to
memory that it was given. The second gets what was saved.

**Not asked:** code that turns torch's question off (`torch._C.DisableTorchFunctionSubclass`, as a tensor class with a
`__torch_function__` of its own may do), constructors that were imported by name before `wrap()` (`from torch import
tensor`) and legacy ones (`torch.FloatTensor(weight)`) read a parameter's bytes on the host by themselves. Where a
gradient of the parameter is recorded this is found and refused, and in evaluation the bytes are up to date. Inside a
training forward, what is detached or read under `no_grad()` may be from before the last update, without a word; of a
parameter in the file it is not a number. Give them `weight.view_as(weight)`. `nn.Parameter(weight)` of a wrapped
parameter, and so a parametrization registered after `wrap()`, raises torch's own error: register it before.

**Rounded by address:** torch may round a product with a vector differently where the weight does not begin at a
multiple of 16 bytes. On the device every weight does, as in memory that torch allocates. A
weight that lies elsewhere when it is wrapped (a view into a larger buffer, a mapped file) computes as after
`weight.data = weight.data.clone()`.

**Rounded by the number of threads:** a new thread follows an earlier `torch.set_num_threads()` only from its first
parallel operation on, or once it asks `torch.get_num_threads()`. With `verify=True` that may come earlier than without
tencache. Ask first, and the bits are those of the unwrapped run that asks first.

**Not in the budget:** under `autocast` torch keeps a cast of every weight until the context ends, wrapped or not. Of
weights that move as halves this is the copy in the budget. Of others it is not, but for `torch.autocast(...,
cache_enabled=False)`, which keeps none; then the bits are those of the unwrapped run without it.

**On a GPU, not seen:** a view of a parameter that is made on one stream and used on another, under `no_grad()`, where
nothing else on that other stream uses a parameter.

**Not run:** the CUDA path on a GPU: none was there. Its order, fences and lifetimes are tested on an asynchronous
stand-in for a device; `tencache doctor` examines a real one.
"""


def page() -> str:
    """Return the page's text."""
    tests = [test for name in MODULES for test in vars(_module(name)).values() if callable(test)]
    kept = [fill(f"- {test.kept};", 120, subsequent_indent="  ") for test in tests if hasattr(test, "kept")]
    rows = [f"| {test.refused[0]} | {test.refused[1]} |" for test in tests if hasattr(test, "refused")]
    kept[-1] = kept[-1].rstrip(";") + "."
    return HEAD + "\n".join(kept) + "\n" + FUZZ + _core() + REFUSED + "\n".join(rows) + "\n" + TAIL


def _core() -> str:
    from core_programs import CORE

    return fill(", ".join(name.replace("_", " ") for name in CORE) + ".", 120) + "\n"


def _module(name: str) -> ModuleType:
    spec = importlib.util.spec_from_file_location(re.sub(r"\W", "_", name), TESTS / name)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
