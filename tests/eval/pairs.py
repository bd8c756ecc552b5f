"""Pairs of statements of which each has a truth: the second takes the place of the first, or is about
something else. They are made from sentences with a thing and what is said of it."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import combinations


@dataclass(frozen=True)
class Pair:
    """Two statements. `replaces`: the later one says of the same thing what holds now."""

    kind: str
    language: str
    old: str
    new: str
    replaces: bool


@dataclass(frozen=True)
class Sentence:
    """A sentence with `{x}`, the thing, and `{v}`, what holds of it."""

    kind: str
    language: str
    text: str
    things: Sequence[str]
    values: Sequence[str]

    def pairs(self) -> Iterator[Pair]:
        """Yield pairs of the same thing with two values, of two things with one value, and of two things
        with two values."""
        x, v = self.things[0], self.values[0]
        for old, new in combinations(self.values, 2):
            yield self._pair((x, old), (x, new), replaces=True)
        for old, new in combinations(self.things, 2):
            yield self._pair((old, v), (new, v), replaces=False)
        yield self._pair((x, v), (self.things[1], self.values[1]), replaces=False)

    def _pair(self, old: tuple[str, str], new: tuple[str, str], *, replaces: bool) -> Pair:
        before, now = (self.text.format(x=x, v=v) for x, v in (old, new))
        return Pair(self.kind, self.language, before, now, replaces)


ORDERS = ("A-1003", "A-1004", "B-2210")
SERVERS = ("web-01", "web-02", "db-07")
PEOPLE = ("Anna", "Ben", "Chiara")
SENTENCES = (
    # Orders
    Sentence(
        "order", "en", "Order {x} is {v}.", ORDERS, ("in preparation", "shipped", "delivered")
    ),
    Sentence("order", "en", "Order {x} goes to {v}.", ORDERS, ("Bonn", "Kiel", "Jena")),
    Sentence("order", "de", "Bestellung {x} geht nach {v}.", ORDERS, ("Bonn", "Kiel", "Jena")),
    Sentence(
        "order", "fr", "La commande {x} est {v}.", ORDERS, ("en préparation", "expédiée", "livrée")
    ),
    Sentence("order", "es", "El pedido {x} llega el {v}.", ORDERS, ("lunes", "martes", "viernes")),
    Sentence("order", "zh", "订单{x}的收货地址是{v}。", ORDERS, ("北京", "上海", "广州")),
    # Servers
    Sentence("server", "en", "Server {x} listens on port {v}.", SERVERS, ("8080", "8443", "9000")),
    Sentence("server", "en", "Server {x} runs {v}.", SERVERS, ("Debian", "Ubuntu", "Fedora")),
    Sentence("server", "de", "Der Server {x} steht in {v}.", SERVERS, ("Bonn", "Kiel", "Jena")),
    Sentence("server", "it", "Il server {x} usa la versione {v}.", SERVERS, ("2.3", "2.4", "3.1")),
    Sentence("server", "pt", "O servidor {x} fica em {v}.", SERVERS, ("Lisboa", "Porto", "Braga")),
    Sentence("server", "ja", "サーバー{x}のポートは{v}です。", SERVERS, ("8080", "8443", "9000")),
    # People
    Sentence(
        "person", "en", "{x}'s badge opens the {v}.", PEOPLE, ("garage", "laboratory", "archive")
    ),
    Sentence(
        "person", "en", "The laptop of {x} has {v} of memory.", PEOPLE, ("8 GB", "16 GB", "32 GB")
    ),
    Sentence("person", "de", "{x} arbeitet im {v}.", PEOPLE, ("Lager", "Einkauf", "Vertrieb")),
    Sentence("person", "fr", "{x} est joignable le {v}.", PEOPLE, ("lundi", "mardi", "vendredi")),
    Sentence("person", "es", "La cita de {x} es el {v}.", PEOPLE, ("lunes", "martes", "viernes")),
    Sentence(
        "person",
        "ru",
        "{x} живёт в городе {v}.",
        ("Анна", "Борис", "Вера"),  # noqa: RUF001
        ("Омск", "Томск", "Пермь"),
    ),
    Sentence(
        "person", "en", "The {x} of the shop is {v}.", ("manager", "owner", "accountant"), PEOPLE
    ),
    Sentence(
        "person", "ja", "{x}さんの席は{v}です。", ("田中", "鈴木", "佐藤"), ("三階", "五階", "一階")
    ),
    # Sides
    Sentence(
        "side",
        "en",
        "The {x} pump is {v}.",
        ("left", "right", "upper"),
        ("running", "stopped", "broken"),
    ),
    Sentence(
        "side",
        "en",
        "The pump on the {x} needs {v}.",
        ("left", "right", "top"),
        ("oil", "grease", "water"),
    ),
    Sentence(
        "side",
        "de",
        "Der {x} Reifen hat {v} bar.",
        ("linke", "rechte", "hintere"),
        ("2,1", "2,4", "2,9"),
    ),
    Sentence(
        "side",
        "fr",
        "Le phare {x} est {v}.",
        ("gauche", "droit", "avant"),
        ("cassé", "réparé", "allumé"),
    ),
    Sentence(
        "side",
        "es",
        "La puerta {x} está {v}.",
        ("izquierda", "derecha", "trasera"),
        ("abierta", "cerrada", "bloqueada"),
    ),
    Sentence(
        "side", "ja", "{x}側のドアは{v}です。", ("左", "右", "裏"), ("故障中", "修理中", "使用中")
    ),
    Sentence("side", "zh", "{x}边的门是{v}的。", ("左", "右", "后"), ("开着", "关着", "锁着")),
    # States
    Sentence(
        "state",
        "en",
        "The {x} is {v} since Monday.",
        ("backup", "firewall", "export"),
        ("enabled", "disabled"),
    ),
    Sentence(
        "state",
        "en",
        "The {x} {v} after the update.",
        ("login", "print job", "sync"),
        ("fails", "works"),
    ),
    Sentence("state", "de", "Die {x} ist {v}.", ("Heizung", "Lüftung", "Pumpe"), ("an", "aus")),
    Sentence(
        "state", "de", "Das {x} ist {v}.", ("Fenster", "Tor", "Ventil"), ("geöffnet", "geschlossen")
    ),
    Sentence(
        "state", "fr", "Le {x} est {v}.", ("compte", "contrat", "service"), ("actif", "inactif")
    ),
    Sentence(
        "state", "es", "La {x} está {v}.", ("factura", "cuota", "multa"), ("pagada", "impagada")
    ),
    Sentence(
        "state", "it", "Il {x} è {v}.", ("cancello", "negozio", "rubinetto"), ("aperto", "chiuso")
    ),
    # Units and numbers
    Sentence(
        "unit", "en", "The {x} takes {v}.", ("import", "backup", "search"), ("40 ms", "40 s", "3 s")
    ),
    Sentence(
        "unit",
        "en",
        "The fee for {x} is {v} a month.",
        ("tank 6", "tank 7", "hall 2"),
        ("40 euros", "40 dollars", "55 euros"),
    ),
    Sentence(
        "unit", "de", "Die {x} wiegt {v}.", ("Kiste", "Palette", "Rolle"), ("5 kg", "5 t", "7 kg")
    ),
    Sentence(
        "unit",
        "fr",
        "Le {x} coûte {v}.",
        ("forfait", "câble", "filtre"),
        ("40 euros", "40 dollars", "55 euros"),
    ),
    Sentence(
        "unit", "es", "El {x} mide {v}.", ("tubo", "cable", "tablero"), ("2 m", "2 cm", "3 m")
    ),
    Sentence(
        "unit",
        "pt",
        "O {x} dura {v}.",
        ("exame", "curso", "teste"),
        ("2 horas", "2 dias", "3 horas"),
    ),
)
BESIDE = (
    # The same thing, and something else of it
    ("attribute", "en", "Order A-1003 contains three lamps.", "Order A-1003 goes to Bonn."),
    ("attribute", "en", "The printer has a new toner.", "The printer stands in the kitchen."),
    ("attribute", "en", "The user lives in Kiel.", "The user drives a red van."),
    (
        "attribute",
        "de",
        "Der Server web-01 hat 16 GB Speicher.",
        "Der Server web-01 steht in Bonn.",
    ),
    ("attribute", "fr", "Le chat de Marie mange du poisson.", "Le chat de Marie dort dehors."),
    # Directions
    (
        "direction",
        "en",
        "The shuttle goes from Kiel to Bonn.",
        "The shuttle goes from Bonn to Kiel.",
    ),
    ("direction", "en", "Anna pays the rent to Ben.", "Ben pays the rent to Anna."),
    ("direction", "de", "Anna schuldet Ben noch Geld.", "Ben schuldet Anna noch Geld."),
    ("direction", "de", "Der Bus fährt von Jena nach Gera.", "Der Bus fährt von Gera nach Jena."),
    ("direction", "fr", "Le train va de Lyon à Nice.", "Le train va de Nice à Lyon."),
    ("direction", "es", "El cable va de Lugo a Vigo.", "El cable va de Vigo a Lugo."),
    # Words that matter
    ("word", "en", "The import is slow on Mondays.", "The import is lost on Mondays."),
    ("word", "en", "The kitchen printer shows error 41.", "The office printer shows error 41."),
    ("word", "en", "The door handle of the van is loose.", "The door handle of the car is loose."),
    ("word", "fr", "La lampe du salon clignote.", "La lampe du couloir clignote."),
    ("word", "de", "Die Kaffeemaschine im Büro tropft.", "Die Kaffeemaschine im Lager tropft."),
    ("word", "zh", "厨房的打印机卡纸。", "办公室的打印机卡纸。"),
    ("word", "ja", "台所の電球が切れている。", "玄関の電球が切れている。"),
)
"""Both hold, and neither takes the other's place."""


FREE_REPLACING = (
    (
        "The webhook of shop-7 times out after 30 s since the release 4.2.",
        "The webhook of shop-7 answers within 2 s since the release 4.3.",
    ),
    ("Order A-1003 has not arrived yet.", "Order A-1003 arrived on Tuesday with a dented box."),
    ("Anna Berg is the contact for invoices.", "Ben Kurz is the contact for invoices now."),
    (
        "The meeting with the landlord is on Monday at 10.",
        "The meeting with the landlord was moved to Thursday at 15.",
    ),
    ("The delivery address is 5 Elm Street, Bonn.", "The delivery address is 14 Mill Lane, Kiel."),
    (
        "The coffee machine leaks at the bottom while it heats.",
        "The coffee machine no longer leaks since the boiler was replaced.",
    ),
    ("Rex takes 2 mg thyroxine a day.", "Rex now takes 1 mg of thyroxine twice a day."),
    (
        "The VPN of the Lyon office drops every 60 minutes.",
        "The VPN of the Lyon office stays up since the rekey interval was raised.",
    ),
    (
        "The printer in room 12 jams with thick paper.",
        "The printer in room 12 was repaired and prints thick paper again.",
    ),
    (
        "Die Rechnung 2024-118 ist noch nicht bezahlt.",
        "Die Rechnung 2024-118 wurde am Freitag bezahlt.",
    ),
    ("Der Aufzug in Haus 3 steht seit Montag.", "Der Aufzug in Haus 3 fährt wieder."),
    ("Das Backup von db-07 läuft um 02:00.", "Das Backup von db-07 läuft jetzt um 04:30."),
    ("Frau Weber ist bis Freitag im Urlaub.", "Frau Weber ist bis Montag im Urlaub."),
    ("La réunion avec le syndic est le 3 mars.", "La réunion avec le syndic est le 10 mars."),
    (
        "Le chauffe-eau de l'appartement 4 est en panne.",
        "Le chauffe-eau de l'appartement 4 est réparé.",
    ),
    (
        "El router de la oficina pierde la conexión cada hora.",
        "El router de la oficina ya no pierde la conexión.",
    ),
    ("El alquiler es de 650 euros al mes.", "El alquiler es de 690 euros al mes."),
    ("Il volo AZ 610 parte alle 9:40.", "Il volo AZ 610 parte alle 11:15."),
    ("O prazo do relatório é sexta-feira.", "O prazo do relatório é segunda-feira."),
    ("服务器web-01的内存是16GB。", "服务器web-01的内存是32GB。"),
    ("会议在星期一上午。", "会议改到星期三下午。"),
    ("会議は月曜日です。", "会議は水曜日に変更されました。"),
    ("サーバーの証明書は3月に切れる。", "サーバーの証明書は更新され、9月に切れる。"),
    ("Экспорт падает с ошибкой E1102.", "Экспорт теперь работает без ошибок."),  # noqa: RUF001
    ("The staging database runs Postgres 14.", "The staging database was upgraded to Postgres 16."),
    (
        "Card payments fail with error 3DS-12 in the iOS app.",
        "Card payments work again in the iOS app after the update 5.1.",
    ),
    ("The user's subscription is the basic plan.", "The user's subscription is the business plan."),
    ("Ticket T-881 waits for the supplier.", "Ticket T-881 was closed by the supplier."),
    (
        "The cause of the slow search is the cache.",
        "The cause of the slow search is the missing index.",
    ),
    ("The spare key is in the kitchen drawer.", "The spare key is with the neighbour now."),
    ("The lease of the office ends in March 2027.", "The lease of the office ends in June 2028."),
    ("Subscription S-55 is paused.", "Subscription S-55 was cancelled by the customer."),
    (
        "The API key of project atlas expires on 1 May.",
        "The API key of project atlas was renewed and expires on 1 August.",
    ),
    ("Support answers within 24 hours.", "Support answers within 8 hours."),
    (
        "The dishwasher shows E15 and does not drain.",
        "The dishwasher drains again after the filter was cleaned.",
    ),
    ("The flight LH 430 leaves from gate B12.", "The flight LH 430 leaves from gate C3."),
    ("Mia's school trip costs 120 euros.", "Mia's school trip costs 95 euros."),
    (
        "The pipeline build-main takes 40 minutes.",
        "The pipeline build-main takes 12 minutes since the cache was added.",
    ),
    (
        "Das Passwort für das Gäste-WLAN läuft am Montag ab.",
        "Das Passwort für das Gäste-WLAN läuft am Freitag ab.",
    ),
    ("Die Lieferung L-77 liegt beim Zoll.", "Die Lieferung L-77 ist angekommen."),
    ("Herr Vogt nimmt 5 mg Ramipril.", "Herr Vogt nimmt 10 mg Ramipril."),
    ("Der Mieter zahlt bar.", "Der Mieter zahlt jetzt per Überweisung."),
    ("Le colis C-90 est à Lyon.", "Le colis C-90 est à Paris."),
    ("Le médecin de Luc est en vacances.", "Le médecin de Luc est de retour."),
    ("El proyecto Sol usa Python 3.11.", "El proyecto Sol usa Python 3.13."),
    ("La lavadora pierde agua.", "La lavadora ya no pierde agua."),
    ("La stampante dell'ufficio è guasta.", "La stampante dell'ufficio è stata riparata."),
    ("A fatura 881 está em aberto.", "A fatura 881 foi paga."),
    ("包裹SF123在上海。", "包裹SF123已到北京。"),
    ("打印机卡纸。", "打印机现在正常了。"),
    ("締め切りは金曜日です。", "締め切りは来週の火曜日です。"),
    ("Доставка заказа K-12 назначена на пятницу.", "Доставка заказа K-12 назначена на вторник."),
    ("The heating in flat 9 is off at night.", "The heating in flat 9 is on at night."),
    ("The newsletter is sent weekly.", "The newsletter is sent monthly."),
    ("Tom's knee hurts when he climbs stairs.", "Tom's knee no longer hurts."),
    ("The bug is in the parser.", "The bug is in the tokenizer."),
    ("The team uses Jira.", "The team switched from Jira to Linear."),
    ("The car insurance is with Allianz.", "The car insurance is with HUK since January."),
    ("The wedding is planned for 40 guests.", "The wedding is planned for 65 guests."),
    ("The test coverage of module auth is 61 %.", "The test coverage of module auth is 84 %."),
    (
        "The gym membership of Lena is active until May.",
        "The gym membership of Lena was cancelled.",
    ),
    (
        "Machine M-12 vibrates at 900 rpm.",
        "Machine M-12 runs smoothly since the bearing was changed.",
    ),
    ("The visa appointment is on 4 June.", "The visa appointment is on 18 June."),
    ("Build 881 is red.", "Build 881 is green."),
    ("The backup disk of nas-2 has 40 GB left.", "The backup disk of nas-2 has 900 GB left."),
    ("The neighbour's dog barks at night.", "The neighbour's dog no longer barks at night."),
    ("The contract with Telco ends in 2026.", "The contract with Telco was extended to 2028."),
    ("Das Paket P-3 ist in Hamburg.", "Das Paket P-3 wurde zugestellt."),
    ("Die Heizung im Bad tropft.", "Die Heizung im Bad wurde repariert."),
    (
        "Herr Schmidt wohnt in der Gartenstraße 5.",
        "Herr Schmidt wohnt jetzt in der Lindenallee 12.",
    ),
    (
        "Le wifi de la salle B est lent.",
        "Le wifi de la salle B est rapide depuis le nouveau routeur.",
    ),
    ("Le loyer est de 800 euros.", "Le loyer est de 850 euros."),
    ("El vuelo IB 32 sale a las 9:00.", "El vuelo IB 32 sale a las 11:40."),
    ("La reunión es el lunes.", "La reunión es el jueves."),
    ("Il treno 9610 è in ritardo di 20 minuti.", "Il treno 9610 è in orario."),
    ("O pedido 77 foi enviado.", "O pedido 77 foi entregue."),
    ("项目阿尔法的截止日期是五月一日。", "项目阿尔法的截止日期是六月一日。"),
    ("部屋の温度は18度です。", "部屋の温度は22度です。"),
    ("Сервер db-3 недоступен.", "Сервер db-3 снова доступен."),
    ("The password policy requires 8 characters.", "The password policy requires 12 characters."),
)
"""In words of all kinds: the second takes the place of the first. No sentence makes them."""
FREE_OTHER = (
    ("The webhook of shop-7 times out after 30 s.", "The webhook of shop-8 times out after 30 s."),
    ("Order A-1003 has not arrived yet.", "Order A-1004 arrived on Tuesday."),
    ("Anna Berg is the contact for invoices.", "Anna Berg is ill until Friday."),
    ("Anna Berg is the contact for invoices.", "Ben Kurz is the contact for deliveries."),
    ("The coffee machine leaks at the bottom.", "The dishwasher leaks at the bottom."),
    (
        "The printer in room 12 jams with thick paper.",
        "The printer in room 14 jams with thick paper.",
    ),
    ("The printer in room 12 jams with thick paper.", "The printer in room 12 needs toner."),
    (
        "Die Rechnung 2024-118 ist noch nicht bezahlt.",
        "Die Rechnung 2024-119 wurde am Freitag bezahlt.",
    ),
    ("Der Aufzug in Haus 3 steht seit Montag.", "Der Aufzug in Haus 5 fährt wieder."),
    ("Frau Weber ist bis Freitag im Urlaub.", "Herr Maier ist bis Montag im Urlaub."),
    (
        "Le chauffe-eau de l'appartement 4 est en panne.",
        "Le chauffe-eau de l'appartement 6 est réparé.",
    ),
    ("El alquiler de la oficina es de 650 euros.", "El alquiler del garaje es de 90 euros."),
    ("Il volo AZ 610 parte alle 9:40.", "Il volo AZ 612 parte alle 11:15."),
    ("服务器web-01的内存是16GB。", "服务器web-02的内存是32GB。"),
    ("会議は月曜日です。", "面接は水曜日です。"),
    ("The left headlight is broken.", "The right headlight was replaced."),
    ("The front brake pads are worn.", "The rear brake pads are new."),
    ("The user's mother lives in Bonn.", "The user's brother lives in Kiel."),
    ("Restarting the router did not help.", "Replacing the cable helped."),
    ("The export to Berlin fails with E12.", "The export to Vienna works again."),
    ("Ticket T-881 waits for the supplier.", "Ticket T-882 was closed by the supplier."),
    ("The test cluster was patched in May.", "The production cluster was patched in June."),
    ("Room 3 is booked on Monday.", "Room 4 is booked on Monday."),
    ("The first sensor reads 20 degrees.", "The second sensor reads 25 degrees."),
    ("The morning shift has four people.", "The night shift has two people."),
    ("Bea is allergic to nuts.", "Tom is allergic to nuts and milk."),
    ("Invoice 118 was paid by Anna.", "Invoice 118 was sent to Ben."),
    ("The dog Rex takes 2 mg thyroxine.", "The cat Mia takes 1 mg thyroxine."),
    ("Экспорт в Омск падает.", "Экспорт в Томск работает."),
    ("Le port 8080 est bloqué.", "Le port 8443 est ouvert."),
    ("The lease of the office ends in March 2027.", "The lease of the garage ends in June 2028."),
    ("Subscription S-55 is paused.", "Subscription S-56 was cancelled."),
    ("The flight LH 430 leaves from gate B12.", "The flight LH 431 leaves from gate C3."),
    ("Mia's school trip costs 120 euros.", "Leo's school trip costs 95 euros."),
    ("The pipeline build-main takes 40 minutes.", "The pipeline build-docs takes 12 minutes."),
    ("Die Lieferung L-77 liegt beim Zoll.", "Die Lieferung L-78 ist angekommen."),
    ("Herr Vogt nimmt 5 mg Ramipril.", "Frau Vogt nimmt 10 mg Ramipril."),
    ("Le colis C-90 est à Lyon.", "Le colis C-91 est à Paris."),
    ("El proyecto Sol usa Python 3.11.", "El proyecto Luna usa Python 3.13."),
    ("La stampante dell'ufficio è guasta.", "La stampante del negozio è stata riparata."),
    ("A fatura 881 está em aberto.", "A fatura 882 foi paga."),
    ("包裹SF123在上海。", "包裹SF124已到北京。"),
    ("Доставка заказа K-12 назначена на пятницу.", "Доставка заказа K-13 назначена на вторник."),
    ("The heating in flat 9 is off at night.", "The heating in flat 7 is on at night."),
    ("Tom's knee hurts when he climbs stairs.", "Tom's shoulder hurts when he lifts boxes."),
    ("The upper drawer is locked.", "The lower drawer is open."),
    ("The car insurance is with Allianz.", "The house insurance is with HUK."),
    ("The test coverage of module auth is 61 %.", "The test coverage of module cart is 84 %."),
    ("The red cable goes to the fuse box.", "The blue cable goes to the switch."),
    ("Das linke Fenster klemmt.", "Das rechte Fenster klemmt."),
    ("Der Nordeingang ist gesperrt.", "Der Südeingang ist offen."),
    ("El neumático delantero está pinchado.", "El neumático trasero está nuevo."),
    ("La clé du bureau est chez Luc.", "La clé de la cave est chez Anne."),
    ("The staging server was restarted.", "The production server was restarted."),
    ("Patient 14 has a fever.", "Patient 15 has no fever."),
    ("The summer tyres are in the cellar.", "The winter tyres are on the car."),
    ("左のスピーカーは壊れている。", "右のスピーカーは新しい。"),
    ("上の引き出しは空です。", "下の引き出しは満杯です。"),
    ("The daughter of the tenant studies law.", "The son of the tenant studies music."),
    ("Job 3 failed at night.", "Job 4 failed at night."),
    (
        "The gym membership of Lena is active until May.",
        "The gym membership of Paul was cancelled.",
    ),
    ("Machine M-12 vibrates at 900 rpm.", "Machine M-13 runs smoothly."),
    ("Build 881 is red.", "Build 882 is green."),
    ("The backup disk of nas-2 has 40 GB left.", "The system disk of nas-2 has 900 GB left."),
    ("The contract with Telco ends in 2026.", "The contract with Voltix ends in 2028."),
    ("Das Paket P-3 ist in Hamburg.", "Das Paket P-4 wurde zugestellt."),
    ("Die Heizung im Bad tropft.", "Die Heizung im Flur tropft."),
    ("Herr Schmidt wohnt in Bonn.", "Frau Schmidt wohnt in Kiel."),
    ("Le wifi de la salle B est lent.", "Le wifi de la salle C est lent."),
    ("El vuelo IB 32 sale a las 9:00.", "El vuelo IB 33 sale a las 9:00."),
    ("Il treno 9610 è in ritardo.", "Il treno 9612 è in ritardo."),
    ("O pedido 77 foi enviado.", "O pedido 78 foi entregue."),
    ("项目阿尔法的截止日期是五月一日。", "项目贝塔的截止日期是六月一日。"),
    ("部屋の温度は18度です。", "廊下の温度は22度です。"),
    ("Сервер db-3 недоступен.", "Сервер db-4 недоступен."),
    ("The front tyre is flat.", "The rear tyre is flat."),
    ("The inner door is locked.", "The outer door is locked."),
    ("The test for user signup is flaky.", "The test for user login is flaky."),
    ("Nora's flight lands at 9.", "Omar's flight lands at 11."),
    ("The English manual has 40 pages.", "The German manual has 44 pages."),
)
"""In words of all kinds: the second is about something else."""


def pairs() -> tuple[Pair, ...]:
    """Return the pairs that sentences make, and those of one thing of which both hold."""
    made = [pair for sentence in SENTENCES for pair in sentence.pairs()]
    return (*made, *(Pair(*each, replaces=False) for each in BESIDE))


def free_pairs() -> tuple[Pair, ...]:
    """Return pairs that no sentence makes."""
    replacing = [Pair("free", "", old, new, replaces=True) for old, new in FREE_REPLACING]
    return (*replacing, *(Pair("free", "", old, new, replaces=False) for old, new in FREE_OTHER))
