"""Models of Hugging Face transformers, made from configuration: nothing is downloaded."""

import os

os.environ["HF_HUB_OFFLINE"] = "1"

import pytest
import torch
from tencache_cases import same_state, same_tensors, wrap
from transformers import GPT2Config, GPT2LMHeadModel, LlamaConfig, LlamaForCausalLM, OPTConfig, OPTForCausalLM

MODELS = {
    "gpt2": lambda: GPT2LMHeadModel(
        GPT2Config(vocab_size=100, n_positions=16, n_embd=32, n_layer=4, n_head=4, bos_token_id=0, eos_token_id=1)
    ),
    "llama": lambda: LlamaForCausalLM(
        LlamaConfig(
            vocab_size=100,
            hidden_size=32,
            intermediate_size=64,
            num_hidden_layers=4,
            num_attention_heads=4,
            num_key_value_heads=2,
            max_position_embeddings=16,
        )
    ),
    "opt": lambda: OPTForCausalLM(
        OPTConfig(
            vocab_size=100,
            hidden_size=32,
            ffn_dim=64,
            num_hidden_layers=4,
            num_attention_heads=4,
            max_position_embeddings=16,
            word_embed_proj_dim=32,
            dropout=0.1,
        )
    ),
}


def run(name, *, wrapped, recompute=False):
    torch.manual_seed(0)
    model = MODELS[name]()
    model.train()
    if recompute:
        model.gradient_checkpointing_enable()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
    cached = wrap(model, optimizer, budget="40%") if wrapped else None
    losses = []
    for step in range(5):
        tokens = torch.randint(2, 100, (2, 12), generator=torch.Generator().manual_seed(step))
        loss = model(input_ids=tokens, labels=tokens).loss
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        losses.append(loss.item())
    if cached is not None:
        assert cached.stats().order_changes == 0
        cached.unwrap()
    return losses, model, optimizer


@pytest.mark.parametrize("recompute", [False, True])
@pytest.mark.parametrize("name", MODELS)
def test_transformers_train_as_if_unwrapped(name, recompute):
    losses, reference, reference_optimizer = run(name, wrapped=False, recompute=recompute)
    wrapped_losses, model, optimizer = run(name, wrapped=True, recompute=recompute)
    assert wrapped_losses == losses
    assert same_tensors(model.state_dict(), reference.state_dict())
    assert same_state(optimizer, reference_optimizer)
