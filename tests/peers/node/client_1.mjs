// A client of the tour (see tour.py) made with the TypeScript SDK 1.x: `node client_1.mjs TARGET [TOKEN]`. TARGET is a URL,
// or a command as a JSON array. It prints what it has seen.
import { Client } from '@modelcontextprotocol/sdk/client/index.js';
import { StdioClientTransport } from '@modelcontextprotocol/sdk/client/stdio.js';
import { StreamableHTTPClientTransport } from '@modelcontextprotocol/sdk/client/streamableHttp.js';
import { ElicitRequestSchema } from '@modelcontextprotocol/sdk/types.js';

import { answer, tour } from './tour.mjs';

const [target, token] = process.argv.slice(2);
const headers = token === undefined ? {} : { authorization: `Bearer ${token}` };
const client = new Client({ name: 'tour', version: '1' }, { capabilities: { elicitation: {} } });
client.setRequestHandler(ElicitRequestSchema, answer);
client.progressOptions = onprogress => [undefined, { onprogress }];
if (target.startsWith('http')) {
    await client.connect(new StreamableHTTPClientTransport(new URL(target), { requestInit: { headers } }));
} else {
    const [command, ...args] = JSON.parse(target);
    await client.connect(new StdioClientTransport({ command, args }));
}
console.log(JSON.stringify(await tour(client)));
await client.close();
