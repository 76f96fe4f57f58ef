// The TypeScript SDK's server, with the tools of the benchmark: `node server.mjs stdio|http DUMMIES`. Over HTTP the first
// line of its output is its URL.
import { createServer } from 'node:http';
import { Readable } from 'node:stream';
import { pathToFileURL } from 'node:url';

import { McpServer, createMcpHandler } from '@modelcontextprotocol/server';
import { StdioServerTransport, serveStdio } from '@modelcontextprotocol/server/stdio';
import { z } from 'zod';

const BLOB = Buffer.alloc(10 * 2 ** 20, Buffer.from(Array.from({ length: 256 }, (_, byte) => byte)));
const MAX_BYTES = 64 * 2 ** 20;

const cancellations = [];
const now = () => Number(process.hrtime.bigint()) / 1e9;
const wrapped = value => ({ content: [{ type: 'text', text: JSON.stringify(value) }], structuredContent: { result: value } });
const usage = collect => {
    const { user, system } = process.cpuUsage();
    if (collect) globalThis.gc();
    return [(user + system) / 1e6, process.memoryUsage.rss()];
};

export function makeServer(dummies) {
    const server = new McpServer({ name: 'bench', version: '1' });
    const integer = z.object({ result: z.number() });
    const numbers = z.object({ result: z.array(z.number()) });
    server.registerTool(
        'add',
        { inputSchema: z.object({ a: z.number(), b: z.number() }), outputSchema: integer },
        async ({ a, b }) => wrapped(a + b)
    );
    server.registerTool(
        'add_later',
        { inputSchema: z.object({ a: z.number(), b: z.number() }), outputSchema: integer },
        async ({ a, b }) => {
            await new Promise(setImmediate);
            return wrapped(a + b);
        }
    );
    server.registerTool('text', { inputSchema: z.object({ size: z.number() }) }, async ({ size }) => ({
        content: [{ type: 'text', text: 'x'.repeat(size) }]
    }));
    server.registerTool(
        'storm',
        { inputSchema: z.object({ count: z.number() }), outputSchema: integer },
        async ({ count }, ctx) => {
            const progressToken = ctx.mcpReq._meta.progressToken;
            for (let progress = 1; progress <= count; progress++) {
                await ctx.mcpReq.notify({
                    method: 'notifications/progress',
                    params: { progressToken, progress, total: count }
                });
            }
            return wrapped(count);
        }
    );
    server.registerTool('wait', { inputSchema: z.object({}) }, (_, ctx) => new Promise((_resolve, reject) => {
        ctx.mcpReq.signal.addEventListener('abort', () => {
            cancellations.push(now());
            reject(new Error('cancelled'));
        });
    }));
    server.registerTool('cancelled', { inputSchema: z.object({}), outputSchema: numbers }, async () => wrapped(cancellations));
    server.registerTool(
        'usage',
        { inputSchema: z.object({ collect: z.boolean() }), outputSchema: numbers },
        async ({ collect }) => wrapped(usage(collect))
    );
    server.registerResource('blob', 'blob://ten', {}, async uri => ({
        contents: [{ uri: uri.href, mimeType: 'application/octet-stream', blob: BLOB.toString('base64') }]
    }));
    for (let number = 0; number < dummies; number++) {
        const description =
            `Looks up entry ${number} of the register. ` +
            'Give the name as it is written, without its title. '.repeat(9);
        server.registerTool(
            `dummy_${String(number).padStart(3, '0')}`,
            { description, inputSchema: z.object({ name: z.string(), limit: z.int().default(10) }), outputSchema: integer },
            async ({ name, limit }) => wrapped(name.length + limit)
        );
    }
    return server;
}

function serveHttp() {
    const handler = createMcpHandler(() => makeServer(0));
    const http = createServer(async (incoming, outgoing) => {
        const body = incoming.method === 'POST' ? Readable.toWeb(incoming) : undefined;
        const url = `http://${incoming.headers.host}${incoming.url}`;
        const left = new AbortController();
        outgoing.on('close', () => left.abort());
        const { method, headers } = incoming;
        const request = new Request(url, { method, headers, body, duplex: 'half', signal: left.signal });
        const response = await handler.fetch(request);
        outgoing.writeHead(response.status, Object.fromEntries(response.headers));
        if (response.body) {
            const reader = response.body.getReader();
            outgoing.on('close', () => reader.cancel().catch(() => {}));
            for (let read = await reader.read(); !read.done; read = await reader.read()) outgoing.write(read.value);
        }
        outgoing.end();
    });
    http.keepAliveTimeout = 60_000;
    http.listen(0, '127.0.0.1', () => console.log(`http://127.0.0.1:${http.address().port}/mcp`));
}

if (import.meta.url === pathToFileURL(process.argv[1]).href) {
    const [transport, dummies] = process.argv.slice(2);
    if (transport === 'http') {
        serveHttp();
    } else {
        const stdio = new StdioServerTransport(undefined, undefined, { maxBufferSize: MAX_BYTES });
        serveStdio(() => makeServer(Number(dummies)), { transport: stdio });
    }
}
