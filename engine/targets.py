"""Decides which of the targets the cache misses now, and what to do about each. The alert rules use the same limits."""

from __future__ import annotations

from engine.view import CacheView

HELD_SHARE = 0.85
HIT_RATE = 0.70
WARM_FIRST_TOKEN_MS = 500.0
# Each document's first question finds nothing: a rate over fewer says little.
FEWEST_QUESTIONS = 20


def missed(view: CacheView) -> tuple[str, ...]:
    """One sentence for each target that is missed; empty where all is well."""
    found = []
    if view.held_share > HELD_SHARE:
        found.append(
            f"{view.held_share:.0%} of the cache is pinned or in use (target: at most {HELD_SHARE:.0%}); "
            "unpin documents, or give the engine more memory for its cache."
        )
    enough = view.first_token.questions >= FEWEST_QUESTIONS
    if enough and view.hit_rate is not None and view.hit_rate < HIT_RATE:
        found.append(
            f"{view.hit_rate:.0%} of the prompt tokens were reused (target: at least {HIT_RATE:.0%}); "
            "ask one document several questions in a row, pin what is asked often, or give the cache more memory."
        )
    warm_ms = view.first_token.warm_median_ms
    if warm_ms is not None and warm_ms > WARM_FIRST_TOKEN_MS:
        found.append(
            f"The first token of a warm question takes {warm_ms:,.0f} ms at the median "
            f"(target: at most {WARM_FIRST_TOKEN_MS:,.0f} ms); ask fewer questions at once, or use a faster machine."
        )
    return tuple(found)
