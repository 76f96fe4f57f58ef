// A server of the tour (see tour.py) made with the TypeScript SDK 2.x: `node server_2.mjs stdio|http`. Over HTTP it
// prints its URL, and serves clients of older revisions without sessions.
import { createServer } from 'node:http';
import { Readable } from 'node:stream';

import { McpServer, acceptedContent, createMcpHandler, inputRequired } from '@modelcontextprotocol/server';
import { serveStdio } from '@modelcontextprotocol/server/stdio';
import { z } from 'zod';

const text = value => ({ content: [{ type: 'text', text: value }] });

function makeServer() {
    const server = new McpServer({ name: 'tour', version: '1' });
    server.registerTool(
        'add',
        { inputSchema: z.object({ a: z.number(), b: z.number() }), outputSchema: z.object({ result: z.number() }) },
        async ({ a, b }) => ({ ...text(String(a + b)), structuredContent: { result: a + b } })
    );
    server.registerTool('count', { inputSchema: z.object({ to: z.number() }) }, async ({ to }, ctx) => {
        const progressToken = ctx.mcpReq._meta?.progressToken;
        for (let progress = 1; progress <= to; progress++) {
            const params = { progressToken, progress, total: to };
            await ctx.mcpReq.notify({ method: 'notifications/progress', params });
        }
        return text(`counted to ${to}`);
    });
    server.registerTool('ask', { inputSchema: z.object({}) }, async (_, ctx) => {
        const requestedSchema = z.object({ name: z.string() });
        const answer = acceptedContent(ctx.mcpReq.inputResponses, 'person', requestedSchema);
        if (answer !== undefined) return text(`hello ${answer.name}`);
        const person = inputRequired.elicit({ message: 'Your name?', requestedSchema });
        return inputRequired({ inputRequests: { person } });
    });
    server.registerTool('fail', { inputSchema: z.object({}) }, async () => {
        throw new Error('it failed');
    });
    server.registerResource('memo', 'memo://one', {}, async uri => ({ contents: [{ uri: uri.href, text: 'one' }] }));
    server.registerPrompt('greet', { argsSchema: z.object({ name: z.string() }) }, ({ name }) => ({
        messages: [{ role: 'user', content: { type: 'text', text: `Greet ${name}` } }]
    }));
    return server;
}

function serveHttp() {
    const handler = createMcpHandler(makeServer);
    const http = createServer(async (incoming, outgoing) => {
        const body = incoming.method === 'POST' ? Readable.toWeb(incoming) : undefined;
        const url = `http://${incoming.headers.host}${incoming.url}`;
        const request = new Request(url, { method: incoming.method, headers: incoming.headers, body, duplex: 'half' });
        const response = await handler.fetch(request);
        outgoing.writeHead(response.status, Object.fromEntries(response.headers));
        if (response.body) {
            for await (const chunk of response.body) outgoing.write(chunk);
        }
        outgoing.end();
    });
    http.listen(0, '127.0.0.1', () => console.log(`http://127.0.0.1:${http.address().port}/mcp`));
}

if (process.argv[2] === 'http') {
    serveHttp();
} else {
    serveStdio(makeServer);
}
