"""Shapes have the sizes of the models that they stand for."""

import json

import pytest

from tencache.plan.transformer_shapes import PRESETS, find_shape

CONFIGS = {
    "gpt2": {"model_type": "gpt2", "n_layer": 12, "n_embd": 768, "n_head": 12, "vocab_size": 50257},
    "opt": {
        "model_type": "opt",
        "num_hidden_layers": 32,
        "hidden_size": 4096,
        "num_attention_heads": 32,
        "ffn_dim": 16384,
        "vocab_size": 50272,
    },
    "llama": {
        "model_type": "llama",
        "num_hidden_layers": 80,
        "hidden_size": 8192,
        "num_attention_heads": 64,
        "num_key_value_heads": 8,
        "intermediate_size": 28672,
        "vocab_size": 32000,
    },
}


@pytest.mark.parametrize(("kind", "preset"), [("gpt2", "gpt2"), ("opt", "opt-6.7b"), ("llama", "llama-70b")])
def test_configurations_give_the_sizes_of_the_presets(kind, preset, tmp_path):
    path = tmp_path / "config.json"
    path.write_text(json.dumps(CONFIGS[kind]))
    assert find_shape(str(path)).parameters == PRESETS[preset].parameters


@pytest.mark.parametrize(
    ("data", "message"), [({"model_type": "t5"}, "model_type is 't5'"), ({"model_type": "opt"}, "needs 'num_attention")]
)
def test_other_configurations_are_refused(data, message, tmp_path):
    path = tmp_path / "config.json"
    path.write_text(json.dumps(data))
    with pytest.raises(ValueError, match=message):
        find_shape(str(path))


@pytest.mark.parametrize(
    ("name", "billions"),
    [("gpt-46m", 0.046), ("gpt2", 0.124), ("opt-6.7b", 6.65), ("opt-13b", 12.8), ("llama-70b", 69)],
)
def test_presets_have_the_sizes_in_their_names(name, billions):
    assert PRESETS[name].parameters / 1e9 == pytest.approx(billions, rel=0.02)
