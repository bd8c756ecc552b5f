"""Tells that a text accepts what was proposed just before it, or says that it worked
(docs/behaviour.md#accepted-proposals). Pure."""

import re

from layover.lazy import lazy_pattern
from layover.plugins.memory.text.likeness import conditions, denies

_SENTENCE = lazy_pattern(r"[^.!?;\u2026\u3002\uff01\uff1f]+[.!?;\u2026\u3002\uff01\uff1f]*")
_READ = 2
"""Sentences that are looked at: who accepts says so at once."""
_LONG = 12
"""Words of a first sentence that speaks of something else than a proposal."""
_ACCEPTS = lazy_pattern(
    # Consent comes first.
    r"^\W*(?:(?:yes|yeah|yep|yup|sure|ok|okay|agreed|exactly|absolutely|fine|great|perfect|correct|right"
    r"|please do|do (?:that|it|so)|go ahead|let['\u2019]s do (?:that|it|so)|sounds good|that works"
    r"|ja|jawohl|genau|gerne?|klar|einverstanden|passt|mach(?:en)? (?:das|es|wir|sie)|so machen wir"
    r"|oui|d['\u2019]accord|vas-y|allez-y|fais(?:-le| ça)|faites(?:-le| ça)|très bien|parfait"
    r"|sí|claro|vale|de acuerdo|hazlo|hágalo|adelante|perfecto"
    r"|sim|pode ser|pode fazer|faça isso|faz isso|combinado|perfeito"
    r"|sì|va bene|d['\u2019]accordo|fallo|lo faccia|perfetto"
    r"|да|давай(?:те)?|хорошо|согласен|согласна|ладно|так и сделаем)(?!\w)"
    r"|是的|好的|好|可以|行|没问题|はい|ええ|お願いします|それで|네|예|좋아요)"
    # An outcome may stand anywhere.
    r"|\b(?:(?:that|this|it|which) (?:has |have )?(?:fixed|solved|worked|helped|did)\b|did the trick"
    r"|works (?:again|now)"
    r"|(?:is|are) (?:fixed|solved|resolved)|problem solved"
    r"|hat (?:das problem )?(?:geholfen|funktioniert|geklappt|gelöst)"
    r"|(?:geht|läuft|funktioniert) (?:wieder|jetzt)"
    r"|[çc]a (?:a )?(?:march[eé]|fonctionn[eé]|aid[eé])|c['\u2019]est (?:réglé|résolu|réparé)"
    r"|(?:eso |esto )?(?:ha )?(?:funcionado|funcionó|ayudado|solucionado)|ya funciona"
    r"|ha (?:funzionato|risolto)|ora funziona|resolveu|funcionou"
    r"|помогло|сработало|заработало)(?!\w)"
    r"|解决了|好了|搞定|直りました|解決しました|動きました|해결|됐어요",
    re.IGNORECASE,
)


def accepts(text: str) -> bool:
    """Return whether a text begins with consent, or says that something worked, without a denial, a
    condition, a doubt or a question."""
    sentences = [s.strip() for s in _SENTENCE.findall(text)]
    with_words = [s for s in sentences if any(c.isalnum() for c in s)]
    for place, sentence in enumerate(with_words[:_READ]):
        if denies(sentence) or conditions(sentence):
            return False
        if _ACCEPTS.search(sentence):
            return True
        if place == 0 and len(sentence.split()) > _LONG:
            return False
    return False
