// A client of the makers of the protocol. Prints what it was answered.
import { Client } from "@modelcontextprotocol/sdk/client/index.js";
import { StreamableHTTPClientTransport } from "@modelcontextprotocol/sdk/client/streamableHttp.js";

const [url, token] = process.argv.slice(2);
const requestInit = { headers: { Authorization: `Bearer ${token}` } };
const client = new Client({ name: "test", version: "1" }, { capabilities: {} });
await client.connect(new StreamableHTTPClientTransport(new URL(url), { requestInit }));
const { tools } = await client.listTools();
const first = await client.callTool({ name: "support", arguments: { message: "Where is it?" } });
const { thread_id, run_id } = first.structuredContent;
const second = await client.callTool({ name: "support", arguments: { message: "And now?", thread_id } });
const again = await client.callTool({ name: "get_run", arguments: { run_id } });
const wrong = await client.callTool({ name: "support", arguments: { mesage: "x" } });
let unknown;
try {
  await client.callTool({ name: "nobody", arguments: {} });
} catch (error) {
  unknown = error.code;
}
console.log(JSON.stringify({ tools: tools.map((tool) => tool.name), first, second, again, wrong, unknown }));
await client.close();
