"""A support story of fifty turns in five languages, with what a truthful extractor answers to each turn and
what is known at the end."""

from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Told:
    """An entry that the extractor proposes. `replaces`, `same`: the content of the known entry of which that
    is true."""

    evidence: str
    content: str
    replaces: str | None = None
    same: str | None = None


@dataclass(frozen=True)
class Turn:
    """What a user says, and the answer. `result`: what the trusted tool `look_up` returns first."""

    user: str
    assistant: str = "I see."
    told: tuple[Told, ...] = ()
    result: Any = None


def turn(user: str, assistant: str = "I see.", *told: Told, result: Any = None) -> Turn:
    """Return a turn of the story."""
    return Turn(user, assistant, told, result)


LEFT = "The left oven of the bakery heats only to 180 degrees."
LEFT_AGAIN = "The left oven heats only to 180 degrees."
RIGHT = "The right oven of the bakery heats only to 200 degrees."
LEFT_FIXED = "The left oven of the bakery heats to 250 degrees again since the new thermostat."
ORDER = "Order A-1003 is in preparation."
SENT = "Order A-1003 was shipped on 26 November 2026."
OTHER_ORDER = "Order A-1004 is in preparation."
FLOUR = "The flour comes on Mondays."
FLOUR_NOW = "The flour comes on Thursdays now."
SPOOLER = "Restarting the spooler fixed the label printer of the bakery."
CUSTOMS = "Order A-1004 is held at customs until 3 December."
KASSE = "Die Kasse 2 druckt keine Belege."
KASSE_1 = "Die Kasse 1 druckt keine Belege."
KASSE_OK = "Die Kasse 2 druckt wieder Belege."
MIETE = "Die Miete der Backstube beträgt 1.200 Euro."
MIETE_NEU = "Die Miete der Backstube beträgt jetzt 1.350 Euro."
OEFFNUNG = "Die Filiale in Bonn öffnet um 6 Uhr."
OEFFNUNG_KIEL = "Die Filiale in Kiel öffnet um 7 Uhr."
OFENTUER = "Die Tür des Gärschranks klemmt."
FOUR = "Le pétrin de Lyon fait du bruit depuis mars."
FOUR_NICE = "Le pétrin de Nice fait du bruit depuis avril."
FOUR_OK = "Le pétrin de Lyon ne fait plus de bruit."
CONTACT = "La livraison de Lyon arrive à 5 heures."
CONTACT_NEW = "La livraison de Lyon arrive à 6 heures."
ALARME = "L'alarme du magasin sonne chaque nuit vers 2 heures."
CAMARA = "La cámara frigorífica está a 8 grados."
CAMARA_OK = "La cámara frigorífica está a 4 grados."
FURGONETA = "La furgoneta roja no arranca por la mañana."
FURGONETA_AZUL = "La furgoneta azul arranca bien por la mañana."
FACTURA = "La factura 881 no está pagada."
FACTURA_OK = "La factura 881 está pagada."
FACTURA_2 = "La factura 882 no está pagada."
ZH_LEFT = "左边的冰箱温度是8度。"
ZH_RIGHT = "右边的冰箱温度是9度。"
ZH_LEFT_OK = "左边的冰箱温度是4度。"
ZH_ORDER = "订单B-7在上海。"
ZH_ORDER_OK = "订单B-7已到北京。"

STORY = (
    # English
    turn("Hello!", "Hello, what can I do for you?"),
    turn(
        "The left oven of our bakery heats only to 180 degrees",
        "Since when?",
        Told("The left oven of our bakery heats only to 180 degrees", LEFT),
    ),
    turn(
        "And the right oven of our bakery heats only to 200 degrees",
        "I have noted both.",
        Told("the right oven of our bakery heats only to 200 degrees", RIGHT),
    ),
    turn("How hot should they be?", "250 degrees, the manual says."),
    turn(
        "As I said, the left oven heats only to 180 degrees",
        "Yes, I have that.",
        Told(
            "the left oven heats only to 180 degrees",
            LEFT_AGAIN,
            same=LEFT,
        ),
    ),
    turn(
        "Where is my order A-1003? It was still in preparation",
        "It is in preparation.",
        Told("It was still in preparation", ORDER),
    ),
    turn(
        "The other one, order A-1004, is in preparation as well",
        "Yes.",
        Told("order A-1004, is in preparation as well", OTHER_ORDER),
    ),
    turn(
        "The shop wrote that order A-1003 was shipped yesterday",
        "Good.",
        Told("order A-1003 was shipped yesterday", SENT, replaces=ORDER),
    ),
    turn(
        "The label printer of the bakery prints nothing",
        "Shall we try restarting the spooler first?",
    ),
    turn(
        "Yes, that fixed it!",
        "Great.",
        Told("Yes, that fixed it!", SPOOLER),
    ),
    turn("Thank you very much!", "You are welcome."),
    turn(
        "The flour comes on Mondays, by the way",
        "Noted.",
        Told("The flour comes on Mondays, by the way", FLOUR),
    ),
    turn(
        "They have changed it: the flour comes on Thursdays now",
        "Noted.",
        Told("the flour comes on Thursdays now", FLOUR_NOW, replaces=FLOUR),
    ),
    turn(
        "Can you look order A-1004 up?",
        "It is held at customs.",
        Told("held at customs until 3 December", CUSTOMS, replaces=OTHER_ORDER),
        result={"order": "A-1004", "status": "held at customs until 3 December"},
    ),
    turn(
        "The thermostat is new, and the left oven of the bakery heats to 250 degrees again",
        "Very good.",
        Told("the left oven of the bakery heats to 250 degrees again", LEFT_FIXED, replaces=LEFT),
    ),
    # Deutsch
    turn("Guten Tag", "Guten Tag."),
    turn(
        "Die Kasse 2 druckt keine Belege",
        "Seit wann?",
        Told("Die Kasse 2 druckt keine Belege", KASSE),
    ),
    turn(
        "Die Kasse 1 druckt keine Belege, auch nach dem Neustart",
        "Danke.",
        Told("Die Kasse 1 druckt keine Belege", KASSE_1),
    ),
    turn("Was kostet eine neue Rolle?", "Etwa 3 Euro."),
    turn(
        "Die Kasse 2 druckt wieder Belege, seit die Rolle neu ist",
        "Sehr gut.",
        Told("Die Kasse 2 druckt wieder Belege", KASSE_OK, replaces=KASSE),
    ),
    turn(
        "Die Miete der Backstube beträgt 1.200 Euro im Monat",
        "Gut.",
        Told("Die Miete der Backstube beträgt 1.200 Euro im Monat", MIETE),
    ),
    turn(
        "Die Miete der Backstube beträgt jetzt 1.350 Euro",
        "Gut.",
        Told("Die Miete der Backstube beträgt jetzt 1.350 Euro", MIETE_NEU, replaces=MIETE),
    ),
    turn(
        "Die Filiale in Bonn öffnet um 6 Uhr",
        "Gut.",
        Told("Die Filiale in Bonn öffnet um 6 Uhr", OEFFNUNG),
    ),
    turn(
        "Die Filiale in Kiel öffnet um 7 Uhr",
        "Gut.",
        Told("Die Filiale in Kiel öffnet um 7 Uhr", OEFFNUNG_KIEL),
    ),
    turn(
        "Die Tür des Gärschranks klemmt seit heute früh",
        "Schauen wir.",
        Told("Die Tür des Gärschranks klemmt seit heute früh", OFENTUER),
    ),
    turn("Danke sehr", "Gern."),
    # Français
    turn("Bonjour", "Bonjour."),
    turn(
        "Le pétrin de Lyon fait du bruit depuis mars",
        "Merci.",
        Told("Le pétrin de Lyon fait du bruit depuis mars", FOUR),
    ),
    turn(
        "Le pétrin de Nice fait du bruit depuis avril",
        "Merci.",
        Told("Le pétrin de Nice fait du bruit depuis avril", FOUR_NICE),
    ),
    turn(
        "Le pétrin de Lyon ne fait plus de bruit depuis la réparation",
        "Parfait.",
        Told("Le pétrin de Lyon ne fait plus de bruit", FOUR_OK, replaces=FOUR),
    ),
    turn(
        "La livraison de Lyon arrive à 5 heures du matin",
        "Bien.",
        Told("La livraison de Lyon arrive à 5 heures du matin", CONTACT),
    ),
    turn(
        "La livraison de Lyon arrive à 6 heures maintenant",
        "Bien.",
        Told("La livraison de Lyon arrive à 6 heures maintenant", CONTACT_NEW, replaces=CONTACT),
    ),
    turn(
        "L'alarme du magasin sonne chaque nuit vers 2 heures",
        "Ah.",
        Told("L'alarme du magasin sonne chaque nuit vers 2 heures", ALARME),
    ),
    turn(
        "L'alarme du magasin sonne chaque nuit vers 2 heures, je l'ai déjà dit",
        "Oui.",
        Told("L'alarme du magasin sonne chaque nuit vers 2 heures", ALARME, same=ALARME),
    ),
    turn("Merci beaucoup", "De rien."),
    # Español
    turn("Hola", "Hola."),
    turn(
        "La cámara frigorífica está a 8 grados",
        "Es demasiado.",
        Told("La cámara frigorífica está a 8 grados", CAMARA),
    ),
    turn(
        "La furgoneta roja no arranca por la mañana",
        "Vale.",
        Told("La furgoneta roja no arranca por la mañana", FURGONETA),
    ),
    turn(
        "La furgoneta azul arranca bien por la mañana",
        "Vale.",
        Told("La furgoneta azul arranca bien por la mañana", FURGONETA_AZUL),
    ),
    turn(
        "La cámara frigorífica está a 4 grados ahora",
        "Bien.",
        Told("La cámara frigorífica está a 4 grados ahora", CAMARA_OK, replaces=CAMARA),
    ),
    turn(
        "La factura 881 no está pagada",
        "Vale.",
        Told("La factura 881 no está pagada", FACTURA),
    ),
    turn(
        "La factura 882 no está pagada tampoco",
        "Vale.",
        Told("La factura 882 no está pagada tampoco", FACTURA_2),
    ),
    turn(
        "La factura 881 está pagada desde ayer",
        "Bien.",
        Told("La factura 881 está pagada desde ayer", FACTURA_OK, replaces=FACTURA),
    ),
    turn("Gracias", "De nada."),
    # 中文
    turn("你好", "你好。"),
    turn("左边的冰箱温度是8度", "好的。", Told("左边的冰箱温度是8度", ZH_LEFT)),
    turn("右边的冰箱温度是9度", "好的。", Told("右边的冰箱温度是9度", ZH_RIGHT)),
    turn(
        "左边的冰箱温度现在是4度",
        "好的。",
        Told("左边的冰箱温度现在是4度", ZH_LEFT_OK, replaces=ZH_LEFT),
    ),
    turn("订单B-7在上海", "好的。", Told("订单B-7在上海", ZH_ORDER)),
    turn("订单B-7已到北京", "好的。", Told("订单B-7已到北京", ZH_ORDER_OK, replaces=ZH_ORDER)),
)

KNOWN = {
    RIGHT: "the right oven of our bakery heats only to 200 degrees",
    SENT: "order A-1003 was shipped yesterday",
    SPOOLER: "Yes, that fixed it! (about: Shall we try restarting the spooler first?)",
    FLOUR_NOW: "the flour comes on Thursdays now",
    CUSTOMS: "held at customs until 3 December",
    LEFT_FIXED: "the left oven of the bakery heats to 250 degrees again",
    KASSE_1: "Die Kasse 1 druckt keine Belege",
    KASSE_OK: "Die Kasse 2 druckt wieder Belege",
    MIETE_NEU: "Die Miete der Backstube beträgt jetzt 1.350 Euro",
    OEFFNUNG: "Die Filiale in Bonn öffnet um 6 Uhr",
    OEFFNUNG_KIEL: "Die Filiale in Kiel öffnet um 7 Uhr",
    OFENTUER: "Die Tür des Gärschranks klemmt seit heute früh",
    FOUR_NICE: "Le pétrin de Nice fait du bruit depuis avril",
    FOUR_OK: "Le pétrin de Lyon ne fait plus de bruit",
    CONTACT_NEW: "La livraison de Lyon arrive à 6 heures maintenant",
    ALARME: "L'alarme du magasin sonne chaque nuit vers 2 heures",
    FURGONETA: "La furgoneta roja no arranca por la mañana",
    FURGONETA_AZUL: "La furgoneta azul arranca bien por la mañana",
    CAMARA_OK: "La cámara frigorífica está a 4 grados ahora",
    FACTURA_2: "La factura 882 no está pagada tampoco",
    FACTURA_OK: "La factura 881 está pagada desde ayer",
    ZH_RIGHT: "右边的冰箱温度是9度",
    ZH_LEFT_OK: "左边的冰箱温度现在是4度",
    ZH_ORDER_OK: "订单B-7已到北京",
}
"""What is known at the end, with its evidence."""
