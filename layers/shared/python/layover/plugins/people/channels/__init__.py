"""The channels: each is a folder here, with one declaration, and stands in this list."""

from layover.plugins.people.channel import Channel
from layover.plugins.people.channels.mail import MAIL
from layover.plugins.people.channels.slack import SLACK
from layover.plugins.people.channels.teams import TEAMS

CHANNELS: tuple[Channel, ...] = (SLACK, MAIL, TEAMS)
