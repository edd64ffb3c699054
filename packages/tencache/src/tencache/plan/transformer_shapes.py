"""Traces of transformers from their sizes alone: what a step of a model too large to build here would touch."""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tencache.plan.address_map import aligned
from tencache.plan.step_trace import Grad, Op, Phase, Saved, StepTrace, Unit, Update, read_json


@dataclass(frozen=True)
class Shape:
    """A decoder-only transformer. Norms and biases, below a thousandth of its bytes, are left out."""

    name: str
    layers: int
    hidden: int
    heads: int
    key_value_heads: int
    inner: int
    vocabulary: int
    gated: bool = False
    tied: bool = False

    def matrices(self) -> Iterator[tuple[str, int]]:
        """Yield the name and the element count of each matrix of a layer, in the order of use."""
        narrow = self.hidden // self.heads * self.key_value_heads
        yield "query", self.hidden * self.hidden
        yield "key", self.hidden * narrow
        yield "value", self.hidden * narrow
        yield "out", self.hidden * self.hidden
        if self.gated:
            yield "gate", self.hidden * self.inner
        yield "up", self.hidden * self.inner
        yield "down", self.inner * self.hidden

    @property
    def parameters(self) -> int:
        """Return the number of parameters."""
        layer = sum(count for _, count in self.matrices())
        return self.layers * layer + self.vocabulary * self.hidden * (1 if self.tied else 2)


PRESETS = {
    shape.name: shape
    for shape in (
        Shape("gpt-46m", 12, 512, 8, 8, 2048, 8192),
        Shape("gpt2", 12, 768, 12, 12, 3072, 50257, tied=True),
        Shape("opt-6.7b", 32, 4096, 32, 32, 16384, 50272, tied=True),
        Shape("opt-13b", 40, 5120, 40, 40, 20480, 50272, tied=True),
        Shape("llama-70b", 80, 8192, 64, 8, 28672, 32000, gated=True),
    )
}


@dataclass(frozen=True)
class Setting:
    """The step and the machine that a trace is made for. Optimizer state is counted as AdamW's with float masters."""

    tokens: int = 4096
    context: int = 2048
    flops_per_s: float = 100e12
    host_bytes_per_s: float = 100e9
    bytes_per_parameter: int = 2
    state_bytes_per_parameter: int = 12
    recompute: bool = True
    state_in_file: float = 0.0


def find_shape(model: str) -> Shape:
    """Return a preset, or read a Hugging Face configuration file."""
    if model in PRESETS:
        return PRESETS[model]
    path = Path(model)
    if path.is_file():
        return read_config(path)
    raise ValueError(f"unknown model {model!r}: choose one of {', '.join(PRESETS)}, or give a config.json or a trace")


def read_config(path: Path) -> Shape:
    """Read the sizes from a GPT-2, OPT or Llama configuration."""
    data = read_json(path)
    readers = {"gpt2": _gpt2, "opt": _opt, "llama": _llama, "mistral": _llama}
    kind = data.get("model_type") if isinstance(data, dict) else None
    if kind not in readers:
        raise ValueError(f"{path}: model_type is {kind!r}; choose one of {', '.join(readers)}")
    try:
        return readers[kind](path.stem, data)
    except KeyError as missing:
        raise ValueError(f"{path}: a {kind} configuration needs {missing}") from None


def _gpt2(name: str, data: dict[str, Any]) -> Shape:
    width, heads = data["n_embd"], data["n_head"]
    inner = data.get("n_inner") or 4 * width
    return Shape(name, data["n_layer"], width, heads, heads, inner, data["vocab_size"], tied=True)


def _opt(name: str, data: dict[str, Any]) -> Shape:
    heads = data["num_attention_heads"]
    layers, width = data["num_hidden_layers"], data["hidden_size"]
    return Shape(name, layers, width, heads, heads, data["ffn_dim"], data["vocab_size"], tied=True)


def _llama(name: str, data: dict[str, Any]) -> Shape:
    heads = data["num_attention_heads"]
    return Shape(
        name,
        data["num_hidden_layers"],
        data["hidden_size"],
        heads,
        data.get("num_key_value_heads") or heads,
        data["intermediate_size"],
        data["vocab_size"],
        gated=True,
        tied=bool(data.get("tie_word_embeddings", False)),
    )


@dataclass(frozen=True)
class _Matrix:
    unit: int
    elements: int
    attends: bool = False
    narrows: bool = False


class _Builder:
    """Lays out units and operations for one shape and setting."""

    def __init__(self, shape: Shape, setting: Setting) -> None:
        self.shape = shape
        self.setting = setting
        self.units: list[Unit] = []
        self.ops: list[Op] = []
        self.grads: list[Grad] = []
        # What is saved: its bytes, and the operation that saves it, by what uses it in backward.
        self.saves: dict[tuple[int, str], tuple[int, int]] = {}
        self.used: dict[tuple[int, str], int] = {}
        self.embedding = self._unit("embedding", shape.vocabulary * shape.hidden)
        self.layers = [
            [
                self._unit(f"layer{layer}.{name}", count, attends=name == "out", narrows=name == "down")
                for name, count in shape.matrices()
            ]
            for layer in range(shape.layers)
        ]
        self.head = self.embedding if shape.tied else self._unit("head", shape.vocabulary * shape.hidden)

    def build(self) -> StepTrace:
        self._look_up()
        for layer in self.layers:
            self._save(layer[0], "block")
            for matrix in layer:
                self._op(matrix, 1, "forward")
                self._save(matrix, "input")
        self._op(self.head, 1, "forward")
        self._op(self.head, 2, "backward")
        if not self.shape.tied:
            self._grad(self.head)
        for layer in reversed(self.layers):
            self._backward(layer)
        self._grad(self.embedding)
        saves = tuple(Saved(size, saved, self.used[key]) for key, (size, saved) in self.saves.items())
        return StepTrace(tuple(self.units), tuple(self.ops), tuple(self.grads), self._updates(), saves)

    def _save(self, matrix: _Matrix, what: str) -> None:
        """Save what a block is recomputed from or, if blocks are not, what each matrix was multiplied by.

        What attention and activation functions save beside that is left out.
        """
        if (what == "block") is self.setting.recompute:
            width = self.shape.inner if matrix.narrows else self.shape.hidden
            size_bytes = self.setting.tokens * width * self.setting.bytes_per_parameter
            self.saves[matrix.unit, what] = size_bytes, max(len(self.ops) - 1, 0)

    def _unit(self, name: str, elements: int, *, attends: bool = False, narrows: bool = False) -> _Matrix:
        self.units.append(Unit(name, aligned(elements * self.setting.bytes_per_parameter)))
        return _Matrix(len(self.units) - 1, elements, attends, narrows)

    def _look_up(self) -> None:
        self.ops.append(Op((self.embedding.unit,), (), 0.0, "forward"))

    def _backward(self, layer: list[_Matrix]) -> None:
        self.used[layer[0].unit, "block"] = len(self.ops)
        if self.setting.recompute:
            for matrix in layer:
                self._op(matrix, 1, "backward")
        for matrix in reversed(layer):
            self.used[matrix.unit, "input"] = len(self.ops)
            self._op(matrix, 2, "backward")
            self._grad(matrix)

    def _op(self, matrix: _Matrix, passes: int, phase: Phase) -> None:
        setting = self.setting
        flops = 2 * matrix.elements * setting.tokens
        if matrix.attends:
            flops += 4 * setting.tokens * setting.context * self.shape.hidden
        self.ops.append(Op((matrix.unit,), (), passes * flops / setting.flops_per_s, phase))

    def _grad(self, matrix: _Matrix) -> None:
        self.grads.append(Grad(matrix.unit, len(self.ops) - 1, self.units[matrix.unit].bytes))

    def _updates(self) -> tuple[Update, ...]:
        setting = self.setting
        matrices = [self.embedding, *(matrix for layer in self.layers for matrix in layer)]
        if not self.shape.tied:
            matrices.append(self.head)
        # The optimizer reads the gradient and the state, and writes the state and the parameter.
        per_element = 2 * setting.state_bytes_per_parameter + 2 * setting.bytes_per_parameter
        updates, debt = [], 0.0
        for matrix in matrices:
            # Filed whole and evenly along the model, as the runtime does it.
            state_bytes = matrix.elements * setting.state_bytes_per_parameter
            debt += state_bytes * setting.state_in_file
            filed = state_bytes if debt >= state_bytes / 2 else 0
            debt -= filed
            seconds = matrix.elements * per_element / setting.host_bytes_per_s
            second_bytes = self.units[matrix.unit].bytes + state_bytes - filed
            updates.append(Update((matrix.unit,), seconds, filed, second_bytes))
        return tuple(updates)


def make_trace(shape: Shape, setting: Setting) -> StepTrace:
    """Return one step's trace of a model of this shape."""
    return _Builder(shape, setting).build()
