"""The headers that pages of other origins send to the API and read: both gateways and `layover dev` allow
these, and no other."""

_TRACES = """
traceparent tracestate baggage sentry-trace uber-trace-id newrelic x-amzn-trace-id
b3 x-b3-traceid x-b3-spanid x-b3-parentspanid x-b3-sampled x-b3-flags
x-datadog-trace-id x-datadog-parent-id x-datadog-origin x-datadog-sampling-priority x-datadog-tags
"""
"""Headers that the libraries which trace pages put into each of their requests. One that no gateway allows
costs the request, and not only the trace."""
# The AI SDK sets `user-agent`, and browsers other than Chrome then ask for it.
_OWN = """
authorization content-type idempotency-key last-event-id prefer user-agent
mcp-method mcp-name mcp-protocol-version
"""
SENT = (*_OWN.split(), *_TRACES.split())
READ = (
    "location",
    "preference-applied",
    "retry-after",
    "www-authenticate",
    "x-layover-passed-over",
    "x-vercel-ai-ui-message-stream",
)
