// A client of the tour (see tour.py) made with the TypeScript SDK 2.x: `node client_2.mjs TARGET ERA [TOKEN]`. TARGET is a
// URL, or a command as a JSON array; ERA is "legacy" or the modern revision. It prints what it has seen.
import { Client, StreamableHTTPClientTransport } from '@modelcontextprotocol/client';
import { StdioClientTransport } from '@modelcontextprotocol/client/stdio';

import { answer, tour } from './tour.mjs';

const [target, era, token] = process.argv.slice(2);
const headers = token === undefined ? {} : { authorization: `Bearer ${token}` };
const versionNegotiation = era === 'legacy' ? undefined : { mode: { pin: era } };
const client = new Client({ name: 'tour', version: '1' }, { capabilities: { elicitation: {} }, versionNegotiation });
client.setRequestHandler('elicitation/create', answer);
client.progressOptions = onprogress => [{ onprogress }];
if (target.startsWith('http')) {
    await client.connect(new StreamableHTTPClientTransport(new URL(target), { requestInit: { headers } }));
} else {
    const [command, ...args] = JSON.parse(target);
    await client.connect(new StdioClientTransport({ command, args }));
}
console.log(JSON.stringify(await tour(client)));
await client.close();
