"""The text of the script that shows a failure: one file, to be read by people who do not know this project.

`HEAD` builds the tensors and compares; between them stands how the answer is got: `CALL` calls a production
function of aiter, `ASK` asks a path of the harness. It fails silently if a script that compares nothing says
that all is well, so it counts what it compared. Where several answers are right (`choice`), it has the rule.
"""

from __future__ import annotations

from harness.reduce import rule

BUILD = '''\
"""{title}

{about}

    {usage}

Exit code 0: the answer is the one that is wanted; 1: it differs; 3: it could not be asked for.
"""

import argparse
import importlib
import os
import sys
from pathlib import Path

import torch
from safetensors.torch import load_file

HERE = Path(__file__).resolve().parent
FILES = {files}
WANT = {want}
"""Tensors (names in the files) that the answer must be, bit for bit; None: an exception; empty: nothing."""
FINDING = {finding}
"""Kind and operand of a misbehaviour that the answer does not show; empty: none."""
CHOICE = {choice}
"""Where several answers are right: the tensors of what can be chosen, and the rule; empty: one is."""
SPEC = {spec}
"""What is asked: tensors by name, shape and stride."""


def build(spec, tensors, device):
    """The value that a spec stands for."""
    kind, *rest = spec
    if kind == "value":
        return rest[0]
    if kind == "tuple":
        return tuple(build(part, tensors, device) for part in rest[0])
    if kind == "mapping":
        return {{name: build(part, tensors, device) for name, part in rest[0].items()}}
    if kind == "object":
        module, name = rest[0].split(":")
        parts = {{field: build(part, tensors, device) for field, part in rest[1].items()}}
        return getattr(importlib.import_module(module), name)(**parts)
    if kind == "gathered":
        return gatherer(rest[0], rest[1], [build(part, tensors, device) for part in rest[2]])
    what, shape, stride = rest
    span = 1 + sum((size - 1) * step for size, step in zip(shape, stride)) if all(shape) else 0
    if kind == "filled":  # float32, one bit pattern throughout
        made = torch.empty(span, dtype=torch.int32, device=device).as_strided(shape, stride)
        return made.fill_(what).view(torch.float32)
    held = tensors[what].reshape(shape).to(device)
    if list(held.stride()) == stride:
        return held
    return torch.empty(span, dtype=held.dtype, device=device).as_strided(shape, stride).copy_(held)


def gatherer(rank, world, given):
    """An all-gather: what other ranks gave, turn by turn, and for this rank what it hands over."""
    turns = iter(given)

    def gather(own):
        every = next(turns).clone()
        part = every[rank] if every.dim() > own.dim() else every.chunk(world)[rank]
        part.copy_(own)
        return every

    return gather


def bits(tensor):
    """Elements as integers; every NaN is the same."""
    if tensor.is_floating_point():
        tensor = torch.where(tensor.isnan(), torch.full_like(tensor, torch.nan), tensor)
    sizes = {{1: torch.uint8, 2: torch.int16, 4: torch.int32, 8: torch.int64}}
    flat = tensor.detach().cpu().contiguous()
    return flat.view(sizes[flat.element_size()]) if flat.numel() else flat


def compare(answer, tensors):
    """Print the first difference and return the exit code."""
    parts = answer if isinstance(answer, (tuple, list)) else (answer,)
    if len(parts) != len(WANT):
        print(f"DIFFERS: {{len(parts)}} tensors came, wanted are {{len(WANT)}}")
        return 1
    count = 0
    for part, name in zip(parts, WANT):
        want = tensors[name]
        if not isinstance(part, torch.Tensor):
            part = torch.tensor(part)
        if part.shape != want.shape or part.dtype != want.dtype:
            came, wanted = (f"{{one.dtype}} {{list(one.shape)}}" for one in (part, want))
            print(f"DIFFERS: {{came}} came, wanted is {{wanted}}")
            return 1
        got = part.detach().cpu()
        wrong = (bits(got) != bits(want)).nonzero()
        if len(wrong):
            place = tuple(wrong[0].tolist())
            print(f"DIFFERS: {{name}}{{list(place)}}, {{len(wrong)}} of {{want.numel()}} elements differ")
            print(f"  got  {{got[place].item()!r}}  bits {{int(bits(got)[place]):#x}}")
            print(f"  want {{want[place].item()!r}}  bits {{int(bits(want)[place]):#x}}")
            return 1
        count += want.numel()
    print(f"agrees: {{count}} elements, bit for bit")
    return 0


'''

JUDGE = '''\
def judge(ask, tensors):
    """Ask, and compare what comes. ``ask`` returns (answer, findings)."""
    try:
        answer, findings = ask()
    except Exception as error:
        if WANT is None:
            print(f"agrees: it refuses ({{type(error).__name__}}: {{error}})")
            return 0
        print(f"DIFFERS: {{type(error).__name__}}: {{error}}")
        return 1
    if WANT is None:
        print("DIFFERS: it takes what it must refuse")
        return 1
    for one in findings:
        if FINDING and [one.kind, one.operand] == FINDING:
            print(f"DIFFERS: {{one.text()}}")
            return 1
    if FINDING:
        print(f"agrees: no {{FINDING[0]}} of {{FINDING[1]}}")
        return 0
    if CHOICE:
        return chosen(answer, tensors)
    if not WANT:
        print("agrees: no exception")
        return 0
    return compare(answer, tensors)


def loaded():
    """All tensors of the files."""
    tensors = {{}}
    for file in FILES:
        tensors |= load_file(HERE / file)
    return tensors

'''

HEAD = BUILD + rule.TEXT + JUDGE

CALL = '''
MODULE, FUNCTION, PLACE, OUT = {module}, {function}, {place}, {out}


def on_gfx950():
    if not torch.version.hip or not torch.cuda.is_available():
        return False
    return torch.cuda.get_device_properties(0).gcnArchName.startswith("gfx950")


def seed(tree):
    """Enter the parent packages empty: aiter's own __init__ wants ROCm, its modules do not."""
    import importlib.machinery
    import importlib.util

    parts = MODULE.split(".")[:-1]
    for depth in range(1, len(parts) + 1):
        spec = importlib.machinery.ModuleSpec(".".join(parts[:depth]), None, is_package=True)
        spec.submodule_search_locations = [str(Path(tree, *parts[:depth]).resolve())]
        sys.modules[spec.name] = importlib.util.module_from_spec(spec)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--aiter", help="directory of an aiter checkout (default: the installed aiter)")
    tree, live, tensors = parser.parse_args().aiter, on_gfx950(), loaded()
    device = "cuda" if live else "cpu"
    if not live:
        os.environ["TRITON_INTERPRET"] = "1"
        from harness.emulator import backend  # stands for the chip, and for nothing else

        backend.install()
    try:
        if tree and live:
            sys.path.insert(0, tree)
        elif tree:
            seed(tree)
        function = getattr(importlib.import_module(MODULE), FUNCTION)
    except (ImportError, AttributeError) as error:
        print(f"cannot be asked: {{error}}")
        return 3
    arguments = build(SPEC, tensors, device)
    if live and "stream" in arguments:
        arguments["stream"] = None  # the current one; the emulator has none

    def ask():
        if live:
            answer = function(**arguments)
        else:
            with backend.session():
                answer = function(**arguments)
        if PLACE is not None:
            answer = answer[PLACE]
        return (arguments["out"] if OUT else answer), ()

    return judge(ask, tensors)


if __name__ == "__main__":
    sys.exit(main())
'''

ASK = """
PATH, TREES, OUT = {path}, {trees}, {out}


def main():
    from harness.paths import registry
    from harness.paths.base import Unsupported

    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    for option in TREES:
        parser.add_argument(f"--{{option}}", type=Path, required=True, help="directory of the checkout")
    trees = registry.Trees(**vars(parser.parse_args()))
    path, tensors = registry.create(registry.Choice(PATH, trees)), loaded()
    request = build(SPEC, tensors, "cpu")

    def ask():
        try:
            outcome = path.run(request)
        except Unsupported as refusal:
            print(f"cannot be asked: {{refusal}}")
            sys.exit(3)
        return (request.out if OUT else outcome.value), outcome.findings

    return judge(ask, tensors)


if __name__ == "__main__":
    sys.exit(main())
"""
