"""Your agents. Every `Agent` at the top level of this module is served."""

from layover import Agent

assistant = Agent(name="assistant", instructions="You answer in two or three sentences.")
