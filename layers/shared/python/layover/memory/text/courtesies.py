"""Tells a text that is nothing but a greeting or thanks: memory learns nothing from it
(docs/behaviour.md#memory-requests). Pure."""

import re

from layover.lazy import lazy_pattern

_MAX_CHARACTERS = 200
_PHRASES = (
    # English
    r"(?:many )?thanks?(?: you| u)?(?: (?:so|very) much| a lot| again| in advance)?"
    r"(?: for (?:your|the|all the) (?:help|patience|time|support))?|thx|cheers"
    r"|(?:hello|hi)(?: there)?|hey|good (?:morning|afternoon|evening|night)"
    r"|good ?bye|bye(?: bye)?|see you(?: later| soon)?|take care"
    r"|have a (?:nice|good|great|lovely) (?:day|evening|night|weekend)"
    # German
    r"|danke(?: schön| sehr| dir| ihnen)?|(?:vielen|herzlichen|besten) dank|dankeschön"
    r"|hallo|guten (?:morgen|tag|abend)"
    r"|tschüss?|auf wiedersehen|(?:einen )?schönen (?:tag|abend)(?: noch)?|schönes wochenende"
    # French
    r"|merci(?: beaucoup| bien| à vous| à toi)?|bonjour|bonsoir|au revoir|bonne (?:journée|soirée)"
    # Spanish, Portuguese, Italian
    r"|(?:muchas |mil )?gracias|hola|buenos días|buenas (?:tardes|noches)|adiós|hasta luego"
    r"|(?:muito )?obrigad[oa]|olá|bom dia|boa (?:tarde|noite)|tchau"
    r"|(?:mille )?grazie(?: mille)?|ciao|buongiorno|buonasera|arrivederci"
    # Russian, Arabic, Hindi
    r"|(?:большое )?спасибо(?: большое)?|привет|здравствуйте|до свидания"
    r"|شكر[اًا]*(?: جزيل[اًا]*)?|مرحبا|धन्यवाद|नमस्ते"
    # Chinese, Japanese
    r"|谢谢[你您]?|多谢|你好|您好|再见|ありがとう(?:ございま(?:す|した))?|こんにちは|さようなら"
)
_GAP = r"[\s,.;:!\u2026\u3002\uff0c\uff01\u3001\u060c\U0001F300-\U0001FAFF\u2600-\u27bf\ufe0f]"
_COURTESY = lazy_pattern(
    rf"{_GAP}*(?:(?:{_PHRASES})(?:{_GAP}+(?:and|und|et|y|e) |{_GAP}+|\Z))+", re.IGNORECASE
)


def is_courtesy(text: str) -> bool:
    """Return whether a text only greets or thanks. "Yes" and "great" may accept what was proposed."""
    return len(text) <= _MAX_CHARACTERS and _COURTESY.fullmatch(text) is not None
