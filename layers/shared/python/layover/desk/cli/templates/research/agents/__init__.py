"""Your agents. Every `Agent` at the top level of this module is served."""

from layover import Agent, tool

NOTES = {
    "heat pumps": "A heat pump moves three to four units of heat for each unit of electricity.",
    "insulation": "Insulating a roof first halves the size of the heating that a house needs.",
}
PUBLISHED: dict[str, str] = {}


@tool
def search_notes(query: str) -> list[str]:
    """Search the team's notes. Returns those that have a word of the query."""
    words = {word for word in query.lower().split() if len(word) > 3}
    return [text for title, text in NOTES.items() if words & set(f"{title} {text}".lower().split())]


@tool(needs_approval=True)
def publish(title: str, text: str) -> str:
    """Publish a report for the whole company. A person approves it."""
    if not text.strip():
        raise ValueError("The report is empty: write it first.")
    PUBLISHED[title] = text
    return f"Published {title!r}."


researcher = Agent(
    name="researcher",
    instructions=(
        "You answer questions from the team's notes, and say which note you used. Search before you"
        " answer. Publish a report only when you are asked to."
    ),
    tools=[search_notes, publish],
)
