"""The way back from a service: its user has consented, and the calls that waited go on."""

from layover.approvals.consent import go_on
from layover.plugins.reach.connections.consent import connections_by_name, finish_consent, view_of
from layover.runtime import Runtime
from layover.values.deployment.access import Actor
from layover.values.grant import Arrival, ConnectionView
from layover.values.runs.run import Decision, DecisionKind


async def bring_consent(
    runtime: Runtime, actor: Actor, code: str, state: str, arrival: Arrival | None = None
) -> ConnectionView:
    """Keep the grant that the actor has brought back from a service, and let the calls go on that waited for
    it, in all of the actor's runs. Raises as `finish_consent`."""
    declared = connections_by_name(runtime.agents())
    connections = {name: connection for name, (connection, _) in declared.items()}
    grant = await finish_consent(runtime, connections, actor.owner, code, state, arrival=arrival)
    decision = Decision(
        kind=DecisionKind.CONNECTED,
        decided_by=actor.sub,
        on_behalf_of=actor.on_behalf_of,
        at=runtime.clock.now(),
    )
    await go_on(runtime, actor.owner, grant, decision)
    return view_of(grant.connection, declared.get(grant.connection), grant)
