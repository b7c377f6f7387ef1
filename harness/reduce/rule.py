"""Part of `template.HEAD`: the rule by which a script judges a choice that has several right answers.

A row may hold its keys in any order, and any of equal scores at the cut; a key taken twice, one that the row
has not, or a score worse than one that is left makes it wrong. It fails silently if a row without candidates
passes for one that was looked at, so rows are counted.
"""

from __future__ import annotations

TEXT = '''\
def misses(ids, names, scores, k, stable, void):
    """Why ``ids`` [T, k] are no right choice, or None. A row takes the k best of its names, in any order.

    Of equal scores any may be taken, those with the smallest names if ``stable``; -1 is padding, and a name
    whose score is -inf if ``void``. What a NaN ranks as is not looked at.
    """
    if list(ids.shape) != [len(names), k] or ids.is_floating_point():
        return f"{{ids.dtype}} {{list(ids.shape)}} came, wanted are integers {{[len(names), k]}}"
    for row in range(len(names)):
        pairs = zip(names[row].tolist(), scores[row].tolist())
        known = {{name: score for name, score in pairs if name >= 0}}
        taken = [one for one in ids[row].tolist() if one != -1]
        strange = [one for one in taken if one not in known]
        if strange:
            return f"row {{row}} takes {{strange[0]}}, which it does not have"
        if void:
            known = {{name: score for name, score in known.items() if score > -float("inf")}}
            taken = [one for one in taken if one in known]
        if len(set(taken)) < len(taken):
            return f"row {{row}} takes {{max(taken, key=taken.count)}} twice"
        best = sorted(known, key=lambda name: (-known[name], name))[:k]
        if len(taken) != len(best):
            return f"row {{row}} takes {{len(taken)}}, wanted are {{len(best)}}"
        if len(best) == len(known) or any(score != score for score in known.values()):
            continue
        if stable and set(taken) != set(best):
            extra, left = min(set(taken) - set(best)), min(set(best) - set(taken))
            return f"row {{row}} takes {{extra}} and not {{left}}"
        came, wanted = (sorted((known[one] for one in part), reverse=True) for part in (taken, best))
        for got, want in zip(came, wanted):
            if got != want:
                return f"row {{row}} takes a score of {{got!r}} where one of {{want!r}} is left"
    return None


def chosen(answer, tensors):
    """Print why ``answer`` is no right choice, and return the exit code."""
    rule = {{name: tensors[value] if isinstance(value, str) else value for name, value in CHOICE.items()}}
    part = rule.pop("part")
    if part is not None:
        answer = answer[part]
    why = misses(answer.detach().cpu(), **rule) if isinstance(answer, torch.Tensor) else "no tensor came"
    if why:
        print(f"DIFFERS: {{why}}")
        return 1
    print(f"agrees: {{len(rule['names'])}} rows take the best {{rule['k']}} of theirs")
    return 0


'''
