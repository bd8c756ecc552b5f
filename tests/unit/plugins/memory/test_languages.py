"""Texts in different languages, as far as scripts and function words tell."""

import pytest

from layover.plugins.memory.text.languages import is_translation

EN = "The freight lift in the east wing has not stopped at the third floor since the renovation."
DE = "Der Lastenaufzug im Ostflügel hält seit dem Umbau nicht im dritten Stock bei der Poststelle."
FR = "Le serveur d'impression du deuxième étage s'appelle imp-09 et il redémarre chaque lundi dans la nuit."
ES = "La bomba de riego del invernadero se para a los diez minutos, y el filtro es nuevo."
JA = "倉庫の自動ドアは夜間に警備会社の端末から開きません。"
ZH = "仓库的自动门晚上不能从保安公司的终端打开。"
RU = "\u041d\u0430\u0441\u043e\u0441 \u0441\u0442\u043e\u0438\u0442"


@pytest.mark.parametrize("original", [DE, FR, ES, JA, ZH, RU])
def test_a_translation_into_english_is_one(original: str) -> None:
    assert is_translation(EN, original)
    assert not is_translation(original, original)


@pytest.mark.parametrize("original", [EN, ES, JA, ZH, RU])
def test_a_translation_into_german_is_one(original: str) -> None:
    assert is_translation(DE, original)


@pytest.mark.parametrize(
    ("text", "original"),
    [
        ("The lift stops.", EN),
        ("The lift in the east wing is not to stop there.", "ECONNREFUSED db-3:5432"),
        (DE, "DATEV-Export 4.2 abgebrochen"),
        (JA, "自動門 KX-40 故障"),
        (JA, "サーバー db-3 で ECONNREFUSED というエラーが出ます"),
        (ZH, "服务器 db-3 上出现 ECONNREFUSED connection refused by peer 错误"),
        (EN, ""),
        ("", EN),
        ("", ""),
        ("403", JA),
    ],
)
def test_what_is_not_clear_is_no_translation(text: str, original: str) -> None:
    assert not is_translation(text, original)
