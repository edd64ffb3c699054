"""What is not supported is refused, in a sentence that says what to change."""

import contextlib
import copy
import pickle
import threading

import pytest
import torch
import torch.distributed as dist
from tencache_cases import SMALL, Case, make, shows_refused, train, wrap
from torch import nn

import tencache
from tencache import RefusedError
from tencache.bench.gpt import GPT


class Wide(nn.Module):
    def __init__(self):
        super().__init__()
        self.small = nn.Linear(8, 8)
        self.large = nn.Linear(8, 4096)

    def forward(self, x):
        return self.large(self.small(x)).sum()


@shows_refused("`torch.compile` around or inside a wrapped model", "wrap without compiling")
def test_torch_compile_around_a_wrapped_model():
    model, optimizer = make(Case())
    cached = wrap(model, optimizer)
    with pytest.raises(RefusedError, match="unwrap it before compiling"):
        torch.compile(model, backend="eager")(torch.arange(12).view(1, 12))
    cached.unwrap()


def test_a_compiled_model():
    compiled = torch.compile(GPT(SMALL), backend="eager")
    with pytest.raises(RefusedError, match="is compiled"):
        tencache.wrap(compiled, budget="50%")


def test_a_block_compiled_in_place():
    model = GPT(SMALL)
    model.blocks[0].compile(backend="eager")
    with pytest.raises(RefusedError, match=r"blocks\.0 is compiled"):
        tencache.wrap(model, budget="50%")


class Hoarder(nn.Module):
    """Keeps a view of its weight beyond the forward."""

    def __init__(self):
        super().__init__()
        self.layers = nn.ModuleList(nn.Linear(32, 32, bias=False) for _ in range(8))

    def forward(self, x):
        for layer in self.layers:
            x = layer(x)
        self.kept = self.layers[0].weight.T
        return x.sum()


@shows_refused("a view of a parameter made in a forward and kept beyond it", "`.clone()` it")
def test_views_that_escape_are_refused_before_their_bytes_change():
    model = Hoarder()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    cached = wrap(model, optimizer, budget="60%")
    model(torch.ones(2, 32)).backward()
    with pytest.raises(RefusedError, match=r"views of layers\.0\.weight are still alive.*use \.clone\(\)"):
        optimizer.step()
    del model.kept
    cached.unwrap()


@shows_refused(
    "views of parameters, all alive at once, that do not fit the budget",
    "raise the budget, or make fewer at a time",
)
def test_views_that_fill_the_device_are_refused():
    """Every layer's view is kept: sooner or later no place is left."""

    class Greedy(Hoarder):
        def forward(self, x):
            self.kept = [layer.weight.T for layer in self.layers]
            return x.sum()

    model = Greedy()
    cached = wrap(model, None, budget="40%")
    with pytest.raises(RefusedError, match="are still alive where their place on the device is needed"):
        model(torch.ones(2, 32))
    model.kept = None
    cached.unwrap()


@shows_refused("an operation larger than the budget", "raise the budget; the message names the bytes")
def test_an_operation_larger_than_the_budget():
    model = Wide()
    cached = wrap(model, torch.optim.SGD(model.parameters(), lr=0.1), budget="64KiB")
    with pytest.raises(
        RefusedError, match=r"an operation needs .* on the device at once \(.*large.*raise the budget to"
    ):
        model(torch.ones(1, 8))
    cached.unwrap()


@shows_refused("an optimizer that holds parameters of another model", "wrap the model that it trains")
def test_an_optimizer_of_another_model():
    with pytest.raises(RefusedError, match="wrap the model that it trains"):
        tencache.wrap(GPT(SMALL), torch.optim.SGD(GPT(SMALL).parameters(), lr=0.1), budget="50%")


@shows_refused("a parameter inside `torch.func.grad` and the like", "`functional_call()` with detached copies of it")
def test_functions_that_are_transformed():
    layer = torch.nn.Linear(4, 4)
    cached = wrap(layer, None, budget="100%")
    with pytest.raises(RefusedError, match=r"inside torch\.func\.grad"):
        torch.func.jacrev(layer)(torch.ones(4))
    cached.unwrap()


@shows_refused("`torch.jit.trace` of a wrapped model", "unwrap it first")
@pytest.mark.filterwarnings("ignore:.*torch.jit.trace:DeprecationWarning")
def test_tracing():
    layer = torch.nn.Linear(4, 4)
    cached = wrap(layer, None, budget="100%")
    with pytest.raises(RefusedError, match=r"torch\.jit\.trace"):
        torch.jit.trace(layer, torch.ones(1, 4))
    cached.unwrap()


@shows_refused("two threads that run the model, or one that runs it and one in backward", "a lock around the calls")
def test_two_threads_at_once():
    model = torch.nn.Sequential(torch.nn.Linear(4, 4), torch.nn.Linear(4, 4))
    cached = wrap(model, None, budget="100%")
    refused = []

    def run_beside(*_):
        thread = threading.Thread(target=lambda: refused.append(_refusal(lambda: model(torch.ones(1, 4)))))
        thread.start()
        thread.join()

    handle = model[1].register_forward_pre_hook(run_beside)
    result = model(torch.ones(1, 4))
    handle.remove()
    assert refused == [True]
    # The first goes on as if nothing had been, and the next one can come.
    assert torch.equal(result, model(torch.ones(1, 4)))
    cached.unwrap()


def test_a_forward_while_another_thread_is_in_backward():
    model = torch.nn.Sequential(torch.nn.Linear(4, 4), torch.nn.Linear(4, 4))
    cached = wrap(model, None, budget="100%")
    refused = []

    def run_beside(*_):
        thread = threading.Thread(target=lambda: refused.append(_refusal(lambda: model(torch.ones(1, 4)))))
        thread.start()
        thread.join()

    handle = model[1].register_full_backward_hook(run_beside)
    model(torch.ones(1, 4)).sum().backward()
    handle.remove()
    assert refused == [True]
    # Backward is over, and so the other thread may run the model.
    run_beside()
    assert refused == [True, False]
    cached.unwrap()


def test_a_backward_while_another_thread_is_in_a_forward():
    model = torch.nn.Sequential(torch.nn.Linear(4, 4), torch.nn.Linear(4, 4))
    cached = wrap(model, None, budget="100%")
    refused = []
    loss = model(torch.ones(1, 4)).square().sum()

    def run_beside(*_):
        thread = threading.Thread(target=lambda: refused.append(_refusal(loss.backward)))
        thread.start()
        thread.join()

    handle = model[1].register_forward_pre_hook(run_beside)
    result = model(torch.ones(1, 4))
    handle.remove()
    assert refused == [True]
    assert torch.equal(result, model(torch.ones(1, 4)))
    cached.unwrap()


def _refusal(call):
    with contextlib.suppress(RefusedError):
        call()
        return False
    return True


@shows_refused("a forward that writes to a parameter, such as `max_norm`", "write between steps")
def test_a_forward_that_writes_to_a_parameter():
    model = nn.Sequential(nn.Embedding(16, 8, max_norm=0.1))
    cached = wrap(model, None, budget="100%")
    with pytest.raises(RefusedError, match=r"0\.weight is written to while the model runs"):
        model(torch.arange(4))
    cached.unwrap()


@shows_refused("a forward that assigns `.data`", "assign between steps")
def test_a_forward_that_assigns_data():
    class Assigning(nn.Linear):
        def forward(self, x):
            self.weight.data = self.weight.detach() * 2
            return super().forward(x)

    model = nn.Sequential(Assigning(4, 4))
    cached = wrap(model, None, budget="100%")
    with pytest.raises(RefusedError, match="is written to while the model runs"):
        model(torch.ones(1, 4))
    cached.unwrap()


@shows_refused("sparse gradients", "`Embedding(sparse=False)`")
def test_sparse_gradients():
    model = nn.Sequential(nn.Embedding(16, 8, sparse=True))
    cached = wrap(model, None, budget="100%")
    with pytest.raises(RefusedError, match="use Embedding"):
        model(torch.arange(4)).sum().backward()
    cached.unwrap()


@shows_refused("`backward(create_graph=True)`", "unwrap the model for it")
def test_backward_with_create_graph():
    model, optimizer = make(Case())
    cached = wrap(model, optimizer)
    with pytest.raises(RefusedError, match="create_graph=True"):
        model(torch.arange(12).view(1, 12)).backward(create_graph=True)
    cached.unwrap()


@shows_refused(
    "a parameter given straight to a custom `autograd.Function`",
    "give it `weight.view_as(weight)`",
)
def test_a_parameter_given_to_a_custom_function_directly():
    class Double(torch.autograd.Function):
        @staticmethod
        def forward(_, x, weight):
            return x * 2 + weight.sum() * 0

        @staticmethod
        def backward(_, grad):
            return grad * 2, torch.ones(4, 4)

    class Custom(nn.Linear):
        def forward(self, x):
            return Double.apply(x, self.weight)

    model = nn.Sequential(Custom(4, 4, bias=False))
    cached = wrap(model, None, budget="100%")
    with pytest.raises(RefusedError, match=r"0\.weight reached autograd .*view_as"):
        model(torch.ones(1, 4)).sum().backward()
    cached.unwrap()


@shows_refused("two parameters that share memory", "tie them as one object")
def test_two_parameters_in_the_same_memory():
    model = nn.Sequential(nn.Linear(4, 4), nn.Linear(4, 4))
    model[1].weight.data = model[0].weight.data
    with pytest.raises(RefusedError, match=r"0\.weight and 1\.weight share memory"):
        tencache.wrap(model, budget="50%")


@shows_refused("quantised and other special parameters", "use plain parameters")
def test_parameters_that_are_not_plain():
    class Special(nn.Parameter):
        pass

    model = nn.Linear(4, 4)
    model.weight = Special(torch.ones(4, 4))
    with pytest.raises(RefusedError, match="weight is a Special"):
        tencache.wrap(model, budget="50%")


@shows_refused("parameters with gaps in their memory", "call `.contiguous()` on them")
def test_parameters_with_gaps():
    model = nn.Linear(4, 4)
    model.weight = nn.Parameter(torch.ones(4, 8)[:, ::2])
    with pytest.raises(RefusedError, match="with gaps or overlaps"):
        tencache.wrap(model, budget="50%")


def test_transposed_parameters_are_fine():
    model = nn.Linear(4, 6, bias=False)
    model.weight = nn.Parameter(torch.arange(24.0).view(4, 6).T)
    reference = model(torch.ones(1, 4))
    cached = wrap(model, None, budget="100%")
    assert torch.equal(model(torch.ones(1, 4)), reference)
    cached.unwrap()
    assert model.weight.stride() == (1, 6)


def test_a_model_without_parameters():
    with pytest.raises(RefusedError, match="nothing to cache"):
        tencache.wrap(nn.ReLU(), budget="1MiB")


@shows_refused("a model that is not on the CPU", "leave it there: `wrap()` moves what is needed")
def test_a_model_on_another_device():
    with pytest.raises(RefusedError, match="leave the model on the CPU"):
        tencache.wrap(nn.Linear(2, 2, device="meta"), budget="1MiB")


@shows_refused("`DataParallel` around the model or inside it", "use `DistributedDataParallel`")
def test_data_parallel():
    with pytest.raises(RefusedError, match="the model is a DataParallel"):
        tencache.wrap(nn.DataParallel(nn.Linear(2, 2)), budget="1MiB")
    with pytest.raises(RefusedError, match="0 is a DataParallel"):
        tencache.wrap(nn.Sequential(nn.DataParallel(nn.Linear(2, 2))), budget="1MiB")


@shows_refused("`DistributedDataParallel` around a part of the model", "put it around the whole model")
def test_ddp_around_a_part(tmp_path):
    dist.init_process_group("gloo", init_method=f"file://{tmp_path}/rendezvous", rank=0, world_size=1)
    try:
        with pytest.raises(RefusedError, match="0 is a DistributedDataParallel inside the model"):
            tencache.wrap(nn.Sequential(nn.parallel.DistributedDataParallel(nn.Linear(2, 2))), budget="1MiB")
    finally:
        dist.destroy_process_group()


def test_wrapping_twice():
    model = nn.Linear(2, 2)
    cached = tencache.wrap(model, budget="100%")
    with pytest.raises(RefusedError, match="wrapped already"):
        tencache.wrap(model, budget="100%")
    cached.unwrap()


@shows_refused("copying or pickling a wrapped model", "use its `state_dict()`, or unwrap it")
def test_copying_and_pickling():
    model = nn.Linear(2, 2)
    cached = tencache.wrap(model, budget="100%")
    with pytest.raises(RefusedError, match="cannot be copied"):
        copy.deepcopy(model)
    with pytest.raises(RefusedError, match="cannot be pickled"):
        pickle.dumps(model)
    cached.unwrap()
    copy.deepcopy(model)


def test_unknown_devices():
    with pytest.raises(ValueError, match="choose 'sim' or a CUDA device"):
        tencache.wrap(nn.Linear(2, 2), budget="100%", device="cpu")
    if not torch.cuda.is_available():
        with pytest.raises(RefusedError, match="no CUDA device here"):
            tencache.wrap(nn.Linear(2, 2), budget="100%", device="cuda")


@shows_refused("`.data` of another shape or type", "unwrap the model to change it")
def test_data_of_another_shape():
    model = nn.Linear(2, 2)
    cached = tencache.wrap(model, budget="100%")
    with pytest.raises(RefusedError, match="another shape or type"):
        model.weight.data = torch.ones(3, 3)
    cached.unwrap()


def test_a_refused_forward_leaves_the_model_usable():
    """An error inside forward unwinds everything: the next step works."""
    model, optimizer = make(Case())
    cached = wrap(model, optimizer)
    train(Case(), model, optimizer, 2)
    with pytest.raises(IndexError):
        model(torch.full((1, 12), SMALL.vocabulary + 5))
    reference, reference_optimizer = make(Case())
    train(Case(), reference, reference_optimizer, 2)
    assert train(Case(), model, optimizer, 2) == train(Case(), reference, reference_optimizer, 2)
    cached.unwrap()


@shows_refused(
    "training inside `torch.autograd.graph.disable_saved_tensors_hooks()`", "leave that context out around the model"
)
def test_a_context_that_forbids_hooks_on_saved_tensors():
    model = nn.Linear(4, 4)
    cached = tencache.wrap(model, budget="100%")
    forbidden = torch.autograd.graph.disable_saved_tensors_hooks("not here")
    with forbidden, pytest.raises(RefusedError, match="disable_saved_tensors_hooks"):
        model(torch.ones(2, 4))
    model(torch.ones(2, 4)).sum().backward()
    assert torch.equal(cached.unwrap().bias.grad, torch.full((4,), 2.0))
