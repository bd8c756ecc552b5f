"""Words cut to what their forms share, for the search of texts in any language (docs/retrieval.md#languages).
Pure.

One table of endings serves all languages of the Latin script: a short question does not tell its language. It
cuts more than a grammar would, so clearly English texts are not cut by it (`memory.text.index_words`)."""

import unicodedata
from collections.abc import Iterator
from functools import lru_cache

from layover.lazy import lazy_pattern

_MIN_ROOT = 3
_CUT = 5
"""Letters of a word that stay in scripts without a table."""
_KOREAN_ROOT = 2
_LETTERS = str.maketrans(
    {
        "ß": "ss",
        "ø": "o",
        "æ": "a",
        "œ": "o",
        "ł": "l",
        "đ": "d",
        "ð": "d",
        "þ": "t",
        "ı": "i",
        "ё": "е",
        "ς": "σ",
    }
    | {"ى": "ي", "ة": "ه", "ـ": "", "أ": "ا", "إ": "ا", "آ": "ا", "ٱ": "ا"}
    # As the keyboards of Persian, Urdu, Pashto and Kurdish write the letters of Arabic.
    | {"ی": "ي", "ې": "ي", "ے": "ي", "ک": "ك", "ہ": "ه", "ھ": "ه", "ە": "ه", "ۃ": "ه", "ۀ": "ه"}
)
_DOUBLE = lazy_pattern(r"(.)\1+")
_VOICED = str.maketrans("bdgvzc", "ptkfss")


def _longest_first(endings: str) -> tuple[str, ...]:
    return tuple(sorted(set(endings.split()), key=lambda e: (-len(e), e)))


_LATIN = _longest_first(
    "a e i o u y s n t r"
    # Germanic
    " em en er es ern ens ers et ets ene ar or arna erna orna ingly edly ing ed ly"
    # Romance
    " as os is oes aes aos ao ado ada ados adas ido ida idos idas ando endo"
    " iendo aba aban aron eron amos emos"
    " imos ar ir are ere ire ato ata ati uto iamo ul ului ilor ile uri lor"
    # Turkic, Uralic, Slavic, Malay
    " lar ler im um in un imiz umuz iniz nin nun ak ek ok ow ami ach om ego nya"
)
"""One letter and `in`, `un`, `im`, `um` leave four letters, the others three."""
_REPLACED = {"eaux": "eau", "aux": "al", "ais": "al", "eis": "el", "z": "s"}
_LONG_ROOT = frozenset("n t r in un im um ak ek ok om".split())
_BY_LANGUAGE = {
    "tr": _longest_first(
        "da de ta te dan den tan ten la le ya ye si su sinda sinde larda lerde"
        " lardan lerden larin lerin"
        " inda inde indan inden"
    ),
    "fi": _longest_first(
        "ssa sta lla lta lle ksi tta na oja ja ien jen ista issa illa ilta iin"
        " aan een oon uun nsa mme nne ni si"
    ),
    "hu": _longest_first(
        "ban ben bol rol tol nak nek val vel hoz hez ba be ra re ot et at on en"
        " ja je jaban jeben om em im aim"
        " unk ink aban eben akat eket okat"
    ),
}
_RUSSIAN = _longest_first(
    "иями ями ами иях ях ах иям ям ам ием ем ом ией ей ой ий ый ое ее ие ые ого"
    " его ому ему ыми ими ых их ую юю"
    " ая яя ов ев ью ия ья ию ье а я о е и ы у ю ь й ала ила ела али или ать ить"
    " еть яли ял ала ал ил ел ешь ишь"
    " ет ит ют ут ят ат ся сь ться ться ла ло ли ті ові еві ою єю ів їв єм ї і є"
)
_GREEK = _longest_first(
    "ος ου ο ον οι ους ων α ας εσ ες η ης ησ ι ια ιο ιου ιων εις εισ εωσ εως εων"
    " ματα ματος ματων μα οσ ουσ ασ αις ε ω ει"
    " ετε ουν ουμε εισ"
)
_HINDI = _longest_first(
    "ियों ियाँ ियां ाओं ाएं ाएँ ुओं ुएं ओं ों ें ीं ाँ ां ाने ाना ाते ाती ाता"
    " ाया ेगा ेगी ेंगे ता ते ती ना ने नी ी ि ा े ो ु ू"
    " हरू हरूको हरूमा लाई बाट ले को मा"
)
_ARABIC_BEFORE = ("وال", "بال", "كال", "فال", "ال", "لل", "و")
_ARABIC = _longest_first("ها ان ات ون ين يه ه ي هم نا كم")
_KOREAN = _longest_first(
    "은 는 이 가 을 를 의 에 에서 에게 에게서 한테 께 로 으로 와 과 도 만 까지"
    " 부터 처럼 보다 이나 나 라도 마다 조차 들 들이 들을"
    " 들은 들의 들에게 이다 입니다 이에요 예요 인가요 인가 이랑 랑 하고 에는"
    " 에도 에서는 에서도 으로는 에요 해요 했어요 했습니다 합니다"
    " 하는 한 할 하다 했다 하기 하면 하려고"
)
_SCRIPTS = {
    "CYRILLIC": _RUSSIAN,
    "GREEK": _GREEK,
    "DEVANAGARI": _HINDI,
    "ARABIC": _ARABIC,
    "HANGUL": _KOREAN,
}


def fold(word: str) -> str:
    """Return a word without accents and the dots of ё: people leave them out. Vowel signs of Indic scripts,
    and й, are letters of their own. A word of nothing else stays as it is."""
    if word.isascii():
        return word
    plain = unicodedata.normalize("NFD", word.translate(_LETTERS))
    if _script(word) in ("LATIN", "GREEK", "ARABIC", "HEBREW"):
        plain = "".join(c for c in plain if unicodedata.category(c) != "Mn")
    return unicodedata.normalize("NFC", plain) or word


@lru_cache(maxsize=10_000)
def stem(word: str, language: str | None = None) -> str:
    """Return the root of a word in lower case. `language`: `tr`, `fi` or `hu`, whose endings would cut other
    languages' words too short."""
    folded = fold(word)
    script = _script(folded)
    if script == "LATIN":
        return _latin(folded, _BY_LANGUAGE.get(language or "", ()))
    if script == "ARABIC":
        folded = next(
            (folded.removeprefix(p) for p in _ARABIC_BEFORE if _begins(folded, p)), folded
        )
    endings = _SCRIPTS.get(script)
    if endings is None:
        return folded[:_CUT] if script and not word.isascii() else folded
    return _cut(
        folded, endings, _KOREAN_ROOT if script in ("HANGUL", "ARABIC", "DEVANAGARI") else _MIN_ROOT
    )


def stems(word: str) -> Iterator[str]:
    """Yield the roots that a word may have, whatever its language."""
    yield stem(word)
    for language in _BY_LANGUAGE:
        yield stem(word, language)


def _latin(word: str, more: tuple[str, ...]) -> str:
    if not word.isalpha():
        return word
    if more:
        word = _cut(word, more, 2 if len(word) < _CUT else _MIN_ROOT, more)
    while (shorter := _shorter(word)) != word:
        word = shorter
    word = _DOUBLE.sub(r"\1", word)
    return word[:-1] + word[-1].translate(_VOICED) if not word.endswith(("ch", "sc")) else word


def _shorter(word: str) -> str:
    for ending, instead in _REPLACED.items():
        if word.endswith(ending) and len(word) - len(ending) >= _MIN_ROOT - 1:
            return f"{word.removesuffix(ending)}{instead}"
    for ending in _LATIN:
        least = _MIN_ROOT + (ending in _LONG_ROOT)
        if word.endswith(ending) and len(word) - len(ending) >= least:
            return word.removesuffix(ending)
    return word


def _cut(word: str, endings: tuple[str, ...], least: int, repeated: tuple[str, ...] = ()) -> str:
    """Return a word without its longest ending; of `repeated`, one after the other."""
    for ending in endings:
        if word.endswith(ending) and len(word) - len(ending) >= least:
            root = word.removesuffix(ending)
            return _cut(root, repeated, least, repeated) if repeated else root
    return word


def _begins(word: str, prefix: str) -> bool:
    return word.startswith(prefix) and len(word) - len(prefix) >= _MIN_ROOT


@lru_cache(maxsize=2_000)
def _script_of(character: str) -> str:
    return unicodedata.name(character, "").partition(" ")[0] if character.isalpha() else ""


def _script(word: str) -> str:
    """Return the script of the first letter, in Unicode's words; "" if there is none."""
    if word.isascii():
        return "LATIN" if word.isalpha() else ""
    return next((s for c in word if (s := _script_of(c))), "")
