"""Models of other libraries, where these are installed."""

import contextlib
from typing import Any

import torch
from common import IDIOMS, Idiom, Wrap, adam, batch, fit, idiom, weights
from torch.nn import functional


def _transformers(kind: str, config: str, **sizes: Any) -> Idiom:
    def run(wrap: Wrap) -> Any:
        import transformers

        made = getattr(transformers, config)(**sizes)
        model = getattr(transformers, kind)(made)
        return _language(model, wrap)

    return run


def _language(model: Any, wrap: Wrap) -> Any:
    optimizer = adam(model)
    wrap(model, optimizer)
    tokens = torch.randint(3, 60, (2, 9), generator=torch.Generator().manual_seed(1))

    def loss(model: Any, step: int) -> Any:
        return model(input_ids=tokens.roll(step, 1), labels=tokens.roll(step, 1)).loss

    seen = fit(model, optimizer, 3, loss)
    model.eval()
    with torch.no_grad():
        seen.append(model.generate(input_ids=tokens[:, :4], max_new_tokens=4, do_sample=False))
    model.train()
    with contextlib.suppress(ValueError):
        model.gradient_checkpointing_enable()
    seen += fit(model, optimizer, 2, loss)
    with torch.autocast("cpu", torch.bfloat16):
        value = loss(model, 5)
    value.backward()
    optimizer.step()
    return seen, value.detach(), weights(model)


SMALL = {"vocab_size": 64, "hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 2}
LLAMA = {**SMALL, "intermediate_size": 48, "num_key_value_heads": 1, "head_dim": 16}
IDIOMS.update(
    {
        "mamba": _transformers(
            *("MambaForCausalLM", "MambaConfig"), vocab_size=64, hidden_size=32, num_hidden_layers=2, state_size=4
        ),
        "gemma": _transformers("GemmaForCausalLM", "GemmaConfig", **LLAMA),
        "gemma2": _transformers("Gemma2ForCausalLM", "Gemma2Config", **LLAMA),
        "qwen2_moe": _transformers(
            *("Qwen2MoeForCausalLM", "Qwen2MoeConfig"),
            **LLAMA,
            num_experts=4,
            num_experts_per_tok=2,
            moe_intermediate_size=16,
            shared_expert_intermediate_size=16,
        ),
        "qwen3_moe": _transformers(
            *("Qwen3MoeForCausalLM", "Qwen3MoeConfig"),
            **LLAMA,
            num_experts=4,
            num_experts_per_tok=2,
            moe_intermediate_size=16,
        ),
        "t5": _transformers(
            *("T5ForConditionalGeneration", "T5Config"),
            vocab_size=64,
            d_model=32,
            d_ff=48,
            d_kv=8,
            num_layers=2,
            num_heads=4,
            decoder_start_token_id=0,
        ),
        "rwkv": _transformers(
            *("RwkvForCausalLM", "RwkvConfig"), vocab_size=64, hidden_size=32, num_hidden_layers=2, context_length=16
        ),
        "granite_moe": _transformers(
            "GraniteMoeForCausalLM", "GraniteMoeConfig", **LLAMA, num_local_experts=4, num_experts_per_tok=2
        ),
        "falcon_h1": _transformers("FalconH1ForCausalLM", "FalconH1Config", **LLAMA, mamba_d_ssm=32, mamba_n_heads=4),
        "phimoe": _transformers(
            "PhimoeForCausalLM", "PhimoeConfig", **LLAMA, num_local_experts=4, num_experts_per_tok=2
        ),
    }
)


@idiom
def whisper(wrap: Wrap) -> Any:
    """Sound to words."""
    import transformers

    sizes = dict.fromkeys(("encoder_layers", "decoder_layers", "encoder_attention_heads"), 2)
    config = transformers.WhisperConfig(
        vocab_size=64,
        d_model=32,
        decoder_attention_heads=2,
        encoder_ffn_dim=48,
        decoder_ffn_dim=48,
        num_mel_bins=8,
        max_source_positions=20,
        max_target_positions=16,
        pad_token_id=0,
        bos_token_id=1,
        eos_token_id=2,
        decoder_start_token_id=1,
        suppress_tokens=[],
        begin_suppress_tokens=[],
        **sizes,
    )
    model = transformers.WhisperForConditionalGeneration(config)
    optimizer = adam(model)
    wrap(model, optimizer)
    words = torch.randint(3, 60, (2, 6), generator=torch.Generator().manual_seed(1))

    def loss(model: Any, step: int) -> Any:
        return model(input_features=batch(step, 2, 8, 40), labels=words).loss

    return fit(model, optimizer, 3, loss), weights(model)


@idiom
def clip(wrap: Wrap) -> Any:
    """Pictures beside words."""
    import transformers

    text = {**SMALL, "intermediate_size": 48, "max_position_embeddings": 12}
    vision = {**SMALL, "intermediate_size": 48, "image_size": 16, "patch_size": 8}
    vision.pop("vocab_size")
    config = transformers.CLIPConfig(text_config=text, vision_config=vision, projection_dim=16)
    model = transformers.CLIPModel(config)
    optimizer = adam(model)
    wrap(model, optimizer)
    words = torch.randint(3, 60, (2, 6), generator=torch.Generator().manual_seed(1))

    def loss(model: Any, step: int) -> Any:
        return model(input_ids=words, pixel_values=batch(step, 2, 3, 16, 16), return_loss=True).loss

    seen = fit(model, optimizer, 3, loss)
    with torch.no_grad():
        found = model.get_text_features(words)
    seen.append(found if isinstance(found, torch.Tensor) else found.pooler_output)
    return seen, weights(model)


@idiom
def low_rank_adapters(wrap: Wrap) -> Any:
    """peft: adapters that are switched off and merged."""
    import peft
    import transformers

    model: Any = transformers.LlamaForCausalLM(transformers.LlamaConfig(**LLAMA))
    model = peft.get_peft_model(model, peft.LoraConfig(r=4, target_modules=["q_proj", "v_proj"], use_rslora=True))
    optimizer = adam(model)
    wrap(model, optimizer)
    tokens = torch.randint(3, 60, (2, 9), generator=torch.Generator().manual_seed(1))
    seen = fit(model, optimizer, 3, lambda m, _: m(input_ids=tokens, labels=tokens).loss)
    with torch.no_grad(), model.disable_adapter():
        seen.append(model(input_ids=tokens).logits)
    model.merge_adapter()
    with torch.no_grad():
        seen.append(model(input_ids=tokens).logits)
    model.unmerge_adapter()
    seen += fit(model, optimizer, 2, lambda m, _: m(input_ids=tokens, labels=tokens).loss)
    return seen, weights(model)


@idiom
def peft_others(wrap: Wrap) -> Any:
    """peft: prompts, (IA)3 and VeRA."""
    import peft
    import transformers

    seen: list[Any] = []
    tokens = torch.randint(3, 60, (2, 9), generator=torch.Generator().manual_seed(1))
    for config in (
        peft.IA3Config(target_modules=["v_proj", "down_proj"], feedforward_modules=["down_proj"]),
        peft.VeraConfig(r=4, target_modules=["q_proj"]),
        peft.PromptTuningConfig(task_type="CAUSAL_LM", num_virtual_tokens=3),
        peft.OFTConfig(oft_block_size=4, target_modules=["q_proj"]),
    ):
        torch.manual_seed(0)
        model: Any = peft.get_peft_model(transformers.LlamaForCausalLM(transformers.LlamaConfig(**LLAMA)), config)
        optimizer = adam(model)
        wrap(model, optimizer)
        seen += [fit(model, optimizer, 3, lambda m, _: m(input_ids=tokens, labels=tokens).loss), weights(model)]
    return seen


@idiom
def detection(wrap: Wrap) -> Any:
    """torchvision: a detector, whose loss depends on what it proposes."""
    import torchvision

    model = torchvision.models.detection.ssdlite320_mobilenet_v3_large(
        weights=None, weights_backbone=None, num_classes=3
    )
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-3, momentum=0.9)
    wrap(model, optimizer)
    aims = [{"boxes": torch.tensor([[4.0, 4.0, 30.0, 40.0]]), "labels": torch.tensor([1])}] * 2

    def loss(model: Any, step: int) -> Any:
        return sum(model(list(batch(step, 2, 3, 48, 48)), aims).values())

    seen = fit(model, optimizer, 2, loss)
    model.eval()
    with torch.no_grad():
        seen += [found["scores"] for found in model(list(batch(3, 1, 3, 48, 48)))]
    return seen, weights(model)


def _timm(name: str, **options: Any) -> Idiom:
    def run(wrap: Wrap) -> Any:
        import timm
        import timm.optim
        import timm.utils

        model = timm.create_model(name, num_classes=5, **options)
        optimizer = timm.optim.create_optimizer_v2(model, opt="lamb", lr=1e-3, weight_decay=0.05, layer_decay=0.8)
        wrap(model, optimizer)
        seen = []
        for step in range(3):
            loss = functional.cross_entropy(model(batch(step, 2, 3, 64, 64)), torch.tensor([1, 3]))
            loss.backward()
            timm.utils.dispatch_clip_grad(model.parameters(), 0.02, mode="agc")
            optimizer.step()
            optimizer.zero_grad()
            seen.append(loss.detach().clone())
        return seen, weights(model)

    return run


IDIOMS.update(
    {
        "convnext": _timm("convnext_atto", drop_path_rate=0.1),
        "vit": _timm("vit_tiny_patch16_224", img_size=64, depth=2),
        "efficientnet": _timm("efficientnet_lite0", drop_rate=0.1),
        "swin": _timm("swinv2_cr_tiny_ns_224", img_size=64, depths=(1, 1, 1, 1), embed_dim=24, num_heads=(1, 1, 2, 2)),
    }
)
