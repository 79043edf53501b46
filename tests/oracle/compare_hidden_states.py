#!/usr/bin/env python3
"""Compares hidden states that Aerie captured with those of transformers, for the same GGUF weights in fp32.

    compare_hidden_states.py MODEL.gguf EXACT.safetensors [QUANTISED.safetensors]

Each safetensors file holds `ids` [T], `boundary.<b>` [T, H] for some b, and `last` [T, H] (final state before the norm).
EXACT comes from the same weights written as F32: every row must agree to a relative L2 distance of 5e-5.
QUANTISED comes from the quantised file itself: cosine >= 0.99 in every row but the first four (a handful of numbers rule
those), and the same next token by lm_head in >= 95 % of rows.
Needs torch, transformers, accelerate, gguf, safetensors. Prints one line a boundary; exit status 0 when all hold, 1 otherwise.
"""
import os
import sys

import torch
from safetensors.torch import load_file
from transformers import AutoModelForCausalLM

EXACT, COSINE, AGREE = 5e-5, 0.99, 0.95


def reference(model_path, ids):
    """Boundaries 0..n by hooks on what enters each layer and the final norm (hidden_states[n] would be normed)."""
    folder, name = os.path.split(model_path)
    model = AutoModelForCausalLM.from_pretrained(folder or ".", gguf_file=name, dtype=torch.float32, attn_implementation="eager")
    model.eval()
    rows = {}

    def keep(index):
        def hook(module, args, kwargs):
            rows[index] = (args[0] if args else kwargs["hidden_states"]).detach()[0].clone()
        return hook

    modules = [*model.model.layers, model.model.norm]
    hooks = [module.register_forward_pre_hook(keep(index), with_kwargs=True) for index, module in enumerate(modules)]
    with torch.no_grad():
        logits = model(ids[None], use_cache=False).logits[0]
    for hook in hooks:
        hook.remove()
    return rows, len(modules) - 1, logits, lambda last: model.lm_head(model.model.norm(last))


def main():
    model_path, *files = sys.argv[1:]
    captured = [load_file(path) for path in files]
    torch.set_num_threads(int(os.environ.get("OMP_NUM_THREADS", "1")))
    rows, n, logits, head = reference(model_path, captured[0]["ids"].long())
    bad = []
    for tensors, exact in zip(captured, (True, False)):
        boundary = {name: n if name == "last" else int(name.split(".")[1]) for name in tensors if name != "ids"}
        for name in sorted(boundary, key=lambda name: (boundary[name], name)):
            ours, theirs = tensors[name].float(), rows[boundary[name]]
            if ours.shape != theirs.shape:
                bad.append(f"{name}: shape {tuple(ours.shape)}, transformers has {tuple(theirs.shape)}")
                continue
            apart = (ours - theirs).norm(dim=-1) / theirs.norm(dim=-1)
            cosine = torch.nn.functional.cosine_similarity(ours.double(), theirs.double(), dim=-1)
            print(f"{'F32' if exact else 'quantised'} {name}: relative distance max {apart.max():.2e}, mean {apart.mean():.2e}, "
                  f"cosine min {cosine[4:].min():.6f}")
            if exact and not apart.max() <= EXACT:
                bad.append(f"{name} of the F32 model is {apart.max():.2e} from transformers, more than {EXACT}")
            if not exact and not cosine[4:].min() >= COSINE:
                bad.append(f"{name} of the quantised model has a cosine of {cosine[4:].min():.4f}, less than {COSINE}")
        with torch.no_grad():
            agree = (head(tensors["last"].float()).argmax(-1) == logits.argmax(-1)).float().mean().item()
        print(f"{'F32' if exact else 'quantised'} next tokens: {100 * agree:.1f} % the same")
        if agree < (1.0 if exact else AGREE):
            bad.append(f"only {100 * agree:.1f} % of next tokens are the same")
    for sentence in bad:
        print("FAILED:", sentence)
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
