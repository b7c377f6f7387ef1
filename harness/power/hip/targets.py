"""Which HIP kernels are mutated, which cases they must be seen by, and what is enumerated for the rest.

All cases of a target launch one and the same instance: how many tokens a gather has, and whether a selection
is stable, is written into a kernel. The first case is the smallest on which most faults are red, because
they end there. Of a case only the requests of type ``asked`` reach the kernel; the oracle answers the rest.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

PATH = "aiter"
"""The path that has these kernels."""


@dataclass(frozen=True)
class HipTarget:
    """One kernel: its name in the source, the request type that launches it, ids as in `Target`."""

    name: str
    kernel: str
    asked: str
    cases: tuple[str, ...]
    enumerated: tuple[str, ...]
    said: str


def _writer() -> HipTarget:
    fills = ("natural", "spread", "boundary", "zero", "quiet", "onehot", "fp32norm", "offset")
    kinds = [
        (pair, ue, tile) for pair in ("neox", "interleaved") for ue in (1, 0) for tile in ("tiled", "flat")
    ]
    return HipTarget(
        "fp8-writer",
        "indexer_qk_rope_quant_and_cache_kernel",
        "WriteTokens8",
        (
            "fp8-r6-h16-d128-pairneox-p2-fmtfn-ue1-tiletiled-fspread-s21",
            "fp8-r6-h16-d128-pairinterleaved-p1-fmtfn-ue0-tileflat-fspread-s22",
            "fp8-r9-h16-d128-pairneox-p0-fmtfn-ue0-tiletiled-fboundary-s23",
            "fp8-r9-h16-d128-pairinterleaved-p1-fmtfn-ue1-tileflat-fquiet-s24",
            "fp8-r70-h16-d128-pairneox-p3-fmtfn-ue1-tileflat-fnatural-s28",
            "fp8-r9-h16-d128-pairneox-p0-fmtfn-ue0-tileflat-fzero-s26",
            "fp8-r16-h32-d128-pairinterleaved-p0-fmtfn-ue1-tiletiled-foffset-s30",
            "fp8-r70-h16-d128-pairinterleaved-p2-fmtfn-ue0-tiletiled-fnatural-s31",
        ),
        tuple(
            f"fp8-r{17 + turn}-h16-d128-pair{pair}-p{turn % 3}-fmtfn-ue{ue}-tile{tile}-f{fill}-s{40 + turn}"
            for turn, (fill, (pair, ue, tile)) in enumerate(zip(fills, kinds, strict=True))
        ),
        "every fill, pairing, kind of scale and order of pages, 17 to 24 rows of 16 heads each",
    )


def _keys() -> HipTarget:
    head = "fp8-n1-h16-d128-ctx"
    return HipTarget(
        "fp8-keys",
        "indexer_k_quant_and_cache_kernel",
        "WriteKeys8",
        (
            f"{head}17,3-fmtfn-ue1-tiletiled-tshuffled-fnatural-s1",
            f"{head}65,3-fmtfn-ue0-tileflat-tstrided-fboundary-s2",
            f"{head}130,1-fmtfn-ue0-tiletiled-tshuffled-fboundary-s3",
            f"{head}64,70-fmtfn-ue1-tileflat-tshuffled-fboundary-s4",
            f"{head}300,20-fmtfn-ue0-tileflat-tshuffled-fnatural-s18",
        ),
        tuple(
            f"{head}{lengths}-fmtfn-ue{ue}-tile{tile}-tshuffled-f{fill}-s{9 + ue}"
            for ue, tile in ((1, "tiled"), (0, "flat"), (0, "tiled"), (1, "flat"))
            for lengths, fill in (("130,64,1", "boundary"), ("190,63,3", "natural"))
        ),
        "both kinds of scale, orders of pages, widths of a row and fills, 195 and 256 keys each",
    )


def _gather() -> HipTarget:
    head = "fp8-n1-h16-d128-ctx"
    return HipTarget(
        "fp8-gather",
        "cp_gather_indexer_k_quant_cache_kernel",
        "GatherKeys8",
        (
            f"{head}65,7-fmtfn-ue1-tiletiled-tshuffled-faddress-s1",
            f"{head}1,0,80-fmtfn-ue0-tileflat-tstrided-fbytes-s2",
            f"{head}66,0,0,3,1x8-fmtfnuz-ue0-tiletiled-twide-fbytes-s3",
            f"{head}127-fmtfn-ue1-tileflat-tshuffled-fboundary-s4",
            f"{head}2x33-fmtfn-ue1-tileflat-tshuffled-faddress-s19",
        ),
        tuple(
            f"{head}{lengths}-fmtfn-ue0-tile{tile}-tshuffled-fbytes-s{5 + turn}"
            for turn, lengths in enumerate(("1x127", "0,0,0,67,0", "31,33,1,15,16,17", "64", "65,0,1,61"))
            for tile in ("tiled", "flat")
        ),
        "64 to 127 keys of 1 to 127 sequences, empty ones among them, in both orders of pages",
    )


def _decode(stable: int) -> HipTarget:
    tail = f"stable{stable}-l"
    return HipTarget(
        "topk-decode-stable" if stable else "topk-decode",
        "radix_topk_one_block_kernel",
        "SelectDecode",
        (
            f"topk-n1-ctx70000,40001-k2048-{tail}70003-fdistinct-s15",
            f"topk-n2-ctx130,40-k65-{tail}0-fspecial-s1",
            f"topk-n1-ctx300,65,0-k64-{tail}310-fties-s2",
            f"topk-n1-ctx1100,700,17-k16-{tail}1101-fnarrow-s3",
            f"topk-n2-ctx2051,513-k512-{tail}2100-fplateau-s4",
            f"topk-n1-ctx4097,2048,2049-k2048-{tail}0-fnatural-s5",
            f"topk-n1-ctx9000,4500-k1024-{tail}9001-fdistinct-s6",
        ),
        (
            f"topk-n1-ctx{','.join(map(str, range(131)))}-k64-{tail}0-fspecial-s7",
            f"topk-n3-ctx{','.join(map(str, range(1000, 1060)))}-k65-{tail}1061-fnarrow-s8",
            f"topk-n1-ctx2047,2048,2049,4095,4096,4097-k2048-{tail}0-fties-s9",
            f"topk-n2-ctx9000,8193,8191-k1023-{tail}9111-fplateau-s10",
            f"topk-n1-ctx40000,65537,16385-k2048-{tail}65541-fnarrow-s11",
        ),
        "every context of 0 to 130 and 1000 to 1059 keys, those beside 2048, 4096 and 8192, and long rows",
    )


def _prefill(stable: int) -> HipTarget:
    tail = f"stable{stable}-l"
    ends = ",".join(f"0@{end // 3}:{end}" for end in range(200))
    return HipTarget(
        "topk-prefill-stable" if stable else "topk-prefill",
        "radix_topk_one_block_kernel",
        "SelectPrefill",
        (
            f"topk-w0@3:60001,0@1000:41001,1@9:40000-k2048-{tail}60003-fdistinct-s15",
            f"topk-w0@3:140,0@7:61,1@29:100,1@99:100-k40-{tail}151-fspecial-s1",
            f"topk-w0@0:300,0@37:141,0@5:5,1@400:700-k64-{tail}701-fties-s2",
            f"topk-w0@17:1100,1@433:437-k16-{tail}1101-fnarrow-s3",
            f"topk-w0@1:2051,0@0:2050-k512-{tail}2100-fplateau-s4",
            f"topk-w0@0:2047+2,0@2040:4096,2@1:4097-k2048-{tail}0-fnatural-s5",
            f"topk-w0@5:9000,0@3:4500-k1024-{tail}9001-fdistinct-s6",
        ),
        (
            f"topk-w{ends}-k33-{tail}0-fspecial-s7",
            f"topk-w0@1000:1057+30,1@3:1100-k65-{tail}1101-fnarrow-s8",
            f"topk-w0@0:2047+3,0@2040:4096,1@1:4097,2@4090:4097-k2048-{tail}0-fties-s9",
            f"topk-w0@5:9000,0@4:8195-k1023-{tail}9111-fplateau-s10",
            f"topk-w0@7:40000,0@1:60001,1@2:16387-k2048-{tail}60003-fnarrow-s11",
        ),
        "windows that end at 0 to 199, starts of every residue of 16, and longer ones up to 60000",
    )


HIP_TARGETS: Mapping[str, HipTarget] = {
    target.name: target
    for target in (_writer(), _keys(), _gather(), *map(_decode, (0, 1)), *map(_prefill, (0, 1)))
}
