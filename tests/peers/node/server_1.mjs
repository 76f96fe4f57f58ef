// A server of the tour (see tour.py) made with the TypeScript SDK 1.x: `node server_1.mjs MODE`, where MODE is "stdio", or
// for HTTP, which prints the URL, "sessions", "stateless", "json" (stateless, without event streams) or "resumable"
// (sessions whose tool `count` closes its stream, so that the client has to come back for the rest; `/replays` says how
// often one did).
import { randomUUID } from 'node:crypto';
import { createServer } from 'node:http';

import { McpServer } from '@modelcontextprotocol/sdk/server/mcp.js';
import { StdioServerTransport } from '@modelcontextprotocol/sdk/server/stdio.js';
import { StreamableHTTPServerTransport } from '@modelcontextprotocol/sdk/server/streamableHttp.js';
import { z } from 'zod';

const mode = process.argv[2];
let replays = 0;
const text = value => ({ content: [{ type: 'text', text: value }] });

function makeServer() {
    const server = new McpServer({ name: 'tour', version: '1' });
    server.registerTool(
        'add',
        { inputSchema: { a: z.number(), b: z.number() }, outputSchema: { result: z.number() } },
        async ({ a, b }) => ({ ...text(String(a + b)), structuredContent: { result: a + b } })
    );
    server.registerTool('count', { inputSchema: { to: z.number() } }, async ({ to }, extra) => {
        extra.closeSSEStream?.();
        const progressToken = extra._meta?.progressToken;
        for (let progress = 1; progress <= to; progress++) {
            const params = { progressToken, progress, total: to };
            await extra.sendNotification({ method: 'notifications/progress', params });
        }
        return text(`counted to ${to}`);
    });
    server.registerTool('ask', { inputSchema: {} }, async () => {
        const requestedSchema = { type: 'object', properties: { name: { type: 'string' } }, required: ['name'] };
        const answer = await server.server.elicitInput({ message: 'Your name?', requestedSchema });
        return text(`hello ${answer.content?.name}`);
    });
    server.registerTool('fail', { inputSchema: {} }, async () => {
        throw new Error('it failed');
    });
    server.registerResource('memo', 'memo://one', {}, async uri => ({ contents: [{ uri: uri.href, text: 'one' }] }));
    server.registerPrompt('greet', { argsSchema: { name: z.string() } }, ({ name }) => ({
        messages: [{ role: 'user', content: { type: 'text', text: `Greet ${name}` } }]
    }));
    return server;
}

// The events of all streams, in one order.
class Events {
    events = [];

    async storeEvent(stream, message) {
        this.events.push({ stream, message });
        return String(this.events.length - 1);
    }

    async getStreamIdForEventId(id) {
        return this.events[Number(id)]?.stream;
    }

    async replayEventsAfter(id, { send }) {
        replays++;
        const { stream } = this.events[Number(id)];
        for (let next = Number(id) + 1; next < this.events.length; next++) {
            if (this.events[next].stream === stream) await send(String(next), this.events[next].message);
        }
        return stream;
    }
}

const sessions = new Map();

async function transportFor(request) {
    const known = sessions.get(request.headers['mcp-session-id']);
    if (known !== undefined) return known;
    const keepsSessions = mode === 'sessions' || mode === 'resumable';
    const transport = new StreamableHTTPServerTransport({
        sessionIdGenerator: keepsSessions ? randomUUID : undefined,
        onsessioninitialized: id => sessions.set(id, transport),
        enableJsonResponse: mode === 'json',
        eventStore: mode === 'resumable' ? new Events() : undefined,
        retryInterval: mode === 'resumable' ? 10 : undefined
    });
    await makeServer().connect(transport);
    return transport;
}

if (mode === 'stdio') {
    await makeServer().connect(new StdioServerTransport());
} else {
    const http = createServer(async (request, response) => {
        if (request.url === '/replays') response.end(String(replays));
        else await (await transportFor(request)).handleRequest(request, response);
    });
    http.listen(0, '127.0.0.1', () => console.log(`http://127.0.0.1:${http.address().port}/mcp`));
}
