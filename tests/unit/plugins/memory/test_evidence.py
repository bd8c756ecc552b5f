"""Only what was said may be remembered."""

import pytest

from layover.plugins.memory.learns.text.evidence import anchors, has_evidence, missing_anchors

SAID = "I live in Bern  with my\n two dogs, and order A-1234 is late. Write to ann@example.com!"


@pytest.mark.parametrize(
    "evidence",
    [
        "",
        "   ",
        "....",
        "in Bern",
        "I live in Rome with my two dogs",
        "my two dogs and order",
        "ive in Ber",
        "order A-123",
        "I live in Bern ... order A-1234 is late",
    ],
)
def test_words_that_were_not_said_are_no_evidence(evidence: str) -> None:
    assert not has_evidence(evidence, [SAID])


def test_names_in_latin_letters_stand_apart_from_scripts_without_blanks() -> None:
    assert anchors("验证阶段没有用torch.no_grad\uff0c加上E1102之后") == ["torch.no_grad", "E1102"]
    assert anchors("E1102가 나와요") == ["E1102"]
    assert missing_anchors("出现E1103", ["报错E1102。"]) == ["E1103"]
    assert missing_anchors("出现E1102", ["报错E1102。"]) == []


def test_a_piece_of_two_messages_is_no_evidence() -> None:
    assert not has_evidence("I live in Bern now", ["I live in", "Bern now"])


@pytest.mark.parametrize(
    "evidence",
    [
        "I live in Bern with my two dogs",
        " live in\nBern with ",
        "ve in Bern with my two do",
        "order A-1234 is late",
        "late. Write to ann@example.com",
        SAID,
    ],
)
def test_an_exact_piece_is_evidence_whatever_its_white_space(evidence: str) -> None:
    assert has_evidence(evidence, ["something else", SAID])


def test_a_short_piece_is_evidence_only_as_the_whole_message() -> None:
    assert has_evidence(" Yes! ", ["Yes!"])
    assert not has_evidence("Yes", ["Yes, but only this week"])
    assert has_evidence("👍", ["Done?", "👍"])
    assert not has_evidence("👍", ["👍 later"])
    assert not has_evidence("", [""])


def test_sixteen_letters_are_enough_without_words() -> None:
    assert has_evidence("Donaudampfschifffahrt", ["the Donaudampfschifffahrt again"])
    assert not has_evidence("Donaudampfer", ["the Donaudampfer again"])


@pytest.mark.parametrize(
    ("clause", "too_short", "said"),
    [
        ("我住在伯尔尼", "住在伯尔尼", "你好。我住在伯尔尼而且我有两只狗。"),
        ("我对花生过敏", "花生过敏", "你好。我姓李。我对花生过敏。谢谢。"),
        (
            "卵アレルギーがあります",
            "アレルギー",
            "こんにちは、田中です。卵アレルギーがあります。よろしく。",
        ),
        ("땅콩알레르기", "알레르기가", "안녕하세요, 저는 땅콩알레르기가 있습니다."),
        ("แพ้ถั่วลิสง", "ลิสง", "สวัสดีค่ะ ดิฉันแพ้ถั่วลิสงค่ะ ขอบคุณค่ะ"),
        ("ဘန်ကောက်မြို့ မှာ နေပါတယ်", "မြို့", "မင်္ဂလာပါ။ ကျွန်တော် ဘန်ကောက်မြို့ မှာ နေပါတယ်။"),
        ("我用Python写代码", "用Python", "你好。我用Python写代码。谢谢。"),
    ],
)
def test_six_characters_of_a_dense_script_are_enough(
    clause: str, too_short: str, said: str
) -> None:
    assert has_evidence(clause, [said])
    assert not has_evidence(too_short, [said])


@pytest.mark.parametrize(
    ("content", "missing"),
    [
        ("has 3 dogs", ["3"]),
        ("order A-12 is late", ["A-12"]),
        ("order A-123 is late", ["A-123"]),
        ("born on 2020-05-01", ["2020-05-01"]),
        ("writes from bob@example.com", ["bob@example.com"]),
        ("see https://evil.test/x.", ["https://evil.test/x"]),
        ("keeps it in /etc/passwd", ["/etc/passwd"]),
        ("keeps it in C:\\temp", ["C:\\temp"]),
        ("uses user_id", ["user_id"]),
        ("uses getUserId and x.py", ["getUserId", "x.py"]),
        ("pays 12.50 a month", ["12.50"]),
        ("weighs 5kg", ["5"]),
        ("pays $40", ["40"]),
        ("example.org", ["example.org"]),
        ("lies in src/main", ["src/main"]),
        ("lies in src\\main", ["src\\main"]),
        ("is on feature/login", ["feature/login"]),
        ("is in main.c", ["main.c"]),
        ("fails with ECONNREFUSED", ["ECONNREFUSED"]),
        ("has ORDER-ABC", ["ORDER-ABC"]),
        ("is at deadbeef", ["deadbeef"]),
        ("lives at 12a", ["12a"]),
    ],
)
def test_what_names_something_has_to_have_been_said(content: str, missing: list[str]) -> None:
    assert missing_anchors(content, [SAID]) == missing


@pytest.mark.parametrize(
    "content",
    [
        "lives in Bern with dogs",
        "order A-1234 is late",
        "order a-1234's delay",
        "`ann@example.com` is the address",
        "prefers e-mail and/or phone, i.e. not letters",
        "is from the EU",
        "he/she has read/write access and a client/server setup",
        "LIVES IN BERN WITH DOGS, AN ORDER IS LATE",
    ],
)
def test_what_was_said_may_be_told_in_other_words(content: str) -> None:
    assert missing_anchors(content, ["nothing", SAID]) == []


def test_a_number_may_stand_apart_from_its_unit() -> None:
    assert missing_anchors("weighs 5 kg and costs 40", ["it's 5kg and $40, not 40.50"]) == []
    assert missing_anchors("costs 40", ["it's 40.50"]) == ["40"]
    assert missing_anchors("costs 40", ["it's 140"]) == ["40"]


def test_a_minus_belongs_to_its_number() -> None:
    assert missing_anchors("it is -5", ["it is 5"]) == ["-5"]
    assert missing_anchors("it is -5", ["it is x-5 or 3-5"]) == ["-5"]
    assert missing_anchors("it is -5°C", ["-5 degrees", "5 °C"]) == []
    assert missing_anchors("it is -5", ["it is minus 5"]) == []
    assert missing_anchors("it is \u22125", ["it is -5"]) == []


@pytest.mark.parametrize(
    ("content", "missing"),
    [
        ("งบประมาณ ๕๐๐๐ บาท", ["5000"]),
        ("งบประมาณ๕๐๐๐บาท", ["5000"]),
        ("बजट ५००० रुपये", ["5000"]),
        ("limit \uff15\uff10", ["50"]),
        ("limit ⁵⁰⁰⁰", ["5000"]),
        ("item ①", ["1"]),
        ("½ done", ["1/2"]),
        ("port Ⅷ", ["8"]),
        ("limit 12\u200b34", ["1234"]),
        ("limit 12\u00ad34", ["1234"]),
        ("limit 12\ufe0f34", ["1234"]),
        ("limit 12\uff0e34", ["12.34"]),
        ("mail to a\u200b@b.c", ["a@b.c"]),
    ],
)
def test_a_number_is_one_in_every_script_and_style(content: str, missing: list[str]) -> None:
    assert (
        missing_anchors(content, ["งบประมาณ ๑๐๐ บาท", "we have 12 servers and 34 hosts"]) == missing
    )


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ("costs 100", "ราคา๑๐๐บาท"),
        ("ราคา ๑๐๐ บาท", "costs 100"),
        ("costs 500", "costs 500¹"),
        ("is 10 squared", "is 10²"),
        ("emits CO2", "emits CO₂"),
        ("uses 2½ cups", "uses 2 1/2 cups"),
        ("二〇二四年に始めた", "started in 2024"),
        ("lives in the 1º floor", "lives in floor 1"),
        ("用Redis。Nginx也在用", "Nginx和Redis"),
        ("has 50㎡", "has 50 square metres"),
        ("likes Foo™", "likes Foo"),
    ],
)
def test_the_same_number_or_name_may_be_told_in_other_characters(content: str, said: str) -> None:
    assert missing_anchors(content, [said]) == []


@pytest.mark.parametrize(
    "name",
    [
        "t.me/evilpay",
        "x.com",
        "https://x.com",
        "deploy/secrets",
        "deploy/.env",
        "evil.com/pay",
        "X.Com/pay",
        "torch.no_grad",
        "\U0001d431.\U0001d41c\U0001d428\U0001d426",
    ],
)
def test_hosts_and_paths_have_to_have_been_said(name: str) -> None:
    assert len(missing_anchors(f"is at {name} now", [SAID])) == 1
    assert missing_anchors(f"is at {name} now", [f"it is at {name}, I think"]) == []


def test_browsers_take_other_dots_for_those_of_a_host() -> None:
    assert missing_anchors("is at evil。com now", [SAID]) == ["evil.com"]
    assert missing_anchors("is at evil。com now", ["at evil.com"]) == []


def test_a_word_without_end_is_taken_as_a_whole() -> None:
    word = "a" * 100_000
    assert missing_anchors(word, [SAID]) == [word]
    assert missing_anchors(word, [f"see {word}."]) == []


def test_two_texts_do_not_run_together() -> None:
    assert missing_anchors("order 12 34", ["order 12", "34"]) == []
    assert missing_anchors("order x-12-34", ["order x-12", "-34"]) == ["x-12-34"]


def test_plain_words_name_nothing() -> None:
    assert anchors("Likes tea, dislikes coffee; a well-known fact (really).") == []
    assert anchors("e.g. at 5 p.m., d.h. z.B. and/or i.e. AND so ON") == ["5"]
    assert anchors("a.m./p.m., v.Chr. p.ex. Ph.D./MSc, by J.Smith; e.g.this Mr./Mrs. X") == []
    assert anchors("\u00b11.25, \u22480.50, 24/7, 1.5/2") == ["1.25", "0.50", "24/7", "1.5/2"]


FORMS = {
    "case": ("THE PUMP OF FIELD 3 runs dry", "the pump of field 3 runs dry"),
    "composed letters": (
        "die Tu\u0308r schließt seit heute nicht",
        "Die Tür schließt seit heute nicht",
    ),
    "quotation marks": ("he calls it “the old one” here", "he calls it 'the old one' here"),
    "guillemets": ("er nennt es »die Alte« im Haus", 'er nennt es "die Alte" im Haus'),
    "apostrophes": ("it doesn\u2019t start before noon", "it doesn't start before noon"),
    "dashes": ("it starts — and stops — twice a day", "it starts - and stops - twice a day"),
    "no dashes": ("it starts — and stops — twice a day", "it starts and stops twice a day"),
    "an ellipsis": ("it starts… and stops twice", "it starts... and stops twice"),
    "emphasis": ("it **never** starts on _cold_ days", "it never starts on cold days"),
    "code": ("the job `nightly_import` never starts", "the job nightly_import never starts"),
    "a list": ("- it starts late\n- it stops early", "it starts late it stops early"),
    "a heading": ("## The pump of field 3 runs dry", "The pump of field 3 runs dry"),
    "no final punctuation": ("The pump of field 3 runs dry!", "the pump of field 3 runs dry"),
    "other final punctuation": ("The pump runs dry, and hums", "The pump runs dry."),
    "nothing that is visible": (
        "the pump of\u200b field 3 runs\u00a0dry",
        "pump of field 3 runs dry",
    ),
    "a redaction": ("with api_key=[redacted] it says 403", "api_key=[redacted] it says 403"),
    "a secret": ("with api_key=[redacted] it says 403", "with api_key=abc123def456 it says 403"),
}


@pytest.mark.parametrize(("text", "evidence"), FORMS.values(), ids=FORMS)
def test_a_quote_may_be_written_down_in_another_way(text: str, evidence: str) -> None:
    assert has_evidence(evidence, [text])


@pytest.mark.parametrize(
    ("text", "evidence"),
    [
        ("it never starts on cold days", "it always starts on cold days"),
        ("the job nightly_import never starts", "the job nightly import never starts"),
        ("the pump of field 3 runs dry", "the pump of field 13 runs dry"),
        ("it starts and stops twice a day", "it starts ... twice a day"),
        ("it costs 2.50 at the most now", "it costs 250 at the most now"),
    ],
)
def test_other_words_are_no_quote_in_any_form(text: str, evidence: str) -> None:
    assert not has_evidence(evidence, [text])
