"""Tells texts from which memory learns nothing (docs/behaviour.md#memory-requests): greetings and thanks, and
a bare yes or no to which nothing was put. Pure."""

import re

from layover.lazy import lazy_pattern

_MAX_CHARACTERS = 200
_PHRASES = (
    # English
    r"(?:many )?thanks?(?: you| u)?(?: (?:so|very) much| a lot| a million| again| in advance)?"
    r"(?: for (?:your|the|all the|all your) (?:help|patience|time|support))?|thx|ty|cheers|much appreciated"
    r"|(?:hello|hi)(?: there| again)?|hey(?: there)?|good (?:morning|afternoon|evening|night)"
    r"|good ?bye|bye(?: bye)?|see you(?: later| soon)?|take care"
    r"|have a (?:nice|good|great|lovely) (?:day|evening|night|weekend|one)"
    # German
    r"|danke(?: schön| sehr| dir| ihnen)?|(?:vielen|herzlichen|besten|tausend) dank|dankeschön|merci vielmals"
    r"|hallo|guten (?:morgen|tag|abend)|grüezi|servus|moin"
    r"|tschüss?|auf wiedersehen|(?:einen )?schönen (?:tag|abend)(?: noch)?|schönes wochenende"
    # French
    r"|merci(?: beaucoup| bien| à vous| à toi)?|bonjour|bonsoir|salut|au revoir|bonne (?:journée|soirée)"
    # Spanish, Portuguese, Italian
    r"|(?:muchas |mil )?gracias|hola|buenos días|buenas (?:tardes|noches)|adiós|hasta luego"
    r"|(?:muito )?obrigad[oa]|olá|bom dia|boa (?:tarde|noite)|tchau"
    r"|(?:mille )?grazie(?: mille)?|ciao|buongiorno|buonasera|arrivederci"
    # Dutch, Swedish, Danish, Norwegian
    r"|dank je(?: wel)?|dank u(?: wel)?|bedankt|goedemorgen|goedemiddag|goedenavond|tot ziens"
    r"|tack(?: så mycket)?|tusen takk|mange tak|hej(?: då)?|hejsan|god (?:morgon|kväll|morgen|kveld)"
    # Polish, Czech, Turkish
    r"|dziękuję(?: bardzo)?|dzięki|dzień dobry|cześć|do widzenia"
    r"|děkuji(?: moc)?|díky|dobrý den|ahoj|na shledanou"
    r"|(?:çok )?teşekkür(?:ler| ederim| ederiz)|merhaba|selam|günayd\u0131n|iyi günler|hoşça kal(?:\u0131n)?"
    # Russian, Ukrainian, Arabic, Hindi
    r"|(?:большое )?спасибо(?: большое)?|привет|здравствуйте|добрый (?:день|вечер)|доброе утро|до свидания"
    r"|(?:щиро )?дякую|привіт|добрий день|до побачення"
    r"|شكر[اًا]*(?: جزيل[اًا]*)?|مرحبا|السلام عليكم|مع السلامة|धन्यवाद|नमस्ते"
    # Indonesian, Vietnamese
    r"|terima kasih(?: banyak)?|halo|selamat (?:pagi|siang|sore|malam)|cảm ơn(?: bạn)?|xin chào|tạm biệt"
    # Chinese, Japanese, Korean
    r"|谢谢[你您]?|多谢|感谢|你好|您好|再见|早上好|晚上好|謝謝[你您]?"
    r"|ありがとう(?:ございま(?:す|した))?|こんにちは|こんばんは|おはよう(?:ございます)?|さようなら"
    r"|감사합니다|고맙습니다|고마워요?|안녕하세요|안녕히 계세요"
)
_OFFERS = (
    # An assistant's answers to thanks and greetings. A yes or no to them decides nothing.
    r"you(?:['\u2019]re| are) (?:very |most )?welcome|(?:it was )?my pleasure|any ?time|no problem"
    r"|(?:glad|happy) to help"
    r"|let me know if (?:you need|there is) anything else|feel free to ask(?: any ?time)?"
    r"|(?:is there )?anything else(?: (?:that )?i can (?:do|help)(?: (?:you|for you))?(?: with)?)?\?"
    r"|(?:how|what) (?:can|may) i (?:help|do|assist)(?: for)?(?: you)?(?: (?:with )?today)?\?|the same to you"
    r"|gern(?: geschehen)?|keine ursache|(?:wie|womit) kann ich(?: (?:ihnen|dir))?(?: heute)? helfen\?"
    r"|(?:kann ich )?(?:ihnen |dir )?(?:sonst )?noch (?:etwas|bei etwas)(?: anderem)?(?: (?:tun|helfen))?\?"
    r"|(?:je vous en prie|de rien)|(?:comment|en quoi) puis-je vous aider\?|(?:de|por) nada"
    r"|(?:en|cómo) (?:qué )?(?:te |le )?puedo ayudar(?:te|le)?\?|prego|come posso aiutar(?:ti|la)\?"
    r"|como posso ajudar(?:\?|-lo\?)|пожалуйста|чем могу помочь\?|不客气"
    r"|有什么可以帮您的?吗?\uff1f|どういたしまして"
)
_ANSWERS = (
    r"(?:yes|yeah|yep|yup|no|nope|ok|okay|k|alright|all right|fine|great|perfect|cool|nice|good|super|sure"
    r"|got it|i see|understood|noted|right|exactly|of course|never mind|sounds good|will do|lol|haha"
    r"|ja|nein|gut|passt|klar|genau|verstanden|alles klar|in ordnung|nein danke|schon gut"
    r"|oui|non|d['\u2019]accord|très bien|parfait|compris|sí|si|no|vale|claro|perfecto|entendido|de acuerdo"
    r"|sim|não|certo|tudo bem|entendi|perfeito|sì|va bene|perfetto|capito|d['\u2019]accordo"
    r"|nee|goed|prima|begrepen|nej|bra|jo|tak|nie|dobrze|rozumiem|ano|ne|dobře|evet|hay\u0131r|tamam"
    r"|да|нет|хорошо|понятно|ясно|ладно|так|ні|добре|نعم|لا|حسنا|हाँ|नहीं|ठीक है|ya|tidak|baik|vâng|không"
    r"|是的?|不是?|好的?|好吧|可以|行|没事|明白了?|知道了|はい|いいえ|ええ|わかりました|了解(?:です)?|네|예|아니요|알겠습니다)"
)
_GAP = (
    r"[\s\u00a1\u00bf,.;:!\u2026\u3002\uff0c\uff01\u3001\u060c"
    r"\U0001F300-\U0001FAFF\u2600-\u27bf\ufe0f\u200d]"
)
_AND = r"(?:and|und|et|y|e|en|och|i|ve|и) "


def _only(phrases: str) -> str:
    return rf"{_GAP}*(?:(?:{phrases})(?:{_GAP}+{_AND}|{_GAP}+|\Z))+"


_COURTESY = lazy_pattern(_only(_PHRASES), re.IGNORECASE)
_OFFER = lazy_pattern(_only(f"{_PHRASES}|{_OFFERS}"), re.IGNORECASE)
_ANSWER = lazy_pattern(rf"{_GAP}+|{_only(f'{_PHRASES}|{_ANSWERS}')}", re.IGNORECASE)


def is_courtesy(text: str) -> bool:
    """Return whether a text only greets or thanks. "Yes" and "great" may accept what was proposed."""
    return len(text) <= _MAX_CHARACTERS and _COURTESY.fullmatch(text) is not None


def is_bare_answer(text: str) -> bool:
    """Return whether a text is nothing but yes, no, "got it" or a sign, perhaps with thanks. Without what was
    put to its writer it means nothing."""
    return len(text) <= _MAX_CHARACTERS and _ANSWER.fullmatch(text) is not None


def is_offer_alone(text: str) -> bool:
    """Return whether an assistant's text only greets, or asks for something to do: nothing in it can be
    accepted or declined."""
    return len(text) <= _MAX_CHARACTERS and _OFFER.fullmatch(text) is not None
