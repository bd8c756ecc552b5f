"""Pairs of statements in nearly the same words, of which both hold: each tempts a rule to let the later one
take the place of the earlier one. They were written before that rule. Each kind has its reason:

- `more`: the later one says that it comes on top ("also", "another").
- `limited`: it holds for a day, a place, a person, a part or a case of its own.
- `several`: what is said of the thing may hold of several at once: it contains, speaks, uses, needs, opens them.
- `other`: two things with nearly the same name: orders, environments, people of the same first name.
- `history`: measurements and events that are bound to their time, and each a fact of its own.
- `attempt`: what was tried, one after the other.
- `attribute`: two matters of one thing, in the same frame: where and in which department somebody works.
- `part`: two parts of one thing.
- `party`: the same two or three in other roles.
"""

from eval.pairs import Pair

_MORE = (
    ("en", "The backup of db-1 runs at 02:00.", "The backup of db-1 runs also at 14:00."),
    ("en", "The backup of db-1 runs at 02:00.", "The backup of db-1 runs at 14:00, too."),
    ("en", "The newsletter goes to Bonn.", "The newsletter goes to Kiel as well."),
    ("en", "Invoices go to Anna Berg.", "Invoices additionally go to Ben Kurz."),
    ("en", "The gate is closed on Mondays.", "The gate is also closed on Fridays."),
    ("en", "Port 8080 is open on web-01.", "Port 8443 is open on web-01 as well."),
    ("en", "The manager of the shop is Anna.", "A second manager of the shop is Ben."),
    ("de", "Der Newsletter geht nach Bonn.", "Der Newsletter geht auch nach Kiel."),
    ("de", "Die Sicherung läuft um 2 Uhr.", "Die Sicherung läuft außerdem um 14 Uhr."),
    ("de", "Anna arbeitet im Lager.", "Anna arbeitet zusätzlich im Einkauf."),
    ("fr", "La navette va à Lyon.", "La navette va aussi à Nice."),
    ("fr", "La sauvegarde tourne à 2 heures.", "La sauvegarde tourne également à 14 heures."),
    ("es", "El pedido B-7 llega el lunes.", "El resto del pedido B-7 llega el martes."),
    ("es", "La copia se hace a las 2:00.", "La copia se hace también a las 14:00."),
    ("it", "Il corriere passa il lunedì.", "Il corriere passa anche il giovedì."),
    ("pt", "O autocarro para em Lisboa.", "O autocarro para também em Braga."),
    ("ru", "Автобус едет в Омск.", "Автобус едет также в Томск."),
    ("zh", "备份在2点运行。", "备份也在14点运行。"),
    ("ja", "会議は月曜日です。", "会議は水曜日もあります。"),
)
_LIMITED = (
    ("en", "Anna works in Berlin.", "Anna works in Paris on Fridays."),
    ("en", "The pump is running.", "The pump is stopped at night."),
    ("en", "The heating in flat 9 is on.", "The heating in flat 9 is off during the holidays."),
    ("en", "The office is open until 18:00.", "The office is open until 20:00 on Thursdays."),
    ("en", "The login works.", "The login fails in Firefox."),
    ("en", "The export works.", "The export fails for files over 2 GB."),
    ("en", "The door is locked.", "The door is open if the alarm rings."),
    ("en", "The fee is 40 euros.", "The fee is 20 euros for students."),
    ("en", "The import takes 40 minutes.", "The import takes 90 minutes at the end of the month."),
    ("en", "Card payments work in the web shop.", "Card payments fail in the iOS app."),
    ("en", "The app is fast on Android.", "The app is slow on iOS."),
    ("en", "Staging runs on port 8080.", "Production runs on port 8443."),
    ("en", "The API key is valid in staging.", "The API key is invalid in production."),
    ("de", "Der Aufzug fährt.", "Der Aufzug steht am Wochenende."),
    ("de", "Das Fenster ist geschlossen.", "Das Fenster ist im Sommer geöffnet."),
    ("de", "Die Praxis ist bis 18 Uhr offen.", "Die Praxis ist mittwochs bis 12 Uhr offen."),
    ("de", "Die Anmeldung klappt.", "Die Anmeldung scheitert mit alten Geräten."),
    ("fr", "Le magasin est ouvert.", "Le magasin est fermé le dimanche."),
    ("fr", "Le wifi marche au salon.", "Le wifi ne marche pas à la cave."),
    ("es", "La tienda está abierta.", "La tienda está cerrada los domingos."),
    ("es", "El envío cuesta 5 euros.", "El envío cuesta 9 euros a las islas."),
    ("it", "Il negozio è aperto.", "Il negozio è chiuso in agosto."),
    ("pt", "A loja está aberta.", "A loja está fechada aos domingos."),
    ("ru", "Магазин открыт.", "Магазин закрыт по воскресеньям."),
    ("zh", "商店开着。", "商店星期天关着。"),
    ("ja", "店は開いている。", "店は日曜日は閉まっている。"),
)
_SEVERAL = (
    ("en", "The user is allergic to nuts.", "The user is allergic to milk."),
    ("en", "Anna speaks French.", "Anna speaks German."),
    ("en", "Order A-1003 contains lamps.", "Order A-1003 contains shelves."),
    ("en", "Server web-01 runs nginx.", "Server web-01 runs Redis."),
    ("en", "Server web-01 hosts the wiki.", "Server web-01 hosts the shop."),
    ("en", "The team uses Jira.", "The team uses Slack."),
    ("en", "The pump on the left needs oil.", "The pump on the left needs a new seal."),
    ("en", "Anna needs a visa.", "Anna needs a charger."),
    ("en", "The key opens the garage.", "The key opens the cellar."),
    ("en", "The user owns a van.", "The user owns a boat."),
    ("en", "Mia plays tennis.", "Mia plays chess."),
    ("en", "The printer shows error 41.", "The printer shows error 52."),
    ("en", "The report goes to Anna.", "The report goes to Ben."),
    ("en", "The user has a meeting with Anna.", "The user has a meeting with Ben."),
    ("en", "The company has an office in Bonn.", "The company has an office in Kiel."),
    ("en", "The plan includes support.", "The plan includes storage."),
    ("en", "The car has a dent on the door.", "The car has a dent on the roof."),
    ("en", "Flights to Oslo leave on Mondays.", "Flights to Oslo leave on Fridays."),
    ("en", "The script reads from the queue.", "The script reads from the bucket."),
    ("en", "The user was in Rome.", "The user was in Oslo."),
    ("en", "Firewall fw-1 blocks port 22.", "Firewall fw-1 blocks port 25."),
    ("en", "The patient takes ramipril.", "The patient takes aspirin."),
    ("en", "Tom's knee hurts.", "Tom's knee clicks."),
    ("de", "Anna spricht Französisch.", "Anna spricht Polnisch."),
    ("de", "Der Kunde nutzt Outlook.", "Der Kunde nutzt Teams."),
    ("de", "Das Paket enthält Lampen.", "Das Paket enthält Regale."),
    ("de", "Der Bus hält in Jena.", "Der Bus hält in Gera."),
    ("de", "Frau Weber mag Tee.", "Frau Weber mag Kaffee."),
    ("fr", "Marie parle allemand.", "Marie parle italien."),
    ("fr", "Le colis contient des livres.", "Le colis contient des lampes."),
    ("fr", "Luc est allergique au lait.", "Luc est allergique aux noix."),
    ("es", "El equipo usa Jira.", "El equipo usa Slack."),
    ("es", "Ana habla francés.", "Ana habla alemán."),
    ("it", "Il treno ferma a Pisa.", "Il treno ferma a Lucca."),
    ("it", "Chiara parla inglese.", "Chiara parla tedesco."),
    ("pt", "A equipa usa Jira.", "A equipa usa Slack."),
    ("ru", "Анна говорит по-французски.", "Анна говорит по-немецки."),
    ("zh", "安娜会说法语。", "安娜会说德语。"),
    ("zh", "服务器web-01运行nginx。", "服务器web-01运行Redis。"),
    ("ja", "田中さんは英語を話す。", "田中さんは中国語を話す。"),
)
_OTHER = (
    ("en", "Order A-1003 is shipped.", "Order A-1005 is delivered."),
    ("en", "Anna Berg works in Bonn.", "Anna Kurz works in Kiel."),
    ("en", "Anna from sales is ill.", "Anna from support is back."),
    ("en", "The staging database is down.", "The production database is up."),
    ("en", "The login of the shop fails.", "The login of the wiki works."),
    ("en", "The old printer is broken.", "The new printer is working."),
    ("en", "The first delivery is late.", "The second delivery is on time."),
    ("en", "The user's sister lives in Kiel.", "The user's mother lives in Jena."),
    ("en", "Window 3 is open.", "Window 4 is closed."),
    ("en", "The meeting with Anna is on Monday.", "The meeting with Ben is on Tuesday."),
    ("en", "The rent for the flat is 800 euros.", "The rent for the garage is 90 euros."),
    ("en", "Version 4.2 of the app is stable.", "Version 4.3 of the app is broken."),
    ("en", "Release 4.2 is deployed.", "Release 4.3 is planned."),
    ("en", "Ticket 881 is open.", "Ticket 882 is closed."),
    ("de", "Die Tür zum Lager ist offen.", "Die Tür zum Büro ist geschlossen."),
    ("de", "Herr Vogt wohnt in Kiel.", "Frau Vogt wohnt in Jena."),
    ("de", "Das alte Tor ist kaputt.", "Das neue Tor ist repariert."),
    ("de", "Rechnung 118 ist bezahlt.", "Rechnung 119 ist offen."),
    ("fr", "La porte du garage est ouverte.", "La porte de la cave est fermée."),
    ("fr", "Le serveur de test est en panne.", "Le serveur de production est réparé."),
    ("es", "El pedido 77 está enviado.", "El pedido 78 está entregado."),
    ("es", "La hermana de Ana vive en Vigo.", "La madre de Ana vive en Lugo."),
    ("it", "La porta del garage è aperta.", "La porta della cantina è chiusa."),
    ("pt", "A impressora da loja está avariada.", "A impressora da sala está reparada."),
    ("ru", "Заказ К-12 отправлен.", "Заказ К-13 доставлен."),
    ("zh", "厨房的门开着。", "车库的门关着。"),
    ("ja", "玄関のドアは開いている。", "台所のドアは閉まっている。"),
)
_HISTORY = (
    (
        "en",
        "On Monday the boiler pressure was 1.2 bar.",
        "On Tuesday the boiler pressure was 1.6 bar.",
    ),
    ("en", "The sensor read 20 degrees at 9:00.", "The sensor read 25 degrees at 10:00."),
    ("en", "In 2024 the turnover was 3 million.", "In 2025 the turnover was 4 million."),
    ("en", "The user weighed 82 kg in May.", "The user weighed 79 kg in June."),
    ("en", "The export failed on 3 March.", "The export failed on 5 March."),
    ("en", "Anna visited Oslo in May.", "Anna visited Rome in June."),
    ("en", "The import took 40 minutes on Monday.", "The import took 55 minutes on Tuesday."),
    ("en", "Build 881 took 12 minutes.", "Build 882 took 14 minutes."),
    ("de", "Am Montag waren es 18 Grad.", "Am Dienstag waren es 21 Grad."),
    ("de", "Der Zähler stand im Mai bei 410.", "Der Zähler stand im Juni bei 455."),
    ("fr", "En mai la facture était de 60 euros.", "En juin la facture était de 75 euros."),
    ("es", "El lunes hubo 3 fallos.", "El martes hubo 5 fallos."),
    ("it", "A maggio il contatore segnava 410.", "A giugno il contatore segnava 455."),
    ("zh", "5月的电费是60元。", "6月的电费是75元。"),
    ("ja", "5月の電気代は6000円でした。", "6月の電気代は7500円でした。"),
)
_ATTEMPT = (
    ("en", "Restarting the router did not help.", "Resetting the router did not help."),
    ("en", "The user tried a new cable.", "The user tried a new power supply."),
    ("en", "Clearing the cache fixed the login.", "Clearing the cookies fixed the login."),
    ("en", "The user replaced the fuse.", "The user replaced the relay."),
    ("de", "Ein Neustart hat nicht geholfen.", "Ein Update hat nicht geholfen."),
    ("de", "Der Kunde hat das Kabel getauscht.", "Der Kunde hat den Adapter getauscht."),
    ("fr", "Redémarrer la box n'a rien changé.", "Changer le câble n'a rien changé."),
    ("es", "Reiniciar el router no ayudó.", "Cambiar el cable no ayudó."),
    ("zh", "重启路由器没有用。", "更换网线没有用。"),
)
_ATTRIBUTE = (
    ("en", "Anna works in Berlin.", "Anna works in sales."),
    ("en", "The door is red.", "The door is locked."),
    ("en", "The server is in Bonn.", "The server is in maintenance."),
    ("en", "The order is urgent.", "The order is shipped."),
    ("en", "The room costs 40 euros.", "The room has 40 seats."),
    ("en", "The contract starts in May.", "The contract ends in June."),
    ("en", "The disk of nas-2 has 900 GB in total.", "The disk of nas-2 has 40 GB left."),
    ("en", "The bill is paid monthly.", "The bill is sent by mail."),
    ("en", "The dog is brown.", "The dog is ill."),
    ("en", "Ben is the manager of the shop.", "Ben is the owner of the shop."),
    ("en", "The import is slow.", "The import is important."),
    ("en", "The flat is rented.", "The flat is heated with gas."),
    ("en", "The cause of the error is the proxy.", "The effect of the error is a delay."),
    ("de", "Der Server steht in Bonn.", "Der Server steht unter Last."),
    ("de", "Die Anlage ist in Kiel.", "Die Anlage ist in Wartung."),
    ("de", "Die Tür ist rot.", "Die Tür ist offen."),
    ("de", "Der Kurs beginnt am Montag.", "Der Kurs endet am Freitag."),
    ("fr", "La porte est bleue.", "La porte est fermée."),
    ("fr", "Le cours commence lundi.", "Le cours finit vendredi."),
    ("es", "La puerta es verde.", "La puerta está cerrada."),
    ("it", "La porta è verde.", "La porta è chiusa."),
    ("zh", "门是红色的。", "门是关着的。"),
    ("ja", "ドアは赤いです。", "ドアは閉まっています。"),
)
_PART = (
    ("en", "The screen of the laptop is broken.", "The keyboard of the laptop is working."),
    ("en", "The battery of the van is new.", "The clutch of the van is old."),
    ("en", "The front door is open.", "The back door is closed."),
    ("de", "Der Akku des Rollers ist leer.", "Der Tank des Rollers ist voll."),
    ("fr", "L'écran du portable est cassé.", "Le clavier du portable est réparé."),
    ("es", "La pantalla del portátil está rota.", "El teclado del portátil está arreglado."),
    ("zh", "手机的屏幕坏了。", "手机的电池修好了。"),
)
_PARTY = (
    ("en", "Anna reports to Ben.", "Ben reports to Chiara."),
    ("en", "Anna lent Ben 40 euros.", "Ben lent Anna 60 euros."),
    ("en", "Kiel is north of Bonn.", "Bonn is south of Kiel."),
    ("de", "Anna vertritt Ben im Mai.", "Ben vertritt Anna im Juni."),
    ("fr", "Luc remplace Marie lundi.", "Marie remplace Luc mardi."),
)
_KINDS = {
    "more": _MORE,
    "limited": _LIMITED,
    "several": _SEVERAL,
    "other": _OTHER,
    "history": _HISTORY,
    "attempt": _ATTEMPT,
    "attribute": _ATTRIBUTE,
    "part": _PART,
    "party": _PARTY,
}


def both_hold() -> tuple[Pair, ...]:
    """Return the pairs of which both hold."""
    return tuple(
        Pair(kind, language, old, new, replaces=False)
        for kind, of_kind in _KINDS.items()
        for language, old, new in of_kind
    )
